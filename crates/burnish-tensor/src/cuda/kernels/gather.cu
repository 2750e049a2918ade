// Rows of a table, and the sums of gradients that flow back into them.

// One block a row of `out`: row `ids[i]` of the table.
KERNEL(256, gather_f32, float* out, const float* table, const int* ids, int cols) {
    const float* from = table + (i64)ids[blockIdx.x] * cols;
    float* to = out + (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) to[c] = from[c];
}

KERNEL(256, gather_bf16, float* out, const bf16* table, const int* ids, int cols) {
    const bf16* from = table + (i64)ids[blockIdx.x] * cols;
    float* to = out + (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) to[c] = bf16_to_float(from[c]);
}

// One block for each id that occurs, and for 256 columns: adds the rows of `d_out` at `places[first[i]..first[i + 1]]`,
// which ascend, to row `ids[i]` of `d_table`.
KERNEL(256, scatter_add, float* d_table, const float* d_out, const int* ids, const int* first, const int* places,
       int cols) {
    int c = blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float sum = 0.0f;
    for (int i = first[blockIdx.x]; i < first[blockIdx.x + 1]; ++i) sum += d_out[(i64)places[i] * cols + c];
    d_table[(i64)ids[blockIdx.x] * cols + c] += sum;
}
