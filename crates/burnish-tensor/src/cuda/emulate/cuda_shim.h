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
#define __noinline__
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
struct Machine;
// Of each thread of the host: see `own.cpp`.
#define OWN __thread __attribute__((tls_model("initial-exec")))
extern OWN Thread* current;
extern OWN dim3 block, grid, block_size;
extern OWN float* dynamic_shared;
extern OWN Machine* running;
void sync_threads();
void wait_for_earlier_work();
// What the thread whose lane differs by `lane_mask` passes as `bits`.
uint64_t exchange(uint64_t bits, int lane_mask);

// What each thread of a warp shows to the others.
struct Shown {
    unsigned words[8];
};
// What all lanes show; until the next but one is shown.
const Shown* show(const Shown& own);
// A failed launch: something that a card would not do.
void fail(const char* what);

void copy_async(void* to, const void* from, bool is_real);
void commit_copies();
void wait_for_copies_but_latest();

// A barrier in shared memory: `phase` counts the phases that are over.
struct Barrier {
    unsigned phase;
    int count : 10, pending : 10, kib : 12;
};
void start_barrier(Barrier* barrier, int arrivals);
void arrive(Barrier* barrier, int bytes);
void wait_for(Barrier* barrier, unsigned parity);

// What a card keeps of a matrix for its copy engine.
struct Matrix {
    const unsigned short* at;
    uint64_t columns, rows;
};
void copy_box(unsigned short* to, const Matrix& from, int column, int row, Barrier* barrier);

// An operand of a product in shared memory: element (i, j) of its 64-column panels, `rows` high.
struct Operand {
    const unsigned short* tile;
    int rows, row, column;
    float at(int i, int j) const;
};
// A thread's share of c (+)= a b: the two rows of fragments that it has.
struct Product {
    float (*c)[4];
    int tiles;
    bool adds, is_left_given, is_right_transposed;
    float left[2][16];
    Operand a, b;
};
void multiply(const Product& product);
void commit_products();
void wait_for_products(unsigned latest);

typedef void (*Call)(void (*kernel)(), void** arguments);
void add_kernel(const char* program, const char* name, int threads, void (*kernel)(), Call call, int parameters);

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
        add_kernel(program, name, threads, reinterpret_cast<void (*)()>(kernel), Register<A...>::thunk, sizeof...(A));
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
using emulated::wait_for_earlier_work;

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emulated::exchange(bits, mask);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline void __syncwarp() { emulated::exchange(0, 0); }

inline float __int_as_float(int x) {
    float y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline int __float_as_int(float x) {
    int y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline float __uint_as_float(unsigned x) { return __int_as_float((int)x); }
inline unsigned __float_as_uint(float x) {
    unsigned y;
    std::memcpy(&y, &x, 4);
    return y;
}
inline int max(int a, int b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }

// Threads of a block change at barriers only.
template <typename T>
T atomicAdd(T* to, T x) {
    T before = *to;
    *to += x;
    return before;
}

inline void __threadfence() {} // blocks run one after the other

// What attention_mma.cu says in assembly.
inline void copy_async(unsigned short* to, const unsigned short* from, bool is_real) {
    emulated::copy_async(to, from, is_real);
}
inline void commit_copies() { emulated::commit_copies(); }
inline void wait_for_copies_but_latest() { emulated::wait_for_copies_but_latest(); }

inline void load_8_by_8(unsigned m[4], const unsigned short* row, bool is_transposed) {
    if ((uintptr_t)row % 16 != 0) emulated::fail("a row of ldmatrix that is not aligned to 16 bytes");
    emulated::Shown own = {};
    std::memcpy(own.words, &row, sizeof row);
    const emulated::Shown* all = emulated::show(own);
    unsigned lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4;
    for (unsigned i = 0; i < 4; ++i)
        for (unsigned e = 0; e < 2; ++e) {
            unsigned at = is_transposed ? 2 * pair + e : group, column = is_transposed ? group : 2 * pair + e;
            const unsigned short* of;
            std::memcpy(&of, all[8 * i + at].words, sizeof of);
            m[i] = e == 0 ? of[column] : m[i] | (unsigned)of[column] << 16;
        }
}
inline void load_matrices(unsigned m[4], const unsigned short* row) { load_8_by_8(m, row, false); }
inline void load_transposed(unsigned m[4], const unsigned short* row) { load_8_by_8(m, row, true); }

// The operands' layout is that of the PTX manual, `mma.m16n8k16` with bf16.
inline void multiply_add(float c[4], const unsigned a[4], unsigned b0, unsigned b1) {
    const emulated::Shown* all = emulated::show({{a[0], a[1], a[2], a[3], b0, b1, 0, 0}});
    auto half = [](unsigned word, unsigned high) { return __uint_as_float(high ? word & 0xffff0000u : word << 16); };
    unsigned lane = threadIdx.x % 32;
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; ++k) {
            unsigned left = all[row % 8 * 4 + k % 8 / 2].words[row / 8 + k / 8 * 2];
            unsigned right = all[column * 4 + k % 8 / 2].words[4 + k / 8];
            c[i] += half(left, k % 2) * half(right, k % 2);
        }
    }
}

// What attention_wgmma.cu says in assembly.
#define GROUP_THREADS 384
#define PANEL 64
struct TensorMap {
    emulated::Matrix matrix;
    char opaque[128 - sizeof(emulated::Matrix)];
};
#define MAP const TensorMap
using emulated::Barrier;
using emulated::Operand;
using emulated::start_barrier;
using emulated::wait_for;
inline void show_barriers() {}
inline void arrive(Barrier* barrier) { emulated::arrive(barrier, 0); }
inline void arrive_expecting(Barrier* barrier, int bytes) { emulated::arrive(barrier, bytes); }
inline void copy_box(unsigned short* to, const TensorMap& map, int column, int row, Barrier* barrier) {
    emulated::copy_box(to, map.matrix, column, row, barrier);
}
#define GIVE_REGISTERS_BACK
#define TAKE_REGISTERS
inline void begin_products() {}
inline void commit_products() { emulated::commit_products(); }
template <int LATEST>
void wait_for_products_but() {
    emulated::wait_for_products(LATEST);
}
template <int TILES>
void are_results(float (&)[TILES][4]) {}
inline Operand rows_operand(const unsigned short* tile, int rows, int row, int step) { return {tile, rows, row, 16 * step}; }
inline Operand columns_operand(const unsigned short* tile, int rows, int step) { return {tile, rows, 16 * step, 0}; }
template <int TILES>
void multiply(float (&c)[TILES][4], Operand a, Operand b, int adds) {
    emulated::multiply({c, TILES, adds != 0, false, true, {}, a, b});
}
template <int TILES>
void multiply(float (&c)[TILES][4], const unsigned a[4], Operand b, int adds) {
    emulated::Product product = {c, TILES, adds != 0, true, false, {}, {}, b};
    const emulated::Shown* all = emulated::show({{a[0], a[1], a[2], a[3], 0, 0, 0, 0}});
    for (unsigned half = 0; half < 2; ++half)
        for (unsigned k = 0; k < 16; ++k) {
            unsigned word = all[threadIdx.x % 32 / 4 * 4 + k % 8 / 2].words[half + k / 8 * 2];
            product.left[half][k] = __uint_as_float(k % 2 ? word & 0xffff0000u : word << 16);
        }
    emulated::multiply(product);
}
