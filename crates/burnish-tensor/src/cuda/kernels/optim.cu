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

// The number of values halfway between neighbours of an ascending map of 256 that are below x: the code of the nearest.
__device__ __forceinline__ u8 nearest_code(const float* map, float x) {
    int first = 0, last = 255;
    while (first < last) {
        int middle = (first + last) / 2;
        if ((map[middle] + map[middle + 1]) / 2.0f < x)
            first = middle + 1;
        else
            last = middle;
    }
    return (u8)first;
}

// One step as in eight_bit.rs: both moments are codes, with a scale for each 256 of them. `maps` are those of the first
// and of the second moment, one after the other. A block of threads works on one block of numbers after the other.
KERNEL(256, adamw_8bit, float* params, const float* grads, u8* m_codes, float* m_absmax, u8* v_codes, float* v_absmax,
       const float* maps, bf16* shadow, i64 n, float keep, float one_minus_beta1, float beta2, float one_minus_beta2,
       float sqrt_correction2, float eps, float step_size) {
    __shared__ float m_map[256];
    __shared__ float v_map[256];
    __shared__ float shared[32];
    m_map[threadIdx.x] = maps[threadIdx.x];
    v_map[threadIdx.x] = maps[256 + threadIdx.x];
    __syncthreads();
    for (i64 part = blockIdx.x; part * 256 < n; part += gridDim.x) {
        i64 i = part * 256 + threadIdx.x;
        bool is_real = i < n;
        float m = 0.0f, v = 0.0f;
        if (is_real) {
            float g = grads[i];
            m = m_map[m_codes[i]] * m_absmax[part];
            v = v_map[v_codes[i]] * v_absmax[part];
            m += one_minus_beta1 * (g - m);
            v = v * beta2 + one_minus_beta2 * g * g;
            float p = params[i] * keep - step_size * (m / (sqrtf(v) / sqrt_correction2 + eps));
            params[i] = p;
            if (shadow) shadow[i] = float_to_bf16(p);
        }
        float m_max = block_max(fabsf(m), shared), v_max = block_max(v, shared);
        if (is_real) {
            m_codes[i] = nearest_code(m_map, m * (m_max > 0.0f ? 1.0f / m_max : 0.0f));
            v_codes[i] = nearest_code(v_map, v * (v_max > 0.0f ? 1.0f / v_max : 0.0f));
        }
        if (threadIdx.x == 0) m_absmax[part] = m_max, v_absmax[part] = v_max; // all have read the scales before
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
