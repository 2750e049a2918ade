// Elementwise operations. Each thread takes four neighbouring elements at a time.

#define EACH_FOUR(first, n) for (i64 first = 4 * GRID_FIRST; first < (n); first += 4 * GRID_STEP)

template <typename T>
__device__ __forceinline__ void sum_of(T* out, const T* a, const T* b, i64 n) {
    EACH_FOUR(first, n) {
        float x[4], y[4];
        load_four(x, a, first, n);
        load_four(y, b, first, n);
        for (int i = 0; i < 4; ++i) x[i] += y[i];
        store_four(out, x, first, n);
    }
}

KERNEL(256, add_f32, float* out, const float* a, const float* b, i64 n) {
    wait_for_earlier_work();
    sum_of(out, a, b, n);
}
KERNEL(256, add_bf16, bf16* out, const bf16* a, const bf16* b, i64 n) {
    wait_for_earlier_work();
    sum_of(out, a, b, n);
}

template <typename T>
__device__ __forceinline__ void add_to(T* y, const T* x, i64 n) {
    EACH_FOUR(first, n) {
        float sum[4], more[4];
        load_four(sum, y, first, n);
        load_four(more, x, first, n);
        for (int i = 0; i < 4; ++i) sum[i] += more[i];
        store_four(y, sum, first, n);
    }
}

KERNEL(256, add_assign_f32, float* y, const float* x, i64 n) { add_to(y, x, n); }
KERNEL(256, add_assign_bf16, bf16* y, const bf16* x, i64 n) { add_to(y, x, n); }

KERNEL(256, scale, float* x, float factor, i64 n) {
    EACH_FOUR(first, n) {
        float all[4];
        load_four(all, x, first, n);
        for (int i = 0; i < 4; ++i) all[i] *= factor;
        store_four(x, all, first, n);
    }
}

template <typename Y, typename X>
__device__ __forceinline__ void convert(Y* y, const X* x, i64 n) {
    EACH_FOUR(first, n) {
        float all[4];
        load_four(all, x, first, n);
        store_four(y, all, first, n);
    }
}

KERNEL(256, to_bf16, bf16* y, const float* x, i64 n) { convert(y, x, n); }
KERNEL(256, to_f32, float* y, const bf16* x, i64 n) { convert(y, x, n); }

// One block per row: y[row] += bias.
template <typename T>
__device__ __forceinline__ void add_to_row(T* y, const float* bias, int cols) {
    T* row = y + (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) narrow(row + c, widen(row[c]) + bias[c]);
}

KERNEL(256, add_bias_f32, float* y, const float* bias, int cols) {
    wait_for_earlier_work();
    add_to_row(y, bias, cols);
}
KERNEL(256, add_bias_bf16, bf16* y, const float* bias, int cols) {
    wait_for_earlier_work();
    add_to_row(y, bias, cols);
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T>
__device__ __forceinline__ void swiglu(T* out, const T* gate, const T* up, i64 n) {
    EACH_FOUR(first, n) {
        float g[4], u[4];
        load_four(g, gate, first, n);
        load_four(u, up, first, n);
        for (int i = 0; i < 4; ++i) g[i] = g[i] * sigmoid(g[i]) * u[i];
        store_four(out, g, first, n);
    }
}

KERNEL(256, swiglu_forward_f32, float* out, const float* gate, const float* up, i64 n) {
    wait_for_earlier_work();
    swiglu(out, gate, up, n);
}
KERNEL(256, swiglu_forward_bf16, bf16* out, const bf16* gate, const bf16* up, i64 n) {
    wait_for_earlier_work();
    swiglu(out, gate, up, n);
}

// One block per row: gates are the first half of a row, and what they gate the second.
template <typename T>
__device__ __forceinline__ void swiglu_halves(T* out, const T* both, int cols) {
    const T* gate = both + (i64)blockIdx.x * 2 * cols;
    T* row = out + (i64)blockIdx.x * cols;
    for (int c = 4 * threadIdx.x; c < cols; c += 4 * blockDim.x) {
        float g[4], u[4];
        load_four(g, gate, c, cols);
        load_four(u, gate + cols, c, cols);
        for (int i = 0; i < 4; ++i) g[i] = g[i] * sigmoid(g[i]) * u[i];
        store_four(row, g, c, cols);
    }
}

KERNEL(256, swiglu_halves_f32, float* out, const float* both, int cols) {
    wait_for_earlier_work();
    swiglu_halves(out, both, cols);
}
KERNEL(256, swiglu_halves_bf16, bf16* out, const bf16* both, int cols) {
    wait_for_earlier_work();
    swiglu_halves(out, both, cols);
}

// `d`, the gradient of the output, becomes that of `up`.
template <typename T>
__device__ __forceinline__ void swiglu_gradients(T* d_gate, T* d, const T* gate, const T* up, i64 n) {
    EACH_FOUR(first, n) {
        float g[4], u[4], dy[4], d_g[4];
        load_four(g, gate, first, n);
        load_four(u, up, first, n);
        load_four(dy, d, first, n);
        for (int i = 0; i < 4; ++i) {
            float s = sigmoid(g[i]);
            d_g[i] = dy[i] * u[i] * s * fmaf(1.0f - s, g[i], 1.0f);
            dy[i] = dy[i] * (g[i] * s);
        }
        store_four(d_gate, d_g, first, n);
        store_four(d, dy, first, n);
    }
}

KERNEL(256, swiglu_backward_f32, float* d_gate, float* d, const float* gate, const float* up, i64 n) {
    swiglu_gradients(d_gate, d, gate, up, n);
}
KERNEL(256, swiglu_backward_bf16, bf16* d_gate, bf16* d, const bf16* gate, const bf16* up, i64 n) {
    swiglu_gradients(d_gate, d, gate, up, n);
}

// The finaliser of SplitMix64, as in ops/low_rank.rs.
__device__ __forceinline__ u64 mix(u64 bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

// One block per row. Drops the elements that ops/low_rank.rs drops: a function of the row's key and of `site`, which is
// already mixed. An element is dropped if its 32 random bits are below `bound`.
template <typename T>
__device__ __forceinline__ void drop_out(T* x, const u64* keys, u64 site, u32 bound, float keep, int cols) {
    T* row = x + (i64)blockIdx.x * cols;
    u64 seed = mix(keys[blockIdx.x] ^ site);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        u32 bits = (u32)(mix(seed + (u64)(c / 2)) >> (32 * (c & 1)));
        narrow(row + c, bits < bound ? 0.0f : widen(row[c]) * keep);
    }
}

KERNEL(256, dropout_f32, float* x, const u64* keys, u64 site, u32 bound, float keep, int cols) {
    drop_out(x, keys, site, bound, keep, cols);
}
KERNEL(256, dropout_bf16, bf16* x, const u64* keys, u64 site, u32 bound, float keep, int cols) {
    drop_out(x, keys, site, bound, keep, cols);
}
