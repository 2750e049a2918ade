// The forward pass of gated delta rules by chunks (delta.cuh).

// e^(sums of logarithms) from the chunk's first row to a row, and from behind a row to the last. One block per chunk and
// head, a thread per channel.
KERNEL(256, delta_decays, float* inner, float* outer, const float* log_decay, const int* chunks, int heads,
       int channels) {
    Sizes s = {heads, 1, 0, 0};
    Place p = place(chunks, blockIdx.x, s);
    i64 width = (i64)heads * channels;
    for (int c = threadIdx.x; c < channels; c += blockDim.x) {
        i64 first = at(p.first, heads, p.head, channels) + c;
        double total = 0.0;
        for (int pass = 0; pass < 2; ++pass) {
            double sum = 0.0;
            for (int from = 0; from < p.rows; from += 8) {
                float logs[8]; // read together: none waits for another
                for (int i = 0; i < 8; ++i)
                    logs[i] = from + i < p.rows ? fmaxf(log_decay[first + (from + i) * width], FORGOTTEN) : 0.0f;
                for (int i = 0; i < 8 && from + i < p.rows; ++i) {
                    sum += logs[i];
                    if (pass == 0) inner[first + (from + i) * width] = expf((float)sum);
                    else outer[first + (from + i) * width] = expf((float)(total - sum));
                }
            }
            total = sum;
        }
    }
}

// One block per chunk and head: (I - X β) V and (I - X β) (Γ ⊙ K).
template <typename T>
INLINE void prepare(T* y, T* read, const T* k, const T* v, const T* beta, const float* log_decay, const float* inner,
                    const int* chunks, Sizes s) {
    __shared__ float rates[SIDE];
    __shared__ double sums[SIDE];
    float* x = DYNAMIC_SHARED;
    float* m = x + WIDE;
    Operand *solution = (Operand*)m, *a = (Operand*)(m + WIDE);
    Place p = place(chunks, blockIdx.x, s);
    read_rates(rates, sums, beta, log_decay, p, s);
    solve_chunk(x, m, a, k, log_decay, rates, sums, p, s);
    put_solution<true>(solution, x, rates);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim;
    EACH_PART(c, s.value_dim) {
        i64 from = at(p.first, s.heads, p.head, s.value_dim) + c;
        load(a, v + from, value_width, p.rows, part(c, s.value_dim), no_factors());
        __syncthreads();
        Tile tile = {};
        multiply<false, false>(tile, solution, a, p.rows);
        store(y + from, value_width, p.rows, part(c, s.value_dim), tile);
        __syncthreads();
    }
    EACH_PART(c, s.key_dim) {
        const T* from = k + p.first * key_width + p.key_head * s.key_dim + c;
        load(a, from, key_width, p.rows, part(c, s.key_dim), decays(inner, p, s, c));
        __syncthreads();
        Tile tile = {};
        multiply<false, false>(tile, solution, a, p.rows);
        store(read + at(p.first, s.heads, p.head, s.key_dim) + c, (i64)s.heads * s.key_dim, p.rows,
              part(c, s.key_dim), tile);
        __syncthreads();
    }
}

KERNEL(256, delta_prepare_f32, float* y, float* read, const float* k, const float* v, const float* beta,
       const float* log_decay, const float* inner, const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_F32(prepare(y, read, k, v, beta, log_decay, inner, chunks, {heads, group, key_dim, value_dim});)
}
KERNEL(256, delta_prepare_bf16, bf16* y, bf16* read, const bf16* k, const bf16* v, const bf16* beta,
       const float* log_decay, const float* inner, const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_BF16(prepare(y, read, k, v, beta, log_decay, inner, chunks, {heads, group, key_dim, value_dim});)
}

// One block per island, 64 columns of values and head, over the island's chunks in order: completes Y and makes the
// states that chunks go on from.
template <typename T>
INLINE void run_states(float* states, T* y, const T* read, const T* k, const T* beta, const float* inner,
                       const float* outer, const int* chunks, const int* islands, Sizes s) {
    __shared__ float rates[SIDE];
    Operand *a = (Operand*)DYNAMIC_SHARED, *b = a + TILE_OF, *u = b + TILE_OF;
    int parts = (s.value_dim + SIDE - 1) / SIDE, v = blockIdx.x % parts * SIDE, columns = part(v, s.value_dim);
    const int* island = islands + 2 * (blockIdx.x / parts);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim;
    for (int chunk = island[0]; chunk < island[1]; ++chunk) {
        Place p = place(chunks, chunk, s);
        const float* before = p.before < 0 ? nullptr : state_of(states, p.before, p.head, s) + v;
        float* after = p.after < 0 ? nullptr : state_of(states, p.after, p.head, s) + v;
        __syncthreads(); // `rates` may still be read
        if (threadIdx.x < SIDE)
            rates[threadIdx.x] = (int)threadIdx.x < p.rows ? widen(beta[at(p.first + threadIdx.x, s.heads, p.head, 1)]) : 0.0f;
        Tile held = {};
        if (before)
            EACH_PART(c, s.key_dim) {
                const T* from = read + at(p.first, s.heads, p.head, s.key_dim) + c;
                load(a, from, (i64)s.heads * s.key_dim, p.rows, part(c, s.key_dim), no_factors());
                load(b, before + (i64)c * s.value_dim, s.value_dim, part(c, s.key_dim), columns, no_factors());
                __syncthreads();
                multiply<false, false>(held, a, b, part(c, s.key_dim));
                __syncthreads();
            }
        __syncthreads();
        T* own = y + at(p.first, s.heads, p.head, s.value_dim) + v;
        EACH(i, r, c) {
            float of_row = 0.0f;
            if (r < p.rows && c < columns) {
                of_row = widen(own[r * value_width + c]) - held.x[i];
                narrow(own + r * value_width + c, of_row);
            }
            narrow(u + r * STRIDE + c, rates[r] * of_row);
        }
        if (!after) continue;
        const float* last = inner + at(p.first + p.rows - 1, s.heads, p.head, CHANNELS(s));
        EACH_PART(from, s.key_dim) {
            const T* keys = k + p.first * key_width + p.key_head * s.key_dim + from;
            load(a, keys, key_width, p.rows, part(from, s.key_dim), decays(outer, p, s, from));
            __syncthreads();
            Tile state;
            EACH(i, r, c) {
                bool is_kept = before && r < part(from, s.key_dim) && c < columns;
                state.x[i] = is_kept ? last[BY_CHANNEL ? from + r : 0] * before[(i64)(from + r) * s.value_dim + c] : 0.0f;
            }
            multiply<true, false>(state, a, u, p.rows);
            store(after + (i64)from * s.value_dim, s.value_dim, part(from, s.key_dim), columns, state);
            __syncthreads();
        }
    }
}

#if TENSOR && !BY_CHANNEL
// The same for keys of at most 128 columns: a state stays in the block for the chunk that goes on from it, and the operands
// of a chunk are on their way while the one before is computed.
INLINE void run_states_kept(float* states, bf16* y, const bf16* read_by, const bf16* k, const bf16* beta,
                            const float* inner, const float* outer, const int* chunks, const int* islands, Sizes s) {
    Operand *u = (Operand*)DYNAMIC_SHARED, *held = u + TILE_OF, *reads = held + 2 * TILE_OF, *keys = reads + 2 * TILE_OF;
    int parts = (s.value_dim + SIDE - 1) / SIDE, v = blockIdx.x % parts * SIDE, columns = part(v, s.value_dim);
    const int* island = islands + 2 * (blockIdx.x / parts);
    i64 key_width = s.heads / s.group * s.key_dim, own_width = s.heads * s.key_dim, value_width = s.heads * s.value_dim;
    auto fetch_reads = [&](int chunk) {
        if (chunk >= island[1]) return;
        Place p = place(chunks, chunk, s);
        fetch_parts(reads, read_by + at(p.first, s.heads, p.head, s.key_dim), own_width, p.rows, s.key_dim);
    };
    KeptState state = {{}, -1};
    fetch_reads(island[0]);
    commit_copies();
    for (int chunk = island[0]; chunk < island[1]; ++chunk) {
        Place p = place(chunks, chunk, s);
        fetch_parts(keys, k + p.first * key_width + p.key_head * s.key_dim, key_width, p.rows, s.key_dim);
        commit_copies();
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v;
        Tile sum = read(y + own, value_width, p.rows, columns), taken = {};
        OfRows rates = of_own_rows(beta, p, s), rest = of_own_rows(outer, p, s);
        float last = inner[at(p.first + p.rows - 1, s.heads, p.head, 1)];
        state.read_if_other(states, p.before, v, columns, p, s, held);
        wait_for_copies_but_latest();
        __syncthreads();
        if (p.before >= 0)
            EACH_KEPT(i, s.key_dim)
                multiply<false, false>(taken, reads + i * TILE_OF, held + i * TILE_OF, part(SIDE * i, s.key_dim));
#pragma unroll
        for (int i = 0; i < 16; ++i) sum.x[i] -= taken.x[i];
        store(y + own, value_width, p.rows, columns, sum);
#pragma unroll
        for (int i = 0; i < 16; ++i) sum.x[i] *= rates.of(i) * rest.of(i);
        put(u, sum);
        wait_for_copies();
        __syncthreads();
        fetch_reads(chunk + 1);
        commit_copies();
        if (p.after >= 0) {
            EACH_KEPT(i, s.key_dim)
                for (int j = 0; j < 16; ++j) state.x[i].x[j] *= last;
            state.add_and_store(states, p.after, v, columns, keys, u, p, s, held);
        }
        __syncthreads();
    }
}
#endif

KERNEL(TENSOR_THREADS, delta_states_kept_bf16, float* states, bf16* y, const bf16* read, const bf16* k, const bf16* beta,
       const float* inner, const float* outer, const int* chunks, const int* islands, int heads, int group, int key_dim,
       int value_dim) {
    IN_KEPT(run_states_kept(states, y, read, k, beta, inner, outer, chunks, islands, {heads, group, key_dim, value_dim});)
}

KERNEL(256, delta_states_f32, float* states, float* y, const float* read, const float* k, const float* beta,
       const float* inner, const float* outer, const int* chunks, const int* islands, int heads, int group, int key_dim,
       int value_dim) {
    IN_F32(run_states(states, y, read, k, beta, inner, outer, chunks, islands, {heads, group, key_dim, value_dim});)
}
KERNEL(TENSOR_THREADS, delta_states_bf16, float* states, bf16* y, const bf16* read, const bf16* k, const bf16* beta,
       const float* inner, const float* outer, const int* chunks, const int* islands, int heads, int group, int key_dim,
       int value_dim) {
    IN_BF16(run_states(states, y, read, k, beta, inner, outer, chunks, islands, {heads, group, key_dim, value_dim});)
}

// One block per chunk and head: O = (Γ ⊙ Q) S₀ + P U.
template <typename T>
INLINE void output(T* out, const T* q, const T* k, const T* y, const T* beta, const float* log_decay,
                   const float* inner, const float* states, const int* chunks, Sizes s) {
    __shared__ float rates[SIDE];
    __shared__ double sums[SIDE];
    Operand *a = (Operand*)DYNAMIC_SHARED, *b = a + TILE_OF, *p_pairs = b + TILE_OF;
    Place p = place(chunks, blockIdx.x, s);
    read_rates(rates, sums, beta, log_decay, p, s);
    put(p_pairs, pairs<false>(q, k, log_decay, sums, p, s, a, b));
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim;
    EACH_PART(v, s.value_dim) {
        int columns = part(v, s.value_dim);
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v;
        Tile tile = {};
        if (p.before >= 0)
            EACH_PART(c, s.key_dim) {
                const float* before = state_of(states, p.before, p.head, s) + (i64)c * s.value_dim + v;
                const T* queries = q + p.first * key_width + p.key_head * s.key_dim + c;
                load(a, queries, key_width, p.rows, part(c, s.key_dim), decays(inner, p, s, c));
                load(b, before, s.value_dim, part(c, s.key_dim), columns, no_factors());
                __syncthreads();
                multiply<false, false>(tile, a, b, part(c, s.key_dim));
                __syncthreads();
            }
        load(a, y + own, value_width, p.rows, columns, of_rows(rates, 1.0f));
        __syncthreads();
        multiply<false, false>(tile, p_pairs, a, p.rows);
        store(out + own, value_width, p.rows, columns, tile);
        __syncthreads();
    }
}

KERNEL(256, delta_output_f32, float* out, const float* q, const float* k, const float* y, const float* beta,
       const float* log_decay, const float* inner, const float* states, const int* chunks, int heads, int group,
       int key_dim, int value_dim) {
    IN_F32(output(out, q, k, y, beta, log_decay, inner, states, chunks, {heads, group, key_dim, value_dim});)
}
KERNEL(256, delta_output_bf16, bf16* out, const bf16* q, const bf16* k, const bf16* y, const bf16* beta,
       const float* log_decay, const float* inner, const float* states, const int* chunks, int heads, int group,
       int key_dim, int value_dim) {
    IN_BF16(output(out, q, k, y, beta, log_decay, inner, states, chunks, {heads, group, key_dim, value_dim});)
}
