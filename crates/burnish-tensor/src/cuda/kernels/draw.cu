// Chooses ids from rows of logits as burnish-engine does on the host (choose.rs, past.rs, filters.rs).
//
// Nothing is sorted. A filter keeps the ids whose key is below a bound, and the bound is found by histograms of the keys:
// one pass over the row finds the bin in which the filter cuts, the next one divides that bin. Counts and weights are
// integers, so their sums are exact and can be added atomically, in any parts.
//
// What every draw needs takes two passes over its row, which several blocks share: draw_best and draw_weigh.

#define WARPS 16
#define PARTS WARPS // blocks that share a row: `part_of` of it each
#define BINS 2048
#define BINS_PER_NAT 64.0f // of the first histogram, whose last bin has all beyond 32 nats
// The weight of the likeliest id. Other weights are e^(-nats), rounded down to a multiple of 2^-43 (1.1e-13): all 2^20 ids
// that a row may have add up to 2^63 at most, and 151,936 ids lose less than 2e-8 of the likeliest's weight together, which
// is less than f32 exponentials are wrong by.
#define ONE 8796093022208.0f
#define ID_BITS 20
#define ID_MAX ((1 << ID_BITS) - 1)
#define PRESENT ((u64)0x7f800000 << ID_BITS) // above the keys of all ids that have a probability

// What one draw asks for, as `Upload` in ops/draw.rs writes it. Places are in `words`, or of `details` in `out`.
struct Asked {
    int row, altered; // its row of logits, and that of its altered ones, or -1
    double uniform;
    float temperature, top_p, min_p, repetition;
    int top_k, forced, likeliest; // an id that is forced, or -1; how many of the likeliest ids are reported, or -1
    int pairs, added, penalised;  // the place of pairs of id and number; how many are added, then how many are penalties
    int allowed, details;         // the place of one bit per id, or -1; the place of the likeliest ids
};
static_assert(sizeof(Asked) == 64, "the words of a draw");

struct Row {
    const float* z;
    int vocab;
    float max, inverse;

    // How much less likely than the likeliest an id is, in nats at the temperature; infinite if it can't come.
    __device__ __forceinline__ float below(float x) const {
        return x > EXCLUDED_LOGIT ? (max - x) * inverse : -NEGATIVE_INFINITY;
    }
};

__device__ __forceinline__ bool is_distribution(float max) { return max > EXCLUDED_LOGIT && max < -NEGATIVE_INFINITY; }

// What the blocks that share a row tell of it: the best `rank_of` of each part, and the weight of each part of a part.
struct Told {
    u64 best[PARTS], weights[PARTS * WARPS];
};
// Of one draw, as `TOLD` in ops/draw.rs counts it: of its row, and of the altered one.
struct Both {
    Told of[2];
};

struct Histogram {
    u64 weights[BINS], groups[BINS / 32];
    u32 counts[BINS];
};

// Of the block. Functions that are called more than once are not inlined, and still know that these are shared memory.
__shared__ Histogram histogram;
__shared__ u64 shared[32];

// Ascends from the likeliest id. Of equally likely ones the higher id comes first (top-p drops the lower), or the lower
// with `flip` 0.
__device__ __forceinline__ u64 key(float nats, int id, int flip) {
    return (u64)__float_as_uint(nats) << ID_BITS | (u32)(id ^ flip);
}

__device__ __forceinline__ u64 weight(float nats) { return (u64)(expf(-nats) * ONE); }

// Calls `visit(id, logit)` for four ids from `first` on, the four that are `step` further, and so on before `end`.
template <typename F>
__device__ __forceinline__ void each_id(const float* z, int first, int step, int end, F visit) {
    for (int c = first; c < end; c += 2 * step) {
        float x[2][4]; // loads that wait for memory together
#pragma unroll
        for (int n = 0; n < 2; ++n) load_four(x[n], z, c + n * step, end);
#pragma unroll
        for (int n = 0; n < 2; ++n)
            for (int i = 0; i < 4; ++i)
                if (c + n * step + i < end) visit(c + n * step + i, x[n][i]);
    }
}

// The same for all ids, shared by the threads of the block.
template <typename F>
__device__ __forceinline__ void every_id(const float* z, int vocab, F visit) {
    each_id(z, 4 * threadIdx.x, 4 * blockDim.x, vocab, visit);
}

// `length` ids in parts, one for each warp or block; multiples of four where that wastes little.
__device__ __forceinline__ int part_of(int length) {
    return length > 64 ? (length + 4 * WARPS - 1) / (4 * WARPS) * 4 : (length + WARPS - 1) / WARPS;
}

// The best rank of ids `start..end`, the lowest of equal ones. A NaN counts as infinite.
__device__ __forceinline__ u64 best_of(const float* z, int start, int end) {
    float max = NEGATIVE_INFINITY;
    int at = 0;
    each_id(z, start + 4 * threadIdx.x, 4 * blockDim.x, end, [&](int id, float x) {
        if (x != x) x = -NEGATIVE_INFINITY;
        if (x > max) {
            max = x;
            at = id;
        }
    });
    return block_best(rank_of(max, at), shared);
}

// The likeliest id of a row.
__device__ __forceinline__ int likeliest(const Told& told) {
    u64 best = told.best[0];
    for (int i = 1; i < PARTS; ++i)
        if (told.best[i] > best) best = told.best[i];
    return 0x7fffffff - (int)(u32)best;
}

// Writes the logits `z` of ids `start..end` as they are altered: ids that are not allowed get -inf, then numbers are added to
// some, then those that occurred before are penalised.
__device__ __forceinline__ void alter(float* y, const float* z, const int* words, const Asked& ask, int start, int end) {
    for (int c = start + threadIdx.x; c < end; c += blockDim.x) {
        bool is_allowed = ask.allowed < 0 || (words[ask.allowed + c / 32] >> c % 32 & 1);
        // Whatever is done to it, an id that is not in the vocabulary stays out.
        y[c] = is_allowed && z[c] > EXCLUDED_LOGIT ? z[c] : NEGATIVE_INFINITY;
    }
    __syncthreads();
    const int* pair = words + ask.pairs;
    auto is_own = [&](int i) { return pair[2 * i] >= start && pair[2 * i] < end; };
    for (int i = threadIdx.x; i < ask.added; i += blockDim.x)
        if (is_own(i)) y[pair[2 * i]] += __int_as_float(pair[2 * i + 1]);
    __syncthreads();
    pair += 2 * ask.added;
    for (int i = threadIdx.x; i < ask.penalised; i += blockDim.x) {
        if (!is_own(i)) continue;
        float x = y[pair[2 * i]];
        x = x > 0.0f ? x / ask.repetition : x * ask.repetition;
        y[pair[2 * i]] = x - __int_as_float(pair[2 * i + 1]);
    }
    __syncthreads();
}

// Puts the sum of each warp into `shared`; returns the sum of all.
__device__ __forceinline__ u64 share(u64 sum) {
    sum = warp_sum(sum);
    __syncthreads(); // `shared` may still be read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    u64 total = shared[0];
    for (int i = 1; i < WARPS; ++i) total += shared[i];
    return total;
}

// Calls `visit` as `each_id` for a warp's part of the `length` ids from `start` on.
template <typename F>
__device__ __forceinline__ void own_part(const Row& row, int start, int length, F visit) {
    int each = part_of(length), first = start + (int)threadIdx.x / 32 * each;
    int end = min(first + each, min(start + length, row.vocab));
    each_id(row.z, first + 4 * (threadIdx.x % 32), 128, end, visit);
}

// The weight of the ids that are kept, of each part of the `length` ids from `start` on, in `shared`; returns their sum.
__device__ __noinline__ u64 weigh(Row row, u64 bound, float min_p, int start, int length) {
    u64 sum = 0;
    own_part(row, start, length, [&](int id, float x) {
        float nats = row.below(x);
        if (key(nats, id, ID_MAX) < bound && expf(-nats) >= min_p) sum += weight(nats);
    });
    return share(sum);
}

// The same of a whole row of which all ids are kept, from what is told of it.
__device__ __forceinline__ u64 weigh(const Told& told) {
    int lane = threadIdx.x % 32;
    return share(lane < WARPS ? told.weights[threadIdx.x / 32 * WARPS + lane] : 0);
}

// The first id of those that are kept up to which they weigh more than the random number's share of all of them, which have
// just been weighed. Each round goes on in one of the parts.
__device__ __forceinline__ int pick(const Row& row, const Told& told, u64 bound, float min_p, u64 mass, double uniform) {
    u64 target = (u64)(uniform * (double)mass);
    if (target >= mass) target = mass - 1; // only by rounding
    int start = 0, length = row.vocab;
    bool is_told = bound == PRESENT && min_p == 0.0f; // parts of a part are only told of a row of which all ids are kept
    while (length > 1) {
        int part = 0;
        while (part + 1 < WARPS && shared[part] <= target) target -= shared[part++];
        int each = part_of(length);
        start += part * each;
        length = each;
        if (is_told)
            share(threadIdx.x % 32 == 0 ? told.weights[part * WARPS + threadIdx.x / 32] : 0);
        else if (length > 1)
            weigh(row, bound, min_p, start, length);
        is_told = false;
    }
    return start;
}

// The bound of a filter: of the ids whose key is below `bound` it keeps those before which less than `wanted` comes, in
// numbers of ids or in weight. Keys that differ in their `fixed` lowest bits alone are equal.
template <bool BY_WEIGHT>
__device__ __noinline__ u64 cut(Row row, int flip, u64 bound, u64 wanted, int fixed) {
    auto in_bin = [&](int b) { return BY_WEIGHT ? histogram.weights[b] : (u64)histogram.counts[b]; };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 low = 0;
    // Bins are so many bits of keys wide; those of the first pass are parts of a nat, so that atomics seldom meet.
    for (int shift = -1;;) {
        __syncthreads(); // the histogram may still be read
        for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
            histogram.counts[b] = 0;
            histogram.weights[b] = 0;
        }
        __syncthreads();
        every_id(row.z, row.vocab, [&](int id, float x) {
            float nats = row.below(x);
            u64 own = key(nats, id, flip);
            if (own < low || own >= bound) return;
            int b = shift < 0 ? (int)(fminf(nats, 31.99f) * BINS_PER_NAT) : (int)((own - low) >> shift);
            atomicAdd(&histogram.counts[b], 1u);
            if (BY_WEIGHT) atomicAdd(&histogram.weights[b], weight(nats));
        });
        __syncthreads();
        for (int g = warp; g < BINS / 32; g += WARPS) {
            u64 sum = warp_sum(in_bin(32 * g + lane));
            if (lane == 0) histogram.groups[g] = sum;
        }
        __syncthreads();
        int b = 0;
        while (b < BINS / 32 - 1 && histogram.groups[b] < wanted) wanted -= histogram.groups[b++];
        b *= 32;
        while (b % 32 < 31 && in_bin(b) < wanted) wanted -= in_bin(b++);
        if (in_bin(b) < wanted) return bound; // all of them are less
        u64 end;
        if (shift < 0) {
            low = key((float)b / BINS_PER_NAT, 0, 0);
            end = b + 1 < BINS ? key((float)(b + 1) / BINS_PER_NAT, 0, 0) : bound;
        } else {
            low += (u64)b << shift;
            end = low + (1ull << shift);
        }
        if (end < bound) bound = end;
        if (histogram.counts[b] == 1 || in_bin(b) == wanted || shift == fixed) return bound;
        shift = fixed;
        while ((bound - low - 1) >> shift >= BINS) ++shift;
    }
}

// How many ids are at least as likely as `id`, and the `ask.likeliest` likeliest, the lower of equal ones first; -1 behind the
// last. `logprob` gives that of a logit.
template <typename F>
__device__ __forceinline__ void details(int* rank, int* top, const Row& row, int id, int wanted, F logprob) {
    float nats = row.below(row.z[id]);
    u64 count = 0;
    every_id(row.z, row.vocab, [&](int, float x) { count += row.below(x) <= nats; });
    count = block_sum(count, shared);
    if (threadIdx.x == 0) *rank = (int)count;
    if (wanted == 0) return;
    u64 bound = cut<false>(row, 0, PRESENT, wanted, 0);
    __syncthreads(); // the histogram may still be read
    if (threadIdx.x == 0) histogram.counts[0] = 0;
    __syncthreads();
    // In any order, from which each one's place follows.
    every_id(row.z, row.vocab, [&](int other, float x) {
        u64 own = key(row.below(x), other, 0);
        if (own < bound) histogram.weights[atomicAdd(&histogram.counts[0], 1u)] = own;
    });
    __syncthreads();
    int found = (int)histogram.counts[0];
    for (int i = threadIdx.x; i < wanted; i += blockDim.x) {
        int place = i, other = -1;
        if (i < found) {
            u64 own = histogram.weights[i];
            place = 0;
            for (int j = 0; j < found; ++j) place += histogram.weights[j] < own;
            other = (int)(own & ID_MAX);
        }
        top[2 * place] = other;
        top[2 * place + 1] = other < 0 ? 0 : __float_as_int(logprob(row.z[other]));
    }
}

__device__ __forceinline__ Row row_of(const float* z, int vocab, const Asked& ask, const Told& told) {
    float temperature = ask.temperature == 0.0f ? 1.0f : ask.temperature;
    return {z, vocab, z[likeliest(told)], fminf(1.0f / temperature, -LOWEST)};
}

// One block per draw, which `words` begins with, and part of its row: writes the altered logits, and tells the best ids.
KERNEL(512, draw_best, u64* told, float* altered, const float* logits, const int* words, int vocab) {
    wait_for_earlier_work();
    const Asked ask = ((const Asked*)words)[blockIdx.x];
    Told* own = ((Both*)told)[blockIdx.x].of;
    int each = part_of(vocab), start = (int)blockIdx.y * each, end = min(start + each, vocab);
    const float* z = logits + (i64)ask.row * vocab;
    u64 best = best_of(z, start, end);
    if (threadIdx.x == 0) own[0].best[blockIdx.y] = best;
    if (ask.altered < 0) return;
    float* y = altered + (i64)ask.altered * vocab;
    alter(y, z, words, ask, start, end);
    best = best_of(y, start, end);
    if (threadIdx.x == 0) own[1].best[blockIdx.y] = best;
}

// As many blocks: tell the weights of parts of the part.
KERNEL(512, draw_weigh, u64* told, const float* altered, const float* logits, const int* words, int vocab) {
    wait_for_earlier_work();
    const Asked ask = ((const Asked*)words)[blockIdx.x];
    for (int i = 0; i < (ask.altered < 0 ? 1 : 2); ++i) {
        Told& own = ((Both*)told)[blockIdx.x].of[i];
        Row row = row_of(i ? altered + (i64)ask.altered * vocab : logits + (i64)ask.row * vocab, vocab, ask, own);
        if (!is_distribution(row.max)) return;
        u64 sum = 0;
        int each = part_of(vocab);
        own_part(row, (int)blockIdx.y * each, each, [&](int, float x) { sum += weight(row.below(x)); });
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) own.weights[blockIdx.y * WARPS + threadIdx.x / 32] = sum;
    }
}

// One block per draw, after the above. `out` gets four numbers of each: the id, or -1 if the logits are no
// distribution, or -2 if no id is allowed; the bits of its log-prob under the whole softmax at the temperature (at 1 for the
// likeliest), and of that in what it was drawn from; its rank. Details follow. Logits of excluded ids are EXCLUDED_LOGIT.
KERNEL(512, draw, int* out, const u64* told, const float* altered, const float* logits, const int* words, int vocab) {
    wait_for_earlier_work();
    const Asked ask = ((const Asked*)words)[blockIdx.x];
    const Told* of = ((const Both*)told)[blockIdx.x].of;
    int* own = out + 4 * blockIdx.x;
    bool is_greedy = ask.temperature == 0.0f;
    float temperature = is_greedy ? 1.0f : ask.temperature;
    Row whole = row_of(logits + (i64)ask.row * vocab, vocab, ask, of[0]), row = whole;
    if (!is_distribution(whole.max)) {
        if (threadIdx.x == 0) own[0] = -1;
        return;
    }
    u64 mass = weigh(of[0]);
    double log_total = log((double)mass / (double)ONE);
    auto logprob = [&](float x) {
        return (float)(((double)x - (double)whole.max) / (double)temperature - log_total);
    };
    if (ask.altered >= 0) row = row_of(altered + (i64)ask.altered * vocab, vocab, ask, *++of);
    int id = ask.forced >= 0 ? ask.forced : likeliest(*of);
    // An id that is forced has to exist.
    if (id >= vocab || !is_distribution(row.z[id])) {
        if (threadIdx.x == 0) own[0] = -2;
        return;
    }
    float sampled = 0.0f;
    if (!is_greedy && ask.forced < 0) {
        u64 bound = PRESENT;
        if (ask.altered >= 0) mass = weigh(*of);
        if (ask.top_k > 0 && ask.top_k < vocab) {
            bound = cut<false>(row, ID_MAX, bound, ask.top_k, ID_BITS);
            mass = weigh(row, bound, 0.0f, 0, vocab);
        }
        if (ask.top_p < 1.0f) {
            u64 dropped = (u64)((1.0 - (double)ask.top_p) * (double)mass), wanted = mass - dropped;
            // Ids that are dropped in any case, because all of a row together would not weigh more: most of a vocabulary.
            double nats = log((double)vocab * (double)ONE / (double)dropped) + 1.0 / BINS_PER_NAT;
            u64 least = key((float)nats, 0, 0);
            bound = cut<true>(row, ID_MAX, least < bound ? least : bound, wanted > 0 ? wanted : 1, 0);
        }
        if (ask.top_p < 1.0f || ask.min_p > 0.0f) mass = weigh(row, bound, ask.min_p, 0, vocab);
        id = pick(row, *of, bound, ask.min_p, mass, ask.uniform);
        bool is_whole = ask.altered < 0 && ask.top_k == 0 && ask.top_p == 1.0f && ask.min_p == 0.0f;
        sampled = is_whole ? logprob(whole.z[id])
                           : (float)(-(double)row.below(row.z[id]) - log((double)mass / (double)ONE));
    }
    if (threadIdx.x == 0) {
        own[0] = id;
        own[1] = __float_as_int(logprob(whole.z[id]));
        own[2] = __float_as_int(sampled);
    }
    if (ask.likeliest >= 0)
        details(own + 3, out + ask.details, whole, id, ask.likeliest, logprob);
}
