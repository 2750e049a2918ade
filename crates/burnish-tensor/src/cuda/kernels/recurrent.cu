// Recurrent layers row by row, on the states of a batch's sequences. Rows `firsts[i]..firsts[i + 1]` are those of sequence
// i, whose state of a layer lies `offset` floats behind the address `states[i]`. In a captured step, that may be null for rows
// that pad it, whose results are 0.

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

#define STATE ((float*)states[blockIdx.x] + offset)

// One block per sequence and 256 columns: the last `width` rows of x become the state, with zeros before the first.
template <typename T>
__device__ __forceinline__ void keep_inputs(const u64* states, i64 offset, const T* x, const int* firsts, int width,
                                            int cols) {
    int c = blockIdx.y * 256 + threadIdx.x;
    if (c >= cols) return;
    float* state = STATE;
    for (int i = 0; i < width; ++i) {
        i64 row = (i64)firsts[blockIdx.x + 1] - width + i;
        state[(i64)i * cols + c] = row >= firsts[blockIdx.x] ? widen(x[row * cols + c]) : 0.0f;
    }
}

KERNEL(256, keep_inputs_f32, const u64* states, i64 offset, const float* x, const int* firsts, int width, int cols) {
    keep_inputs(states, offset, x, firsts, width, cols);
}
KERNEL(256, keep_inputs_bf16, const u64* states, i64 offset, const bf16* x, const int* firsts, int width, int cols) {
    keep_inputs(states, offset, x, firsts, width, cols);
}

// One block per sequence and 256 columns: a short convolution of each row in turn, with the bits of one over all rows.
template <typename T>
__device__ __forceinline__ void step_inputs(T* y, const u64* states, i64 offset, const T* x, const float* weight,
                                            const int* firsts, int cols, int taps) {
    int c = blockIdx.y * 256 + threadIdx.x;
    if (c >= cols) return;
    if (!states[blockIdx.x]) {
        for (i64 row = firsts[blockIdx.x]; row < firsts[blockIdx.x + 1]; ++row) narrow(y + row * cols + c, 0.0f);
        return;
    }
    float* state = STATE + c;
    const float* last = weight + (i64)c * taps + taps - 1;
    for (i64 row = firsts[blockIdx.x]; row < firsts[blockIdx.x + 1]; ++row) {
        float own = widen(x[row * cols + c]), z = own * *last;
        for (int back = 1; back < taps; ++back) z = fmaf(state[(i64)(taps - 1 - back) * cols], last[-back], z);
        for (int i = 0; i + 2 < taps; ++i) state[(i64)i * cols] = state[(i64)(i + 1) * cols];
        if (taps > 1) state[(i64)(taps - 2) * cols] = own;
        narrow(y + row * cols + c, z * sigmoid(z));
    }
}

KERNEL(256, step_inputs_f32, float* y, const u64* states, i64 offset, const float* x, const float* weight,
       const int* firsts, int cols, int taps) {
    wait_for_earlier_work();
    step_inputs(y, states, offset, x, weight, firsts, cols, taps);
}
KERNEL(256, step_inputs_bf16, bf16* y, const u64* states, i64 offset, const bf16* x, const float* weight,
       const int* firsts, int cols, int taps) {
    wait_for_earlier_work();
    step_inputs(y, states, offset, x, weight, firsts, cols, taps);
}

// One block per sequence and 256 elements: state `ends[i]` of `from`, of `len` elements, or zeros where that is negative.
KERNEL(256, keep_states, const u64* states, i64 offset, const float* from, const int* ends, int len) {
    int i = blockIdx.y * 256 + threadIdx.x, end = ends[blockIdx.x];
    if (i < len) STATE[i] = end < 0 ? 0.0f : from[(i64)end * len + i];
}

#define HELD 16 // elements of the state that a thread reads at once, and keeps for the second time that it needs them

// One block per sequence, and per value head and 32 columns of its values: a delta rule of each row in turn. Eight warps
// share the rows of the state.
template <typename T>
__device__ __forceinline__ void step_states(T* out, const u64* states, i64 offset, const T* q, const T* k, const T* v,
                                            const float* log_decay, const T* beta, const int* firsts, int heads,
                                            int group, int key_dim, int value_dim, int channels) {
    __shared__ float parts[8][32];
    float *keys = DYNAMIC_SHARED, *queries = keys + key_dim, *decays = queries + key_dim; // of a row
    int tiles = (value_dim + 31) / 32, head = blockIdx.y / tiles, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = blockIdx.y % tiles * 32 + lane;
    bool is_real = column < value_dim;
    float* state = STATE + (i64)head * key_dim * value_dim + column;
    for (i64 row = firsts[blockIdx.x]; row < firsts[blockIdx.x + 1]; ++row) {
        i64 value = (row * heads + head) * value_dim + column;
        if (!states[blockIdx.x]) {
            if (is_real && warp == 0) narrow(out + value, 0.0f);
            continue;
        }
        float own[HELD], held = 0.0f, read = 0.0f;
#pragma unroll
        for (int i = 0, c = warp; i < HELD; ++i, c += 8)
            own[i] = is_real && c < key_dim ? state[(i64)c * value_dim] : 0.0f;
        i64 key = (row * (heads / group) + head / group) * key_dim;
#pragma unroll 1
        for (int c = threadIdx.x; c < key_dim; c += 256) {
            keys[c] = widen(k[key + c]);
            queries[c] = widen(q[key + c]);
            decays[c] = expf(log_decay[(row * heads + head) * channels + (channels > 1 ? c : 0)]);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0, c = warp; i < HELD; ++i, c += 8) {
            if (c >= key_dim) continue;
            own[i] *= decays[c];
            held = fmaf(keys[c], own[i], held);
        }
#pragma unroll 1
        for (int c = warp + 8 * HELD; c < key_dim; c += 8)
            if (is_real) held = fmaf(keys[c], decays[c] * state[(i64)c * value_dim], held);
        parts[warp][lane] = held;
        __syncthreads();
        held = 0.0f;
        for (int i = 0; i < 8; ++i) held += parts[i][lane];
        float written = is_real ? widen(beta[row * heads + head]) * (widen(v[value]) - held) : 0.0f;
        auto write = [&](int c, float kept) {
            float next = fmaf(keys[c], written, kept);
            state[(i64)c * value_dim] = next;
            read = fmaf(queries[c], next, read);
        };
#pragma unroll
        for (int i = 0, c = warp; i < HELD; ++i, c += 8)
            if (is_real && c < key_dim) write(c, own[i]);
#pragma unroll 1
        for (int c = warp + 8 * HELD; c < key_dim; c += 8)
            if (is_real) write(c, decays[c] * state[(i64)c * value_dim]);
        __syncthreads(); // `parts` may still be read
        parts[warp][lane] = read;
        __syncthreads();
        read = 0.0f;
        for (int i = 0; i < 8; ++i) read += parts[i][lane];
        if (is_real && warp == 0) narrow(out + value, read);
    }
}

KERNEL(256, step_states_f32, float* out, const u64* states, i64 offset, const float* q, const float* k, const float* v,
       const float* log_decay, const float* beta, const int* firsts, int heads, int group, int key_dim, int value_dim,
       int channels) {
    wait_for_earlier_work();
    step_states(out, states, offset, q, k, v, log_decay, beta, firsts, heads, group, key_dim, value_dim, channels);
}
KERNEL(256, step_states_bf16, bf16* out, const u64* states, i64 offset, const bf16* q, const bf16* k, const bf16* v,
       const float* log_decay, const bf16* beta, const int* firsts, int heads, int group, int key_dim, int value_dim,
       int channels) {
    wait_for_earlier_work();
    step_states(out, states, offset, q, k, v, log_decay, beta, firsts, heads, group, key_dim, value_dim, channels);
}
