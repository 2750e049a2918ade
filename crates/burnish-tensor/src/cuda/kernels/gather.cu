// Rows of a table, and the sums of gradients that flow back into them.

// One block per row of `out`: row `ids[i]` of the table.
template <typename Y, typename X>
__device__ __forceinline__ void take_row(Y* out, const X* table, const int* ids, int cols) {
    const X* from = table + (i64)ids[blockIdx.x] * cols;
    Y* to = out + (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) narrow(to + c, widen(from[c]));
}

KERNEL(256, gather_f32, float* out, const float* table, const int* ids, int cols) {
    wait_for_earlier_work();
    take_row(out, table, ids, cols);
}
KERNEL(256, gather_bf16, bf16* out, const bf16* table, const int* ids, int cols) {
    wait_for_earlier_work();
    take_row(out, table, ids, cols);
}
KERNEL(256, gather_widened, float* out, const bf16* table, const int* ids, int cols) {
    wait_for_earlier_work();
    take_row(out, table, ids, cols);
}
KERNEL(256, gather_rounded, bf16* out, const float* table, const int* ids, int cols) {
    wait_for_earlier_work();
    take_row(out, table, ids, cols);
}

// One block per id that occurs and per 256 columns: adds the rows of `d_out` at `places[first[i]..first[i + 1]]`,
// which ascend, to row `ids[i]` of `d_table`.
template <typename Y, typename X>
__device__ __forceinline__ void add_rows(Y* d_table, const X* d_out, const int* ids, const int* first, const int* places,
                                         int cols) {
    int c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float sum = 0.0f;
    for (int i = first[blockIdx.x]; i < first[blockIdx.x + 1]; ++i) sum += widen(d_out[(i64)places[i] * cols + c]);
    Y* to = d_table + (i64)ids[blockIdx.x] * cols + c;
    narrow(to, widen(*to) + sum);
}

KERNEL(256, scatter_add_f32, float* d_table, const float* d_out, const int* ids, const int* first, const int* places,
       int cols) {
    add_rows(d_table, d_out, ids, first, places, cols);
}
KERNEL(256, scatter_add_bf16, bf16* d_table, const bf16* d_out, const int* ids, const int* first, const int* places,
       int cols) {
    add_rows(d_table, d_out, ids, first, places, cols);
}
KERNEL(256, scatter_add_widened, float* d_table, const bf16* d_out, const int* ids, const int* first,
       const int* places, int cols) {
    add_rows(d_table, d_out, ids, first, places, cols);
}
