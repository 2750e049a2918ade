// Gated delta rules by chunks of 64 rows; the equations are those of ops/delta/chunk.rs and ops/delta/backward.rs.
//
// The rows of a chunk are solved with one matrix, X = M - M β X (row by row; M is strictly lower), for both passes:
//
//     Y = (I - X β) (V - (Γ ⊙ K) S₀)          d_R = (I - β X)ᵀ (Pᵀ d_O + (Γ_C / Γ ⊙ K) d_S)          U = β Y,  E = β d_R
//
// So everything but the state is computed for all chunks at once. What is left in order is, per chunk and 64 columns of
// values, two products: Y from S₀ and the next S, or d_R from d_S and d_S₀.
//
// A block has 256 threads and works on tiles of 64 by 64. TENSOR = 1: values and the operands of products are bf16, products
// on tensor cores. TENSOR = 0: both are f32. States and sums are f32 in both. BY_CHANNEL = 1: each channel of a key has its
// own decays.

#define SIDE 64
#define WIDE_STRIDE 68 // of a tile in f32
#if TENSOR
typedef bf16 Operand;
#define STRIDE 72
#define IN_F32(...)
#define IN_BF16(...) __VA_ARGS__
#else
typedef float Operand;
#define STRIDE WIDE_STRIDE
#define IN_F32(...) __VA_ARGS__
#define IN_BF16(...)
#endif
#if TENSOR && !BY_CHANNEL
#define IN_KEPT(...) __VA_ARGS__
#else
#define IN_KEPT(...)
#endif
#define WIDE (SIDE * WIDE_STRIDE) // elements
#define TILE_OF (SIDE * STRIDE)
#define FORGOTTEN -1e4f // logarithms below are taken for it, as on the CPU
#define INLINE __device__ __forceinline__
#ifdef EMULATED
#define TENSOR_THREADS 256
#define PREPARE_THREADS 256
#else
#define TENSOR_THREADS 256, 2 // two blocks at a time on a multiprocessor
#define PREPARE_THREADS 256, 3 // three
#endif

struct Sizes {
    int heads, group, key_dim, value_dim;
};
#define CHANNELS(s) (BY_CHANNEL ? (s).key_dim : 1)

// A chunk, and the value head of a block.
struct Place {
    i64 first;
    int rows;
    int before, after; // the states that it goes on from and ends in, or -1: zeros, and one that nobody reads
    bool is_last; // is it the last chunk that goes on from `before`?
    int head, key_head;
};

INLINE Place place(const int* chunks, int chunk, Sizes s) {
    const int* own = chunks + 5 * (i64)chunk;
    int head = blockIdx.y;
    return {own[0], own[1], own[2], own[3], own[4] != 0, head, head / s.group};
}

// Where a head's columns of a row begin, of `dim` columns a head.
INLINE i64 at(i64 row, int heads, int head, int dim) { return (row * heads + head) * dim; }

// A head of a state.
template <typename S>
INLINE S* state_of(S* states, int state, int head, Sizes s) {
    return states + ((i64)state * s.heads + head) * s.key_dim * s.value_dim;
}

// Factors of the elements of a tile: one for each row, or for each element.
struct Factors {
    const float* x;
    i64 row;
    int column;
    float sign;
    INLINE float of(int r, int c) const { return sign * (x ? x[r * row + c * column] : 1.0f); }
};

INLINE Factors no_factors() { return {nullptr, 0, 0, 1.0f}; }
INLINE Factors of_rows(const float* x, float sign) { return {x, 1, 0, sign}; }
// Decays from column `c` of the keys on.
INLINE Factors decays(const float* x, const Place& p, Sizes s, int c) {
    i64 first = at(p.first, s.heads, p.head, CHANNELS(s));
    return {x + first + BY_CHANNEL * c, (i64)s.heads * CHANNELS(s), BY_CHANNEL, 1.0f};
}

// A tile in the registers of a block: 16 elements a thread.
struct Tile {
    float x[16];
};

#if TENSOR
INLINE int row_of(int i) { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i % 4 / 2 * 8; }
INLINE int column_of(int i) { return threadIdx.x / 128 * 32 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
#else
INLINE int row_of(int i) { return threadIdx.x / 16 * 4 + i / 4; }
INLINE int column_of(int i) { return threadIdx.x % 16 + i % 4 * 16; }
#endif
#define EACH(i, r, c) \
    _Pragma("unroll") for (int i = 0, r = row_of(0), c = column_of(0); i < 16; ++i, r = row_of(i), c = column_of(i))

// tile += a b, over `depth` columns of a. A turned operand is stored as its transpose. Both are 0 from `depth` on.
template <bool A_TURNED, bool B_TURNED>
INLINE void multiply(Tile& tile, const Operand* a, const Operand* b, int depth) {
#if TENSOR
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16, column = threadIdx.x / 128 * 32;
    int in_eight = lane % 8, odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
    for (int k = 0; k < depth; k += 16) {
        u32 left[4], right[4];
        if (A_TURNED) load_transposed(left, a + (k + upper + in_eight) * STRIDE + row + odd);
        else load_matrices(left, a + (row + odd + in_eight) * STRIDE + k + upper);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int n = column + 16 * half;
            if (B_TURNED) load_matrices(right, b + (n + upper + in_eight) * STRIDE + k + odd);
            else load_transposed(right, b + (k + odd + in_eight) * STRIDE + n + upper);
            multiply_add(tile.x + 8 * half, left, right[0], right[1]);
            multiply_add(tile.x + 8 * half + 4, left, right[2], right[3]);
        }
    }
#else
    int row = row_of(0), column = column_of(0);
    for (int k = 0; k < depth; k += 4) {
        float left[4][4], right[4][4]; // [row][k], [k][column]
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Chunk<4, float> own = *(const Chunk<4, float>*)(A_TURNED ? a + (k + i) * STRIDE + row : a + (row + i) * STRIDE + k);
#pragma unroll
            for (int j = 0; j < 4; ++j) (A_TURNED ? left[j][i] : left[i][j]) = own.x[j];
            if (B_TURNED) own = *(const Chunk<4, float>*)(b + (column + 16 * i) * STRIDE + k);
#pragma unroll
            for (int j = 0; j < 4; ++j) (B_TURNED ? right[j][i] : right[i][j]) = B_TURNED ? own.x[j] : b[(k + i) * STRIDE + column + 16 * j];
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int i = 0; i < 16; ++i) tile.x[i] = fmaf(left[i / 4][j], right[j][i % 4], tile.x[i]);
    }
#endif
}

template <int N, typename X>
INLINE bool is_whole(const X* x, i64 stride, int columns) {
    return stride % N == 0 && columns % N == 0 && (u64)x % sizeof(Chunk<N, X>) == 0;
}

// A tile of a matrix as an operand, with zeros beyond `rows` and `columns`.
template <typename X>
INLINE void load(Operand* to, const X* from, i64 stride, int rows, int columns, Factors factors) {
    constexpr int N = 16 / sizeof(X);
    if (!is_whole<N>(from, stride, columns)) {
#pragma unroll 1
        for (int at = threadIdx.x; at < SIDE * SIDE; at += 256) {
            int r = at / SIDE, c = at % SIDE;
            narrow(to + r * STRIDE + c, r < rows && c < columns ? widen(from[r * stride + c]) * factors.of(r, c) : 0.0f);
        }
        return;
    }
    // All are read before the first is used.
    Chunk<N, X> own[16 / N];
    float of_row[16 / N];
    int first = threadIdx.x * N / SIDE, c = threadIdx.x * N % SIDE;
#pragma unroll
    for (int i = 0; i < 16 / N; ++i) {
        int r = first + 256 * N / SIDE * i;
        bool is_real = r < rows && c < columns;
        own[i] = {};
        if (is_real) own[i] = *(const Chunk<N, X>*)(from + r * stride + c);
        of_row[i] = is_real && !BY_CHANNEL ? factors.of(r, c) : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < 16 / N; ++i) {
        int r = first + 256 * N / SIDE * i;
        bool has_factors = BY_CHANNEL && r < rows && c < columns;
        Chunk<N, Operand> both;
        for (int j = 0; j < N; ++j) narrow(&both.x[j], widen(own[i].x[j]) * (has_factors ? factors.of(r, c + j) : of_row[i]));
        *(Chunk<N, Operand>*)(to + r * STRIDE + c) = both;
    }
}

// Elements `i` and `i + 1` of a tile lie side by side on tensor cores.
#define EACH_TWO(i, r) _Pragma("unroll") for (int i = 0, r = row_of(0); i < 16; i += 2, r = row_of(i))

INLINE void put(Operand* to, const Tile& tile) {
#if TENSOR
    EACH_TWO(i, r) *(u32*)(to + r * STRIDE + column_of(i)) = pack(tile.x[i], tile.x[i + 1]);
#else
    EACH(i, r, c) to[r * STRIDE + c] = tile.x[i];
#endif
}

template <typename T>
INLINE void store(T* to, i64 stride, int rows, int columns, const Tile& tile) {
    bool in_pairs = TENSOR && is_whole<2>(to, stride, columns);
    EACH_TWO(i, r) {
        int c = column_of(i), next = column_of(i + 1);
        if (r >= rows || c >= columns) continue;
        T* own = to + r * stride;
        if (in_pairs) {
            Chunk<2, T> two;
            narrow(&two.x[0], tile.x[i]);
            narrow(&two.x[1], tile.x[i + 1]);
            *(Chunk<2, T>*)(own + c) = two;
        } else {
            narrow(own + c, tile.x[i]);
            if (next < columns) narrow(own + next, tile.x[i + 1]);
        }
    }
}

// A tile of a matrix, with zeros beyond `rows` and `columns`.
template <typename T>
INLINE Tile read(const T* from, i64 stride, int rows, int columns) {
    Tile tile = {};
    bool in_pairs = TENSOR && is_whole<2>(from, stride, columns);
    Chunk<2, T> all[8] = {};
    EACH_TWO(i, r) {
        int c = column_of(i), next = column_of(i + 1);
        if (r >= rows || c >= columns) continue;
        const T* own = from + r * stride;
        if (in_pairs) {
            all[i / 2] = *(const Chunk<2, T>*)(own + c);
        } else {
            all[i / 2].x[0] = own[c];
            if (next < columns) all[i / 2].x[1] = own[next];
        }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) tile.x[i] = widen(all[i / 2].x[i % 2]);
    return tile;
}

INLINE int part(int from, int dim) { return min(SIDE, dim - from); }
#define EACH_PART(from, dim) _Pragma("unroll 1") for (int from = 0; from < (dim); from += SIDE)

#if TENSOR
// A tile as an operand by copies that go on while the block works.
INLINE void fetch(Operand* to, const bf16* from, i64 stride, int rows, int columns) {
    if (!is_whole<8>(from, stride, columns)) {
        load(to, from, stride, rows, columns, no_factors());
        return;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int r = threadIdx.x / 8 + 32 * i, c = threadIdx.x % 8 * 8;
        bool is_real = r < rows && c < columns;
        copy_async(to + r * STRIDE + c, is_real ? from + r * stride + c : from, is_real);
    }
}

// For those of all commits.
INLINE void wait_for_copies() {
    commit_copies();
    wait_for_copies_but_latest();
}

// Parts of keys or values that a block keeps.
#define PARTS_KEPT 2
#define EACH_KEPT(i, dim) _Pragma("unroll") for (int i = 0; i < PARTS_KEPT; ++i) if (SIDE * i < (dim))

INLINE void fetch_parts(Operand* to, const bf16* from, i64 stride, int rows, int dim) {
    EACH_KEPT(i, dim) fetch(to + i * TILE_OF, from + SIDE * i, stride, rows, part(SIDE * i, dim));
}

// A state of at most 128 by 64 in the registers of a block; `operands` are its parts in bf16.
struct KeptState {
    Tile x[PARTS_KEPT];
    int number; // -1: zeros

    // Does nothing if it is there already.
    INLINE void read_if_other(const float* states, int wanted, int v, int columns, const Place& p, Sizes s, Operand* operands) {
        if (wanted == number) return;
        number = wanted;
        EACH_KEPT(i, s.key_dim) {
            x[i] = {};
            if (wanted >= 0)
                x[i] = read(state_of(states, wanted, p.head, s) + (i64)SIDE * i * s.value_dim + v, s.value_dim,
                            part(SIDE * i, s.key_dim), columns);
            put(operands + i * TILE_OF, x[i]);
        }
    }
    // x += aᵀ b, which is a state from now on.
    INLINE void add_and_store(float* states, int as, int v, int columns, const Operand* a, const Operand* b, const Place& p,
                              Sizes s, Operand* operands) {
        number = as;
        EACH_KEPT(i, s.key_dim) {
            multiply<true, false>(x[i], a + i * TILE_OF, b, p.rows);
            store(state_of(states, as, p.head, s) + (i64)SIDE * i * s.value_dim + v, s.value_dim, part(SIDE * i, s.key_dim),
                  columns, x[i]);
            put(operands + i * TILE_OF, x[i]);
        }
    }
};

// Over the four threads that have the same rows of a tile.
INLINE float quad_sum(float x) {
    x += __shfl_xor_sync(FULL_WARP, x, 1);
    return x + __shfl_xor_sync(FULL_WARP, x, 2);
}

// Numbers of the two rows that a thread has of a tile.
struct OfRows {
    float x[2];
    INLINE float of(int i) const { return x[i % 4 / 2]; }
};

template <typename X>
INLINE OfRows of_own_rows(const X* from, const Place& p, Sizes s) {
    OfRows own;
    for (int i = 0; i < 2; ++i) {
        int r = row_of(2 * i);
        own.x[i] = r < p.rows ? widen(from[at(p.first + r, s.heads, p.head, 1)]) : 0.0f;
    }
    return own;
}
#endif

// Copies a chunk's rates, 0 beyond its rows, and sums its logarithms from its first row on.
template <typename T>
INLINE void read_rates(float* rates, double* sums, const T* beta, const float* log_decay, const Place& p, Sizes s) {
    int r = threadIdx.x;
    if (r < SIDE) {
        rates[r] = r < p.rows ? widen(beta[at(p.first + r, s.heads, p.head, 1)]) : 0.0f;
        bool is_summed = r < p.rows && !BY_CHANNEL;
        sums[r] = is_summed ? fmaxf(log_decay[at(p.first + r, s.heads, p.head, 1)], FORGOTTEN) : 0.0f;
    }
    __syncthreads();
    for (int step = 1; step < SIDE && !BY_CHANNEL; step *= 2) {
        double earlier = r < SIDE && r >= step ? sums[r - step] : 0.0;
        __syncthreads();
        if (r < SIDE) sums[r] += earlier;
        __syncthreads();
    }
}

// Σ_c x_rc k_ic e^(G_rc - G_ic) for i <= r into `wide`, where each channel has its decays. Four threads share an i.
template <typename T>
INLINE void pairs_by_channel(float* wide, const T* x, const T* k, const float* log_decay, const Place& p, Sizes s) {
    int own = threadIdx.x / 4, lane = threadIdx.x % 4, key_heads = s.heads / s.group;
    for (int r = lane; r < SIDE; r += 4) wide[r * WIDE_STRIDE + own] = 0.0f;
    __syncwarp();
    for (int from = 0; from < s.key_dim; from += 16) {
        float decay[4], k_own[4];
        int c = from + 4 * lane;
        for (int j = 0; j < 4; ++j) {
            decay[j] = 1.0f;
            bool is_real = own < p.rows && c + j < s.key_dim;
            k_own[j] = is_real ? widen(k[at(p.first + own, key_heads, p.key_head, s.key_dim) + c + j]) : 0.0f;
        }
#pragma unroll 1
        for (int r = 0; r < p.rows; ++r) {
            float sum = 0.0f;
            const T* x_row = x + at(p.first + r, key_heads, p.key_head, s.key_dim);
            const float* logs = log_decay + at(p.first + r, s.heads, p.head, s.key_dim);
            for (int j = 0; j < 4; ++j) {
                if (r < own || c + j >= s.key_dim) continue;
                if (r > own) decay[j] *= expf(logs[c + j]);
                sum = fmaf(widen(x_row[c + j]) * k_own[j], decay[j], sum);
            }
            sum += __shfl_xor_sync(FULL_WARP, sum, 1);
            sum += __shfl_xor_sync(FULL_WARP, sum, 2);
            if (lane == 0 && r >= own) wide[r * WIDE_STRIDE + own] += sum;
        }
    }
    __syncthreads();
}

// P with queries as x, or with keys M, which is strictly lower. `a` and `b` are followed by each other in memory.
template <bool STRICT, typename T>
INLINE Tile pairs(const T* x, const T* k, const float* log_decay, const double* sums, const Place& p, Sizes s, Operand* a,
                  Operand* b) {
    Tile tile = {};
    int width = s.heads / s.group * s.key_dim;
    i64 from = (p.first * width) + p.key_head * s.key_dim;
    if (BY_CHANNEL) {
        float* wide = (float*)a;
        pairs_by_channel(wide, x, k, log_decay, p, s);
        EACH(i, r, c) tile.x[i] = c < r + !STRICT ? wide[r * WIDE_STRIDE + c] : 0.0f;
        __syncthreads();
        return tile;
    }
    EACH_PART(c, s.key_dim) {
        load(a, x + from + c, width, p.rows, part(c, s.key_dim), no_factors());
        if (!STRICT) load(b, k + from + c, width, p.rows, part(c, s.key_dim), no_factors());
        __syncthreads();
        multiply<false, true>(tile, a, STRICT ? a : b, part(c, s.key_dim));
        __syncthreads();
    }
    EACH(i, r, c) tile.x[i] = c < r + !STRICT && r < p.rows ? tile.x[i] * expf((float)(sums[r] - sums[c])) : 0.0f;
    return tile;
}

// X = M - M β X, 16 rows at a time: first what the rows before them give, by all threads, then a thread per column.
INLINE void solve(float* x, const float* m, const float* rates) {
    int column = threadIdx.x % SIDE;
    for (int from = 0; from < SIDE; from += 16) {
        int row = from + threadIdx.x / SIDE * 4;
        float sum[4];
        for (int j = 0; j < 4; ++j) sum[j] = m[(row + j) * WIDE_STRIDE + column];
        for (int i = 0; i < from; i += 4) {
            float earlier[4];
            for (int k = 0; k < 4; ++k) earlier[k] = rates[i + k] * x[(i + k) * WIDE_STRIDE + column];
            for (int j = 0; j < 4; ++j) {
                Chunk<4, float> of_row = *(const Chunk<4, float>*)(m + (row + j) * WIDE_STRIDE + i);
                for (int k = 0; k < 4; ++k) sum[j] = fmaf(-of_row.x[k], earlier[k], sum[j]);
            }
        }
        for (int j = 0; j < 4; ++j) x[(row + j) * WIDE_STRIDE + column] = sum[j];
        __syncthreads();
        if (threadIdx.x < SIDE) {
            float own[16], earlier[16];
            for (int r = 0; r < 16; ++r) own[r] = x[(from + r) * WIDE_STRIDE + column];
#pragma unroll
            for (int r = 0; r < 16; ++r) {
#pragma unroll
                for (int i = 0; i < r; ++i) {
                    Chunk<4, float> of_row = *(const Chunk<4, float>*)(m + (from + r) * WIDE_STRIDE + from + i / 4 * 4);
                    own[r] = fmaf(-of_row.x[i % 4], earlier[i], own[r]);
                }
                earlier[r] = rates[from + r] * own[r];
            }
            for (int r = 0; r < 16; ++r) x[(from + r) * WIDE_STRIDE + column] = own[r];
        }
        __syncthreads();
    }
}

// Makes X. `m` holds a tile in f32.
template <typename T>
INLINE void solve_chunk(float* x, float* m, Operand* a, const T* k, const float* log_decay, const float* rates,
                        const double* sums, const Place& p, Sizes s) {
    // By channel, pairs need a tile in f32: `m`, where they are read before they are written.
    Tile tile = pairs<true>(k, k, log_decay, sums, p, s, BY_CHANNEL ? (Operand*)m : a, a);
    EACH(i, r, c) m[r * WIDE_STRIDE + c] = tile.x[i];
    __syncthreads();
    solve(x, m, rates);
}

// I - X β, or I - β X.
template <bool BEHIND>
INLINE void put_solution(Operand* to, const float* x, const float* rates) {
    EACH(i, r, c) narrow(to + r * STRIDE + c, (r == c ? 1.0f : 0.0f) - x[r * WIDE_STRIDE + c] * rates[BEHIND ? c : r]);
    __syncthreads();
}
