// The attention kernels for the emulation, for one HEAD_DIM, and in f32 for one TILE.
#include "cuda_shim.h"

#include "../kernels/common.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#ifdef TILE
#define PROGRAM "attention.cu HEAD_DIM=" TEXT(HEAD_DIM) " TILE=" TEXT(TILE)
namespace {
#include "../kernels/attention.cu"
}
#else
#define PROGRAM "attention_mma.cu HEAD_DIM=" TEXT(HEAD_DIM)
namespace {
#include "../kernels/mma.cuh"

#include "../kernels/attention_mma.cu"
}
#endif
