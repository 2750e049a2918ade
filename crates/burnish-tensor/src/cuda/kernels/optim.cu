// The optimiser's passes over flat buffers.

// One step of AdamW as in optim.rs. `shadow`, which may be null, gets the parameters in bf16.
KERNEL(256, adamw, float* params, const float* grads, float* exp_avg, float* exp_avg_sq, bf16* shadow, i64 n,
       float keep, float one_minus_beta1, float beta2, float one_minus_beta2, float sqrt_correction2, float eps,
       float step_size) {
    for (i64 i = GRID_FIRST; i < n; i += GRID_STEP) {
        float g = grads[i], m = exp_avg[i], v = exp_avg_sq[i];
        m += one_minus_beta1 * (g - m);
        v = v * beta2 + one_minus_beta2 * g * g;
        float p = params[i] * keep - step_size * (m / (sqrtf(v) / sqrt_correction2 + eps));
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        params[i] = p;
        if (shadow) shadow[i] = float_to_bf16(p);
    }
}

// Element `blockIdx.x` of `partial`: Σ x² over the block's `each` elements.
KERNEL(256, squared_partial, double* partial, const float* x, i64 n, i64 each) {
    __shared__ double shared[32];
    i64 end = min(n, ((i64)blockIdx.x + 1) * each);
    double sum = 0.0;
    for (i64 i = blockIdx.x * each + threadIdx.x; i < end; i += blockDim.x) sum += (double)x[i] * (double)x[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: Σ of `partial`.
KERNEL(256, sum_partials, double* out, const double* partial, i64 n) {
    __shared__ double shared[32];
    double sum = 0.0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) out[0] = sum;
}
