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

// Blocks of 1024 columns of a row, four to a thread.
#define CONV_COLUMN (4 * (int)(blockIdx.y * 256 + threadIdx.x))

// The sums of a short convolution before SiLU, of four columns of a row. Row `pasts[row · (taps - 1) + back - 1]` of x
// lies `back` steps before the row; it is negative before the beginning of a sequence.
template <typename T>
__device__ __forceinline__ void conv_sums(float z[4], const T* x, const float* weight, const int* pasts, i64 row, int c,
                                          int cols, int taps) {
    weight += (i64)c * taps + taps - 1;
    for (int i = 0; i < 4; ++i) z[i] = 0.0f;
    for (int back = 0; back < taps; ++back) {
        i64 from = back == 0 ? row : pasts[row * (taps - 1) + back - 1];
        if (from < 0) continue;
        float own[4];
        load_four(own, x + from * cols, c, cols);
        for (int i = 0; i < 4; ++i)
            if (c + i < cols) z[i] = fmaf(own[i], weight[i * taps - back], z[i]);
    }
}

template <typename T>
__device__ __forceinline__ void convolve(T* y, const T* x, const float* weight, const int* pasts, int cols, int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    float z[4];
    conv_sums(z, x, weight, pasts, blockIdx.x, c, cols, taps);
    for (int i = 0; i < 4; ++i) z[i] *= sigmoid(z[i]);
    store_four(y + (i64)blockIdx.x * cols, z, c, cols);
}

KERNEL(256, short_conv_f32, float* y, const float* x, const float* weight, const int* pasts, int cols, int taps) {
    convolve(y, x, weight, pasts, cols, taps);
}
KERNEL(256, short_conv_bf16, bf16* y, const bf16* x, const float* weight, const int* pasts, int cols, int taps) {
    convolve(y, x, weight, pasts, cols, taps);
}

// The gradient of the sums before SiLU.
template <typename T>
__device__ __forceinline__ void conv_sum_gradient(T* e, const T* x, const float* weight, const int* pasts, const T* d,
                                                  int cols, int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    float z[4], dy[4];
    conv_sums(z, x, weight, pasts, blockIdx.x, c, cols, taps);
    load_four(dy, d + (i64)blockIdx.x * cols, c, cols);
    for (int i = 0; i < 4; ++i) {
        float s = sigmoid(z[i]);
        dy[i] *= s * fmaf(1.0f - s, z[i], 1.0f);
    }
    store_four(e + (i64)blockIdx.x * cols, dy, c, cols);
}

KERNEL(256, short_conv_sums_f32, float* e, const float* x, const float* weight, const int* pasts, const float* d,
       int cols, int taps) {
    conv_sum_gradient(e, x, weight, pasts, d, cols, taps);
}
KERNEL(256, short_conv_sums_bf16, bf16* e, const bf16* x, const float* weight, const int* pasts, const bf16* d,
       int cols, int taps) {
    conv_sum_gradient(e, x, weight, pasts, d, cols, taps);
}

// d_x of a row: from its own sums, and from those of the pairs (row, steps behind) at `first[row]..first[row + 1]` of
// `nexts`.
template <typename T>
__device__ __forceinline__ void conv_input_gradient(T* d_x, const T* e, const float* weight, const int* first,
                                                    const int* nexts, int cols, int taps) {
    int c = CONV_COLUMN;
    if (c >= cols) return;
    weight += (i64)c * taps + taps - 1;
    float sum[4] = {};
    for (int at = first[blockIdx.x] - 1; at < first[blockIdx.x + 1]; ++at) {
        bool is_own = at < first[blockIdx.x];
        i64 from = is_own ? blockIdx.x : nexts[2 * at];
        int back = is_own ? 0 : nexts[2 * at + 1];
        float own[4];
        load_four(own, e + from * cols, c, cols);
        for (int i = 0; i < 4; ++i)
            if (c + i < cols) sum[i] = fmaf(own[i], weight[i * taps - back], sum[i]);
    }
    store_four(d_x + (i64)blockIdx.x * cols, sum, c, cols);
}

KERNEL(256, short_conv_backward_f32, float* d_x, const float* e, const float* weight, const int* first,
       const int* nexts, int cols, int taps) {
    conv_input_gradient(d_x, e, weight, first, nexts, cols, taps);
}
KERNEL(256, short_conv_backward_bf16, bf16* d_x, const bf16* e, const float* weight, const int* first,
       const int* nexts, int cols, int taps) {
    conv_input_gradient(d_x, e, weight, first, nexts, cols, taps);
}

// Row `blockIdx.y` of `partial` `[_, cols, taps]`: Σ e[t] x[t - back] over its rows, `each` of them. A block has 256
// columns, and eight of the taps.
template <typename T>
__device__ __forceinline__ void conv_weight_gradient(float* partial, const T* e, const T* x, const int* pasts, i64 rows,
                                                     i64 each, int cols, int taps) {
    int c = blockIdx.x / ((taps + 7) / 8) * 256 + threadIdx.x, from = blockIdx.x % ((taps + 7) / 8) * 8;
    if (c >= cols) return;
    i64 end = min(rows, ((i64)blockIdx.y + 1) * each);
    float sums[8] = {};
    for (i64 row = blockIdx.y * each; row < end; ++row) {
        float own = widen(e[row * cols + c]);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int back = from + i;
            if (back >= taps) continue;
            i64 past = back == 0 ? row : pasts[row * (taps - 1) + back - 1];
            if (past >= 0) sums[i] = fmaf(own, widen(x[past * cols + c]), sums[i]);
        }
    }
    float* to = partial + ((i64)blockIdx.y * cols + c) * taps + taps - 1;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (from + i < taps) to[-from - i] = sums[i];
}

KERNEL(256, short_conv_weight_f32, float* partial, const float* e, const float* x, const int* pasts, i64 rows, i64 each,
       int cols, int taps) {
    conv_weight_gradient(partial, e, x, pasts, rows, each, cols, taps);
}
KERNEL(256, short_conv_weight_bf16, float* partial, const bf16* e, const bf16* x, const int* pasts, i64 rows, i64 each,
       int cols, int taps) {
    conv_weight_gradient(partial, e, x, pasts, rows, each, cols, taps);
}
