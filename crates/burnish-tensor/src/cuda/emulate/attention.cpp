// The attention kernels for the emulation, for one HEAD_DIM and TILE.
#include "cuda_shim.h"

#include "../kernels/common.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define PROGRAM "attention.cu HEAD_DIM=" TEXT(HEAD_DIM) " TILE=" TEXT(TILE)
namespace {
#include "../kernels/attention.cu"
}
