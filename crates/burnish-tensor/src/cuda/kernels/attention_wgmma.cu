// As attention_mma.cu, by the instructions of compute capability 9.0, for HEAD_DIM 64 and 128.
//
// A block has three groups of 128 threads. One thread of the first walks over the tiles of columns that a task's 128
// rows meet, and has them copied; each of the other two groups has 64 of the rows, and computes with what arrives. There are
// as many blocks as multiprocessors. Each takes tasks, the longest first, so that copies for the next one go on while one
// ends. Boxes are always whole: rows behind a range are those of its neighbour, with weights of 0, so what they hold must be
// finite. After Shah et al. 2024, arXiv:2407.08608, without its atomic sums: gradients of queries and of keys are two kernels.

#define ROWS 128
#define PANELS (HEAD_DIM / PANEL)
#define STEPS (HEAD_DIM / 16)
#define FIXED (ROWS * HEAD_DIM)     // elements of a task's tile
#define KEYS 128                    // columns of a tile that queries walk over
#define QUERIES 64                  // and of one that keys walk over
#define CONSUMERS 256
#define STAGES 2
#define UNROLL _Pragma("unroll")

// A tile of `rows` rows of a head, by one thread.
__device__ __forceinline__ void copy_tile(bf16* to, const TensorMap& map, int head, int row, int rows, Barrier* barrier) {
    for (int panel = 0; panel < PANELS; ++panel)
        for (int first = 0; first < rows; first += 64)
            copy_box(to + (panel * rows + first) * PANEL, map, head * HEAD_DIM + panel * PANEL, row + first, barrier);
}

// The work of this block: items are tasks, sorted by length, times heads. Odd rounds go backwards.
struct Items {
    int round, count;
    __device__ Items(int count) : round(-1), count(count) {}
    // The next item, or -1.
    __device__ int next() {
        for (;;) {
            i64 first = (i64)++round * gridDim.x;
            if (first >= count) return -1;
            i64 item = first + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
            if (item < count) return (int)item;
        }
    }
};

// What the computing groups are told of an item, with its rows: rows `row` to `end` of a head; no item if `head` is -1.
struct alignas(16) Item {
    int row, end, head, unused;
};
// And of a tile: its first column, how many are seen, whether causally, and whether it is the item's last.
struct alignas(16) Tile {
    int start, count, causal, last;
};

// Tiles that arrive in turn; each has a barrier for its arrival and one for its being free again.
struct Stages {
    Barrier *full, *empty;
    int stage, parity;
    __device__ Stages(Barrier* barriers) : full(barriers), empty(barriers + STAGES), stage(0), parity(0) {}
    __device__ void start(int arrivals) {
        for (int i = 0; i < STAGES; ++i) {
            start_barrier(full + i, arrivals);
            start_barrier(empty + i, CONSUMERS);
        }
    }
    __device__ void wait_until_full() { wait_for(full + stage, parity); }
    __device__ void wait_until_empty() { wait_for(empty + stage, parity ^ 1); }
    __device__ void advance() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1;
    }
    // This thread does not read the tile of this stage any more.
    __device__ void free_and_advance() {
        arrive(empty + stage);
        advance();
    }
};

template <int WIDTH>
__device__ __forceinline__ Tile told(const Walk<WIDTH>& walk, const Walk<WIDTH>& next) {
    Tile tile;
    tile.start = walk.start;
    tile.count = walk.count();
    tile.causal = walk.causal;
    tile.last = next.is_done();
    return tile;
}

// c = a bᵀ: 64 rows of a task's tile, all rows of another.
template <int N>
__device__ __forceinline__ void multiply_rows(float (&c)[N][4], const bf16* fixed, int row, const bf16* walked) {
UNROLL
    for (int step = 0; step < STEPS; ++step)
        multiply(c, rows_operand(fixed, ROWS, row, step), rows_operand(walked, 8 * N, 0, step), step > 0);
    commit_products();
}

// c += a b: a rounded in fragments, all rows of a tile.
template <int N>
__device__ __forceinline__ void multiply_columns(float (&c)[HEAD_DIM / 8][4], const u32 (&a)[N][4], const bf16* walked,
                                                 int adds) {
UNROLL
    for (int step = 0; step < N; ++step)
        multiply(c, a[step], columns_operand(walked, 16 * N, step), adds || step > 0);
    commit_products();
}

template <int N>
__device__ __forceinline__ void round_results(u32 (&a)[N][4], const float (&c)[2 * N][4]) {
UNROLL
    for (int n = 0; n < N; ++n) {
        a[n][0] = pack(c[2 * n][0], c[2 * n][1]);
        a[n][1] = pack(c[2 * n][2], c[2 * n][3]);
        a[n][2] = pack(c[2 * n + 1][0], c[2 * n + 1][1]);
        a[n][3] = pack(c[2 * n + 1][2], c[2 * n + 1][3]);
    }
}

// Lane i of four gets word i of each.
__device__ __forceinline__ void transpose_words(u32 (&x)[4], int lane) {
UNROLL
    for (int i = 0; i < 4; i += 2) {
        u32 other = __shfl_xor_sync(FULL_WARP, lane & 1 ? x[i] : x[i + 1], 1);
        if (lane & 1)
            x[i] = other;
        else
            x[i + 1] = other;
    }
UNROLL
    for (int i = 0; i < 2; ++i) {
        u32 other = __shfl_xor_sync(FULL_WARP, lane & 2 ? x[i] : x[i + 2], 2);
        if (lane & 2)
            x[i] = other;
        else
            x[i + 2] = other;
    }
}

// Writes this thread's part of the rows below `end`, times `factors` of its two rows, in chunks of 16 bytes.
__device__ __forceinline__ void store_results(bf16* to, const float (&c)[HEAD_DIM / 8][4], int row, int end, int width,
                                              const float factors[2]) {
    int lane = threadIdx.x % 4;
UNROLL
    for (int half = 0; half < 2; ++half) {
UNROLL
        for (int n = 0; n < HEAD_DIM / 8; n += 4) {
            u32 x[4];
UNROLL
            for (int i = 0; i < 4; ++i) x[i] = pack(c[n + i][2 * half] * factors[half], c[n + i][2 * half + 1] * factors[half]);
            transpose_words(x, lane);
            if (row + 8 * half < end)
                *(Chunk<4, u32>*)(to + (i64)(row + 8 * half) * width + 8 * (n + lane)) = {{x[0], x[1], x[2], x[3]}};
        }
    }
}

// Scores of columns that this thread's rows, `row` and `row + 8`, do not see become -infinity.
template <int N>
__device__ __forceinline__ void hide(float (&scores)[N][4], const Tile& tile, int row) {
    // Do all rows of the warp see all of the tile?
    if (tile.count == 8 * N && (!tile.causal || tile.start + 8 * N <= row - (int)(threadIdx.x % 32 / 4) + 1)) return;
UNROLL
    for (int i = 0; i < 4; ++i) {
        int last = tile.count - 1;
        if (tile.causal) last = min(last, row + i / 2 * 8 - tile.start);
UNROLL
        for (int n = 0; n < N; ++n)
            if (8 * n + (int)(threadIdx.x % 4) * 2 + i % 2 > last) scores[n][i] = NEGATIVE_INFINITY;
    }
}

// The same where rows are keys and columns the queries that see them.
template <int N>
__device__ __forceinline__ void hide_unseen(float (&scores)[N][4], const Tile& tile, int row) {
    if (tile.count == 8 * N && (!tile.causal || row - (int)(threadIdx.x % 32 / 4) + 15 <= tile.start)) return;
UNROLL
    for (int i = 0; i < 4; ++i) {
        int first = tile.causal ? row + i / 2 * 8 - tile.start : 0;
UNROLL
        for (int n = 0; n < N; ++n) {
            int column = 8 * n + (int)(threadIdx.x % 4) * 2 + i % 2;
            if (column < first || column >= tile.count) scores[n][i] = NEGATIVE_INFINITY;
        }
    }
}

// Scores become powers of two of `unit` times their distance from the largest so far, and are added to this thread's
// part of `sum`; `factors` scales what was summed up before.
template <int N>
__device__ __forceinline__ void soften(float (&scores)[N][4], float max[2], float sum[2], float factors[2],
                                       float unit) {
UNROLL
    for (int half = 0; half < 2; ++half) {
        float largest = max[half];
UNROLL
        for (int n = 0; n < N; ++n)
            largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 2));
        float from = largest * unit, tile_sum = 0.0f;
        factors[half] = power_of_two(fmaf(max[half], unit, -from));
        max[half] = largest;
UNROLL
        for (int n = 0; n < N; ++n)
UNROLL
            for (int e = 0; e < 2; ++e) {
                float& score = scores[n][2 * half + e];
                score = power_of_two(fmaf(score, unit, -from));
                tile_sum += score;
            }
        sum[half] = fmaf(sum[half], factors[half], tile_sum);
    }
}

// Shared memory, from a multiple of 1024 on.
__device__ __forceinline__ bf16* shared_tiles() { return (bf16*)(((u64)DYNAMIC_SHARED + 1023) / 1024 * 1024); }

// What the first group does for rows that walk over keys and values: `of_rows` are one or two matrices with a task's rows.
__device__ __forceinline__ void copy_for_queries(bf16* fixed, const TensorMap* of_rows, const TensorMap* more_of_rows,
                                                 const TensorMap& k, const TensorMap& v, Stages of_keys, Stages of_values,
                                                 Barrier* given, Barrier* taken, Item* told_item, Tile* told_tiles,
                                                 const int* tasks, const int* ranges, int items, int heads, int kv_heads) {
    bf16* keys = fixed + (more_of_rows ? 2 : 1) * FIXED;
    bf16* values = keys + STAGES * KEYS * HEAD_DIM;
    Items all(items);
    for (int parity = 1;; parity ^= 1) {
        int item = all.next(), head = item % heads, kv_head = head / (heads / kv_heads);
        const int* task = tasks + (i64)(item < 0 ? 0 : item / heads) * 4;
        int row = task[0], end = task[0] + task[1];
        Walk<KEYS> walk = walk_of<KEYS>(task, ranges, 0, end, 0, 1);
        wait_for(taken, parity);
        *told_item = {row, end, item < 0 ? -1 : head, 0};
        if (item < 0) {
            arrive(given);
            return;
        }
        arrive_expecting(given, (more_of_rows ? 4 : 2) * FIXED);
        copy_tile(fixed, *of_rows, head, row, ROWS, given);
        if (more_of_rows) copy_tile(fixed + FIXED, *more_of_rows, head, row, ROWS, given);
        while (!walk.is_done()) {
            Walk<KEYS> next = walk;
            next.advance();
            of_keys.wait_until_empty();
            told_tiles[of_keys.stage] = told(walk, next);
            arrive_expecting(of_keys.full + of_keys.stage, 2 * KEYS * HEAD_DIM);
            copy_tile(keys + of_keys.stage * KEYS * HEAD_DIM, k, kv_head, walk.start, KEYS, of_keys.full + of_keys.stage);
            of_keys.advance();
            of_values.wait_until_empty();
            arrive_expecting(of_values.full + of_values.stage, 2 * KEYS * HEAD_DIM);
            copy_tile(values + of_values.stage * KEYS * HEAD_DIM, v, kv_head, walk.start, KEYS, of_values.full + of_values.stage);
            of_values.advance();
            walk = next;
        }
    }
}

// `out` and `log_sums` as in attention.cu.
KERNEL(GROUP_THREADS, attention_wgmma_forward, bf16* out, float* log_sums, MAP q, MAP k, MAP v, const int* tasks,
       const int* ranges, int items, int heads, int kv_heads, float scale) {
    bf16* queries = shared_tiles();
    bf16* keys = queries + FIXED;          // tiles of all stages
    bf16* values = keys + STAGES * KEYS * HEAD_DIM; // the same
    Tile* tiles = (Tile*)(values + STAGES * KEYS * HEAD_DIM);
    Item* told_item = (Item*)(tiles + STAGES);
    Barrier* barriers = (Barrier*)(told_item + 1);
    Stages of_keys(barriers), of_values(barriers + 2 * STAGES);
    Barrier *given = barriers + 4 * STAGES, *taken = given + 1; // the queries
    if (threadIdx.x == 0) {
        of_keys.start(1);
        of_values.start(1);
        start_barrier(given, 1);
        start_barrier(taken, CONSUMERS);
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        GIVE_REGISTERS_BACK
        if (threadIdx.x == 0)
            copy_for_queries(queries, &q, nullptr, k, v, of_keys, of_values, given, taken, told_item, tiles, tasks, ranges, items,
                             heads, kv_heads);
        return;
    }
    TAKE_REGISTERS
    int first = threadIdx.x / 128 * 64 - 64, lane = threadIdx.x % 32, width = heads * HEAD_DIM;
    float unit = scale * LOG2_E;
    for (int parity = 0;; parity ^= 1) {
        wait_for(given, parity);
        Item item = *told_item;
        if (item.head < 0) return;
        int row = item.row + first + threadIdx.x % 128 / 32 * 16 + lane / 4;
        // `max` is that of raw scores; `unit` makes them powers of two.
        float max[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0.0f, 0.0f}, factors[2];
        float results[HEAD_DIM / 8][4], scores[KEYS / 8][4];
        u32 weights[KEYS / 16][4];
        of_keys.wait_until_full();
        Tile tile = tiles[of_keys.stage];
        begin_products();
        multiply_rows(scores, queries, first, keys + of_keys.stage * KEYS * HEAD_DIM);
        wait_for_products_but<0>();
        are_results(scores);
        of_keys.free_and_advance();
        hide(scores, tile, row);
        soften(scores, max, sum, factors, unit);
        round_results(weights, scores);
        int adds = 0;
        for (; !tile.last; adds = 1) {
            // While these weights meet their values, the next scores are made.
            of_keys.wait_until_full();
            tile = tiles[of_keys.stage];
            begin_products();
            multiply_rows(scores, queries, first, keys + of_keys.stage * KEYS * HEAD_DIM);
            of_values.wait_until_full();
            multiply_columns(results, weights, values + of_values.stage * KEYS * HEAD_DIM, adds);
            wait_for_products_but<1>();
            are_results(scores);
            of_keys.free_and_advance();
            hide(scores, tile, row);
            soften(scores, max, sum, factors, unit);
            wait_for_products_but<0>();
            are_results(results);
            of_values.free_and_advance();
UNROLL
            for (int n = 0; n < HEAD_DIM / 8; ++n)
UNROLL
                for (int i = 0; i < 4; ++i) results[n][i] *= factors[i / 2];
            round_results(weights, scores);
        }
        arrive(taken);
        of_values.wait_until_full();
        begin_products();
        multiply_columns(results, weights, values + of_values.stage * KEYS * HEAD_DIM, adds);
UNROLL
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL_WARP, sum[half], 2);
            factors[half] = 1.0f / sum[half];
            if (lane % 4 == 0 && row + 8 * half < item.end)
                log_sums[(i64)(row + 8 * half) * heads + item.head] = fmaf(max[half], unit, log2f(sum[half]));
        }
        wait_for_products_but<0>();
        are_results(results);
        of_values.free_and_advance();
        store_results(out + item.head * HEAD_DIM, results, row, item.end, width, factors);
    }
}

// As attention_backward_queries.
KERNEL(GROUP_THREADS, attention_wgmma_backward_queries, bf16* d_q, MAP q, MAP k, MAP v, MAP d_out, const float* log_sums,
       const float* row_sums, const int* tasks, const int* ranges, int items, int heads, int kv_heads, float scale) {
    bf16* queries = shared_tiles();
    bf16* d_outs = queries + FIXED;
    bf16* keys = d_outs + FIXED;           // tiles of all stages
    bf16* values = keys + STAGES * KEYS * HEAD_DIM; // the same
    Tile* tiles = (Tile*)(values + STAGES * KEYS * HEAD_DIM);
    Item* told_item = (Item*)(tiles + STAGES);
    Barrier* barriers = (Barrier*)(told_item + 1);
    Stages of_keys(barriers), of_values(barriers + 2 * STAGES);
    Barrier *given = barriers + 4 * STAGES, *taken = given + 1; // queries and gradients
    if (threadIdx.x == 0) {
        of_keys.start(1);
        of_values.start(1);
        start_barrier(given, 1);
        start_barrier(taken, CONSUMERS);
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        GIVE_REGISTERS_BACK
        if (threadIdx.x == 0)
            copy_for_queries(queries, &q, &d_out, k, v, of_keys, of_values, given, taken, told_item, tiles, tasks, ranges, items,
                             heads, kv_heads);
        return;
    }
    TAKE_REGISTERS
    int first = threadIdx.x / 128 * 64 - 64, width = heads * HEAD_DIM;
    float unit = scale * LOG2_E, factors[2] = {scale, scale};
    for (int parity = 0;; parity ^= 1) {
        wait_for(given, parity);
        Item item = *told_item;
        if (item.head < 0) return;
        int row = item.row + first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        float log_sum[2], row_sum[2], results[HEAD_DIM / 8][4];
UNROLL
        for (int half = 0; half < 2; ++half) {
            bool is_real = row + 8 * half < item.end;
            i64 at = (i64)(row + 8 * half) * heads + item.head;
            log_sum[half] = is_real ? log_sums[at] : 0.0f;
            row_sum[half] = is_real ? row_sums[at] : 0.0f;
        }
        float p[KEYS / 8][4], d_s[KEYS / 8][4];
        u32 weights[KEYS / 16][4];
        of_keys.wait_until_full();
        begin_products();
        multiply_rows(p, queries, first, keys + of_keys.stage * KEYS * HEAD_DIM);
        for (int adds = 0;; adds = 1) {
            Tile tile = tiles[of_keys.stage];
            of_values.wait_until_full();
            begin_products();
            multiply_rows(d_s, d_outs, first, values + of_values.stage * KEYS * HEAD_DIM);
            wait_for_products_but<1>();
            are_results(p);
            hide(p, tile, row);
UNROLL
            for (int n = 0; n < KEYS / 8; ++n)
UNROLL
                for (int i = 0; i < 4; ++i) p[n][i] = power_of_two(fmaf(p[n][i], unit, -log_sum[i / 2]));
            wait_for_products_but<0>();
            are_results(d_s);
            of_values.free_and_advance();
            if (tile.last) arrive(taken);
UNROLL
            for (int n = 0; n < KEYS / 8; ++n)
UNROLL
                for (int i = 0; i < 4; ++i) d_s[n][i] = p[n][i] * (d_s[n][i] - row_sum[i / 2]);
            round_results(weights, d_s);
            begin_products();
            multiply_columns(results, weights, keys + of_keys.stage * KEYS * HEAD_DIM, adds);
            if (tile.last) break;
            // Scores of the next tile are made while this one's gradients are summed up.
            Stages next = of_keys;
            next.advance();
            next.wait_until_full();
            begin_products();
            multiply_rows(p, queries, first, keys + next.stage * KEYS * HEAD_DIM);
            wait_for_products_but<1>();
            are_results(results);
            of_keys.free_and_advance();
        }
        wait_for_products_but<0>();
        are_results(results);
        of_keys.free_and_advance();
        store_results(d_q + item.head * HEAD_DIM, results, row, item.end, width, factors);
    }
}

// What one warp of the first group does for rows that walk over queries: their numbers come to shared memory.
__device__ __forceinline__ void gather_numbers(float* numbers, Stages stages, const float* log_sums, const float* row_sums,
                                               const int* tasks, const int* ranges, int items, int heads, int kv_heads) {
    int lane = threadIdx.x % 32, shared_by = heads / kv_heads;
    Items all(items);
    for (int item; (item = all.next()) >= 0;) {
        const int* task = tasks + (i64)(item / kv_heads) * 4;
        Walk<QUERIES> walk = walk_of<QUERIES>(task, ranges, task[0], 0x7fffffff, item % kv_heads * shared_by, shared_by);
        for (; !walk.is_done(); walk.advance()) {
            float own[QUERIES / 32][2];
UNROLL
            for (int i = 0; i < QUERIES / 32; ++i) {
                i64 at = (i64)(walk.start + 32 * i + lane) * heads + walk.head;
                bool is_real = 32 * i + lane < walk.count();
                own[i][0] = is_real ? log_sums[at] : 0.0f;
                own[i][1] = is_real ? row_sums[at] : 0.0f;
            }
            stages.wait_until_empty();
UNROLL
            for (int i = 0; i < QUERIES / 32; ++i) {
                float* to = numbers + stages.stage * 2 * QUERIES + 32 * i + lane;
                to[0] = own[i][0];
                to[QUERIES] = own[i][1];
            }
            arrive(stages.full + stages.stage);
            stages.advance();
        }
    }
}

// And one thread: copies.
__device__ __forceinline__ void copy_for_keys(bf16* keys, const TensorMap& q, const TensorMap& k, const TensorMap& v,
                                              const TensorMap& d_out, Stages stages, Barrier* given, Barrier* taken,
                                              Item* told_item, Tile* told_tiles, const int* tasks, const int* ranges, int items,
                                              int heads, int kv_heads) {
    bf16* values = keys + FIXED;
    bf16* queries = values + FIXED;
    bf16* d_outs = queries + STAGES * QUERIES * HEAD_DIM;
    Items all(items);
    for (int parity = 1;; parity ^= 1) {
        int item = all.next(), kv_head = item % kv_heads, shared_by = heads / kv_heads;
        const int* task = tasks + (i64)(item < 0 ? 0 : item / kv_heads) * 4;
        int row = task[0], end = task[0] + task[1];
        Walk<QUERIES> walk = walk_of<QUERIES>(task, ranges, row, 0x7fffffff, kv_head * shared_by, shared_by);
        wait_for(taken, parity);
        *told_item = {row, end, item < 0 ? -1 : kv_head, 0};
        if (item < 0) {
            arrive(given);
            return;
        }
        arrive_expecting(given, 4 * FIXED);
        copy_tile(keys, k, kv_head, row, ROWS, given);
        copy_tile(values, v, kv_head, row, ROWS, given);
        while (!walk.is_done()) {
            Walk<QUERIES> next = walk;
            next.advance();
            Barrier* full = stages.full + stages.stage;
            stages.wait_until_empty();
            told_tiles[stages.stage] = told(walk, next);
            arrive_expecting(full, 4 * QUERIES * HEAD_DIM);
            copy_tile(queries + stages.stage * QUERIES * HEAD_DIM, q, walk.head, walk.start, QUERIES, full);
            copy_tile(d_outs + stages.stage * QUERIES * HEAD_DIM, d_out, walk.head, walk.start, QUERIES, full);
            stages.advance();
            walk = next;
        }
    }
}

// As attention_backward_keys.
KERNEL(GROUP_THREADS, attention_wgmma_backward_keys, bf16* d_k, bf16* d_v, MAP q, MAP k, MAP v, MAP d_out,
       const float* log_sums, const float* row_sums, const int* tasks, const int* ranges, int items, int heads,
       int kv_heads, float scale) {
    bf16* keys = shared_tiles();
    bf16* values = keys + FIXED;
    bf16* queries = values + FIXED;                      // tiles of all stages
    bf16* d_outs = queries + STAGES * QUERIES * HEAD_DIM;            // the same
    float* numbers = (float*)(d_outs + STAGES * QUERIES * HEAD_DIM); // of each stage: log_sums, then row_sums
    Tile* tiles = (Tile*)(numbers + STAGES * 2 * QUERIES);
    Item* told_item = (Item*)(tiles + STAGES);
    Barrier* barriers = (Barrier*)(told_item + 1);
    Stages stages(barriers);
    Barrier *given = barriers + 2 * STAGES, *taken = given + 1; // keys and values
    if (threadIdx.x == 0) {
        stages.start(1 + 32);
        start_barrier(given, 1);
        start_barrier(taken, CONSUMERS);
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        GIVE_REGISTERS_BACK
        if (threadIdx.x == 0)
            copy_for_keys(keys, q, k, v, d_out, stages, given, taken, told_item, tiles, tasks, ranges, items, heads, kv_heads);
        else if (threadIdx.x / 32 == 1)
            gather_numbers(numbers, stages, log_sums, row_sums, tasks, ranges, items, heads, kv_heads);
        return;
    }
    TAKE_REGISTERS
    int first = threadIdx.x / 128 * 64 - 64, width = kv_heads * HEAD_DIM;
    float unit = scale * LOG2_E, one[2] = {1.0f, 1.0f}, factors[2] = {scale, scale};
    for (int parity = 0;; parity ^= 1) {
        wait_for(given, parity);
        Item item = *told_item;
        if (item.head < 0) return;
        int row = item.row + first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        float key_results[HEAD_DIM / 8][4], value_results[HEAD_DIM / 8][4], p[QUERIES / 8][4], d_s[QUERIES / 8][4];
        u32 weights[QUERIES / 16][4], d_weights[QUERIES / 16][4];
        stages.wait_until_full();
        begin_products();
        multiply_rows(p, keys, first, queries + stages.stage * QUERIES * HEAD_DIM);
        for (int adds = 0;; adds = 1) {
            Tile tile = tiles[stages.stage];
            const bf16* of_queries = queries + stages.stage * QUERIES * HEAD_DIM;
            const bf16* of_d_outs = d_outs + stages.stage * QUERIES * HEAD_DIM;
            const float* of_tile = numbers + stages.stage * 2 * QUERIES + threadIdx.x % 4 * 2;
            begin_products();
            multiply_rows(d_s, values, first, of_d_outs);
            wait_for_products_but<1>();
            are_results(p);
            hide_unseen(p, tile, row);
UNROLL
            for (int n = 0; n < QUERIES / 8; ++n)
UNROLL
                for (int i = 0; i < 4; ++i) p[n][i] = power_of_two(fmaf(p[n][i], unit, -of_tile[8 * n + i % 2]));
            round_results(weights, p);
            begin_products();
            multiply_columns(value_results, weights, of_d_outs, adds);
            wait_for_products_but<1>();
            are_results(d_s);
            if (tile.last) arrive(taken);
UNROLL
            for (int n = 0; n < QUERIES / 8; ++n)
UNROLL
                for (int i = 0; i < 4; ++i) d_s[n][i] = p[n][i] * (d_s[n][i] - of_tile[QUERIES + 8 * n + i % 2]);
            round_results(d_weights, d_s);
            begin_products();
            multiply_columns(key_results, d_weights, of_queries, adds);
            if (tile.last) break;
            // Scores of the next tile are made while this one's gradients are summed up.
            Stages next = stages;
            next.advance();
            next.wait_until_full();
            begin_products();
            multiply_rows(p, keys, first, queries + next.stage * QUERIES * HEAD_DIM);
            wait_for_products_but<1>();
            are_results(value_results);
            are_results(key_results);
            stages.free_and_advance();
        }
        wait_for_products_but<0>();
        are_results(value_results);
        are_results(key_results);
        stages.free_and_advance();
        store_results(d_k + item.head * HEAD_DIM, key_results, row, item.end, width, factors);
        store_results(d_v + item.head * HEAD_DIM, value_results, row, item.end, width, one);
    }
}
