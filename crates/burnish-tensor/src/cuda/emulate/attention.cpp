// The attention kernels for the emulation, for one HEAD_DIM, and one TILE in f32, ROWS and COLUMNS on tensor
// cores, or neither for those of 9.0.
#include "cuda_shim.h"

#include "../kernels/common.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifdef TILE
#define PROGRAM "attention.cu HEAD_DIM=" TEXT(HEAD_DIM) " TILE=" TEXT(TILE)
namespace {
#include "../kernels/attention.cu"
}
#elif defined(ROWS)
#define PROGRAM "attention_mma.cu HEAD_DIM=" TEXT(HEAD_DIM) " ROWS=" TEXT(ROWS) " COLUMNS=" TEXT(COLUMNS)
namespace {
#include "../kernels/mma.cuh"
#include "../kernels/walk.cuh"

#include "../kernels/attention_mma.cu"
}
#else
#define PROGRAM "attention_wgmma.cu HEAD_DIM=" TEXT(HEAD_DIM)
namespace {
#include "../kernels/mma.cuh"
#include "../kernels/walk.cuh"

#include "../kernels/attention_wgmma.cu"
}
#endif
