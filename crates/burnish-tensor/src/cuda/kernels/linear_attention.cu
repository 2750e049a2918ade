// Gates, unit heads, decays and short convolutions of linear attention, and rows that are put into a matrix.

#define EACH_ELEMENT(i, n) for (i64 i = GRID_FIRST; i < (n); i += GRID_STEP)

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// σ(x); x ⊙ σ(gate); x ⊙ √σ(gate).
enum Gate { PLAIN, FULL, ROOT };

template <int GATE, typename T>
__device__ __forceinline__ void gate_of(T* out, const T* x, const T* gate, i64 n) {
    EACH_ELEMENT(i, n) {
        float s = sigmoid(widen(gate[i]));
        if (GATE == ROOT) s = sqrtf(s);
        narrow(out + i, GATE == PLAIN ? s : widen(x[i]) * s);
    }
}

KERNEL(256, sigmoid_f32, float* out, const float* x, i64 n) { gate_of<PLAIN>(out, x, x, n); }
KERNEL(256, sigmoid_bf16, bf16* out, const bf16* x, i64 n) { gate_of<PLAIN>(out, x, x, n); }
KERNEL(256, sigmoid_gate_f32, float* out, const float* x, const float* gate, i64 n) { gate_of<FULL>(out, x, gate, n); }
KERNEL(256, sigmoid_gate_bf16, bf16* out, const bf16* x, const bf16* gate, i64 n) { gate_of<FULL>(out, x, gate, n); }
KERNEL(256, root_gate_f32, float* out, const float* x, const float* gate, i64 n) { gate_of<ROOT>(out, x, gate, n); }
KERNEL(256, root_gate_bf16, bf16* out, const bf16* x, const bf16* gate, i64 n) { gate_of<ROOT>(out, x, gate, n); }

template <int GATE, typename T>
__device__ __forceinline__ void gate_gradients(T* d_x, T* d_gate, const T* x, const T* gate, const T* d, i64 n) {
    EACH_ELEMENT(i, n) {
        float s = sigmoid(widen(gate[i])), dy = widen(d[i]), own = GATE == PLAIN ? 1.0f : widen(x[i]);
        float factor = GATE == ROOT ? sqrtf(s) : s;
        if (GATE != PLAIN) narrow(d_x + i, dy * factor);
        narrow(d_gate + i, dy * own * factor * (1.0f - s) * (GATE == ROOT ? 0.5f : 1.0f));
    }
}

KERNEL(256, sigmoid_backward_f32, float* d_x, const float* x, const float* d, i64 n) {
    gate_gradients<PLAIN>((float*)nullptr, d_x, x, x, d, n);
}
KERNEL(256, sigmoid_backward_bf16, bf16* d_x, const bf16* x, const bf16* d, i64 n) {
    gate_gradients<PLAIN>((bf16*)nullptr, d_x, x, x, d, n);
}
KERNEL(256, sigmoid_gate_backward_f32, float* d_x, float* d_gate, const float* x, const float* gate, const float* d,
       i64 n) {
    gate_gradients<FULL>(d_x, d_gate, x, gate, d, n);
}
KERNEL(256, sigmoid_gate_backward_bf16, bf16* d_x, bf16* d_gate, const bf16* x, const bf16* gate, const bf16* d, i64 n) {
    gate_gradients<FULL>(d_x, d_gate, x, gate, d, n);
}
KERNEL(256, root_gate_backward_f32, float* d_x, float* d_gate, const float* x, const float* gate, const float* d,
       i64 n) {
    gate_gradients<ROOT>(d_x, d_gate, x, gate, d, n);
}
KERNEL(256, root_gate_backward_bf16, bf16* d_x, bf16* d_gate, const bf16* x, const bf16* gate, const bf16* d, i64 n) {
    gate_gradients<ROOT>(d_x, d_gate, x, gate, d, n);
}

// One block per period: its columns from `start` on, `width` of them.
template <typename T>
__device__ __forceinline__ void pick(T* out, const T* x, int period, int start, int width) {
    const T* from = x + (i64)blockIdx.x * period + start;
    T* to = out + (i64)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) to[c] = from[c];
}

KERNEL(256, columns_f32, float* out, const float* x, int period, int start, int width) {
    pick(out, x, period, start, width);
}
KERNEL(256, columns_bf16, bf16* out, const bf16* x, int period, int start, int width) {
    pick(out, x, period, start, width);
}

// Adds `d` to those columns of `d_x`.
template <typename T>
__device__ __forceinline__ void add_picked(T* d_x, const T* d, int period, int start, int width) {
    T* to = d_x + (i64)blockIdx.x * period + start;
    const T* from = d + (i64)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) narrow(to + c, widen(to[c]) + widen(from[c]));
}

KERNEL(256, add_columns_f32, float* d_x, const float* d, int period, int start, int width) {
    add_picked(d_x, d, period, start, width);
}
KERNEL(256, add_columns_bf16, bf16* d_x, const bf16* d, int period, int start, int width) {
    add_picked(d_x, d, period, start, width);
}

// One block per row: row `from[row]` of `put`, or that of `x` where it is negative. Without `put`, zeros are put.
template <typename T>
__device__ __forceinline__ void put_row(T* out, const T* x, const T* put, const int* from, int cols) {
    i64 own = (i64)blockIdx.x * cols;
    int at = from[blockIdx.x];
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        if (at < 0) out[own + c] = x[own + c];
        else if (put) out[own + c] = put[(i64)at * cols + c];
        else narrow(out + own + c, 0.0f);
    }
}

KERNEL(256, put_rows_f32, float* out, const float* x, const float* put, const int* from, int cols) {
    put_row(out, x, put, from, cols);
}
KERNEL(256, put_rows_bf16, bf16* out, const bf16* x, const bf16* put, const int* from, int cols) {
    put_row(out, x, put, from, cols);
}

// One warp per head: scale · x / sqrt(Σ x² + 1e-6).
template <typename T>
__device__ __forceinline__ void unit_head(T* y, const T* x, i64 heads, int head_dim, float scale) {
    i64 head = (i64)blockIdx.x * 8 + threadIdx.x / 32;
    int lane = threadIdx.x % 32, end = head < heads ? head_dim : 0;
    x += head * head_dim;
    y += head * head_dim;
    float sum = 0.0f;
    for (int c = lane; c < end; c += 32) sum = fmaf(widen(x[c]), widen(x[c]), sum);
    float factor = scale / sqrtf(warp_sum(sum) + 1e-6f);
    for (int c = lane; c < end; c += 32) narrow(y + c, factor * widen(x[c]));
}

KERNEL(256, unit_heads_f32, float* y, const float* x, i64 heads, int head_dim, float scale) {
    unit_head(y, x, heads, head_dim, scale);
}
KERNEL(256, unit_heads_bf16, bf16* y, const bf16* x, i64 heads, int head_dim, float scale) {
    unit_head(y, x, heads, head_dim, scale);
}

// With r = 1 / sqrt(Σ x² + 1e-6): d_x = scale r (d - x r² Σ(d ⊙ x)).
template <typename T>
__device__ __forceinline__ void unit_head_gradient(T* d_x, const T* x, const T* d, i64 heads, int head_dim,
                                                   float scale) {
    i64 head = (i64)blockIdx.x * 8 + threadIdx.x / 32;
    int lane = threadIdx.x % 32, end = head < heads ? head_dim : 0;
    x += head * head_dim;
    d += head * head_dim;
    d_x += head * head_dim;
    float sum = 0.0f, along = 0.0f;
    for (int c = lane; c < end; c += 32) {
        sum = fmaf(widen(x[c]), widen(x[c]), sum);
        along = fmaf(widen(d[c]), widen(x[c]), along);
    }
    float r = 1.0f / sqrtf(warp_sum(sum) + 1e-6f);
    along = warp_sum(along) * r * r;
    for (int c = lane; c < end; c += 32) narrow(d_x + c, scale * r * fmaf(widen(x[c]), -along, widen(d[c])));
}

KERNEL(256, unit_heads_backward_f32, float* d_x, const float* x, const float* d, i64 heads, int head_dim, float scale) {
    unit_head_gradient(d_x, x, d, heads, head_dim, scale);
}
KERNEL(256, unit_heads_backward_bf16, bf16* d_x, const bf16* x, const bf16* d, i64 heads, int head_dim, float scale) {
    unit_head_gradient(d_x, x, d, heads, head_dim, scale);
}

// log(1 + e^x), which is x to the last digit above 20.
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// One block per row: -exp(a_log) softplus(x + dt_bias). A head has `channels` columns.
template <typename T>
__device__ __forceinline__ void decay(float* out, const T* x, const float* a_log, const float* dt_bias, int cols,
                                      int channels) {
    i64 row = (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[row + c] = -expf(a_log[c / channels]) * softplus(widen(x[row + c]) + dt_bias[c]);
}

KERNEL(256, log_decay_f32, float* out, const float* x, const float* a_log, const float* dt_bias, int cols,
       int channels) {
    decay(out, x, a_log, dt_bias, cols, channels);
}
KERNEL(256, log_decay_bf16, float* out, const bf16* x, const float* a_log, const float* dt_bias, int cols,
       int channels) {
    decay(out, x, a_log, dt_bias, cols, channels);
}

// The gradient of x, and what each element adds to that of a_log: d times the result.
template <typename T>
__device__ __forceinline__ void decay_gradient(float* d_x, float* d_a, const T* x, const float* a_log,
                                               const float* dt_bias, const float* d, int cols, int channels) {
    i64 row = (i64)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float rate = -expf(a_log[c / channels]), z = widen(x[row + c]) + dt_bias[c], dy = d[row + c];
        d_x[row + c] = dy * rate * sigmoid(z);
        d_a[row + c] = dy * rate * softplus(z);
    }
}

KERNEL(256, log_decay_backward_f32, float* d_x, float* d_a, const float* x, const float* a_log, const float* dt_bias,
       const float* d, int cols, int channels) {
    decay_gradient(d_x, d_a, x, a_log, dt_bias, d, cols, channels);
}
KERNEL(256, log_decay_backward_bf16, float* d_x, float* d_a, const bf16* x, const float* a_log, const float* dt_bias,
       const float* d, int cols, int channels) {
    decay_gradient(d_x, d_a, x, a_log, dt_bias, d, cols, channels);
}

// out += Σ over neighbouring groups of `each` elements.
KERNEL(256, add_neighbours, float* out, const float* x, int groups, int each) {
    EACH_ELEMENT(group, groups) {
        float sum = 0.0f;
        for (int i = 0; i < each; ++i) sum += x[group * each + i];
        out[group] += sum;
    }
}

// Short convolutions. A thread has four columns, and reads `CONV_ROWS` rows and those near them at once: in a sequence,
// the rows before a row are its past. Rows that branches go on from are read one by one.
#define CONV_ROWS 4
#define CONV_BATCHES 8 // of rows of a block, as in ops/short_conv.rs
#define CONV_TAPS 4 // whose weights are kept in registers
#define CONV_COLUMN (4 * (int)(blockIdx.y * 128 + threadIdx.x))
#define EACH_CONV_BATCH(first, rows)                                                              \
    for (i64 first = (i64)blockIdx.x * (CONV_ROWS * CONV_BATCHES), end = first + CONV_ROWS * CONV_BATCHES; \
         first < end && first < (rows); first += CONV_ROWS)
#define UNROLLED(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)

// Four columns of a matrix. WHOLE: they are there, and have one access.
template <bool WHOLE, typename T>
struct Columns {
    const T* x;
    i64 rows;
    int c, cols;

    __device__ __forceinline__ Chunk<4, T> row(i64 row) const {
        Chunk<4, T> own = {};
        if (row < 0 || row >= rows) return own;
        const T* from = x + row * cols + c;
        if (WHOLE) return *(const Chunk<4, T>*)from;
        UNROLLED(i, 4) if (c + i < cols) own.x[i] = from[i];
        return own;
    }
};

// Rows from `first` on.
template <int N, bool WHOLE, typename T>
__device__ __forceinline__ void read_rows(Chunk<4, T> (&to)[N], const Columns<WHOLE, T>& x, i64 first) {
    UNROLLED(i, N) to[i] = x.row(first + i);
}

template <typename T>
__device__ __forceinline__ bool is_whole(const T* x, int cols) {
    return cols % 4 == 0 && (u64)x % sizeof(Chunk<4, T>) == 0;
}

// Of four columns, the weights of rows `back` steps behind.
struct ConvWeights {
    const float* at;
    int c, cols, taps;
    float held[CONV_TAPS][4];

    __device__ __forceinline__ ConvWeights(const float* weight, int c, int cols, int taps)
        : at(weight), c(c), cols(cols), taps(taps) {
        UNROLLED(i, CONV_TAPS) read(held[i], i);
    }
    __device__ __forceinline__ void read(float w[4], int back) const {
        UNROLLED(i, 4) w[i] = back < taps && c + i < cols ? at[(i64)(c + i) * taps + taps - 1 - back] : 0.0f;
    }
    template <typename T>
    __device__ __forceinline__ static void add(float z[4], const float w[4], const Chunk<4, T>& own) {
        UNROLLED(i, 4) z[i] = fmaf(widen(own.x[i]), w[i], z[i]);
    }
    // z += w[back] ⊙ x[from].
    template <bool WHOLE, typename T>
    __device__ __forceinline__ void add_far(float z[4], int back, const Columns<WHOLE, T>& x, i64 from) const {
        float w[4];
        read(w, back);
        add(z, w, x.row(from));
    }
};

// The sums of a short convolution before SiLU, of four columns of `row`, which is `near[i + CONV_TAPS - 1]`. Row
// `pasts[row · (taps - 1) + back - 1]` of x lies `back` steps before the row; it is negative before the beginning of a
// sequence.
template <int N, bool WHOLE, typename T>
__device__ __forceinline__ void conv_sums(float z[4], const Chunk<4, T> (&near)[N], int i, const Columns<WHOLE, T>& x,
                                          const ConvWeights& w, const int* pasts, i64 row) {
    pasts += row * (w.taps - 1) - 1;
    int far = 0;
    UNROLLED(k, 4) z[k] = 0.0f;
    UNROLLED(back, CONV_TAPS) {
        if (back >= w.taps) continue;
        if (back == 0 || pasts[back] == row - back && row >= back) w.add(z, w.held[back], near[i + CONV_TAPS - 1 - back]);
        else far |= pasts[back] >= 0 ? 1 << back : 0;
    }
    if (far == 0 && w.taps <= CONV_TAPS) return;
#pragma unroll 1
    for (int back = 1; back < w.taps; ++back)
        if (back < CONV_TAPS ? far >> back & 1 : pasts[back] >= 0) w.add_far(z, back, x, pasts[back]);
}

template <bool WHOLE, typename T>
__device__ __forceinline__ void convolve_columns(T* y, Columns<WHOLE, T> x, const float* weight, const int* pasts,
                                                 int taps) {
    ConvWeights w(weight, x.c, x.cols, taps);
    EACH_CONV_BATCH(first, x.rows) {
        Chunk<4, T> near[CONV_ROWS + CONV_TAPS - 1];
        read_rows(near, x, first - (CONV_TAPS - 1));
        UNROLLED(i, CONV_ROWS) {
            if (first + i >= x.rows) break;
            float z[4];
            conv_sums(z, near, i, x, w, pasts, first + i);
            UNROLLED(k, 4) z[k] *= sigmoid(z[k]);
            store_four(y + (first + i) * x.cols, z, x.c, x.cols);
        }
    }
}

template <typename T>
__device__ __forceinline__ void convolve(T* y, const T* x, const float* weight, const int* pasts, i64 rows, int cols,
                                         int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    if (is_whole(x, cols)) convolve_columns(y, Columns<true, T>{x, rows, c, cols}, weight, pasts, taps);
    else convolve_columns(y, Columns<false, T>{x, rows, c, cols}, weight, pasts, taps);
}

KERNEL(128, short_conv_f32, float* y, const float* x, const float* weight, const int* pasts, i64 rows, int cols,
       int taps) {
    convolve(y, x, weight, pasts, rows, cols, taps);
}
KERNEL(128, short_conv_bf16, bf16* y, const bf16* x, const float* weight, const int* pasts, i64 rows, int cols,
       int taps) {
    convolve(y, x, weight, pasts, rows, cols, taps);
}

// The gradient of the sums before SiLU.
template <bool WHOLE, typename T>
__device__ __forceinline__ void sum_gradient_columns(T* e, Columns<WHOLE, T> x, const float* weight, const int* pasts,
                                                     Columns<WHOLE, T> d, int taps) {
    ConvWeights w(weight, x.c, x.cols, taps);
    EACH_CONV_BATCH(first, x.rows) {
        Chunk<4, T> near[CONV_ROWS + CONV_TAPS - 1], dy[CONV_ROWS];
        read_rows(near, x, first - (CONV_TAPS - 1));
        read_rows(dy, d, first);
        UNROLLED(i, CONV_ROWS) {
            if (first + i >= x.rows) break;
            float z[4];
            conv_sums(z, near, i, x, w, pasts, first + i);
            UNROLLED(k, 4) {
                float s = sigmoid(z[k]);
                z[k] = widen(dy[i].x[k]) * s * fmaf(1.0f - s, z[k], 1.0f);
            }
            store_four(e + (first + i) * x.cols, z, x.c, x.cols);
        }
    }
}

template <typename T>
__device__ __forceinline__ void conv_sum_gradient(T* e, const T* x, const float* weight, const int* pasts, const T* d,
                                                  i64 rows, int cols, int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    if (is_whole(x, cols) && is_whole(d, cols))
        sum_gradient_columns(e, Columns<true, T>{x, rows, c, cols}, weight, pasts, Columns<true, T>{d, rows, c, cols}, taps);
    else
        sum_gradient_columns(e, Columns<false, T>{x, rows, c, cols}, weight, pasts, Columns<false, T>{d, rows, c, cols},
                             taps);
}

KERNEL(128, short_conv_sums_f32, float* e, const float* x, const float* weight, const int* pasts, const float* d,
       i64 rows, int cols, int taps) {
    conv_sum_gradient(e, x, weight, pasts, d, rows, cols, taps);
}
KERNEL(128, short_conv_sums_bf16, bf16* e, const bf16* x, const float* weight, const int* pasts, const bf16* d,
       i64 rows, int cols, int taps) {
    conv_sum_gradient(e, x, weight, pasts, d, rows, cols, taps);
}

// d_x of a row: from its own sums, and from those of the pairs (row, steps behind) at `first[row]..first[row + 1]` of
// `nexts`.
template <bool WHOLE, typename T>
__device__ __forceinline__ void input_gradient_columns(T* d_x, Columns<WHOLE, T> e, const float* weight,
                                                       const int* first_next, const int* nexts, int taps) {
    ConvWeights w(weight, e.c, e.cols, taps);
    EACH_CONV_BATCH(first, e.rows) {
        Chunk<4, T> near[CONV_ROWS + CONV_TAPS - 1];
        read_rows(near, e, first);
        UNROLLED(i, CONV_ROWS) {
            i64 row = first + i;
            if (row >= e.rows) break;
            float sum[4] = {};
            w.add(sum, w.held[0], near[i]);
            int at = first_next[row], end_next = first_next[row + 1];
            UNROLLED(back, CONV_TAPS) {
                if (back == 0 || at >= end_next || nexts[2 * at] != row + back || nexts[2 * at + 1] != back) continue;
                w.add(sum, w.held[back], near[i + back]);
                ++at;
            }
#pragma unroll 1
            for (; at < end_next; ++at) w.add_far(sum, nexts[2 * at + 1], e, nexts[2 * at]);
            store_four(d_x + row * e.cols, sum, e.c, e.cols);
        }
    }
}

template <typename T>
__device__ __forceinline__ void conv_input_gradient(T* d_x, const T* e, const float* weight, const int* first,
                                                    const int* nexts, i64 rows, int cols, int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    if (is_whole(e, cols)) input_gradient_columns(d_x, Columns<true, T>{e, rows, c, cols}, weight, first, nexts, taps);
    else input_gradient_columns(d_x, Columns<false, T>{e, rows, c, cols}, weight, first, nexts, taps);
}

KERNEL(128, short_conv_backward_f32, float* d_x, const float* e, const float* weight, const int* first,
       const int* nexts, i64 rows, int cols, int taps) {
    conv_input_gradient(d_x, e, weight, first, nexts, rows, cols, taps);
}
KERNEL(128, short_conv_backward_bf16, bf16* d_x, const bf16* e, const float* weight, const int* first,
       const int* nexts, i64 rows, int cols, int taps) {
    conv_input_gradient(d_x, e, weight, first, nexts, rows, cols, taps);
}

// Row `blockIdx.x` of `partial` `[_, cols, taps]`: Σ e[t] x[t - back] over its rows, `each` of them, for `CONV_TAPS` taps
// from `tap` on.
template <bool WHOLE, typename T>
__device__ __forceinline__ void weight_gradient_columns(float* partial, Columns<WHOLE, T> e, Columns<WHOLE, T> x,
                                                        const int* pasts, i64 each, int tap, int taps) {
    float sums[CONV_TAPS][4] = {};
    i64 end = min(e.rows, ((i64)blockIdx.x + 1) * each);
    for (i64 first = blockIdx.x * each; first < end; first += CONV_ROWS) {
        Chunk<4, T> near[CONV_ROWS + CONV_TAPS - 1], own[CONV_ROWS];
        read_rows(near, x, first - tap - (CONV_TAPS - 1));
        read_rows(own, e, first);
        UNROLLED(i, CONV_ROWS) {
            i64 row = first + i;
            if (row >= end) break;
            UNROLLED(j, CONV_TAPS) {
                int back = tap + j;
                i64 past = back == 0 ? row : back < taps ? pasts[row * (taps - 1) + back - 1] : -1;
                if (past < 0) continue;
                Chunk<4, T> from = past == row - back ? near[i + CONV_TAPS - 1 - j] : x.row(past);
                UNROLLED(k, 4) sums[j][k] = fmaf(widen(own[i].x[k]), widen(from.x[k]), sums[j][k]);
            }
        }
    }
    UNROLLED(k, 4)
        UNROLLED(j, CONV_TAPS)
            if (e.c + k < e.cols && tap + j < taps)
                partial[((i64)blockIdx.x * e.cols + e.c + k) * taps + taps - 1 - tap - j] = sums[j][k];
}

template <typename T>
__device__ __forceinline__ void conv_weight_gradient(float* partial, const T* e, const T* x, const int* pasts, i64 rows,
                                                     i64 each, int cols, int taps) {
    int groups = (taps + CONV_TAPS - 1) / CONV_TAPS, tap = blockIdx.y % groups * CONV_TAPS;
    int c = 4 * (blockIdx.y / groups * 128 + threadIdx.x);
    if (c >= cols) return;
    if (is_whole(e, cols) && is_whole(x, cols))
        weight_gradient_columns(partial, Columns<true, T>{e, rows, c, cols}, Columns<true, T>{x, rows, c, cols}, pasts, each,
                                tap, taps);
    else
        weight_gradient_columns(partial, Columns<false, T>{e, rows, c, cols}, Columns<false, T>{x, rows, c, cols}, pasts,
                                each, tap, taps);
}

KERNEL(128, short_conv_weight_f32, float* partial, const float* e, const float* x, const int* pasts, i64 rows, i64 each,
       int cols, int taps) {
    conv_weight_gradient(partial, e, x, pasts, rows, each, cols, taps);
}
KERNEL(128, short_conv_weight_bf16, float* partial, const bf16* e, const bf16* x, const int* pasts, i64 rows, i64 each,
       int cols, int taps) {
    conv_weight_gradient(partial, e, x, pasts, rows, each, cols, taps);
}
