// The common beginning of every kernel file. The files are compiled by NVRTC at run time, and by a C++ compiler for the
// emulation that the tests run on (emulate/cuda_shim.h, which defines KERNEL, DYNAMIC_SHARED and wait_for_earlier_work itself).
//
// Conventions: matrices are row-major; counts of rows times columns are 64 bits wide; a sum has one order, whatever the
// card and the batch, and no float is added atomically.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short bf16; // the bits
typedef unsigned char u8;

#ifndef EMULATED
// KERNEL(most threads of a block, name, parameters...). The host reads the parameters' types from this text.
#define KERNEL(threads, name, ...) extern "C" __global__ void __launch_bounds__(threads) name(__VA_ARGS__)
extern __shared__ float4 dynamic_shared[];
#define DYNAMIC_SHARED ((float*)dynamic_shared)

// A kernel whose body begins with this is launched before earlier work is done, on cards from 9.0 on: its blocks may be placed
// beside the last ones of the kernel before it, and wait here until all earlier work is done and can be seen. The host reads
// from the text which kernels do, and launches no other one like that. The blocks of the kernel after this one may come once
// all of this one have passed here, so none is left that they could take room from.
__device__ __forceinline__ void wait_for_earlier_work() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

#define FULL_WARP 0xffffffffu
#define NEGATIVE_INFINITY __int_as_float((int)0xff800000)
#define LOWEST -3.402823466e38f // of finite numbers
#define LOG2_E 1.44269504088896340736f
#define EXCLUDED_LOGIT -1e20f // of an id that is not in the vocabulary: its exponential is 0 at any temperature

__device__ __forceinline__ float bf16_to_float(bf16 x) { return __uint_as_float((u32)x << 16); }

// To nearest even; NaN stays NaN.
__device__ __forceinline__ bf16 float_to_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bf16)((bits >> 16) | 0x40u);
    return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Arithmetic is in f32, whatever type a kernel reads and writes.
__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return bf16_to_float(x); }
__device__ __forceinline__ void narrow(float* to, float x) { *to = x; }
__device__ __forceinline__ void narrow(bf16* to, float x) { *to = float_to_bf16(x); }

// What is left of a number that is written and read again.
template <typename T>
__device__ __forceinline__ float rounded(float x) {
    T kept;
    narrow(&kept, x);
    return widen(kept);
}

template <typename T>
__device__ __forceinline__ T warp_sum(T x) {
    for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(FULL_WARP, x, offset);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
    for (int offset = 16; offset > 0; offset >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, offset));
    return x;
}

// The sum over all threads of a block of whole warps, in every thread. `shared` has 32 elements.
template <typename T>
__device__ __forceinline__ T block_sum(T x, T* shared) {
    x = warp_sum(x);
    __syncthreads(); // `shared` may still be read for the previous sum
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = shared[0];
    for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) sum += shared[warp];
    return sum;
}

__device__ __forceinline__ float block_max(float x, float* shared) {
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float max = shared[0];
    for (int warp = 1; warp < (int)blockDim.x / 32; ++warp) max = fmaxf(max, shared[warp]);
    return max;
}

// The largest of all threads of a block of whole warps, in every thread. `shared` has 32 elements.
__device__ __forceinline__ u64 block_best(u64 x, u64* shared) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        u64 other = __shfl_xor_sync(FULL_WARP, x, offset);
        if (other > x) x = other;
    }
    __syncthreads(); // `shared` may still be read for the previous call
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    u64 best = shared[0];
    for (int warp = 1; warp < (int)blockDim.x / 32; ++warp)
        if (shared[warp] > best) best = shared[warp];
    return best;
}

// A rank for each id, larger if it is likelier and, of two equally likely ids, for the smaller one. Floats are ordered
// by their bits as in `f32::total_cmp`: NaN has a place too. Never 0, and never all ones.
__device__ __forceinline__ u64 rank_of(float z, int id) {
    u32 bits = __float_as_uint(z);
    u32 order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (u64)order << 32 | (u32)(0x7fffffff - id);
}

// Where a thread starts in, and how far it steps through, a range that the whole grid shares.
#define GRID_FIRST ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_STEP ((i64)gridDim.x * blockDim.x)

// Neighbouring elements that are read and written with one access, or with two for 32 bytes.
template <int PER, typename T>
struct alignas(PER * sizeof(T) < 16 ? PER * sizeof(T) : 16) Chunk {
    T x[PER];
};

// Elements `first..first + 4` of `n`, with zeros beyond; with one access if their addresses allow it.
template <typename T>
__device__ __forceinline__ void load_four(float x[4], const T* from, i64 first, i64 n) {
    from += first;
    if (first + 4 <= n && (u64)from % sizeof(Chunk<4, T>) == 0) {
        Chunk<4, T> all = *(const Chunk<4, T>*)from;
        for (int i = 0; i < 4; ++i) x[i] = widen(all.x[i]);
    } else {
        for (int i = 0; i < 4; ++i) x[i] = first + i < n ? widen(from[i]) : 0.0f;
    }
}

template <typename T>
__device__ __forceinline__ void store_four(T* to, const float x[4], i64 first, i64 n) {
    to += first;
    if (first + 4 <= n && (u64)to % sizeof(Chunk<4, T>) == 0) {
        Chunk<4, T> all;
        for (int i = 0; i < 4; ++i) narrow(&all.x[i], x[i]);
        *(Chunk<4, T>*)to = all;
    } else {
        for (int i = 0; i < 4; ++i)
            if (first + i < n) narrow(to + i, x[i]);
    }
}
