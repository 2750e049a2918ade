// Products of few rows with the transpose of a matrix, on tensor cores: what a decoding step of few sequences consists of.
//
// All there is to win is reading the matrix once at the rate of the memory. So nothing is shared: a lane reads the operands of
// its own products, 16 bytes at a time, and all of a warp's reads of some columns are under way together. That a lane has eight
// neighbouring columns where the instruction has two and two is a permutation of the columns, the same for both operands.
// Warps of a block share rows of the matrix and take parts of its columns; what they sum up is added in their order. A result
// does not depend on the number of rows. mma.cuh comes before this file.

#define STRIP 16   // rows of the matrix in a block
#define COLUMNS 32 // that a warp multiplies at a time

typedef Chunk<4, u32> Eight; // columns

// out `[rows, height]` = x `[rows, width]` · (matrix `[height, width]`)ᵀ for up to 8 TILES rows; `width` is a multiple of COLUMNS.
template <int TILES, typename T>
__device__ __forceinline__ void multiply_few(T* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    constexpr int AHEAD = TILES > 2 ? 2 : 4; // COLUMNS that are read at once
    int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4;
    int first = blockIdx.x * STRIP;
    const bf16* left[2];
    const bf16* right[TILES];
    // Rows beyond the last are copies of it, which nobody reads.
#pragma unroll
    for (int half = 0; half < 2; ++half)
        left[half] = matrix + (i64)min(first + group + 8 * half, height - 1) * width + 8 * pair;
#pragma unroll
    for (int n = 0; n < TILES; ++n) right[n] = x + (i64)min(8 * n + group, rows - 1) * width + 8 * pair;
    int each = (width / COLUMNS + warps - 1) / warps, end = min(width / COLUMNS, (warp + 1) * each);
    float sums[TILES][4] = {};
    for (int from = warp * each; from < end; from += AHEAD) {
        Eight a[AHEAD][2], b[AHEAD][TILES];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) a[i][half] = *(const Eight*)(left[half] + min(from + i, end - 1) * COLUMNS);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
#pragma unroll
            for (int n = 0; n < TILES; ++n) b[i][n] = *(const Eight*)(right[n] + min(from + i, end - 1) * COLUMNS);
        __syncwarp(); // or the compiler reads what a product needs just before it
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            // Beyond the end are columns that were read before.
            u32 is_own = from + i < end ? 0xffffffffu : 0;
#pragma unroll
            for (int step = 0; step < 4; step += 2) {
                u32 own[4] = {a[i][0].x[step] & is_own, a[i][1].x[step] & is_own, a[i][0].x[step + 1] & is_own,
                              a[i][1].x[step + 1] & is_own};
#pragma unroll
                for (int n = 0; n < TILES; ++n) multiply_add(sums[n], own, b[i][n].x[step], b[i][n].x[step + 1]);
            }
        }
    }
    float(*parts)[STRIP][8 * TILES] = (float(*)[STRIP][8 * TILES]) DYNAMIC_SHARED; // of each warp
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) parts[warp][group + i / 2 * 8][8 * n + 2 * pair + i % 2] = sums[n][i];
    __syncthreads();
    for (int i = threadIdx.x; i < STRIP * rows; i += blockDim.x) {
        int at = i % STRIP, row = i / STRIP;
        float sum = parts[0][at][row];
        for (int w = 1; w < warps; ++w) sum += parts[w][at][row];
        if (first + at < height) narrow(out + (i64)row * height + first + at, sum);
    }
}

KERNEL(512, multiply_8_f32, float* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<1>(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_8_bf16, bf16* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<1>(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_16_f32, float* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<2>(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_16_bf16, bf16* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<2>(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_32_f32, float* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<4>(out, x, matrix, rows, height, width);
}
KERNEL(512, multiply_32_bf16, bf16* out, const bf16* x, const bf16* matrix, int rows, int height, int width) {
    multiply_few<4>(out, x, matrix, rows, height, width);
}
