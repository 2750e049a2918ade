// Grouped-query attention over a forest of segments in f32, forward and backward, without a whole matrix of scores
// (Dao et al. 2022). Compiled per HEAD_DIM, with the largest TILE whose tiles fit the card's shared memory.
//
// A block of 256 threads works on a tile of TILE rows and walks over tiles of TILE columns; thread (ty, tx) of 16 by 16
// holds rows `ty MICRO + i` and columns `tx + 16 j`. The gradient of keys and values is a pass of its own over the
// queries that see them, instead of atomic sums: results do not depend on scheduling.
//
// Tasks are (first row, rows, first range, ranges); a range is (first row, end, causal?). Causal ranges are those of
// the rows' own segment. Scores are in units of ln 2, so that their exponentials are powers of two.

#define DIM ((HEAD_DIM + 15) / 16 * 16)
#define STRIDE (DIM + 4) // of a row in shared memory: rows of neighbouring threads are in different banks
#define WEIGHTS_STRIDE (TILE + 4)
#define TILE_FLOATS (TILE * STRIDE)
#define MICRO (TILE / 16)
#define MICRO_DIM (DIM / 16)

// Rows `first..first + rows` of a head into shared memory; zeros beyond.
__device__ __forceinline__ void load_tile(float* to, const float* from, int first, int rows, int width) {
    for (int i = threadIdx.x; i < TILE * (DIM / 4); i += 256) {
        int row = i / (DIM / 4), column = i % (DIM / 4) * 4;
        const float* at = from + (i64)(first + row) * width + column;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < rows) {
#if HEAD_DIM % 4 == 0
            if (column < HEAD_DIM) x = *(const float4*)at;
#else
            if (column + 0 < HEAD_DIM) x.x = at[0];
            if (column + 1 < HEAD_DIM) x.y = at[1];
            if (column + 2 < HEAD_DIM) x.z = at[2];
            if (column + 3 < HEAD_DIM) x.w = at[3];
#endif
        }
        *(float4*)(to + row * STRIDE + column) = x;
    }
}

// products[i][j] = a[row i] · b[column j].
__device__ __forceinline__ void multiply(float products[MICRO][MICRO], const float* a, const float* b, int ty, int tx) {
#pragma unroll
    for (int i = 0; i < MICRO; ++i)
#pragma unroll
        for (int j = 0; j < MICRO; ++j) products[i][j] = 0.0f;
#pragma unroll(DIM <= 32 ? 2 : 4) // short heads spill registers on 10.0 and 12.0 otherwise
    for (int d = 0; d < DIM; d += 4) {
        float4 x[MICRO], y[MICRO];
#pragma unroll
        for (int i = 0; i < MICRO; ++i) x[i] = *(const float4*)(a + (ty * MICRO + i) * STRIDE + d);
#pragma unroll
        for (int j = 0; j < MICRO; ++j) y[j] = *(const float4*)(b + (tx + 16 * j) * STRIDE + d);
#pragma unroll
        for (int i = 0; i < MICRO; ++i)
#pragma unroll
            for (int j = 0; j < MICRO; ++j) {
                float sum = products[i][j];
                sum = fmaf(x[i].x, y[j].x, sum);
                sum = fmaf(x[i].y, y[j].y, sum);
                sum = fmaf(x[i].z, y[j].z, sum);
                products[i][j] = fmaf(x[i].w, y[j].w, sum);
            }
    }
}

// sums[i][c] += Σ over columns of weights[row i][column] · tile[column][tx + 16 c].
__device__ __forceinline__ void accumulate(float sums[MICRO][MICRO_DIM], const float* weights, const float* tile, int ty,
                                           int tx) {
#pragma unroll 2
    for (int column = 0; column < TILE; column += 4) {
        float w[MICRO][4];
#pragma unroll
        for (int i = 0; i < MICRO; ++i) {
            float4 four = *(const float4*)(weights + (ty * MICRO + i) * WEIGHTS_STRIDE + column);
            w[i][0] = four.x, w[i][1] = four.y, w[i][2] = four.z, w[i][3] = four.w;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int c = 0; c < MICRO_DIM; ++c) {
                float x = tile[(column + k) * STRIDE + tx + 16 * c];
#pragma unroll
                for (int i = 0; i < MICRO; ++i) sums[i][c] = fmaf(w[i][k], x, sums[i][c]);
            }
    }
}

__device__ __forceinline__ void store_weights(float* weights, const float values[MICRO][MICRO], int ty, int tx) {
#pragma unroll
    for (int i = 0; i < MICRO; ++i)
#pragma unroll
        for (int j = 0; j < MICRO; ++j) weights[(ty * MICRO + i) * WEIGHTS_STRIDE + tx + 16 * j] = values[i][j];
}

// Writes the thread's part of `rows` rows of a head.
__device__ __forceinline__ void store_rows(float* to, const float sums[MICRO][MICRO_DIM], int first, int rows, int width,
                                           int ty, int tx) {
#pragma unroll
    for (int i = 0; i < MICRO; ++i)
#pragma unroll
        for (int c = 0; c < MICRO_DIM; ++c) {
            int row = ty * MICRO + i, column = tx + 16 * c;
            if (row < rows && column < HEAD_DIM) to[(i64)(first + row) * width + column] = sums[i][c];
        }
}

#define CLEAR(sums)                        \
    for (int i = 0; i < MICRO; ++i)        \
        for (int c = 0; c < MICRO_DIM; ++c) sums[i][c] = 0.0f;

// Blocks: query tasks, the last ones first (in long segments they have the most work), by heads. `log_sums`
// `[rows, heads]` are log2 Σ 2^score.
KERNEL(256, attention_forward, float* out, float* log_sums, const float* q, const float* k, const float* v,
       const int* tasks, const int* ranges, int heads, int kv_heads, float scale) {
    const int* task = tasks + (i64)(gridDim.x - 1 - blockIdx.x) * 4;
    int row = task[0], rows = task[1], head = blockIdx.y, kv_head = head / (heads / kv_heads);
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    k += kv_head * HEAD_DIM;
    v += kv_head * HEAD_DIM;
    float* queries = DYNAMIC_SHARED;
    float* keys = queries + TILE_FLOATS; // then values
    float* weights = keys + TILE_FLOATS;
    float max[MICRO], sum[MICRO], sums[MICRO][MICRO_DIM];
    CLEAR(sums)
#pragma unroll
    for (int i = 0; i < MICRO; ++i) max[i] = NEGATIVE_INFINITY, sum[i] = 0.0f;
    load_tile(queries, q + head * HEAD_DIM, row, rows, width);
    for (int range = task[2]; range < task[2] + task[3]; ++range) {
        bool causal = ranges[3 * range + 2] != 0;
        int end = causal ? min(ranges[3 * range + 1], row + rows) : ranges[3 * range + 1];
        for (int start = ranges[3 * range]; start < end; start += TILE) {
            int count = min(TILE, end - start);
            __syncthreads(); // values and weights of the previous tile may still be read
            load_tile(keys, k, start, count, kv_width);
            __syncthreads();
            float scores[MICRO][MICRO];
            multiply(scores, queries, keys, ty, tx);
            __syncthreads();
            load_tile(keys, v, start, count, kv_width);
#pragma unroll
            for (int i = 0; i < MICRO; ++i) {
                int last = causal ? min(count - 1, row + ty * MICRO + i - start) : count - 1;
                float largest = max[i];
#pragma unroll
                for (int j = 0; j < MICRO; ++j) {
                    scores[i][j] = tx + 16 * j <= last ? scores[i][j] * (scale * LOG2_E) : NEGATIVE_INFINITY;
                    largest = fmaxf(largest, scores[i][j]);
                }
                for (int offset = 8; offset > 0; offset >>= 1)
                    largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, offset));
                float factor = exp2f(max[i] - largest), tile_sum = 0.0f;
#pragma unroll
                for (int j = 0; j < MICRO; ++j) {
                    scores[i][j] = exp2f(scores[i][j] - largest);
                    tile_sum += scores[i][j];
                }
                for (int offset = 8; offset > 0; offset >>= 1)
                    tile_sum += __shfl_xor_sync(FULL_WARP, tile_sum, offset);
                sum[i] = fmaf(sum[i], factor, tile_sum);
                max[i] = largest;
#pragma unroll
                for (int c = 0; c < MICRO_DIM; ++c) sums[i][c] *= factor;
            }
            store_weights(weights, scores, ty, tx);
            __syncthreads();
            accumulate(sums, weights, keys, ty, tx);
        }
    }
#pragma unroll
    for (int i = 0; i < MICRO; ++i) {
        float inverse = 1.0f / sum[i];
#pragma unroll
        for (int c = 0; c < MICRO_DIM; ++c) sums[i][c] *= inverse;
        int at = ty * MICRO + i;
        if (tx == 0 && at < rows) log_sums[(i64)(row + at) * heads + head] = max[i] + log2f(sum[i]);
    }
    store_rows(out + head * HEAD_DIM, sums, row, rows, width, ty, tx);
}

// Blocks as in attention_forward: d_q = d_S k, d_S = P ⊙ (d_out vᵀ - row_sums) scale.
KERNEL(256, attention_backward_queries, float* d_q, const float* q, const float* k, const float* v, const float* d_out,
       const float* log_sums, const float* row_sums, const int* tasks, const int* ranges, int heads, int kv_heads,
       float scale) {
    const int* task = tasks + (i64)(gridDim.x - 1 - blockIdx.x) * 4;
    int row = task[0], rows = task[1], head = blockIdx.y, kv_head = head / (heads / kv_heads);
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    k += kv_head * HEAD_DIM;
    v += kv_head * HEAD_DIM;
    float* queries = DYNAMIC_SHARED;
    float* d_outs = queries + TILE_FLOATS;
    float* keys = d_outs + TILE_FLOATS;
    float* values = keys + TILE_FLOATS;
    float* weights = values + TILE_FLOATS;
    float log_sum[MICRO], row_sum[MICRO], sums[MICRO][MICRO_DIM];
    CLEAR(sums)
#pragma unroll
    for (int i = 0; i < MICRO; ++i) {
        bool real = ty * MICRO + i < rows;
        i64 at = (i64)(row + ty * MICRO + i) * heads + head;
        log_sum[i] = real ? log_sums[at] : 0.0f;
        row_sum[i] = real ? row_sums[at] : 0.0f;
    }
    load_tile(queries, q + head * HEAD_DIM, row, rows, width);
    load_tile(d_outs, d_out + head * HEAD_DIM, row, rows, width);
    for (int range = task[2]; range < task[2] + task[3]; ++range) {
        bool causal = ranges[3 * range + 2] != 0;
        int end = causal ? min(ranges[3 * range + 1], row + rows) : ranges[3 * range + 1];
        for (int start = ranges[3 * range]; start < end; start += TILE) {
            int count = min(TILE, end - start);
            __syncthreads();
            load_tile(keys, k, start, count, kv_width);
            load_tile(values, v, start, count, kv_width);
            __syncthreads();
            float p[MICRO][MICRO], d_p[MICRO][MICRO];
            multiply(p, queries, keys, ty, tx);
            multiply(d_p, d_outs, values, ty, tx);
#pragma unroll
            for (int i = 0; i < MICRO; ++i) {
                int last = causal ? min(count - 1, row + ty * MICRO + i - start) : count - 1;
#pragma unroll
                for (int j = 0; j < MICRO; ++j) {
                    float weight = exp2f(fmaf(p[i][j], scale * LOG2_E, -log_sum[i]));
                    p[i][j] = tx + 16 * j <= last ? weight * (d_p[i][j] - row_sum[i]) * scale : 0.0f;
                }
            }
            store_weights(weights, p, ty, tx);
            __syncthreads();
            accumulate(sums, weights, keys, ty, tx);
        }
    }
    store_rows(d_q + head * HEAD_DIM, sums, row, rows, width, ty, tx);
}

// Blocks: key tasks, whose ranges are the queries that see the keys, by key heads. d_v = Pᵀ d_out, d_k = d_Sᵀ q, summed
// over the query heads of the key head. Rows of a tile are keys, columns are queries.
KERNEL(256, attention_backward_keys, float* d_k, float* d_v, const float* q, const float* k, const float* v,
       const float* d_out, const float* log_sums, const float* row_sums, const int* tasks, const int* ranges, int heads,
       int kv_heads, float scale) {
    const int* task = tasks + (i64)blockIdx.x * 4;
    int row = task[0], rows = task[1], kv_head = blockIdx.y, group = heads / kv_heads;
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    float* keys = DYNAMIC_SHARED;
    float* values = keys + TILE_FLOATS;
    float* queries = values + TILE_FLOATS;
    float* d_outs = queries + TILE_FLOATS;
    float* weights = d_outs + TILE_FLOATS;
    float key_sums[MICRO][MICRO_DIM], value_sums[MICRO][MICRO_DIM];
    CLEAR(key_sums)
    CLEAR(value_sums)
    load_tile(keys, k + kv_head * HEAD_DIM, row, rows, kv_width);
    load_tile(values, v + kv_head * HEAD_DIM, row, rows, kv_width);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (int range = task[2]; range < task[2] + task[3]; ++range) {
            bool causal = ranges[3 * range + 2] != 0;
            int end = ranges[3 * range + 1];
            // In the own segment, the rows before the keys do not see them.
            for (int start = causal ? row : ranges[3 * range]; start < end; start += TILE) {
                int count = min(TILE, end - start);
                __syncthreads();
                load_tile(queries, q + head * HEAD_DIM, start, count, width);
                load_tile(d_outs, d_out + head * HEAD_DIM, start, count, width);
                __syncthreads();
                float p[MICRO][MICRO], d_s[MICRO][MICRO];
                multiply(p, keys, queries, ty, tx);
                multiply(d_s, values, d_outs, ty, tx);
#pragma unroll
                for (int j = 0; j < MICRO; ++j) {
                    int query = tx + 16 * j;
                    i64 at = (i64)(start + query) * heads + head;
                    float log_sum = query < count ? log_sums[at] : 0.0f;
                    float row_sum = query < count ? row_sums[at] : 0.0f;
#pragma unroll
                    for (int i = 0; i < MICRO; ++i) {
                        int key = ty * MICRO + i;
                        bool seen = query < count && key < rows && (!causal || row + key <= start + query);
                        p[i][j] = seen ? exp2f(fmaf(p[i][j], scale * LOG2_E, -log_sum)) : 0.0f;
                        d_s[i][j] = p[i][j] * (d_s[i][j] - row_sum) * scale;
                    }
                }
                store_weights(weights, p, ty, tx);
                __syncthreads();
                accumulate(value_sums, weights, d_outs, ty, tx);
                __syncthreads();
                store_weights(weights, d_s, ty, tx);
                __syncthreads();
                accumulate(key_sums, weights, queries, ty, tx);
            }
        }
    store_rows(d_k + kv_head * HEAD_DIM, key_sums, row, rows, kv_width, ty, tx);
    store_rows(d_v + kv_head * HEAD_DIM, value_sums, row, rows, kv_width, ty, tx);
}
