// The backward pass of gated delta rules by chunks (delta.cuh).

// One block per chunk and head: Y; (I - β X)ᵀ Pᵀ d_O, to which d_R adds what comes from d_S; (I - β X)ᵀ (Γ_C / Γ ⊙ K), which
// that is multiplied by.
template <typename T>
INLINE void prepare_backward(T* y, T* d_r, T* from_state, const T* q, const T* k, const T* v, const T* beta,
                             const float* log_decay, const float* inner, const float* outer, const float* states,
                             const T* d_out, const int* chunks, Sizes s) {
    __shared__ float rates[SIDE];
    __shared__ double sums[SIDE];
    float* x = DYNAMIC_SHARED;
    float* m = x + WIDE;
    Operand *solution = (Operand*)m, *a = (Operand*)(m + WIDE), *b = a + TILE_OF, *p_pairs = (Operand*)x;
    Place p = place(chunks, blockIdx.x, s);
    read_rates(rates, sums, beta, log_decay, p, s);
    solve_chunk(x, m, a, k, log_decay, rates, sums, p, s);
    put_solution<true>(solution, x, rates);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim;
    const T* keys = k + p.first * key_width + p.key_head * s.key_dim;
    EACH_PART(v0, s.value_dim) {
        int columns = part(v0, s.value_dim);
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v0;
        Tile held = {}, tile = {}, own_v = read(v + own, value_width, p.rows, columns);
        if (p.before >= 0)
            EACH_PART(c, s.key_dim) {
                const float* before = state_of(states, p.before, p.head, s) + (i64)c * s.value_dim + v0;
                load(a, keys + c, key_width, p.rows, part(c, s.key_dim), decays(inner, p, s, c));
                load(b, before, s.value_dim, part(c, s.key_dim), columns, no_factors());
                __syncthreads();
                multiply<false, false>(held, a, b, part(c, s.key_dim));
                __syncthreads();
            }
#pragma unroll
        for (int i = 0; i < 16; ++i) own_v.x[i] -= held.x[i];
        put(a, own_v);
        __syncthreads();
        multiply<false, false>(tile, solution, a, p.rows);
        store(y + own, value_width, p.rows, columns, tile);
        __syncthreads();
    }
    put_solution<false>(solution, x, rates);
    put(p_pairs, pairs<false>(q, k, log_decay, sums, p, s, a, b));
    EACH_PART(v0, s.value_dim) {
        int columns = part(v0, s.value_dim);
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v0;
        Tile taken = {}, tile = {};
        load(a, d_out + own, value_width, p.rows, columns, no_factors());
        __syncthreads();
        multiply<true, false>(taken, p_pairs, a, p.rows);
        put(b, taken);
        __syncthreads();
        multiply<true, false>(tile, solution, b, p.rows);
        store(d_r + own, value_width, p.rows, columns, tile);
        __syncthreads();
    }
    EACH_PART(c, s.key_dim) {
        load(a, keys + c, key_width, p.rows, part(c, s.key_dim), decays(outer, p, s, c));
        __syncthreads();
        Tile tile = {};
        multiply<true, false>(tile, solution, a, p.rows);
        store(from_state + at(p.first, s.heads, p.head, s.key_dim) + c, (i64)s.heads * s.key_dim, p.rows,
              part(c, s.key_dim), tile);
        __syncthreads();
    }
}

KERNEL(256, delta_prepare_backward_f32, float* y, float* d_r, float* from_state, const float* q, const float* k,
       const float* v, const float* beta, const float* log_decay, const float* inner, const float* outer,
       const float* states, const float* d_out, const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_F32(prepare_backward(y, d_r, from_state, q, k, v, beta, log_decay, inner, outer, states, d_out, chunks,
                     {heads, group, key_dim, value_dim});)
}
KERNEL(PREPARE_THREADS, delta_prepare_backward_bf16, bf16* y, bf16* d_r, bf16* from_state, const bf16* q, const bf16* k,
       const bf16* v, const bf16* beta, const float* log_decay, const float* inner, const float* outer,
       const float* states, const bf16* d_out, const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_BF16(prepare_backward(y, d_r, from_state, q, k, v, beta, log_decay, inner, outer, states, d_out, chunks,
                     {heads, group, key_dim, value_dim});)
}

// One block per island, 64 columns of values and head, over the island's chunks from the last: completes d_R, and sums
// the gradients of the states that chunks go on from.
template <typename T>
INLINE void run_states_backward(float* d_states, T* d_r, const T* from_state, const T* q, const T* k, const T* beta,
                                const float* inner, const T* d_out, const int* chunks, const int* islands, Sizes s) {
    __shared__ float rates[SIDE];
    Operand *a = (Operand*)DYNAMIC_SHARED, *b = a + TILE_OF, *e = b + TILE_OF, *d = e + TILE_OF;
    int parts = (s.value_dim + SIDE - 1) / SIDE, v = blockIdx.x % parts * SIDE, columns = part(v, s.value_dim);
    const int* island = islands + 2 * (blockIdx.x / parts);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim;
    for (int chunk = island[1] - 1; chunk >= island[0]; --chunk) {
        Place p = place(chunks, chunk, s);
        const float* d_after = p.after < 0 ? nullptr : state_of(d_states, p.after, p.head, s) + v;
        float* d_before = p.before < 0 ? nullptr : state_of(d_states, p.before, p.head, s) + v;
        __syncthreads(); // `rates` may still be read
        if (threadIdx.x < SIDE)
            rates[threadIdx.x] = (int)threadIdx.x < p.rows ? widen(beta[at(p.first + threadIdx.x, s.heads, p.head, 1)]) : 0.0f;
        Tile more = {};
        if (d_after)
            EACH_PART(c, s.key_dim) {
                const T* from = from_state + at(p.first, s.heads, p.head, s.key_dim) + c;
                load(a, from, (i64)s.heads * s.key_dim, p.rows, part(c, s.key_dim), no_factors());
                load(b, d_after + (i64)c * s.value_dim, s.value_dim, part(c, s.key_dim), columns, no_factors());
                __syncthreads();
                multiply<false, false>(more, a, b, part(c, s.key_dim));
                __syncthreads();
            }
        __syncthreads();
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v;
        EACH(i, r, c) {
            float of_row = 0.0f;
            if (r < p.rows && c < columns) {
                of_row = widen(d_r[own + r * value_width + c]) + more.x[i];
                narrow(d_r + own + r * value_width + c, of_row);
            }
            narrow(e + r * STRIDE + c, -rates[r] * of_row);
        }
        if (!d_before) continue;
        load(d, d_out + own, value_width, p.rows, columns, no_factors());
        const float* last = inner + at(p.first + p.rows - 1, s.heads, p.head, CHANNELS(s));
        EACH_PART(from, s.key_dim) {
            int keys = part(from, s.key_dim);
            i64 key = p.first * key_width + p.key_head * s.key_dim + from;
            load(a, q + key, key_width, p.rows, keys, decays(inner, p, s, from));
            load(b, k + key, key_width, p.rows, keys, decays(inner, p, s, from));
            __syncthreads();
            Tile state;
            EACH(i, r, c) {
                bool is_real = r < keys && c < columns;
                i64 place = (i64)(from + r) * s.value_dim + c;
                state.x[i] = is_real && d_after ? last[BY_CHANNEL ? from + r : 0] * d_after[place] : 0.0f;
                if (is_real && !p.is_last) state.x[i] += d_before[place];
            }
            multiply<true, false>(state, a, d, p.rows);
            multiply<true, false>(state, b, e, p.rows);
            store(d_before + (i64)from * s.value_dim, s.value_dim, keys, columns, state);
            __syncthreads();
        }
    }
}

#if TENSOR && !BY_CHANNEL
// The same for keys of at most 128 columns, as `run_states_kept`.
INLINE void run_states_backward_kept(float* d_states, bf16* d_r, const bf16* from_state, const bf16* q, const bf16* k,
                                     const bf16* beta, const float* inner, const bf16* d_out, const int* chunks,
                                     const int* islands, Sizes s) {
    Operand *e = (Operand*)DYNAMIC_SHARED, *held = e + TILE_OF, *reads = held + 2 * TILE_OF,
            *queries = reads + 2 * TILE_OF, *keys = queries + 2 * TILE_OF;
    int parts = (s.value_dim + SIDE - 1) / SIDE, v = blockIdx.x % parts * SIDE, columns = part(v, s.value_dim);
    const int* island = islands + 2 * (blockIdx.x / parts);
    i64 key_width = s.heads / s.group * s.key_dim, own_width = s.heads * s.key_dim, value_width = s.heads * s.value_dim;
    auto fetch_early = [&](int chunk) {
        if (chunk < island[0]) return;
        Place p = place(chunks, chunk, s);
        fetch_parts(reads, from_state + at(p.first, s.heads, p.head, s.key_dim), own_width, p.rows, s.key_dim);
        fetch_parts(queries, q + p.first * key_width + p.key_head * s.key_dim, key_width, p.rows, s.key_dim);
    };
    KeptState state = {{}, -1};
    fetch_early(island[1] - 1);
    commit_copies();
    for (int chunk = island[1] - 1; chunk >= island[0]; --chunk) {
        Place p = place(chunks, chunk, s);
        fetch_parts(keys, k + p.first * key_width + p.key_head * s.key_dim, key_width, p.rows, s.key_dim);
        commit_copies();
        i64 own = at(p.first, s.heads, p.head, s.value_dim) + v;
        Tile d = read(d_out + own, value_width, p.rows, columns), sum = read(d_r + own, value_width, p.rows, columns);
        OfRows rates = of_own_rows(beta, p, s), into = of_own_rows(inner, p, s);
        float last = inner[at(p.first + p.rows - 1, s.heads, p.head, 1)];
        state.read_if_other(d_states, p.after, v, columns, p, s, held);
#pragma unroll
        for (int i = 0; i < 16; ++i) d.x[i] *= into.of(i);
        put(e, d);
        wait_for_copies_but_latest();
        __syncthreads();
        if (p.after >= 0)
            EACH_KEPT(i, s.key_dim)
                multiply<false, false>(sum, reads + i * TILE_OF, held + i * TILE_OF, part(SIDE * i, s.key_dim));
        store(d_r + own, value_width, p.rows, columns, sum);
        if (p.before >= 0)
            EACH_KEPT(i, s.key_dim) {
                const float* d_before = state_of(d_states, p.before, p.head, s) + (i64)SIDE * i * s.value_dim + v;
                Tile others = {};
                if (!p.is_last) others = read(d_before, s.value_dim, part(SIDE * i, s.key_dim), columns);
                for (int j = 0; j < 16; ++j) state.x[i].x[j] = fmaf(last, state.x[i].x[j], others.x[j]);
                multiply<true, false>(state.x[i], queries + i * TILE_OF, e, p.rows);
            }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) sum.x[i] *= -rates.of(i) * into.of(i);
        put(e, sum);
        fetch_early(chunk - 1);
        commit_copies();
        wait_for_copies_but_latest();
        __syncthreads();
        if (p.before >= 0) state.add_and_store(d_states, p.before, v, columns, keys, e, p, s, held);
        __syncthreads();
    }
}
#endif

KERNEL(TENSOR_THREADS, delta_states_backward_kept_bf16, float* d_states, bf16* d_r, const bf16* from_state, const bf16* q,
       const bf16* k, const bf16* beta, const float* inner, const bf16* d_out, const int* chunks, const int* islands,
       int heads, int group, int key_dim, int value_dim) {
    IN_KEPT(run_states_backward_kept(d_states, d_r, from_state, q, k, beta, inner, d_out, chunks, islands,
                                     {heads, group, key_dim, value_dim});)
}

KERNEL(256, delta_states_backward_f32, float* d_states, float* d_r, const float* from_state, const float* q,
       const float* k, const float* beta, const float* inner, const float* d_out, const int* chunks, const int* islands,
       int heads, int group, int key_dim, int value_dim) {
    IN_F32(run_states_backward(d_states, d_r, from_state, q, k, beta, inner, d_out, chunks, islands,
                        {heads, group, key_dim, value_dim});)
}
KERNEL(TENSOR_THREADS, delta_states_backward_bf16, float* d_states, bf16* d_r, const bf16* from_state, const bf16* q,
       const bf16* k, const bf16* beta, const float* inner, const bf16* d_out, const int* chunks, const int* islands,
       int heads, int group, int key_dim, int value_dim) {
    IN_BF16(run_states_backward(d_states, d_r, from_state, q, k, beta, inner, d_out, chunks, islands,
                        {heads, group, key_dim, value_dim});)
}

// What the pairs of a chunk add to the gradients of 64 columns of queries and keys, where each channel has its decays:
// `decay` holds e^g of each row and column. `dq` and `up` enter with a row's own decays, `down` with those of later rows.
INLINE void pair_gradients_by_channel(Tile& dq, Tile& up, Tile& down, const Operand* d_p, const Operand* d_m,
                                      const Operand* k, const Operand* q, const float* decay, int rows) {
    EACH(i, r, c) {
        if (r >= rows) continue;
        float along = 1.0f;
#pragma unroll 1
        for (int j = r; j >= 0; --j) {
            float key = widen(k[j * STRIDE + c]) * along;
            dq.x[i] = fmaf(widen(d_p[r * STRIDE + j]), key, dq.x[i]);
            up.x[i] = fmaf(widen(d_m[r * STRIDE + j]), key, up.x[i]);
            along *= decay[j * WIDE_STRIDE + c];
        }
        along = 1.0f;
#pragma unroll 1
        for (int j = r; j < rows; ++j) {
            if (j > r) along *= decay[j * WIDE_STRIDE + c];
            float both = widen(d_p[j * STRIDE + r]) * widen(q[j * STRIDE + c]);
            both = fmaf(widen(d_m[j * STRIDE + r]), widen(k[j * STRIDE + c]), both);
            down.x[i] = fmaf(along, both, down.x[i]);
        }
    }
}

// One block per chunk and head: the gradients of all operands, those of queries and keys for each value head. A logarithm
// gets Σ q d_q + k d_k, with - for what enters with the decays of later rows, and is in all sums from its row on.
template <typename T>
INLINE void gradients(T* d_q, T* d_k, T* d_v, float* d_log_decay, T* d_beta, const T* q, const T* k, const T* beta,
                      const float* log_decay, const float* inner, const float* outer, const float* states,
                      const float* d_states, const T* y, const T* d_r, const T* d_out, const int* chunks, Sizes s) {
    __shared__ float rates[SIDE], of_last[SIDE], d_logs[SIDE];
    __shared__ double sums[SIDE];
    float* z = DYNAMIC_SHARED;
    Operand *a = (Operand*)(z + WIDE), *b = a + TILE_OF, *d_p = b + TILE_OF, *d_m = d_p + TILE_OF;
    Place p = place(chunks, blockIdx.x, s);
    read_rates(rates, sums, beta, log_decay, p, s);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim, own_width = s.heads * s.key_dim;
    i64 values = at(p.first, s.heads, p.head, s.value_dim);
    i64 keys = p.first * key_width + p.key_head * s.key_dim, own_keys = at(p.first, s.heads, p.head, s.key_dim);
    int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < p.rows; r += 8) {
        float sum = 0.0f;
        for (int c = lane; c < s.value_dim; c += 32) {
            float d = widen(d_r[values + r * value_width + c]);
            narrow(d_v + values + r * value_width + c, rates[r] * d);
            sum = fmaf(d, widen(y[values + r * value_width + c]), sum);
        }
        sum = warp_sum(sum);
        if (lane == 0) narrow(d_beta + at(p.first + r, s.heads, p.head, 1), sum);
    }
    Tile of_p = {}, of_m = {};
    EACH_PART(v, s.value_dim) {
        int columns = part(v, s.value_dim);
        load(a, d_out + values + v, value_width, p.rows, columns, no_factors());
        load(b, y + values + v, value_width, p.rows, columns, of_rows(rates, 1.0f));
        __syncthreads();
        multiply<false, true>(of_p, a, b, columns);
        __syncthreads();
        load(a, d_r + values + v, value_width, p.rows, columns, of_rows(rates, -1.0f));
        __syncthreads();
        multiply<false, true>(of_m, a, b, columns);
        __syncthreads();
    }
    EACH(i, r, c) {
        float ratio = c <= r && !BY_CHANNEL ? expf((float)(sums[r] - sums[c])) : 1.0f;
        of_p.x[i] = c <= r ? of_p.x[i] * ratio : 0.0f;
        of_m.x[i] = c < r ? of_m.x[i] * ratio : 0.0f;
    }
    put(d_p, of_p);
    put(d_m, of_m);
    const float* before = p.before < 0 ? nullptr : state_of(states, p.before, p.head, s);
    const float* d_after = p.after < 0 ? nullptr : state_of(d_states, p.after, p.head, s);
    if (threadIdx.x < SIDE) d_logs[threadIdx.x] = 0.0f;
    EACH_PART(from, s.key_dim) {
        int columns = part(from, s.key_dim);
        Tile dq = {}, up = {}, down = {};
        EACH_PART(v, s.value_dim) {
            int depth = part(v, s.value_dim);
            i64 state = (i64)from * s.value_dim + v;
            if (before) {
                load(a, d_out + values + v, value_width, p.rows, depth, no_factors());
                load(b, before + state, s.value_dim, columns, depth, no_factors());
                __syncthreads();
                multiply<false, true>(dq, a, b, depth);
                __syncthreads();
                load(a, d_r + values + v, value_width, p.rows, depth, of_rows(rates, -1.0f));
                __syncthreads();
                multiply<false, true>(up, a, b, depth);
                __syncthreads();
            }
            if (d_after) {
                load(a, y + values + v, value_width, p.rows, depth, of_rows(rates, 1.0f));
                load(b, d_after + state, s.value_dim, columns, depth, no_factors());
                __syncthreads();
                multiply<false, true>(down, a, b, depth);
                __syncthreads();
            }
        }
        Factors into = decays(inner, p, s, from), rest = decays(outer, p, s, from);
        EACH(i, r, c) {
            bool is_real = r < p.rows && c < columns;
            dq.x[i] *= is_real ? into.of(r, c) : 0.0f;
            up.x[i] *= is_real ? into.of(r, c) : 0.0f;
            down.x[i] *= is_real ? rest.of(r, c) : 0.0f;
            z[r * WIDE_STRIDE + c] = is_real ? widen(k[keys + r * key_width + from + c]) * down.x[i] : 0.0f;
        }
        __syncthreads();
        // What the sum over the whole chunk gets: by what lasts of the keys, and of the state.
        if (threadIdx.x < SIDE) {
            float sum = 0.0f;
            for (int r = 0; r < p.rows; ++r) sum += z[r * WIDE_STRIDE + threadIdx.x];
            of_last[threadIdx.x] = sum;
        }
        __syncthreads();
        if (before && d_after)
            for (int c = threadIdx.x / 32; c < columns; c += 8) {
                i64 row = (i64)(from + c) * s.value_dim;
                float sum = 0.0f;
                for (int v = lane; v < s.value_dim; v += 32) sum = fmaf(before[row + v], d_after[row + v], sum);
                sum = warp_sum(sum);
                if (lane == 0) of_last[c] = fmaf(into.of(p.rows - 1, c), sum, of_last[c]);
            }
        load(a, k + keys + from, key_width, p.rows, columns, no_factors());
        load(b, q + keys + from, key_width, p.rows, columns, no_factors());
        if (BY_CHANNEL)
            EACH(i, r, c) {
                bool is_real = r < p.rows && c < columns;
                const float* log = log_decay + own_keys + r * own_width + from + c;
                z[r * WIDE_STRIDE + c] = is_real ? expf(*log) : 0.0f;
            }
        __syncthreads();
        if (!BY_CHANNEL) {
            multiply<false, false>(dq, d_p, a, p.rows);
            multiply<false, false>(up, d_m, a, p.rows);
            multiply<true, false>(down, d_p, b, p.rows);
            multiply<true, false>(down, d_m, a, p.rows);
        } else {
            pair_gradients_by_channel(dq, up, down, d_p, d_m, a, b, z, p.rows);
        }
        __syncthreads();
        EACH(i, r, c) {
            float sum = 0.0f;
            if (r < p.rows && c < columns) {
                i64 key = keys + r * key_width + from + c, own = own_keys + r * own_width + from + c;
                narrow(d_q + own, dq.x[i]);
                narrow(d_k + own, up.x[i] + down.x[i]);
                sum = fmaf(widen(q[key]), dq.x[i], widen(k[key]) * (up.x[i] - down.x[i]));
            }
            z[r * WIDE_STRIDE + c] = sum;
        }
        __syncthreads();
        int own = threadIdx.x;
        if (!BY_CHANNEL && own < p.rows) {
            float sum = d_logs[own];
            for (int c = 0; c < columns; ++c) sum += z[own * WIDE_STRIDE + c] + (own == p.rows - 1 ? of_last[c] : 0.0f);
            d_logs[own] = sum;
        } else if (BY_CHANNEL && own < columns) {
            float sum = of_last[own];
            for (int r = p.rows - 1; r >= 0; --r) {
                sum += z[r * WIDE_STRIDE + own];
                d_log_decay[own_keys + r * own_width + from + own] = sum;
            }
        }
        __syncthreads();
    }
    if (!BY_CHANNEL && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int r = p.rows - 1; r >= 0; --r) {
            sum += d_logs[r];
            d_log_decay[at(p.first + r, s.heads, p.head, 1)] = sum;
        }
    }
}

#if TENSOR && !BY_CHANNEL
// The same for values of at most 128 columns. What belongs to them is read once and as it is: factors of its rows are
// taken for those of the products' rows and columns.
INLINE void gradients_kept(bf16* d_q, bf16* d_k, bf16* d_v, float* d_log_decay, bf16* d_beta, const bf16* q,
                           const bf16* k, const bf16* beta, const float* log_decay, const float* inner,
                           const float* outer, const float* states, const float* d_states, const bf16* y,
                           const bf16* d_r, const bf16* d_out, const int* chunks, Sizes s) {
    __shared__ float rates[SIDE], logs[2][SIDE], of_warps[32];
    __shared__ double sums[SIDE];
    Operand *outs = (Operand*)DYNAMIC_SHARED, *ys = outs + 2 * TILE_OF, *rs = ys + 2 * TILE_OF, *a = rs + 2 * TILE_OF,
            *b = a + TILE_OF, *d_p = b + TILE_OF, *d_m = d_p + TILE_OF;
    Place p = place(chunks, blockIdx.x, s);
    i64 key_width = s.heads / s.group * s.key_dim, value_width = s.heads * s.value_dim, own_width = s.heads * s.key_dim;
    i64 values = at(p.first, s.heads, p.head, s.value_dim);
    i64 keys = p.first * key_width + p.key_head * s.key_dim, own_keys = at(p.first, s.heads, p.head, s.key_dim);
    fetch_parts(outs, d_out + values, value_width, p.rows, s.value_dim);
    fetch_parts(ys, y + values, value_width, p.rows, s.value_dim);
    fetch_parts(rs, d_r + values, value_width, p.rows, s.value_dim);
    commit_copies();
    OfRows rate = of_own_rows(beta, p, s), into = of_own_rows(inner, p, s), rest = of_own_rows(outer, p, s);
    float last = inner[at(p.first + p.rows - 1, s.heads, p.head, 1)];
    read_rates(rates, sums, beta, log_decay, p, s);
    wait_for_copies();
    __syncthreads();

    // Four threads share a row.
    int own = threadIdx.x / 4;
    bool is_whole_row = is_whole<8>(d_v + values, value_width, s.value_dim);
    float sum = 0.0f;
    for (int c = threadIdx.x % 4 * 8; c < s.value_dim; c += 32) {
        int in_tile = c / SIDE * TILE_OF + own * STRIDE + c % SIDE;
        Chunk<8, bf16> of_r = *(const Chunk<8, bf16>*)(rs + in_tile), of_y = *(const Chunk<8, bf16>*)(ys + in_tile), of_v;
        for (int j = 0; j < 8; ++j) {
            sum = fmaf(widen(of_r.x[j]), widen(of_y.x[j]), sum);
            narrow(&of_v.x[j], rates[own] * widen(of_r.x[j]));
        }
        bf16* to = d_v + values + own * value_width + c;
        if (own >= p.rows) continue;
        if (is_whole_row) *(Chunk<8, bf16>*)to = of_v;
        else
            for (int j = 0; j < 8; ++j)
                if (c + j < s.value_dim) to[j] = of_v.x[j];
    }
    sum = quad_sum(sum);
    if (threadIdx.x % 4 == 0 && own < p.rows) narrow(d_beta + at(p.first + own, s.heads, p.head, 1), sum);

    Tile of_p = {}, of_m = {};
    EACH_KEPT(i, s.value_dim) {
        multiply<false, true>(of_p, outs + i * TILE_OF, ys + i * TILE_OF, part(SIDE * i, s.value_dim));
        multiply<false, true>(of_m, rs + i * TILE_OF, ys + i * TILE_OF, part(SIDE * i, s.value_dim));
    }
    EACH(i, r, c) {
        float ratio = c <= r ? expf((float)(sums[r] - sums[c])) * rates[c] : 0.0f;
        of_p.x[i] = c <= r ? of_p.x[i] * ratio : 0.0f;
        of_m.x[i] = c < r ? of_m.x[i] * -(ratio * rates[r]) : 0.0f;
    }
    put(d_p, of_p);
    put(d_m, of_m);

    const float* before = p.before < 0 ? nullptr : state_of(states, p.before, p.head, s);
    const float* d_after = p.after < 0 ? nullptr : state_of(d_states, p.after, p.head, s);
    // What the sum over the whole chunk gets, by what lasts of the keys and of the state; and each row.
    float lasting = 0.0f, of_rows[2] = {};
    EACH_PART(from, s.key_dim) {
        int columns = part(from, s.key_dim);
        Tile dq = {}, up = {}, down = {};
        EACH_PART(v, s.value_dim) {
            int depth = part(v, s.value_dim), skip = v / SIDE * TILE_OF;
            i64 state = (i64)from * s.value_dim + v;
            Tile of_before = {}, of_after = {};
            if (before) of_before = read(before + state, s.value_dim, columns, depth);
            if (d_after) of_after = read(d_after + state, s.value_dim, columns, depth);
            float both = 0.0f;
#pragma unroll
            for (int i = 0; i < 16; ++i) both = fmaf(of_before.x[i], of_after.x[i], both);
            lasting = fmaf(last, both, lasting);
            put(a, of_before);
            put(b, of_after);
            __syncthreads();
            if (before) multiply<false, true>(dq, outs + skip, a, depth);
            if (before) multiply<false, true>(up, rs + skip, a, depth);
            if (d_after) multiply<false, true>(down, ys + skip, b, depth);
            __syncthreads();
        }
        fetch(a, k + keys + from, key_width, p.rows, columns);
        fetch(b, q + keys + from, key_width, p.rows, columns);
        commit_copies();
        wait_for_copies();
        __syncthreads();
        EACH(i, r, c) {
            dq.x[i] *= into.of(i);
            up.x[i] *= -rate.of(i) * into.of(i);
            down.x[i] *= rate.of(i) * rest.of(i);
            lasting = fmaf(widen(a[r * STRIDE + c]), down.x[i], lasting);
        }
        multiply<false, false>(dq, d_p, a, p.rows);
        multiply<false, false>(up, d_m, a, p.rows);
        multiply<true, false>(down, d_p, b, p.rows);
        multiply<true, false>(down, d_m, a, p.rows);
        EACH(i, r, c) {
            float with_key = widen(a[r * STRIDE + c]) * (up.x[i] - down.x[i]);
            of_rows[i % 4 / 2] += fmaf(widen(b[r * STRIDE + c]), dq.x[i], with_key);
            up.x[i] += down.x[i];
        }
        store(d_q + own_keys + from, own_width, p.rows, columns, dq);
        store(d_k + own_keys + from, own_width, p.rows, columns, up);
        __syncthreads();
    }
    for (int half = 0; half < 2; ++half) {
        float of_row = quad_sum(of_rows[half]);
        if (threadIdx.x % 4 == 0) logs[threadIdx.x / 128][row_of(2 * half)] = of_row;
    }
    sum = block_sum(lasting, of_warps);
    if ((int)threadIdx.x >= p.rows) return;
    for (int r = p.rows - 1; r >= (int)threadIdx.x; --r) sum += logs[0][r] + logs[1][r];
    d_log_decay[at(p.first + threadIdx.x, s.heads, p.head, 1)] = sum;
}
#endif

KERNEL(TENSOR_THREADS, delta_gradients_kept_bf16, bf16* d_q, bf16* d_k, bf16* d_v, float* d_log_decay, bf16* d_beta,
       const bf16* q, const bf16* k, const bf16* beta, const float* log_decay, const float* inner, const float* outer,
       const float* states, const float* d_states, const bf16* y, const bf16* d_r, const bf16* d_out,
       const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_KEPT(gradients_kept(d_q, d_k, d_v, d_log_decay, d_beta, q, k, beta, log_decay, inner, outer, states, d_states, y,
                           d_r, d_out, chunks, {heads, group, key_dim, value_dim});)
}

KERNEL(256, delta_gradients_f32, float* d_q, float* d_k, float* d_v, float* d_log_decay, float* d_beta, const float* q,
       const float* k, const float* beta, const float* log_decay, const float* inner, const float* outer,
       const float* states, const float* d_states, const float* y, const float* d_r, const float* d_out,
       const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_F32(gradients(d_q, d_k, d_v, d_log_decay, d_beta, q, k, beta, log_decay, inner, outer, states, d_states, y, d_r, d_out,
              chunks, {heads, group, key_dim, value_dim});)
}
KERNEL(TENSOR_THREADS, delta_gradients_bf16, bf16* d_q, bf16* d_k, bf16* d_v, float* d_log_decay, bf16* d_beta, const bf16* q,
       const bf16* k, const bf16* beta, const float* log_decay, const float* inner, const float* outer,
       const float* states, const float* d_states, const bf16* y, const bf16* d_r, const bf16* d_out,
       const int* chunks, int heads, int group, int key_dim, int value_dim) {
    IN_BF16(gradients(d_q, d_k, d_v, d_log_decay, d_beta, q, k, beta, log_decay, inner, outer, states, d_states, y, d_r, d_out,
              chunks, {heads, group, key_dim, value_dim});)
}

// The sums over the value heads of each key head; one block per row.
template <typename T>
INLINE void sum_of_groups(T* out, const T* x, int heads, int group, int dim) {
    for (int i = threadIdx.x; i < heads / group * dim; i += blockDim.x) {
        float sum = 0.0f;
        for (int member = 0; member < group; ++member)
            sum += widen(x[at(blockIdx.x, heads, i / dim * group + member, dim) + i % dim]);
        narrow(out + (i64)blockIdx.x * (heads / group * dim) + i, sum);
    }
}

KERNEL(256, delta_groups_f32, float* out, const float* x, int heads, int group, int dim) {
    sum_of_groups(out, x, heads, group, dim);
}
KERNEL(256, delta_groups_bf16, bf16* out, const bf16* x, int heads, int group, int dim) {
    sum_of_groups(out, x, heads, group, dim);
}
