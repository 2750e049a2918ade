// Rotary position embedding, in place.

// One block per row. `table` holds `pairs` cosines, then `pairs` sines, for each position; `sign` is 1, or -1 for the
// transpose.
template <typename T>
__device__ __forceinline__ void rotate(T* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
                                       float sign) {
    T* row = x + (i64)blockIdx.x * cols;
    const float* angles = table + (i64)positions[blockIdx.x] * 2 * pairs;
    int fours = (pairs + 3) / 4, work = cols / head_dim * fours;
    for (int i = threadIdx.x; i < work; i += blockDim.x) {
        int pair = i % fours * 4;
        T* head = row + i / fours * head_dim;
        float a[4], b[4], cosine[4], sine[4], turned[4];
        load_four(a, head, pair, pairs);
        load_four(b, head + pairs, pair, pairs);
        load_four(cosine, angles, pair, pairs);
        load_four(sine, angles + pairs, pair, pairs);
        for (int e = 0; e < 4; ++e) {
            turned[e] = a[e] * cosine[e] - b[e] * (sign * sine[e]);
            b[e] = b[e] * cosine[e] + a[e] * (sign * sine[e]);
        }
        store_four(head, turned, pair, pairs);
        store_four(head + pairs, b, pair, pairs);
    }
}

KERNEL(256, rope_f32, float* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
       float sign) {
    wait_for_earlier_work();
    rotate(x, table, positions, cols, head_dim, pairs, sign);
}
KERNEL(256, rope_bf16, bf16* x, const float* table, const int* positions, int cols, int head_dim, int pairs,
       float sign) {
    wait_for_earlier_work();
    rotate(x, table, positions, cols, head_dim, pairs, sign);
}
