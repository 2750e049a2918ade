// Root-mean-square norms, and sums over rows.

// The sum over the `lanes` threads that share a group: one warp, or the whole block.
__device__ __forceinline__ float group_sum(float x, int lanes, float* shared) {
    return lanes == 32 ? warp_sum(x) : block_sum(x, shared);
}

// `lanes` threads walk over a group, each taking CHUNKS times four neighbouring columns in a step: all are read before
// anything waits for one of them.
#define EACH_STEP(first) for (int first = 4 * lane; first < end; first += CHUNKS * 4 * lanes)
#define EACH_CHUNK(j, c, first) \
    _Pragma("unroll") for (int j = 0, c = first; j < CHUNKS; ++j, c += 4 * lanes)

// y = (w + offset) x / sqrt(mean(x²) + eps) for each group of `width` columns, `lanes` (32 or 256) threads per group.
// With `more`, `total` becomes x + more, and y its norm.
template <int CHUNKS, typename T>
__device__ __forceinline__ void norm(T* y, T* total, float* inverse_rms, const T* x, const T* more, const float* weight,
                                     float offset, float eps, i64 groups, int width, int lanes) {
    __shared__ float shared[32];
    i64 group = (i64)blockIdx.x * (256 / lanes) + threadIdx.x / lanes;
    int lane = threadIdx.x % lanes;
    int end = group < groups ? width : 0;
    x += group * width;
    y += group * width;
    float sum = 0.0f;
    EACH_STEP(first) {
        float own[CHUNKS][4];
        EACH_CHUNK(j, c, first) load_four(own[j], x, c, end);
        if (more) {
            float added[CHUNKS][4];
            EACH_CHUNK(j, c, first) load_four(added[j], more + group * width, c, end);
            EACH_CHUNK(j, c, first) {
                for (int i = 0; i < 4; ++i) own[j][i] = rounded<T>(own[j][i] + added[j][i]);
                store_four(total + group * width, own[j], c, end);
            }
        }
        EACH_CHUNK(j, c, first)
            for (int i = 0; i < 4; ++i) sum = fmaf(own[j][i], own[j][i], sum);
    }
    if (more) x = total + group * width; // each thread reads what it has written
    sum = group_sum(sum, lanes, shared);
    float r = 1.0f / sqrtf(sum / (float)width + eps);
    EACH_STEP(first) {
        float own[CHUNKS][4], w[CHUNKS][4];
        EACH_CHUNK(j, c, first) {
            load_four(own[j], x, c, end);
            load_four(w[j], weight, c, end);
        }
        EACH_CHUNK(j, c, first) {
            for (int i = 0; i < 4; ++i) own[j][i] = (w[j][i] + offset) * (own[j][i] * r);
            store_four(y, own[j], c, end);
        }
    }
    if (end > 0 && lane == 0) inverse_rms[group] = r;
}

template <typename T>
__device__ __forceinline__ void norm_in_chunks(T* y, T* total, float* inverse_rms, const T* x, const T* more,
                                               const float* weight, float offset, float eps, i64 groups, int width,
                                               int lanes) {
    if (width <= 4 * lanes) norm<1>(y, total, inverse_rms, x, more, weight, offset, eps, groups, width, lanes);
    else norm<4>(y, total, inverse_rms, x, more, weight, offset, eps, groups, width, lanes);
}

KERNEL(256, norm_forward_f32, float* y, float* inverse_rms, const float* x, const float* weight, float offset,
       float eps, i64 groups, int width, int lanes) {
    wait_for_earlier_work();
    norm_in_chunks<float>(y, nullptr, inverse_rms, x, nullptr, weight, offset, eps, groups, width, lanes);
}
KERNEL(256, norm_forward_bf16, bf16* y, float* inverse_rms, const bf16* x, const float* weight, float offset,
       float eps, i64 groups, int width, int lanes) {
    wait_for_earlier_work();
    norm_in_chunks<bf16>(y, nullptr, inverse_rms, x, nullptr, weight, offset, eps, groups, width, lanes);
}

KERNEL(256, add_norm_f32, float* y, float* total, float* inverse_rms, const float* x, const float* more,
       const float* weight, float offset, float eps, i64 groups, int width, int lanes) {
    wait_for_earlier_work();
    norm_in_chunks(y, total, inverse_rms, x, more, weight, offset, eps, groups, width, lanes);
}
KERNEL(256, add_norm_bf16, bf16* y, bf16* total, float* inverse_rms, const bf16* x, const bf16* more,
       const float* weight, float offset, float eps, i64 groups, int width, int lanes) {
    wait_for_earlier_work();
    norm_in_chunks(y, total, inverse_rms, x, more, weight, offset, eps, groups, width, lanes);
}

// The same with a block of 256 threads per group, for few groups of at most 1024 columns: everything is read at once, and a
// warp adds up the squares in the order of `norm`.
template <typename T>
__device__ __forceinline__ void add_norm_by_blocks(T* y, T* total, float* inverse_rms, const T* x, const T* more,
                                                   const float* weight, float offset, float eps, int width) {
    __shared__ float all[1024];
    __shared__ float root;
    i64 start = (i64)blockIdx.x * width;
    int c = 4 * threadIdx.x;
    float own[4], added[4], w[4];
    load_four(own, x + start, c, width);
    load_four(added, more + start, c, width);
    load_four(w, weight, c, width);
    for (int i = 0; i < 4; ++i) all[c + i] = own[i] = rounded<T>(own[i] + added[i]);
    store_four(total + start, own, c, width);
    __syncthreads();
    if (threadIdx.x < 32) {
        float sum = 0.0f;
        for (int first = c; first < width; first += 128)
            for (int i = 0; i < 4; ++i) sum = fmaf(all[first + i], all[first + i], sum);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) inverse_rms[blockIdx.x] = root = 1.0f / sqrtf(sum / (float)width + eps);
    }
    __syncthreads();
    for (int i = 0; i < 4; ++i) own[i] = (w[i] + offset) * (own[i] * root);
    store_four(y + start, own, c, width);
}

KERNEL(256, add_norm_by_blocks_f32, float* y, float* total, float* inverse_rms, const float* x, const float* more,
       const float* weight, float offset, float eps, int width) {
    wait_for_earlier_work();
    add_norm_by_blocks(y, total, inverse_rms, x, more, weight, offset, eps, width);
}
KERNEL(256, add_norm_by_blocks_bf16, bf16* y, bf16* total, float* inverse_rms, const bf16* x, const bf16* more,
       const float* weight, float offset, float eps, int width) {
    wait_for_earlier_work();
    add_norm_by_blocks(y, total, inverse_rms, x, more, weight, offset, eps, width);
}

// `d`, the gradient of the output, becomes that of the input: r (w d) - x r³ Σ(w d x) / width, where w
// includes the offset.
template <int CHUNKS, typename T>
__device__ __forceinline__ void norm_gradient(T* d, const T* x, const float* inverse_rms, const float* weight,
                                              float offset, i64 groups, int width, int lanes) {
    __shared__ float shared[32];
    i64 group = (i64)blockIdx.x * (256 / lanes) + threadIdx.x / lanes;
    int lane = threadIdx.x % lanes;
    int end = group < groups ? width : 0;
    x += group * width;
    d += group * width;
    float sum = 0.0f;
    EACH_STEP(first) {
        float own[CHUNKS][4], dy[CHUNKS][4], w[4];
        EACH_CHUNK(j, c, first) {
            load_four(own[j], x, c, end);
            load_four(dy[j], d, c, end);
        }
        EACH_CHUNK(j, c, first) {
            load_four(w, weight, c, end);
            for (int i = 0; i < 4; ++i) sum = fmaf(dy[j][i] * (w[i] + offset), own[j][i], sum);
        }
    }
    sum = group_sum(sum, lanes, shared);
    float r = end > 0 ? inverse_rms[group] : 0.0f;
    float along = sum * r * r / (float)width;
    EACH_STEP(first) {
        float own[CHUNKS][4], dy[CHUNKS][4], w[4];
        EACH_CHUNK(j, c, first) {
            load_four(own[j], x, c, end);
            load_four(dy[j], d, c, end);
        }
        EACH_CHUNK(j, c, first) {
            load_four(w, weight, c, end);
            for (int i = 0; i < 4; ++i) dy[j][i] = r * fmaf(own[j][i], -along, dy[j][i] * (w[i] + offset));
            store_four(d, dy[j], c, end);
        }
    }
}

KERNEL(256, norm_backward_f32, float* d, const float* x, const float* inverse_rms, const float* weight, float offset,
       i64 groups, int width, int lanes) {
    if (width <= 4 * lanes) norm_gradient<1>(d, x, inverse_rms, weight, offset, groups, width, lanes);
    else norm_gradient<4>(d, x, inverse_rms, weight, offset, groups, width, lanes);
}
KERNEL(256, norm_backward_bf16, bf16* d, const bf16* x, const float* inverse_rms, const float* weight, float offset,
       i64 groups, int width, int lanes) {
    if (width <= 4 * lanes) norm_gradient<1>(d, x, inverse_rms, weight, offset, groups, width, lanes);
    else norm_gradient<4>(d, x, inverse_rms, weight, offset, groups, width, lanes);
}

// Sums over 8 threads of a column, in the first of them. Blocks are 32 columns by 8 threads.
__device__ __forceinline__ float column_sum(float x) {
    __shared__ float shared[8][32];
    shared[threadIdx.x / 32][threadIdx.x % 32] = x;
    __syncthreads();
    float sum = shared[0][threadIdx.x % 32];
    for (int i = 1; i < 8; ++i) sum += shared[i][threadIdx.x % 32];
    return sum;
}

// Row `blockIdx.y` of `partial`: Σ d x r over its groups, `each` of them; 32 columns per block.
template <typename T>
__device__ __forceinline__ void weight_gradient(float* partial, const T* d, const T* x, const float* inverse_rms,
                                                i64 groups, i64 each, int width) {
    int c = blockIdx.x * 32 + threadIdx.x % 32;
    i64 end = min(groups, ((i64)blockIdx.y + 1) * each);
    float sum = 0.0f;
    if (c < width)
        for (i64 g = blockIdx.y * each + threadIdx.x / 32; g < end; g += 8)
            sum = fmaf(widen(d[g * width + c]) * widen(x[g * width + c]), inverse_rms[g], sum);
    sum = column_sum(sum);
    if (c < width && threadIdx.x < 32) partial[(i64)blockIdx.y * width + c] = sum;
}

KERNEL(256, norm_weight_partial_f32, float* partial, const float* d, const float* x, const float* inverse_rms,
       i64 groups, i64 each, int width) {
    weight_gradient(partial, d, x, inverse_rms, groups, each, width);
}
KERNEL(256, norm_weight_partial_bf16, float* partial, const bf16* d, const bf16* x, const float* inverse_rms,
       i64 groups, i64 each, int width) {
    weight_gradient(partial, d, x, inverse_rms, groups, each, width);
}

// Row `blockIdx.y` of `partial`: Σ of its rows of d, `each` of them; 32 columns per block.
template <typename T>
__device__ __forceinline__ void row_sums(float* partial, const T* d, i64 rows, i64 each, int width) {
    int c = blockIdx.x * 32 + threadIdx.x % 32;
    i64 end = min(rows, ((i64)blockIdx.y + 1) * each);
    float sum = 0.0f;
    if (c < width)
        for (i64 row = blockIdx.y * each + threadIdx.x / 32; row < end; row += 8) sum += widen(d[row * width + c]);
    sum = column_sum(sum);
    if (c < width && threadIdx.x < 32) partial[(i64)blockIdx.y * width + c] = sum;
}

KERNEL(256, rows_partial_f32, float* partial, const float* d, i64 rows, i64 each, int width) {
    row_sums(partial, d, rows, each, width);
}
KERNEL(256, rows_partial_bf16, float* partial, const bf16* d, i64 rows, i64 each, int width) {
    row_sums(partial, d, rows, each, width);
}

// out += Σ of the rows of `partial`; 32 columns per block.
KERNEL(256, add_partials, float* out, const float* partial, int rows, int width) {
    int c = blockIdx.x * 32 + threadIdx.x % 32;
    float sum = 0.0f;
    if (c < width)
        for (int row = threadIdx.x / 32; row < rows; row += 8) sum += partial[(i64)row * width + c];
    sum = column_sum(sum);
    if (c < width && threadIdx.x < 32) out[c] += sum;
}

// One warp per row of `rows`: Σ a b.
template <typename T>
__device__ __forceinline__ void dot(float* out, const T* a, const T* b, i64 rows, int width) {
    i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32;
    float sum = 0.0f;
    a += row * width;
    b += row * width;
    if (row < rows)
        for (int c = threadIdx.x % 32; c < width; c += 32) sum = fmaf(widen(a[c]), widen(b[c]), sum);
    sum = warp_sum(sum);
    if (row < rows && threadIdx.x % 32 == 0) out[row] = sum;
}

KERNEL(256, dot_rows_f32, float* out, const float* a, const float* b, i64 rows, int width) {
    dot(out, a, b, rows, width);
}
KERNEL(256, dot_rows_bf16, float* out, const bf16* a, const bf16* b, i64 rows, int width) {
    dot(out, a, b, rows, width);
}
