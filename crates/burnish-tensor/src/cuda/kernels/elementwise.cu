// Operations on each element alone.

KERNEL(256, add, float* out, const float* a, const float* b, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) out[i] = a[i] + b[i];
}

KERNEL(256, add_assign, float* y, const float* x, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) y[i] += x[i];
}

KERNEL(256, scale, float* x, float factor, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) x[i] *= factor;
}

KERNEL(256, to_bf16, bf16* y, const float* x, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) y[i] = float_to_bf16(x[i]);
}

KERNEL(256, to_f32, float* y, const bf16* x, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) y[i] = bf16_to_float(x[i]);
}

// One block a row: y[row] += bias.
KERNEL(256, add_bias, float* y, const float* bias, int cols) {
    float* row = y + (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] += bias[c];
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

KERNEL(256, swiglu_forward, float* out, const float* gate, const float* up, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

// `d`, the gradient of the output, becomes that of `up`.
KERNEL(256, swiglu_backward, float* d_gate, float* d, const float* gate, const float* up, i64 n) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) {
        float g = gate[i], s = sigmoid(g), dy = d[i];
        d_gate[i] = dy * up[i] * s * fmaf(1.0f - s, g, 1.0f);
        d[i] = dy * (g * s);
    }
}

// The finaliser of SplitMix64, as in ops/low_rank.rs.
__device__ __forceinline__ u64 mix(u64 bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
    return bits ^ (bits >> 31);
}

// One block a row. Drops the elements that ops/low_rank.rs drops: a function of the row's key and of `site`, which
// is mixed already. An element is dropped where its 32 random bits are below `bound`.
KERNEL(256, dropout, float* x, const u64* keys, u64 site, u32 bound, float keep, int cols) {
    float* row = x + (i64)blockIdx.x * cols;
    u64 seed = mix(keys[blockIdx.x] ^ site);
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        u32 bits = (u32)(mix(seed + (u64)(c / 2)) >> (32 * (c & 1)));
        row[c] = bits < bound ? 0.0f : row[c] * keep;
    }
}
