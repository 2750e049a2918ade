// What CUDA C++ has and C++ has not, for compiling the kernels on a machine without a GPU. One thread of a block is one
// fiber; fibers change at barriers and shuffles only, in an order that differs from barrier to barrier.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define EMULATED 1
#define __device__
#define __forceinline__ inline
// Blocks run one after the other on a thread of the machine, so what all threads of a block share may be static.
#define __shared__ static thread_local

struct dim3 {
    unsigned x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulated {
struct Thread {
    dim3 index;
};
extern thread_local Thread* current;
extern thread_local dim3 block, grid, block_size;
extern thread_local float* dynamic_shared;
void sync_threads();
// What `lane` of the calling thread's warp passes as `bits`.
uint64_t exchange(uint64_t bits, int lane_mask);

typedef void (*Call)(void (*kernel)(), void** arguments);
void add_kernel(const char* program, const char* name, int threads, void (*kernel)(), Call call);

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    (void)arguments;
    kernel(*static_cast<A*>(arguments[I])...);
}
template <typename... A>
struct Register {
    static void thunk(void (*kernel)(), void** arguments) {
        call(reinterpret_cast<void (*)(A...)>(kernel), arguments, std::index_sequence_for<A...>{});
    }
};
struct Registration {
    template <typename... A>
    Registration(const char* program, const char* name, int threads, void (*kernel)(A...)) {
        add_kernel(program, name, threads, reinterpret_cast<void (*)()>(kernel), Register<A...>::thunk);
    }
};
} // namespace emulated

#define threadIdx (emulated::current->index)
#define blockIdx (emulated::block)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid)
#define DYNAMIC_SHARED (emulated::dynamic_shared)
#define KERNEL(threads, name, ...)                                                      \
    static void name(__VA_ARGS__);                                                      \
    static emulated::Registration registration_##name(PROGRAM, #name, threads, &name); \
    static void name(__VA_ARGS__)

inline void __syncthreads() { emulated::sync_threads(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emulated::exchange(bits, mask);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float __int_as_float(int x) {
    float y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline float __uint_as_float(unsigned x) { return __int_as_float((int)x); }
inline unsigned __float_as_uint(float x) {
    unsigned y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
