// Attention of single query rows over keys and values in pages; writing into pages, and reading from them.
//
// The cache is f32 or bf16, like the queries, so that sampling sees what training sees.
//
// A page holds PAGE_ROWS rows of one layer's keys `[PAGE_ROWS, kv_heads head_dim]`, then as many of its values, at each
// layer; `cache` points at the layer in the first page, and pages are `page_len` elements apart.

#define PAGE_ROWS 16
#define SPLIT_PAGES 16
#define SPLIT_ROWS (PAGE_ROWS * SPLIT_PAGES)

// One block per row: keys and values go to row `slots[i] % PAGE_ROWS` of page `slots[i] / PAGE_ROWS`.
template <typename T>
__device__ __forceinline__ void write_row(T* cache, const T* k, const T* v, const int* slots, i64 page_len,
                                          int width) {
    int slot = slots[blockIdx.x];
    T* to = cache + (i64)(slot / PAGE_ROWS) * page_len + (i64)(slot % PAGE_ROWS) * width;
    const T* from_k = k + (i64)blockIdx.x * width;
    const T* from_v = v + (i64)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        to[c] = from_k[c];
        to[PAGE_ROWS * width + c] = from_v[c];
    }
}

KERNEL(256, write_pages_f32, float* cache, const float* k, const float* v, const int* slots, i64 page_len, int width) {
    write_row(cache, k, v, slots, page_len, width);
}

KERNEL(256, write_pages_bf16, bf16* cache, const bf16* k, const bf16* v, const int* slots, i64 page_len, int width) {
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

// One block per task and key/value head. A task is up to SPLIT_PAGES entries of `pages` (page, rows used) that
// query row `tasks[3 i]` sees: `tasks[3 i + 2]` entries from `tasks[3 i + 1]`. The split of a row's pages does not
// depend on other rows. Writes unnormalised outputs `[tasks, heads, head_dim]`, and the largest scaled score and the
// sum of exponentials `[tasks, heads, 2]`. Scores are in units of ln 2.
template <typename T>
__device__ __forceinline__ void attend(float* outs, float* sums, const T* q, const T* cache, const int* tasks,
                                       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim,
                                       float scale) {
    int group = heads / kv_heads, kv_head = blockIdx.y, width = kv_heads * head_dim;
    float* weights = DYNAMIC_SHARED;               // [group, SPLIT_ROWS]
    float* queries = weights + group * SPLIT_ROWS; // [group, head_dim]
    const int* task = tasks + (i64)blockIdx.x * 3;
    const int* entries = pages + (i64)task[1] * 2;
    int count = task[2], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    q += ((i64)task[0] * heads + (i64)kv_head * group) * head_dim;
    for (int i = threadIdx.x; i < group * head_dim; i += blockDim.x) queries[i] = widen(q[i]) * scale;
    __syncthreads();
    const T* head = cache + kv_head * head_dim;
    for (int slot = warp; slot < count * PAGE_ROWS; slot += 4) {
        int entry = slot / PAGE_ROWS, row = slot % PAGE_ROWS;
        bool used = row < entries[2 * entry + 1];
        const T* k = head + entries[2 * entry] * page_len + (i64)row * width;
        for (int g = 0; g < group; ++g) {
            float sum = 0.0f;
            if (used)
                for (int d = lane; d < head_dim; d += 32) sum = fmaf(queries[g * head_dim + d], widen(k[d]), sum);
            sum = warp_sum(sum);
            if (lane == 0) weights[g * SPLIT_ROWS + slot] = used ? sum : NEGATIVE_INFINITY;
        }
    }
    __syncthreads();
    for (int g = warp; g < group; g += 4) {
        float* w = weights + g * SPLIT_ROWS;
        float max = NEGATIVE_INFINITY, sum = 0.0f;
        for (int slot = lane; slot < count * PAGE_ROWS; slot += 32) max = fmaxf(max, w[slot]);
        max = warp_max(max);
        for (int slot = lane; slot < count * PAGE_ROWS; slot += 32) {
            w[slot] = exp2f(w[slot] - max);
            sum += w[slot];
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            float* to = sums + ((i64)blockIdx.x * heads + kv_head * group + g) * 2;
            to[0] = max;
            to[1] = sum;
        }
    }
    __syncthreads();
    float* out = outs + ((i64)blockIdx.x * heads + (i64)kv_head * group) * head_dim;
    for (int i = threadIdx.x; i < group * head_dim; i += blockDim.x) {
        int g = i / head_dim, d = i % head_dim;
        float sum = 0.0f;
        for (int entry = 0; entry < count; ++entry) {
            const T* v = head + entries[2 * entry] * page_len + (i64)PAGE_ROWS * width + d;
            const float* w = weights + g * SPLIT_ROWS + entry * PAGE_ROWS;
            int rows = entries[2 * entry + 1];
            for (int row = 0; row < rows; ++row) sum = fmaf(w[row], widen(v[(i64)row * width]), sum);
        }
        out[i] = sum;
    }
}

KERNEL(128, decode_partial_f32, float* outs, float* sums, const float* q, const float* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    attend(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}

KERNEL(128, decode_partial_bf16, float* outs, float* sums, const bf16* q, const bf16* cache, const int* tasks,
       const int* pages, i64 page_len, int heads, int kv_heads, int head_dim, float scale) {
    attend(outs, sums, q, cache, tasks, pages, page_len, heads, kv_heads, head_dim, scale);
}

// One block per query row and head: combines the row's tasks `firsts[row]..firsts[row + 1]`.
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
        narrow(out + ((i64)blockIdx.x * heads + head) * head_dim + d, x / sum);
    }
}

KERNEL(128, decode_combine_f32, float* out, const float* outs, const float* sums, const int* firsts, int heads,
       int head_dim) {
    combine(out, outs, sums, firsts, heads, head_dim);
}
KERNEL(128, decode_combine_bf16, bf16* out, const float* outs, const float* sums, const int* firsts, int heads,
       int head_dim) {
    combine(out, outs, sums, firsts, heads, head_dim);
}
