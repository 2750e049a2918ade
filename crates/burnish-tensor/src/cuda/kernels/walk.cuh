// How a block of attention walks over the tiles that its rows see, or that see them.

// The tiles of a task, of WIDTH columns, one after the other: of each head, of each range.
template <int WIDTH>
struct Walk {
    const int* ranges;
    int first, last; // ranges
    int row, limit;  // causal ranges are cut to these rows
    int head, heads_end, range, start, end;
    bool causal;

    __device__ void enter() {
        causal = ranges[3 * range + 2] != 0;
        start = causal ? max(ranges[3 * range], row) : ranges[3 * range];
        end = causal ? min(ranges[3 * range + 1], limit) : ranges[3 * range + 1];
    }
    __device__ bool is_done() const { return head == heads_end; }
    __device__ void advance() {
        start += WIDTH;
        if (start < end) return;
        if (++range == last) {
            range = first;
            if (++head == heads_end) return;
        }
        enter();
    }
    __device__ int count() const { return min(WIDTH, end - start); }
};

template <int WIDTH>
__device__ __forceinline__ Walk<WIDTH> walk_of(const int* task, const int* ranges, int row, int limit, int head,
                                                 int heads) {
    Walk<WIDTH> walk;
    walk.ranges = ranges;
    walk.first = walk.range = task[2];
    walk.last = task[2] + task[3];
    walk.row = row;
    walk.limit = limit;
    walk.head = head;
    walk.heads_end = head + heads;
    walk.enter();
    return walk;
}
