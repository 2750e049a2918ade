// Rotary position embedding, in place.

// One block per row. `table` holds `pairs` cosines, then `pairs` sines, for each position; `sign` is 1, or -1 for the
// transpose.
template <typename T>
__device__ __forceinline__ void rotate(T* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
                                       float sign) {
    T* row = x + (i64)blockIdx.x * cols;
    const float* angles = table + (i64)positions[blockIdx.x] * 2 * pairs;
    int work = cols / head_dim * pairs;
    for (int i = threadIdx.x; i < work; i += blockDim.x) {
        int pair = i % pairs;
        T* at = row + i / pairs * head_dim + pair;
        float a = widen(at[0]), b = widen(at[pairs]), cosine = angles[pair], sine = sign * angles[pairs + pair];
        narrow(at, a * cosine - b * sine);
        narrow(at + pairs, b * cosine + a * sine);
    }
}

KERNEL(256, rope_f32, float* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
       float sign) {
    rotate(x, table, positions, cols, head_dim, pairs, sign);
}
KERNEL(256, rope_bf16, bf16* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
       float sign) {
    rotate(x, table, positions, cols, head_dim, pairs, sign);
}
