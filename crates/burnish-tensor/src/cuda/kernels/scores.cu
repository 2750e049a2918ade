// Log-probs and entropies of rows of logits, and their gradient, as in ops/scores.rs.

// One block a row: the logits of the excluded ids.
KERNEL(256, exclude, float* logits, const int* excluded, int count, int vocab) {
    float* z = logits + (i64)blockIdx.x * vocab;
    for (int i = threadIdx.x; i < count; i += blockDim.x) z[excluded[i]] = EXCLUDED_LOGIT;
}

// One block a row. `rows` gets four numbers a row: log-prob of the target, entropy, largest logit, ln Σ e^y.
// `targets` is -1 - id where the id is excluded.
KERNEL(512, score_rows, float* rows, const float* logits, const int* targets, const float* temperatures, int vocab) {
    __shared__ float shared[32];
    __shared__ double wide[32];
    const float* z = logits + (i64)blockIdx.x * vocab;
    float inverse = 1.0f / temperatures[blockIdx.x];
    float max = NEGATIVE_INFINITY;
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) max = fmaxf(max, z[c]);
    max = block_max(max, shared);
    double sum = 0.0, weighted = 0.0;
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) {
        float y = (z[c] - max) * inverse;
        float e = expf(y);
        sum += (double)e;
        weighted += (double)(e * y);
    }
    sum = block_sum(sum, wide);
    weighted = block_sum(weighted, wide);
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

// One block a row: logits become their gradient. `d_entropies` may be null.
KERNEL(512, differentiate_rows, float* logits, const float* rows, const int* targets, const float* temperatures,
       const float* d_logprobs, const float* d_entropies, int vocab) {
    float* z = logits + (i64)blockIdx.x * vocab;
    const float* row = rows + (i64)blockIdx.x * 4;
    float inverse = 1.0f / temperatures[blockIdx.x];
    int target = targets[blockIdx.x];
    float d_logprob = target >= 0 ? d_logprobs[blockIdx.x] : 0.0f;
    float d_entropy = d_entropies ? d_entropies[blockIdx.x] : 0.0f;
    float entropy = row[1], max = row[2], log_sum = row[3];
    for (int c = threadIdx.x; c < vocab; c += blockDim.x) {
        float log_p = (z[c] - max) * inverse - log_sum;
        float d = -inverse * expf(log_p) * fmaf(d_entropy, log_p + entropy, d_logprob);
        z[c] = c == target ? d + d_logprob * inverse : d;
    }
}
