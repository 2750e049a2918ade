// Log-probs and entropies of rows of logits, what else is read from such rows, and their gradient, as in ops/scores.rs,
// squares.rs, top.rs and head_loss.rs.

// One block per row: the logits of the excluded ids.
KERNEL(256, exclude, float* logits, const int* excluded, int count, int vocab) {
    wait_for_earlier_work();
    float* z = logits + (i64)blockIdx.x * vocab;
    for (int i = threadIdx.x; i < count; i += blockDim.x) z[excluded[i]] = EXCLUDED_LOGIT;
}

// The largest logit, in every thread. NaN is ignored here: it shows up in the sums.
__device__ __forceinline__ float row_max(const float* z, int vocab, float* shared) {
    float max = NEGATIVE_INFINITY;
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) max = fmaxf(max, z[c]);
    return block_max(max, shared);
}

// A thread's part of a row's softmax: its largest logit so far, and with `y = (z - max) / temperature` the sums of e^y and
// of e^y y.
struct Softmax {
    float max;
    double sum, weighted;

    // The same with a larger `max`.
    __device__ __forceinline__ void raise(float to, float inverse) {
        // No thread without ids has a sum, whatever the difference is.
        if (sum > 0.0) {
            double by = (double)(max - to) * (double)inverse, factor = exp(by);
            weighted = factor * (weighted + by * sum);
            sum *= factor;
        }
        max = to;
    }
};

// One block per row. `rows` gets four numbers per row: log-prob of the target, entropy, largest logit, ln Σ e^y.
// `targets` is -1 - id if the id is excluded. NaN is ignored by the maximum: it shows up in the sums. Four numbers are added
// in f32 before they are added to a sum in f64, of which cards do few.
KERNEL(512, score_rows, float* rows, const float* logits, const int* targets, const float* temperatures, int vocab) {
    __shared__ float shared[32];
    __shared__ double wide[32];
    const float* z = logits + (i64)blockIdx.x * vocab;
    float inverse = 1.0f / temperatures[blockIdx.x];
    Softmax own = {LOWEST, 0.0, 0.0};
    for (int c = 4 * threadIdx.x; c < vocab; c += 4 * blockDim.x) {
        float x[4], largest = LOWEST;
        load_four(x, z, c, vocab);
        for (int i = 0; i < 4; ++i)
            if (c + i < vocab) largest = fmaxf(largest, x[i]);
        if (largest > own.max) own.raise(largest, inverse);
        float sum = 0.0f, weighted = 0.0f;
        for (int i = 0; i < 4; ++i) {
            float y = (x[i] - own.max) * inverse, e = c + i < vocab ? expf(y) : 0.0f;
            sum += e;
            if (c + i < vocab) weighted = fmaf(e, y, weighted);
        }
        own.sum += (double)sum;
        own.weighted += (double)weighted;
    }
    float max = block_max(own.max, shared);
    own.raise(max, inverse);
    double sum = block_sum(own.sum, wide), weighted = block_sum(own.weighted, wide);
    if (threadIdx.x == 0) {
        int target = targets[blockIdx.x];
        double log_sum = log(sum);
        float* row = rows + (i64)blockIdx.x * 4;
        row[0] = NEGATIVE_INFINITY;
        if (target >= 0)
            row[0] = (float)(((double)z[target] - (double)max) / (double)temperatures[blockIdx.x] - log_sum);
        row[1] = (float)(log_sum - weighted / sum);
        row[2] = max;
        row[3] = (float)log_sum;
    }
}

// One block per row: Σ e^{2y} / (Σ e^y)².
KERNEL(512, square_rows, float* squares, const float* logits, const float* temperatures, int vocab) {
    __shared__ float shared[32];
    __shared__ double wide[32];
    const float* z = logits + (i64)blockIdx.x * vocab;
    float inverse = 1.0f / temperatures[blockIdx.x];
    float max = row_max(z, vocab, shared);
    double sum = 0.0, squared = 0.0;
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) {
        float e = expf((z[c] - max) * inverse);
        sum += (double)e;
        squared += (double)(e * e);
    }
    sum = block_sum(sum, wide);
    squared = block_sum(squared, wide);
    if (threadIdx.x == 0) squares[blockIdx.x] = (float)(squared / (sum * sum));
}

// The best rank below `bound` among this thread's ids; 0 if there is none.
__device__ __forceinline__ u64 best_below(const float* z, const int* allowed, int count, u64 bound) {
    u64 best = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        u64 rank = rank_of(z[allowed[i]], allowed[i]);
        if (rank < bound && rank > best) best = rank;
    }
    return best;
}

// One block per row: the `top` likeliest of the `count` ids of `allowed` (at least `top`), likeliest first, and their
// log-probs over the whole vocabulary. Each thread offers the best of its own ids that is not chosen yet, and looks for
// another when that is taken: all ids are read once, and a thread's share of them again for each of its ids chosen.
KERNEL(512, top_rows, int* ids, float* logprobs, const float* logits, const float* temperatures, const int* allowed,
       int count, int top, int vocab) {
    __shared__ float shared[32];
    __shared__ double wide[32];
    __shared__ u64 ranks[32];
    const float* z = logits + (i64)blockIdx.x * vocab;
    float inverse = 1.0f / temperatures[blockIdx.x];
    float max = row_max(z, vocab, shared);
    double sum = 0.0;
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) sum += (double)expf((z[c] - max) * inverse);
    double log_sum = log(block_sum(sum, wide));
    u64 own = best_below(z, allowed, count, ~0ull);
    for (int k = 0; k < top; ++k) {
        u64 best = block_best(own, ranks);
        // Ranks are distinct, so exactly one thread has it.
        if (own == best) {
            int id = 0x7fffffff - (int)(u32)best;
            i64 at = (i64)blockIdx.x * top + k;
            ids[at] = id;
            logprobs[at] =
                (float)(((double)z[id] - (double)max) / (double)temperatures[blockIdx.x] - log_sum);
            own = best_below(z, allowed, count, best);
        }
    }
}

// The gradient of a scalar by the logits `z`, whose derivative is `d_entropy` by the entropy, `d_probability` by what is
// proportional to the probabilities, and `d_target` by the logit of the target over the temperature. `d` may be `z`. Thread
// `t` writes ids `4 t..4 t + 4` and those as many times four threads further.
template <typename T>
__device__ __forceinline__ void differentiate_row(T* d, const float* z, const float* row, float inverse, int target,
                                                  float d_target, float d_probability, float d_entropy, int vocab) {
    float entropy = row[1], max = row[2], log_sum = row[3];
    for (int c = 4 * threadIdx.x; c < vocab; c += 4 * blockDim.x) {
        float x[4];
        load_four(x, z, c, vocab);
        for (int i = 0; i < 4; ++i) {
            float log_p = (x[i] - max) * inverse - log_sum;
            x[i] = -inverse * expf(log_p) * fmaf(d_entropy, log_p + entropy, d_probability);
            if (c + i == target) x[i] += d_target * inverse;
        }
        store_four(d, x, c, vocab);
    }
}

template <typename T>
__device__ __forceinline__ void differentiate(T* d_logits, const float* logits, const float* rows, const int* targets,
                                              const float* temperatures, const float* d_logprobs,
                                              const float* d_entropies, int vocab) {
    i64 at = blockIdx.x;
    int target = targets[at];
    float d_logprob = target >= 0 ? d_logprobs[at] : 0.0f;
    float d_entropy = d_entropies ? d_entropies[at] : 0.0f;
    float inverse = 1.0f / temperatures[at];
    differentiate_row(d_logits + at * vocab, logits + at * vocab, rows + at * 4, inverse, target, d_logprob, d_logprob,
                      d_entropy, vocab);
}

// One block per row: the gradient of the logits, in their place or in bf16. `d_entropies` may be null.
KERNEL(512, differentiate_rows, float* logits, const float* rows, const int* targets, const float* temperatures,
       const float* d_logprobs, const float* d_entropies, int vocab) {
    differentiate(logits, logits, rows, targets, temperatures, d_logprobs, d_entropies, vocab);
}
KERNEL(512, differentiate_rows_bf16, bf16* d_logits, const float* logits, const float* rows, const int* targets,
       const float* temperatures, const float* d_logprobs, const float* d_entropies, int vocab) {
    differentiate(d_logits, logits, rows, targets, temperatures, d_logprobs, d_entropies, vocab);
}

// As differentiate_rows, of that and of weight · Σ p (ln p - log q) over the `top` labels of each row; `values` gets the
// sum, 0 if the weight is 0. A label with p = 0 does not count.
KERNEL(512, differentiate_labelled_rows, float* logits, double* values, const float* rows, const int* targets,
       const float* temperatures, const float* d_logprobs, const float* d_entropies, const float* weights,
       const int* ids, const float* probabilities, int top, int vocab) {
    __shared__ float shared[32];
    __shared__ double wide[32];
    i64 at = blockIdx.x;
    float* z = logits + at * vocab;
    const float* row = rows + at * 4;
    ids += at * top;
    probabilities += at * top;
    int target = targets[at];
    float d_logprob = target >= 0 ? d_logprobs[at] : 0.0f;
    float d_entropy = d_entropies ? d_entropies[at] : 0.0f;
    float inverse = 1.0f / temperatures[at], weight = weights[at];
    double value = 0.0;
    float mass = 0.0f;
    if (weight != 0.0f) { // the same for all threads of the block
        for (int k = threadIdx.x; k < top; k += blockDim.x) {
            float p = probabilities[k];
            mass += p;
            if (p > 0.0f) {
                double y = ((double)z[ids[k]] - (double)row[2]) / (double)temperatures[at];
                value += (double)p * (log((double)p) - (y - (double)row[3]));
            }
        }
        mass = block_sum(mass, shared);
        // All threads have read their labels' logits when this is known.
        value = block_sum(value, wide);
    }
    if (threadIdx.x == 0) values[at] = value;
    differentiate_row(z, z, row, inverse, target, d_logprob, d_logprob - weight * mass, d_entropy, vocab);
    if (weight == 0.0f) return;
    // Each thread takes the labels whose logits it has written, in order, because an id may occur more than once.
    for (int k = 0; k < top; ++k)
        if (ids[k] / 4 % (int)blockDim.x == (int)threadIdx.x) z[ids[k]] -= weight * probabilities[k] * inverse;
}
