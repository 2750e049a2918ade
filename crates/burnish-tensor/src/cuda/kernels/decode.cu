// Attention of single query rows over keys and values in pages; writing into pages, and reading from them; what a step does
// between its projections and its attention.
//
// The cache is f32 or bf16, like the queries, so that sampling sees what training sees.
//
// A page holds PAGE_ROWS rows of one layer's keys `[PAGE_ROWS, kv_heads head_dim]`, then as many of its values, at each
// layer; `cache` points at the layer in the first page, and pages are `page_len` elements apart.

#define PAGE_ROWS 16
#define SPLIT_PAGES 16
#define SPLIT_ROWS (PAGE_ROWS * SPLIT_PAGES)

// One block per row: keys and values go to row `slots[i] % PAGE_ROWS` of page `slots[i] / PAGE_ROWS`, or nowhere if the
// slot is negative.
template <typename T>
__device__ __forceinline__ void write_row(T* cache, const T* k, const T* v, const int* slots, i64 page_len,
                                          int width) {
    int slot = slots[blockIdx.x];
    if (slot < 0) return;
    T* to = cache + (i64)(slot / PAGE_ROWS) * page_len + (i64)(slot % PAGE_ROWS) * width;
    const T* from_k = k + (i64)blockIdx.x * width;
    const T* from_v = v + (i64)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        to[c] = from_k[c];
        to[PAGE_ROWS * width + c] = from_v[c];
    }
}

KERNEL(256, write_pages_f32, float* cache, const float* k, const float* v, const int* slots, i64 page_len, int width) {
    wait_for_earlier_work();
    write_row(cache, k, v, slots, page_len, width);
}

KERNEL(256, write_pages_bf16, bf16* cache, const bf16* k, const bf16* v, const int* slots, i64 page_len, int width) {
    wait_for_earlier_work();
    write_row(cache, k, v, slots, page_len, width);
}

// One block per row: the reverse of writing.
template <typename T>
__device__ __forceinline__ void read_row(T* k, T* v, const T* cache, const int* slots, i64 page_len, int width) {
    int slot = slots[blockIdx.x];
    const T* from = cache + (i64)(slot / PAGE_ROWS) * page_len + (i64)(slot % PAGE_ROWS) * width;
    T* to_k = k + (i64)blockIdx.x * width;
    T* to_v = v + (i64)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        to_k[c] = from[c];
        to_v[c] = from[PAGE_ROWS * width + c];
    }
}

KERNEL(256, read_pages_f32, float* k, float* v, const float* cache, const int* slots, i64 page_len, int width) {
    read_row(k, v, cache, slots, page_len, width);
}

KERNEL(256, read_pages_bf16, bf16* k, bf16* v, const bf16* cache, const int* slots, i64 page_len, int width) {
    read_row(k, v, cache, slots, page_len, width);
}

// A warp per head of a row's queries, keys and values, which are `q_stride` and `kv_stride` elements from one row to the
// next. Queries and keys are normed (unless the weights are null) and rotated as by norm.cu and rope.cu, bits included;
// queries go to `out` `[rows, heads, head_dim]`, keys and values into pages as by `write_pages`.
template <typename T>
__device__ __forceinline__ void place_heads(T* out, T* cache, const T* q, const T* k, const T* v, int q_stride,
                                            int kv_stride, const float* q_weight, const float* k_weight, float offset,
                                            float eps, const float* table, const int* positions, int pairs,
                                            const int* slots, i64 page_len, i64 rows, int heads, int kv_heads,
                                            int head_dim) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = heads + 2 * kv_heads, width = kv_heads * head_dim;
    i64 index = (i64)blockIdx.x * (blockDim.x / 32) + warp;
    if (index >= rows * each) return; // no barrier of the block follows
    i64 row = index / each;
    int head = (int)(index % each);
    const T* from = q + row * q_stride + head * head_dim;
    T* to = out + (row * heads + head) * head_dim;
    bool is_query = head < heads, is_value = head >= heads + kv_heads;
    if (!is_query) {
        int slot = slots[row];
        if (slot < 0) return;
        head -= heads + (is_value ? kv_heads : 0);
        from = (is_value ? v : k) + row * kv_stride + head * head_dim;
        to = cache + (i64)(slot / PAGE_ROWS) * page_len + (i64)(slot % PAGE_ROWS) * width + head * head_dim;
        if (is_value) to += PAGE_ROWS * width;
    }
    float* x = DYNAMIC_SHARED + warp * head_dim;
    const float* weight = is_query ? q_weight : k_weight;
    float own[4], sum = 0.0f;
    for (int c = 4 * lane; c < head_dim; c += 128) {
        load_four(own, from, c, head_dim);
        if (is_value) store_four(to, own, c, head_dim);
        for (int i = 0; i < 4; ++i) sum = fmaf(own[i], own[i], sum);
        store_four(x, own, c, head_dim);
    }
    if (is_value) return;
    if (weight) {
        float r = 1.0f / sqrtf(warp_sum(sum) / (float)head_dim + eps);
        for (int c = 4 * lane; c < head_dim; c += 128) {
            float w[4];
            load_four(w, weight, c, head_dim);
            load_four(own, x, c, head_dim);
            for (int i = 0; i < 4; ++i) own[i] = rounded<T>((w[i] + offset) * (own[i] * r));
            store_four(x, own, c, head_dim);
        }
    }
    __syncwarp();
    const float* angles = table + (i64)positions[row] * 2 * pairs;
    for (int pair = 4 * lane; pair < pairs; pair += 128) {
        float b[4], cosine[4], sine[4], turned[4];
        load_four(own, x, pair, pairs);
        load_four(b, x + pairs, pair, pairs);
        load_four(cosine, angles, pair, pairs);
        load_four(sine, angles + pairs, pair, pairs);
        for (int i = 0; i < 4; ++i) {
            turned[i] = own[i] * cosine[i] - b[i] * sine[i];
            b[i] = b[i] * cosine[i] + own[i] * sine[i];
        }
        store_four(to, turned, pair, pairs);
        store_four(to + pairs, b, pair, pairs);
    }
    for (int c = 2 * pairs + lane; c < head_dim; c += 32) narrow(to + c, x[c]);
}

KERNEL(256, place_heads_f32, float* out, float* cache, const float* q, const float* k, const float* v, int q_stride,
       int kv_stride, const float* q_weight, const float* k_weight, float offset, float eps, const float* table,
       const int* positions, int pairs, const int* slots, i64 page_len, i64 rows, int heads, int kv_heads,
       int head_dim) {
    wait_for_earlier_work();
    place_heads(out, cache, q, k, v, q_stride, kv_stride, q_weight, k_weight, offset, eps, table, positions, pairs, slots,
                page_len, rows, heads, kv_heads, head_dim);
}
KERNEL(256, place_heads_bf16, bf16* out, bf16* cache, const bf16* q, const bf16* k, const bf16* v, int q_stride,
       int kv_stride, const float* q_weight, const float* k_weight, float offset, float eps, const float* table,
       const int* positions, int pairs, const int* slots, i64 page_len, i64 rows, int heads, int kv_heads,
       int head_dim) {
    wait_for_earlier_work();
    place_heads(out, cache, q, k, v, q_stride, kv_stride, q_weight, k_weight, offset, eps, table, positions, pairs, slots,
                page_len, rows, heads, kv_heads, head_dim);
}

#define ATTEND_WARPS 4
#define IN_FLIGHT 4 // rows that a lane reads before it computes with them

// A task's rows, as a warp walks over them: `lanes` lanes share a row, a chunk each, so that a warp has `32 / lanes` rows
// at once and takes IN_FLIGHT times that many in a step. Slot `i` is row `i % PAGE_ROWS` of the task's page `i / PAGE_ROWS`.
template <typename T>
struct SeenRows {
    const T* pages; // from the first column on
    const int* entries; // in shared memory
    i64 page_len;
    int slots, width, lanes;

    __device__ __forceinline__ int step() const { return 32 / lanes * IN_FLIGHT; }
    __device__ __forceinline__ int slot(int first, int i) const {
        return first + i * (32 / lanes) + threadIdx.x % 32 / lanes;
    }
    // The row in this slot, or null if the query sees none there.
    __device__ __forceinline__ const T* row(int slot) const {
        if (slot >= slots) return nullptr;
        const int* entry = entries + slot / PAGE_ROWS * 2;
        int row = slot % PAGE_ROWS;
        return row < entry[1] ? pages + entry[0] * page_len + (i64)row * width : nullptr;
    }
};

template <int PER, typename T>
__device__ __forceinline__ void load_rows(Chunk<PER, T> x[IN_FLIGHT], const T* const rows[IN_FLIGHT], int column) {
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; ++i) {
        if (rows[i]) {
            x[i] = *(const Chunk<PER, T>*)(rows[i] + column);
        } else {
#pragma unroll
            for (int e = 0; e < PER; ++e) x[i].x[e] = 0; // what lies there may be NaN
        }
    }
}

// Scores of `heads` (at most GROUP) queries `[heads, head_dim]` with all rows, to `weights [heads, SPLIT_ROWS]`.
template <int PER, int GROUP, typename T>
__device__ __forceinline__ void score_seen(float* weights, const float* queries, const SeenRows<T>& keys,
                                           int heads, int head_dim) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % keys.lanes, chunks = head_dim / PER;
    for (int first = warp * keys.step(); first < keys.slots; first += ATTEND_WARPS * keys.step()) {
        const T* rows[IN_FLIGHT];
        float scores[GROUP][IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i) {
            rows[i] = keys.row(keys.slot(first, i));
#pragma unroll
            for (int g = 0; g < GROUP; ++g) scores[g][i] = 0.0f;
        }
        for (int c = lane; c < chunks; c += keys.lanes) {
            Chunk<PER, T> x[IN_FLIGHT];
            load_rows<PER>(x, rows, c * PER);
#pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                if (g >= heads) continue;
                Chunk<PER, float> q = *(const Chunk<PER, float>*)(queries + g * head_dim + c * PER);
#pragma unroll
                for (int i = 0; i < IN_FLIGHT; ++i)
#pragma unroll
                    for (int e = 0; e < PER; ++e) scores[g][i] = fmaf(q.x[e], widen(x[i].x[e]), scores[g][i]);
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            if (g >= heads) continue;
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i) {
                float score = scores[g][i];
                for (int offset = keys.lanes / 2; offset > 0; offset /= 2)
                    score += __shfl_xor_sync(FULL_WARP, score, offset);
                int slot = keys.slot(first, i);
                if (lane == 0 && slot < keys.slots)
                    weights[g * SPLIT_ROWS + slot] = rows[i] ? score : NEGATIVE_INFINITY;
            }
        }
    }
}

// Scores become exponentials: `sums [heads, 2]` gets each head's largest score and the sum.
__device__ __forceinline__ void exponentiate(float* weights, float* sums, int heads, int slots) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int g = warp; g < heads; g += ATTEND_WARPS) {
        float* w = weights + g * SPLIT_ROWS;
        float max = NEGATIVE_INFINITY, sum = 0.0f;
        for (int slot = lane; slot < slots; slot += 32) max = fmaxf(max, w[slot]);
        max = warp_max(max);
        for (int slot = lane; slot < slots; slot += 32) {
            w[slot] = exp2f(w[slot] - max);
            sum += w[slot];
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            sums[2 * g] = max;
            sums[2 * g + 1] = sum;
        }
    }
}

// Each warp's share of the sums of weighted rows: `parts [ATTEND_WARPS, heads, head_dim]`.
template <int PER, int GROUP, typename T>
__device__ __forceinline__ void weigh_seen(float* parts, const float* weights, const SeenRows<T>& values,
                                           int heads, int head_dim) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunks = head_dim / PER;
    for (int chunk = 0; chunk < chunks; chunk += values.lanes) {
        int c = chunk + lane % values.lanes;
        float sums[GROUP][PER];
#pragma unroll
        for (int g = 0; g < GROUP; ++g)
#pragma unroll
            for (int e = 0; e < PER; ++e) sums[g][e] = 0.0f;
        for (int first = warp * values.step(); first < values.slots; first += ATTEND_WARPS * values.step()) {
            const T* rows[IN_FLIGHT];
#pragma unroll
            for (int i = 0; i < IN_FLIGHT; ++i) rows[i] = c < chunks ? values.row(values.slot(first, i)) : nullptr;
            Chunk<PER, T> x[IN_FLIGHT];
            load_rows<PER>(x, rows, c * PER);
#pragma unroll
            for (int g = 0; g < GROUP; ++g) {
                if (g >= heads) continue;
#pragma unroll
                for (int i = 0; i < IN_FLIGHT; ++i) {
                    float weight = rows[i] ? weights[g * SPLIT_ROWS + values.slot(first, i)] : 0.0f;
#pragma unroll
                    for (int e = 0; e < PER; ++e) sums[g][e] = fmaf(weight, widen(x[i].x[e]), sums[g][e]);
                }
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            if (g >= heads) continue;
#pragma unroll
            for (int e = 0; e < PER; ++e) {
                float sum = sums[g][e];
                for (int offset = values.lanes; offset < 32; offset *= 2) sum += __shfl_xor_sync(FULL_WARP, sum, offset);
                if (lane < values.lanes && c < chunks) parts[(warp * heads + g) * head_dim + c * PER + e] = sum;
            }
        }
    }
}

// One block per task and key/value head. A task is up to SPLIT_PAGES entries of `pages` (page, rows used) that
// query row `tasks[2 i]` sees: `tasks[2 i + 1]` entries from entry `i SPLIT_PAGES` on. The split of a row's pages does not
// depend on other rows. Writes unnormalised outputs `[tasks, heads, head_dim]`, and the largest scaled score and the
// sum of exponentials `[tasks, heads, 2]`. Scores are in units of ln 2. PER divides `head_dim`; GROUP heads are taken at
// a time.
template <int PER, int GROUP, typename T>
__device__ __forceinline__ void attend(float* outs, float* sums, const T* q, const T* cache, const int* tasks,
                                       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim,
                                       float scale) {
    int group = heads / kv_heads, kv_head = blockIdx.y, width = kv_heads * head_dim, chunks = head_dim / PER;
    float* weights = DYNAMIC_SHARED;               // [GROUP, SPLIT_ROWS]
    float* queries = weights + GROUP * SPLIT_ROWS; // [GROUP, head_dim]
    float* parts = queries + GROUP * head_dim;     // [ATTEND_WARPS, GROUP, head_dim]
    __shared__ int entries[2 * SPLIT_PAGES];
    int row = tasks[2 * blockIdx.x], count = tasks[2 * blockIdx.x + 1];
    if (count == 0) return; // a captured step has room for more tasks
    if (threadIdx.x < 2 * count) entries[threadIdx.x] = pages[(i64)blockIdx.x * 2 * SPLIT_PAGES + threadIdx.x];
    SeenRows<T> keys;
    keys.pages = cache + kv_head * head_dim;
    keys.entries = entries;
    keys.page_len = page_len;
    keys.slots = count * PAGE_ROWS;
    keys.width = width;
    keys.lanes = 32;
    while (keys.lanes / 2 >= chunks) keys.lanes /= 2;
    SeenRows<T> values = keys;
    values.pages += (i64)PAGE_ROWS * width;
    for (int first = 0; first < group; first += GROUP) {
        int own = min(GROUP, group - first), head = kv_head * group + first;
        const T* of = q + ((i64)row * heads + head) * head_dim;
        for (int i = threadIdx.x; i < own * head_dim; i += blockDim.x) queries[i] = widen(of[i]) * scale;
        __syncthreads();
        score_seen<PER, GROUP>(weights, queries, keys, own, head_dim);
        __syncthreads();
        exponentiate(weights, sums + ((i64)blockIdx.x * heads + head) * 2, own, keys.slots);
        __syncthreads();
        weigh_seen<PER, GROUP>(parts, weights, values, own, head_dim);
        __syncthreads();
        float* out = outs + ((i64)blockIdx.x * heads + head) * head_dim;
        for (int i = threadIdx.x; i < own * head_dim; i += blockDim.x) {
            float sum = 0.0f;
            for (int warp = 0; warp < ATTEND_WARPS; ++warp) sum += parts[warp * own * head_dim + i];
            out[i] = sum;
        }
        // The next round writes queries and weights only, which nobody reads any more, before its barrier.
    }
}

// In chunks of 16 bytes where rows have whole ones.
template <int GROUP, typename T>
__device__ __forceinline__ void attend_in_chunks(float* outs, float* sums, const T* q, const T* cache, const int* tasks,
                                                 const int* pages, i64 page_len, int heads, int kv_heads, int head_dim,
                                                 float scale) {
    if (head_dim % (16 / (int)sizeof(T)) == 0)
        attend<16 / sizeof(T), GROUP>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
    else
        attend<1, GROUP>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}

// The kernels of small groups need fewer registers.
KERNEL(128, decode_pairs_f32, float* outs, float* sums, const float* q, const float* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    wait_for_earlier_work();
    attend_in_chunks<2>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}
KERNEL(128, decode_pairs_bf16, float* outs, float* sums, const bf16* q, const bf16* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    wait_for_earlier_work();
    attend_in_chunks<2>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}
KERNEL(128, decode_eights_f32, float* outs, float* sums, const float* q, const float* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    wait_for_earlier_work();
    attend_in_chunks<8>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}
KERNEL(128, decode_eights_bf16, float* outs, float* sums, const bf16* q, const bf16* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    wait_for_earlier_work();
    attend_in_chunks<8>(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}

// One block per query row and head: combines the row's tasks `firsts[row]..firsts[row + 1]`; zeros if it has none.
template <typename T>
__device__ __forceinline__ void combine(T* out, const float* outs, const float* sums, const int* firsts, int heads,
                                        int head_dim) {
    int first = firsts[blockIdx.x], end = firsts[blockIdx.x + 1], head = blockIdx.y;
    float max = NEGATIVE_INFINITY, sum = 0.0f;
    for (int task = first; task < end; ++task) max = fmaxf(max, sums[((i64)task * heads + head) * 2]);
    for (int task = first; task < end; ++task) {
        const float* of = sums + ((i64)task * heads + head) * 2;
        sum = fmaf(exp2f(of[0] - max), of[1], sum);
    }
    for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
        float x = 0.0f;
        for (int task = first; task < end; ++task) {
            float weight = exp2f(sums[((i64)task * heads + head) * 2] - max);
            x = fmaf(weight, outs[((i64)task * heads + head) * head_dim + d], x);
        }
        narrow(out + ((i64)blockIdx.x * heads + head) * head_dim + d, first < end ? x / sum : 0.0f);
    }
}

KERNEL(128, decode_combine_f32, float* out, const float* outs, const float* sums, const int* firsts, int heads,
       int head_dim) {
    wait_for_earlier_work();
    combine(out, outs, sums, firsts, heads, head_dim);
}
KERNEL(128, decode_combine_bf16, bf16* out, const float* outs, const float* sums, const int* firsts, int heads,
       int head_dim) {
    wait_for_earlier_work();
    combine(out, outs, sums, firsts, heads, head_dim);
}
