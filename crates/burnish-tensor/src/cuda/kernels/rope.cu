// Rotary position embedding, in place.

// One block a row. `table` holds `pairs` cosines, then `pairs` sines, of each position; `sign` is 1, or -1 for the
// transpose.
KERNEL(256, rope, float* x, const float* table, const int* positions, int cols, int head_dim, int pairs, float sign) {
    float* row = x + (i64)blockIdx.x * cols;
    const float* angles = table + (i64)positions[blockIdx.x] * 2 * pairs;
    int work = cols / head_dim * pairs;
    for (int i = threadIdx.x; i < work; i += blockDim.x) {
        int pair = i % pairs;
        float* at = row + i / pairs * head_dim + pair;
        float a = at[0], b = at[pairs], cosine = angles[pair], sine = sign * angles[pairs + pair];
        at[0] = a * cosine - b * sine;
        at[pairs] = b * cosine + a * sine;
    }
}
