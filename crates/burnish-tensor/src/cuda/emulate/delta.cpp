// The kernels of delta rules for the emulation, for one TENSOR and BY_CHANNEL.
#include "cuda_shim.h"

#include "../kernels/common.cuh"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define MACROS " TENSOR=" TEXT(TENSOR) " BY_CHANNEL=" TEXT(BY_CHANNEL)
namespace {
#include "../kernels/mma.cuh"

#include "../kernels/delta.cuh"

#define PROGRAM "delta.cu" MACROS
#include "../kernels/delta.cu"
#undef PROGRAM
#define PROGRAM "delta_backward.cu" MACROS
#include "../kernels/delta_backward.cu"
} // namespace
