// As attention.cu, on tensor cores: operands and results in bf16, sums and softmax in f32. For HEAD_DIM a multiple of 16 up to
// 128, or of 32 up to 256, on cards of compute capability 8.0 and above.
//
// A block works on a tile of ROWS rows, 16 per warp, and walks over tiles of COLUMNS columns; the next tile is copied
// while one is worked on. The host chooses both (multiples of 16 and of 32) by the shared memory that the card has. Two results of a product side by side, rounded, are the left operand of
// the next one (Dao 2023, arXiv:2307.08691). Fragments and instructions: mma.cuh, which comes before this file.

#define THREADS (2 * ROWS)
#define STRIDE (HEAD_DIM + 8) // 16 bytes more than a row: eight rows of a matrix are in different banks
#define STEPS (HEAD_DIM / 16)
// Of larger heads than 128, registers hold sums of one row by all columns, but not left operands beside them, nor the sums of
// keys and values together: left operands are read again for each product, and gradients of keys and values are made by two
// blocks, of half the columns each, which both compute the scores.
#define IS_LARGE (HEAD_DIM > 128)
#define PARTS (IS_LARGE ? 2 : 1)
#define PART_STEPS (STEPS / PARTS)

// Copies rows `first..first + rows` of a head into a tile of `height` rows; zeros beyond.
__device__ __forceinline__ void copy_tile(bf16* to, const bf16* from, int first, int rows, int width, int height) {
    for (int i = threadIdx.x; i < height * (HEAD_DIM / 8); i += THREADS) {
        int row = i / (HEAD_DIM / 8), column = i % (HEAD_DIM / 8) * 8;
        bool is_real = row < rows;
        copy_async(to + row * STRIDE + column, from + (i64)(first + (is_real ? row : 0)) * width + column, is_real);
    }
}

// The place of a lane's row in two by two matrices of a tile, as a left operand, or as a transposed right one.
#define LEFT_ROW(lane) ((lane) % 8 + (lane) / 8 % 2 * 8)
#define LEFT_COLUMN(lane) ((lane) / 16 * 8)
// The same as a right operand whose rows are the result's columns.
#define RIGHT_ROW(lane) ((lane) % 8 + (lane) / 16 * 8)
#define RIGHT_COLUMN(lane) ((lane) / 8 % 2 * 8)

// scores (16 by 16 BLOCKS) += a · (16 BLOCKS rows of `tile`)ᵀ over 16 columns of a head; `a` in fragments. The products of
// a step don't wait for each other, so steps are taken one after the other and not blocks.
template <int BLOCKS>
__device__ __forceinline__ void multiply_rows(float scores[2 * BLOCKS][4], const u32 a[4], const bf16* tile, int step,
                                              int lane) {
    const bf16* row = tile + RIGHT_ROW(lane) * STRIDE + RIGHT_COLUMN(lane) + 16 * step;
#pragma unroll
    for (int n = 0; n < BLOCKS; ++n) {
        u32 b[4];
        load_matrices(b, row + 16 * n * STRIDE);
        multiply_add(scores[2 * n], a, b[0], b[1]);
        multiply_add(scores[2 * n + 1], a, b[2], b[3]);
    }
}

// sums (16 by 16 COUNT) += a · (16 rows of `tile`).
template <int COUNT>
__device__ __forceinline__ void multiply_columns(float sums[2 * COUNT][4], const u32 a[4], const bf16* tile, int lane) {
    const bf16* row = tile + LEFT_ROW(lane) * STRIDE + LEFT_COLUMN(lane);
#pragma unroll
    for (int step = 0; step < COUNT; ++step) {
        u32 b[4];
        load_transposed(b, row + 16 * step);
        multiply_add(sums[2 * step], a, b[0], b[1]);
        multiply_add(sums[2 * step + 1], a, b[2], b[3]);
    }
}

__device__ __forceinline__ void load_left(u32 a[4], const bf16* tile, int step, int lane) {
    load_matrices(a, tile + LEFT_ROW(lane) * STRIDE + LEFT_COLUMN(lane) + 16 * step);
}

// A warp's rows as left operands: in registers, or in the tile that they are read from each time.
struct Lefts {
    u32 held[IS_LARGE ? 1 : STEPS][4];
    const bf16* tile;

    __device__ __forceinline__ void hold(const bf16* rows, int lane) {
        tile = rows;
#pragma unroll
        for (int step = 0; step < STEPS && !IS_LARGE; ++step) load_left(held[step], tile, step, lane);
    }
    __device__ __forceinline__ const u32* of(int step, int lane) {
        if (!IS_LARGE) return held[step];
        load_left(held[0], tile, step, lane);
        return held[0];
    }
};

// Two neighbouring results as a left operand.
__device__ __forceinline__ void as_left(u32 a[4], const float left[4], const float right[4]) {
    a[0] = pack(left[0], left[1]);
    a[1] = pack(left[2], left[3]);
    a[2] = pack(right[0], right[1]);
    a[3] = pack(right[2], right[3]);
}

// Writes the warp's part of `rows` rows of a head.
template <int COUNT>
__device__ __forceinline__ void store_sums(bf16* to, const float sums[2 * COUNT][4], int first, int rows, int width,
                                           int warp, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int row = warp * 16 + lane / 4 + 8 * half;
        if (row >= rows) continue;
        bf16* at = to + (i64)(first + row) * width + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 2 * COUNT; ++n) *(u32*)(at + 8 * n) = pack(sums[n][2 * half], sums[n][2 * half + 1]);
    }
}

#define CLEAR(results, count)           \
    _Pragma("unroll") for (int n = 0; n < (count); ++n) \
        results[n][0] = results[n][1] = results[n][2] = results[n][3] = 0.0f;

// One half of a warp's rows: scores, of TILES times 8 columns, become powers of two of `unit` times their distance from the
// largest one so far, which are added to the lane's part of `sum`; what was summed up before is scaled to that.
template <int TILES>
__device__ __forceinline__ void soften(float scores[TILES][4], float sums[2 * STEPS][4], float max[2], float sum[2],
                                       float unit, int half) {
    float largest = max[half];
#pragma unroll
    for (int n = 0; n < TILES; ++n) largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 2));
    float factor = power_of_two((max[half] - largest) * unit), tile_sum = 0.0f;
    max[half] = largest;
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float& score = scores[n][2 * half + e];
            score = power_of_two(fmaf(score, unit, -largest * unit));
            tile_sum += score;
        }
    sum[half] = fmaf(sum[half], factor, tile_sum);
#pragma unroll
    for (int n = 0; n < 2 * STEPS; ++n) {
        sums[n][2 * half] *= factor;
        sums[n][2 * half + 1] *= factor;
    }
}

// Blocks and `log_sums` as in attention.cu.
KERNEL(THREADS, attention_mma_forward, bf16* out, float* log_sums, const bf16* q, const bf16* k, const bf16* v,
       const int* tasks, const int* ranges, int heads, int kv_heads, float scale) {
    const int* task = tasks + (i64)(gridDim.x - 1 - blockIdx.x) * 4;
    int row = task[0], rows = task[1], head = blockIdx.y, kv_head = head / (heads / kv_heads);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    k += kv_head * HEAD_DIM;
    v += kv_head * HEAD_DIM;
    bf16* queries = (bf16*)DYNAMIC_SHARED;
    bf16* keys = queries + ROWS * STRIDE;      // two tiles
    bf16* values = keys + 2 * COLUMNS * STRIDE; // two tiles
    Walk<COLUMNS> walk = walk_of<COLUMNS>(task, ranges, 0, row + rows, 0, 1);
    copy_tile(queries, q + head * HEAD_DIM, row, rows, width, ROWS);
    copy_tile(keys, k, walk.start, walk.count(), kv_width, COLUMNS);
    copy_tile(values, v, walk.start, walk.count(), kv_width, COLUMNS);
    commit_copies();
    // `max` is that of raw scores; `unit` makes them powers of two.
    float max[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0.0f, 0.0f}, unit = scale * LOG2_E;
    float sums[2 * STEPS][4];
    CLEAR(sums, 2 * STEPS)
    Lefts left;
    for (int tile = 0; !walk.is_done(); ++tile) {
        Walk<COLUMNS> next = walk;
        next.advance();
        if (!next.is_done()) {
            int to = (tile + 1) % 2 * COLUMNS * STRIDE;
            copy_tile(keys + to, k, next.start, next.count(), kv_width, COLUMNS);
            copy_tile(values + to, v, next.start, next.count(), kv_width, COLUMNS);
        }
        commit_copies();
        wait_for_copies_but_latest();
        __syncthreads();
        if (tile == 0) left.hold(queries + warp * 16 * STRIDE, lane);
        const bf16* tile_keys = keys + tile % 2 * COLUMNS * STRIDE;
        const bf16* tile_values = values + tile % 2 * COLUMNS * STRIDE;
        float scores[COLUMNS / 8][4];
        CLEAR(scores, COLUMNS / 8)
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            multiply_rows<COLUMNS / 16>(scores, left.of(step, lane), tile_keys, step, lane);
        // Does this warp see all of the tile?
        bool is_whole = walk.count() == COLUMNS && (!walk.causal || walk.start + COLUMNS <= row + warp * 16 + 1);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int at = row + warp * 16 + lane / 4 + 8 * half;
            if (!is_whole) {
                int last = walk.causal ? min(walk.count() - 1, at - walk.start) : walk.count() - 1;
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; ++n)
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (8 * n + lane % 4 * 2 + e > last) scores[n][2 * half + e] = NEGATIVE_INFINITY;
            }
            soften<COLUMNS / 8>(scores, sums, max, sum, unit, half);
        }
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; ++n) {
            u32 weights[4];
            as_left(weights, scores[2 * n], scores[2 * n + 1]);
            multiply_columns<STEPS>(sums, weights, tile_values + 16 * n * STRIDE, lane);
        }
        __syncthreads(); // the tile is overwritten next
        walk = next;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
        float inverse = 1.0f / sum[half];
#pragma unroll
        for (int n = 0; n < 2 * STEPS; ++n) {
            sums[n][2 * half] *= inverse;
            sums[n][2 * half + 1] *= inverse;
        }
        int at = warp * 16 + lane / 4 + 8 * half;
        if (lane % 4 == 0 && at < rows) log_sums[(i64)(row + at) * heads + head] = fmaf(max[half], unit, log2f(sum[half]));
    }
    store_sums<STEPS>(out + head * HEAD_DIM, sums, row, rows, width, warp, lane);
}

// As attention_backward_queries.
KERNEL(THREADS, attention_mma_backward_queries, bf16* d_q, const bf16* q, const bf16* k, const bf16* v, const bf16* d_out,
       const float* log_sums, const float* row_sums, const int* tasks, const int* ranges, int heads, int kv_heads,
       float scale) {
    const int* task = tasks + (i64)(gridDim.x - 1 - blockIdx.x) * 4;
    int row = task[0], rows = task[1], head = blockIdx.y, kv_head = head / (heads / kv_heads);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    k += kv_head * HEAD_DIM;
    v += kv_head * HEAD_DIM;
    bf16* queries = (bf16*)DYNAMIC_SHARED;
    bf16* d_outs = queries + ROWS * STRIDE;
    bf16* keys = d_outs + ROWS * STRIDE;        // two tiles
    bf16* values = keys + 2 * COLUMNS * STRIDE; // two tiles
    Walk<COLUMNS> walk = walk_of<COLUMNS>(task, ranges, 0, row + rows, 0, 1);
    copy_tile(queries, q + head * HEAD_DIM, row, rows, width, ROWS);
    copy_tile(d_outs, d_out + head * HEAD_DIM, row, rows, width, ROWS);
    copy_tile(keys, k, walk.start, walk.count(), kv_width, COLUMNS);
    copy_tile(values, v, walk.start, walk.count(), kv_width, COLUMNS);
    commit_copies();
    float log_sum[2], row_sum[2], sums[2 * STEPS][4];
    CLEAR(sums, 2 * STEPS)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int at = warp * 16 + lane / 4 + 8 * half;
        log_sum[half] = at < rows ? log_sums[(i64)(row + at) * heads + head] : 0.0f;
        row_sum[half] = at < rows ? row_sums[(i64)(row + at) * heads + head] : 0.0f;
    }
    Lefts left, d_left;
    for (int tile = 0; !walk.is_done(); ++tile) {
        Walk<COLUMNS> next = walk;
        next.advance();
        if (!next.is_done()) {
            int to = (tile + 1) % 2 * COLUMNS * STRIDE;
            copy_tile(keys + to, k, next.start, next.count(), kv_width, COLUMNS);
            copy_tile(values + to, v, next.start, next.count(), kv_width, COLUMNS);
        }
        commit_copies();
        wait_for_copies_but_latest();
        __syncthreads();
        if (tile == 0) {
            left.hold(queries + warp * 16 * STRIDE, lane);
            d_left.hold(d_outs + warp * 16 * STRIDE, lane);
        }
        const bf16* tile_keys = keys + tile % 2 * COLUMNS * STRIDE;
        const bf16* tile_values = values + tile % 2 * COLUMNS * STRIDE;
        // Does this warp see all of the tile?
        bool is_whole = walk.count() == COLUMNS && (!walk.causal || walk.start + COLUMNS <= row + warp * 16 + 1);
        for (int column = 0; column < COLUMNS; column += 32) {
            float p[4][4], d_s[4][4];
            CLEAR(p, 4)
            CLEAR(d_s, 4)
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                multiply_rows<2>(p, left.of(step, lane), tile_keys + column * STRIDE, step, lane);
                multiply_rows<2>(d_s, d_left.of(step, lane), tile_values + column * STRIDE, step, lane);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int half = i / 2, at = row + warp * 16 + lane / 4 + 8 * half;
                int last = walk.causal ? min(walk.count() - 1, at - walk.start) : walk.count() - 1;
#pragma unroll
                for (int n = 0; n < 4; ++n) {
                    float weight = power_of_two(fmaf(p[n][i], scale * LOG2_E, -log_sum[half]));
                    bool seen = is_whole || column + 8 * n + lane % 4 * 2 + i % 2 <= last;
                    d_s[n][i] = seen ? weight * (d_s[n][i] - row_sum[half]) * scale : 0.0f;
                }
            }
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                u32 weights[4];
                as_left(weights, d_s[2 * n], d_s[2 * n + 1]);
                multiply_columns<STEPS>(sums, weights, tile_keys + (column + 16 * n) * STRIDE, lane);
            }
        }
        __syncthreads();
        walk = next;
    }
    store_sums<STEPS>(d_q + head * HEAD_DIM, sums, row, rows, width, warp, lane);
}

// As attention_backward_keys.
KERNEL(THREADS, attention_mma_backward_keys, bf16* d_k, bf16* d_v, const bf16* q, const bf16* k, const bf16* v,
       const bf16* d_out, const float* log_sums, const float* row_sums, const int* tasks, const int* ranges, int heads,
       int kv_heads, float scale) {
    const int* task = tasks + (i64)blockIdx.x * 4;
    int row = task[0], rows = task[1], kv_head = blockIdx.y / PARTS, group = heads / kv_heads;
    int from = blockIdx.y % PARTS * 16 * PART_STEPS; // the first of the columns that are summed
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = heads * HEAD_DIM, kv_width = kv_heads * HEAD_DIM;
    bf16* keys = (bf16*)DYNAMIC_SHARED;
    bf16* values = keys + ROWS * STRIDE;
    bf16* queries = values + ROWS * STRIDE;        // two tiles
    bf16* d_outs = queries + 2 * COLUMNS * STRIDE; // two tiles
    float* numbers = (float*)(d_outs + 2 * COLUMNS * STRIDE); // of the queries: log_sums, then row_sums
    Walk<COLUMNS> walk = walk_of<COLUMNS>(task, ranges, row, 0x7fffffff, kv_head * group, group);
    copy_tile(keys, k + kv_head * HEAD_DIM, row, rows, kv_width, ROWS);
    copy_tile(values, v + kv_head * HEAD_DIM, row, rows, kv_width, ROWS);
    copy_tile(queries, q + walk.head * HEAD_DIM, walk.start, walk.count(), width, COLUMNS);
    copy_tile(d_outs, d_out + walk.head * HEAD_DIM, walk.start, walk.count(), width, COLUMNS);
    commit_copies();
    float key_sums[2 * PART_STEPS][4], value_sums[2 * PART_STEPS][4];
    CLEAR(key_sums, 2 * PART_STEPS)
    CLEAR(value_sums, 2 * PART_STEPS)
    for (int tile = 0; !walk.is_done(); ++tile) {
        Walk<COLUMNS> next = walk;
        next.advance();
        if (!next.is_done()) {
            int to = (tile + 1) % 2 * COLUMNS * STRIDE;
            copy_tile(queries + to, q + next.head * HEAD_DIM, next.start, next.count(), width, COLUMNS);
            copy_tile(d_outs + to, d_out + next.head * HEAD_DIM, next.start, next.count(), width, COLUMNS);
        }
        commit_copies();
        if (threadIdx.x < 2 * COLUMNS) { // fewer than threads
            int query = threadIdx.x % COLUMNS;
            const float* sums = threadIdx.x < COLUMNS ? log_sums : row_sums;
            i64 at = (i64)(walk.start + query) * heads + walk.head;
            numbers[threadIdx.x] = query < walk.count() ? sums[at] : 0.0f;
        }
        wait_for_copies_but_latest();
        __syncthreads();
        const bf16* tile_queries = queries + tile % 2 * COLUMNS * STRIDE;
        const bf16* tile_d_outs = d_outs + tile % 2 * COLUMNS * STRIDE;
        // Does all of the tile see this warp's keys?
        bool is_whole = walk.count() == COLUMNS && (!walk.causal || row + warp * 16 + 15 <= walk.start);
        for (int column = 0; column < COLUMNS; column += 32) {
            float p[4][4], d_s[4][4];
            CLEAR(p, 4)
            CLEAR(d_s, 4)
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                u32 left[4];
                load_left(left, keys + warp * 16 * STRIDE, step, lane);
                multiply_rows<2>(p, left, tile_queries + column * STRIDE, step, lane);
                load_left(left, values + warp * 16 * STRIDE, step, lane);
                multiply_rows<2>(d_s, left, tile_d_outs + column * STRIDE, step, lane);
            }
#pragma unroll
            for (int n = 0; n < 4; ++n)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    int query = column + 8 * n + lane % 4 * 2 + e;
                    float log_sum = numbers[query], row_sum = numbers[COLUMNS + query];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        int key = row + warp * 16 + lane / 4 + half * 8, i = 2 * half + e;
                        bool seen = is_whole || (query < walk.count() && (!walk.causal || key <= walk.start + query));
                        float weight = power_of_two(fmaf(p[n][i], scale * LOG2_E, -log_sum));
                        p[n][i] = seen ? weight : 0.0f;
                        d_s[n][i] = p[n][i] * (d_s[n][i] - row_sum) * scale;
                    }
                }
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                u32 weights[4];
                as_left(weights, p[2 * n], p[2 * n + 1]);
                multiply_columns<PART_STEPS>(value_sums, weights, tile_d_outs + (column + 16 * n) * STRIDE + from, lane);
                as_left(weights, d_s[2 * n], d_s[2 * n + 1]);
                multiply_columns<PART_STEPS>(key_sums, weights, tile_queries + (column + 16 * n) * STRIDE + from, lane);
            }
        }
        __syncthreads();
        walk = next;
    }
    store_sums<PART_STEPS>(d_k + kv_head * HEAD_DIM + from, key_sums, row, rows, kv_width, warp, lane);
    store_sums<PART_STEPS>(d_v + kv_head * HEAD_DIM + from, value_sums, row, rows, kv_width, warp, lane);
}

// The decoding step of decode.cu: single queries over the rows that they see in pages. Sixteen heads that share keys are the
// rows of a tile, of which those that a group has too few are zero. A warp takes every fourth page of a task, and copies one
// while it works on another.
#define PAGE_ROWS 16
#define SPLIT_PAGES 16
#define DECODE_WARPS 4
#define PAGE_TILE (PAGE_ROWS * STRIDE)

// Copies the first `used` rows of a page's keys and values, with zeros beyond, by one warp.
__device__ __forceinline__ void copy_page(bf16* keys, bf16* values, const bf16* from, int used, int width, int lane) {
    for (int i = lane; i < PAGE_ROWS * (HEAD_DIM / 8); i += 32) {
        int row = i / (HEAD_DIM / 8), column = i % (HEAD_DIM / 8) * 8;
        bool is_real = row < used;
        const bf16* at = from + (is_real ? row : 0) * width + column;
        copy_async(keys + row * STRIDE + column, at, is_real);
        copy_async(values + row * STRIDE + column, at + PAGE_ROWS * width, is_real);
    }
}

// One block per task, and per key/value head and sixteen of its heads. Tasks, pages, `outs` and `sums` as in decode.cu. The
// blocks of a task are neighbours: together they read whole rows of its pages. Where a row has several tasks, the block that ends
// last combines them in their order, as `decode_combine` does; `ended` counts, from zeros to zeros. There are as many tasks as
// rows, or more.
KERNEL(128, attention_mma_decode, bf16* out, float* outs, float* sums, int* ended, const bf16* q, const bf16* cache,
       const int* tasks, const int* pages, const int* firsts, i64 page_len, int rows, int heads, int kv_heads,
       float scale) {
    wait_for_earlier_work();
    __shared__ int is_last;
    int group = heads / kv_heads, each = kv_heads * ((group + 15) / 16), part = blockIdx.x % each;
    int kv_head = part % kv_heads, first = part / kv_heads * 16, task = blockIdx.x / each;
    int own = min(16, group - first), head = kv_head * group + first, width = kv_heads * HEAD_DIM;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int* entries = pages + (i64)task * 2 * SPLIT_PAGES;
    if (task < rows && firsts[task] == firsts[task + 1]) // a row that pads a captured step
        for (int i = threadIdx.x; i < own * HEAD_DIM; i += blockDim.x) out[((i64)task * heads + head) * HEAD_DIM + i] = 0;
    int of = tasks[2 * task], count = tasks[2 * task + 1];
    if (count == 0) return; // a captured step has room for more tasks
    int first_task = firsts[of], tasks_of_row = firsts[of + 1] - first_task;
    out += ((i64)of * heads + head) * HEAD_DIM;
    cache += kv_head * HEAD_DIM;
    bf16* queries = (bf16*)DYNAMIC_SHARED;
    bf16* tiles = queries + PAGE_TILE * (1 + 4 * warp); // this warp's: two of keys, two of values
    q += ((i64)of * heads + head) * HEAD_DIM;
    // Two pages are under way before anything is waited for.
    if (warp < count)
        copy_page(tiles, tiles + 2 * PAGE_TILE, cache + entries[2 * warp] * page_len, entries[2 * warp + 1], width, lane);
    for (int i = threadIdx.x; i < 16 * (HEAD_DIM / 8); i += blockDim.x) {
        int row = i / (HEAD_DIM / 8), column = i % (HEAD_DIM / 8) * 8;
        copy_async(queries + row * STRIDE + column, q + (row < own ? row : 0) * HEAD_DIM + column, row < own);
    }
    commit_copies();
    int second = warp + DECODE_WARPS;
    if (second < count)
        copy_page(tiles + PAGE_TILE, tiles + 3 * PAGE_TILE, cache + entries[2 * second] * page_len,
                  entries[2 * second + 1], width, lane);
    commit_copies();
    wait_for_copies_but_latest();
    __syncthreads();
    Lefts left;
    left.hold(queries, lane);
    float max[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0.0f, 0.0f}, unit = scale * LOG2_E;
    float results[2 * STEPS][4];
    CLEAR(results, 2 * STEPS)
    for (int entry = warp, stage = 0; entry < count; entry += DECODE_WARPS, stage ^= 1) {
        bf16* keys = tiles + stage * PAGE_TILE;
        int used = entries[2 * entry + 1];
        float scores[2][4];
        CLEAR(scores, 2)
#pragma unroll
        for (int step = 0; step < STEPS; ++step) multiply_rows<1>(scores, left.of(step, lane), keys, step, lane);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * n + lane % 4 * 2 + e >= used) scores[n][2 * half + e] = NEGATIVE_INFINITY;
            soften<2>(scores, results, max, sum, unit, half);
        }
        u32 weights[4];
        as_left(weights, scores[0], scores[1]);
        multiply_columns<STEPS>(results, weights, keys + 2 * PAGE_TILE, lane);
        int next = entry + 2 * DECODE_WARPS;
        __syncwarp(); // all lanes have read what is overwritten next
        if (next < count)
            copy_page(keys, keys + 2 * PAGE_TILE, cache + entries[2 * next] * page_len, entries[2 * next + 1], width, lane);
        commit_copies();
        wait_for_copies_but_latest();
        __syncwarp();
    }
    __syncthreads(); // the tiles are not needed any more
    float* parts = DYNAMIC_SHARED;                        // [DECODE_WARPS, 16, HEAD_DIM]
    float* numbers = parts + DECODE_WARPS * 16 * HEAD_DIM; // [DECODE_WARPS, 16, 2]: largest score, sum
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
        sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
        int row = warp * 16 + lane / 4 + 8 * half;
        if (lane / 4 + 8 * half >= own) continue;
#pragma unroll
        for (int n = 0; n < 2 * STEPS; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) parts[row * HEAD_DIM + 8 * n + lane % 4 * 2 + e] = results[n][2 * half + e];
        if (lane % 4 == 0) {
            numbers[2 * row] = max[half] * unit;
            numbers[2 * row + 1] = sum[half];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < own * HEAD_DIM; i += blockDim.x) {
        int row = i / HEAD_DIM;
        float largest = NEGATIVE_INFINITY, total = 0.0f, result = 0.0f;
        for (int w = 0; w < min(DECODE_WARPS, count); ++w) largest = fmaxf(largest, numbers[2 * (w * 16 + row)]);
        for (int w = 0; w < min(DECODE_WARPS, count); ++w) {
            float factor = power_of_two(numbers[2 * (w * 16 + row)] - largest);
            total = fmaf(factor, numbers[2 * (w * 16 + row) + 1], total);
            result = fmaf(factor, parts[w * 16 * HEAD_DIM + i], result);
        }
        if (tasks_of_row == 1) {
            out[i] = float_to_bf16(result / total);
            continue;
        }
        outs[((i64)task * heads + head) * HEAD_DIM + i] = result;
        if (i % HEAD_DIM == 0) {
            float* to = sums + ((i64)task * heads + head + row) * 2;
            to[0] = largest;
            to[1] = total;
        }
    }
    if (tasks_of_row == 1) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int* counter = ended + (i64)of * each + part;
        is_last = atomicAdd(counter, 1) == tasks_of_row - 1;
        if (is_last) *counter = 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    for (int i = threadIdx.x; i < own * HEAD_DIM; i += blockDim.x) {
        const float* of_task = sums + ((i64)first_task * heads + head + i / HEAD_DIM) * 2;
        const float* results = outs + ((i64)first_task * heads + head) * HEAD_DIM + i;
        float largest = NEGATIVE_INFINITY, total = 0.0f, result = 0.0f;
        for (int t = 0; t < tasks_of_row; ++t) largest = fmaxf(largest, of_task[(i64)t * heads * 2]);
        for (int t = 0; t < tasks_of_row; ++t) {
            float factor = power_of_two(of_task[(i64)t * heads * 2] - largest);
            total = fmaf(factor, of_task[(i64)t * heads * 2 + 1], total);
            result = fmaf(factor, results[(i64)t * heads * HEAD_DIM], result);
        }
        out[i] = float_to_bf16(result / total);
    }
}
