// Products of few rows with the transpose of a matrix, on tensor cores: what a decoding step of few sequences consists of.
//
// All there is to win is reading the matrix once at the rate of the memory. So nothing is shared: a lane reads the operands of
// its own products, 16 bytes at a time, and all of a warp's reads of some columns are under way together. That a lane has eight
// neighbouring columns where the instruction has two and two is a permutation of the columns, the same for both operands.
// Warps of a block share rows of the matrix and take parts of its columns; what they sum up is added in their order. A result
// does not depend on the number of rows. mma.cuh comes before this file.

#define ROWS_MAX 8
#define STRIP 16   // rows of the matrix in a block
#define COLUMNS 32 // that a warp multiplies at a time
#define AHEAD 4    // times that many are read at once
#define WARPS_MAX 16

typedef Chunk<4, u32> Eight; // columns

// out `[rows, height]` = x `[rows, width]` · (matrix `[height, width]`)ᵀ for up to ROWS_MAX rows; `width` is a multiple of
// COLUMNS.
template <typename T>
__device__ __forceinline__ void multiply_few(T* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4;
    int first = blockIdx.x * STRIP;
    // Rows beyond the last are copies of it, which nobody reads.
    const bf16* upper = matrix + (i64)min(first + group, height - 1) * width + 8 * pair;
    const bf16* lower = matrix + (i64)min(first + group + 8, height - 1) * width + 8 * pair;
    const bf16* right = x + (i64)min(group, rows - 1) * width + 8 * pair;
    int each = (width / COLUMNS + warps - 1) / warps, end = min(width / COLUMNS, (warp + 1) * each);
    float sums[4] = {};
    for (int from = warp * each; from < end; from += AHEAD) {
        Eight a[AHEAD][2], b[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            int column = min(from + i, end - 1) * COLUMNS;
            a[i][0] = *(const Eight*)(upper + column);
            a[i][1] = *(const Eight*)(lower + column);
            b[i] = *(const Eight*)(right + column);
        }
        __syncwarp(); // or the compiler reads what a product needs just before it
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            // Beyond the end are columns that were read before.
            u32 is_own = from + i < end ? 0xffffffffu : 0;
#pragma unroll
            for (int step = 0; step < 4; step += 2) {
                u32 own[4] = {a[i][0].x[step] & is_own, a[i][1].x[step] & is_own, a[i][0].x[step + 1] & is_own,
                              a[i][1].x[step + 1] & is_own};
                multiply_add(sums, own, b[i].x[step], b[i].x[step + 1]);
            }
        }
    }
    __shared__ float parts[WARPS_MAX][STRIP][ROWS_MAX]; // what each warp summed up
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[warp][group + i / 2 * 8][2 * pair + i % 2] = sums[i];
    __syncthreads();
    int at = threadIdx.x % STRIP, row = threadIdx.x / STRIP;
    if (row >= rows || first + at >= height) return;
    float sum = parts[0][at][row];
    for (int w = 1; w < warps; ++w) sum += parts[w][at][row];
    narrow(out + (i64)row * height + first + at, sum);
}

KERNEL(512, multiply_few_f32, float* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    wait_for_earlier_work();
    multiply_few(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_few_bf16, bf16* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    wait_for_earlier_work();
    multiply_few(out, x, matrix, rows, height, width);
}
