// Chooses ids from rows of logits: the likeliest, or by looking up a random number in the cumulative distribution over
// the ids in order, as burnish-engine does on the host.

#define WARPS 16

// One block per draw, from row `rows[i]` at `temperatures[i]`, where 0 takes the likeliest id, the lowest of equal
// ones. Logits of excluded ids are EXCLUDED_LOGIT. `out` gets the id (-1 if the logits are no distribution) and the
// bits of its log-prob at that temperature, or at 1 for the likeliest.
//
// Each warp sums up a part of the ids. The part in which the sum exceeds the random number's share of the total is
// searched again, 32 ids at a time, and then one by one.
KERNEL(512, draw, int* out, const float* logits, const int* rows, const float* temperatures, const double* uniforms,
       int vocab) {
    __shared__ float shared[32];
    __shared__ double sums[WARPS];
    __shared__ int likeliest[WARPS];
    const float* z = logits + (i64)rows[blockIdx.x] * vocab;
    bool is_greedy = temperatures[blockIdx.x] == 0.0f;
    float temperature = is_greedy ? 1.0f : temperatures[blockIdx.x];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = (vocab + 4 * WARPS - 1) / (4 * WARPS) * 4;
    int start = min(warp * each, vocab), end = min(start + each, vocab);
    float max = NEGATIVE_INFINITY;
#pragma unroll 4
    for (int c = start + 4 * lane; c < end; c += 128) {
        float x[4];
        load_four(x, z, c, end);
        for (int i = 0; i < 4; ++i)
            if (c + i < end) max = fmaxf(max, x[i]);
    }
    max = block_max(max, shared);
    double sum = 0.0;
    int first = vocab;
#pragma unroll 4
    for (int c = start + 4 * lane; c < end; c += 128) {
        float x[4];
        load_four(x, z, c, end);
        for (int i = 0; i < 4; ++i) {
            if (c + i >= end) continue;
            sum += (double)expf((x[i] - max) / temperature);
            if (x[i] == max) first = min(first, c + i);
        }
    }
    sum = warp_sum(sum);
    for (int offset = 16; offset > 0; offset >>= 1) first = min(first, __shfl_xor_sync(FULL_WARP, first, offset));
    if (lane == 0) {
        sums[warp] = sum;
        likeliest[warp] = first;
    }
    __syncthreads();
    if (warp > 0) return;
    double total = 0.0;
    int id = vocab;
    for (int i = 0; i < WARPS; ++i) {
        total += sums[i];
        id = min(id, likeliest[i]);
    }
    // A NaN logit makes the total NaN, and so does an infinite one, through the difference to it.
    bool is_distribution = max > EXCLUDED_LOGIT && total <= 3e38;
    if (is_distribution && !is_greedy) {
        double target = uniforms[blockIdx.x] * total, before = 0.0;
        int part = 0;
        while (part + 1 < WARPS && before + sums[part] <= target) before += sums[part++];
        id = vocab;
        for (int c = part * each; c < vocab && id == vocab; c += 32) {
            float e = c + lane < vocab ? expf((z[c + lane] - max) / temperature) : 0.0f;
            double after = before + warp_sum((double)e);
            // All lanes do the same: the sum of a few may differ from that of all in its last bits.
            if (after > target) {
                double so_far = before;
                for (int i = c; i < min(c + 32, vocab) && id == vocab; ++i) {
                    float own = expf((z[i] - max) / temperature);
                    so_far += (double)own;
                    if (own > 0.0f && so_far > target) id = i;
                }
            }
            before = after;
        }
        // Reached only if rounding lifted the target to the whole sum: the last id with a probability.
        for (int c = vocab - 1; id == vocab; --c)
            if (expf((z[c] - max) / temperature) > 0.0f) id = c;
    }
    if (lane != 0) return;
    float logprob = 0.0f;
    if (is_distribution) logprob = (float)(((double)z[id] - (double)max) / (double)temperature - log(total));
    out[2 * blockIdx.x] = is_distribution ? id : -1;
    out[2 * blockIdx.x + 1] = __float_as_int(logprob);
}
