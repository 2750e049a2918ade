// A driver of an emulated device: the part of libcuda that burnish calls. It is stricter than a real one: fresh memory
// is NaN, writes beyond an allocation are found when it is freed, limits of a launch are those of an H100, threads that
// miss a barrier fail the launch.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <ucontext.h>
#include <vector>

#include "cuda_shim.h"

namespace emulated {
struct Kernel {
    std::string program, name;
    int threads;
    void (*function)();
    Call call;
    int parameters;
    unsigned shared_max = 32 * 1024; // of 48, because a kernel may have more beside it, whose size is not known here
};

static std::vector<std::unique_ptr<Kernel>>& kernels() {
    static std::vector<std::unique_ptr<Kernel>> all;
    return all;
}

void add_kernel(const char* program, const char* name, int threads, void (*function)(), Call call, int parameters) {
    kernels().push_back(std::make_unique<Kernel>(Kernel{program, name, threads, function, call, parameters}));
}

const size_t STACK = 64 * 1024;

struct Copy {
    void* to;
    const void* from;
    bool is_real;
};

// Where a fiber goes on: what GCC's own setjmp needs, which is a few instructions.
typedef void* Place[5];

// It is kept for the next block once it has come to its end.
struct Fiber : Thread {
    bool started = false, done, waited;
    // The barrier that it waits at: it may go on when the generation there has changed.
    unsigned generation;
    const unsigned* barrier;
    Place at;
    // How often it has exchanged something, and shown something.
    unsigned exchanges, shows;
    // Copies and products that a card might not have made yet.
    std::vector<std::vector<Copy>> copies;
    std::vector<std::vector<Product>> products;
    std::unique_ptr<char[]> stack{new char[STACK]};
    ucontext_t start;
};

struct Meeting {
    unsigned generation, arrived, size;
};

// A copy of 64 rows of 64 columns that a card might not have made yet.
struct Box {
    unsigned short* to;
    Matrix from;
    int column, row;
    Barrier* barrier;
};

// One block of threads.
struct Machine {
    std::vector<std::unique_ptr<Fiber>> fibers;
    Place scheduler;
    Meeting all;
    Meeting warps[32];
    std::deque<Box> boxes;
    // Each twice, in turn: a thread can't write to one again before all of its warp have read it and met at the other.
    uint64_t slots[2][1024];
    Shown shown[2][1024];
    const char* failure;
    const Kernel* kernel;
    void** arguments;
    bool overlaps; // with earlier work, for which each thread has to wait
    unsigned turns = 0;
    // How often a barrier of more than one warp was passed.
    unsigned passed = 0;

    // Not inline, as GCC's setjmp asks of what is jumped to and from.
    __attribute__((noinline)) void run_fiber(Fiber& fiber) {
        current = &fiber;
        if (__builtin_setjmp(scheduler) == 0) go_on(fiber);
    }
    [[noreturn]] __attribute__((noinline)) static void go_on(Fiber& fiber) {
        if (fiber.started) __builtin_longjmp(fiber.at, 1);
        fiber.started = true;
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = fiber.stack.get();
        fiber.start.uc_stack.ss_size = STACK;
        fiber.start.uc_link = nullptr;
        makecontext(&fiber.start, Machine::main, 0);
        setcontext(&fiber.start);
        std::abort();
    }
    __attribute__((noinline)) void leave(Fiber& fiber) {
        if (__builtin_setjmp(fiber.at) == 0) go_back();
    }
    [[noreturn]] __attribute__((noinline)) void go_back() { __builtin_longjmp(scheduler, 1); }
    void wait(Meeting& barrier) {
        Fiber& fiber = static_cast<Fiber&>(*current);
        if (++barrier.arrived == barrier.size) {
            barrier.arrived = 0;
            ++barrier.generation;
            passed += &barrier == &all;
            return;
        }
        fiber.barrier = &barrier.generation;
        fiber.generation = barrier.generation;
        leave(fiber);
    }
    static void main();
    bool make_box();
    // False if threads wait for others that never come.
    bool run_block(unsigned threads) {
        while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
        all = {0, 0, threads};
        for (Meeting& warp : warps) warp = {0, 0, 32};
        boxes.clear();
        for (unsigned i = 0; i < threads; ++i) {
            Fiber& fiber = *fibers[i];
            fiber.index = {i, 0, 0};
            fiber.done = fiber.waited = false;
            fiber.exchanges = fiber.shows = 0;
            if (fiber.copies.size() != 1 || !fiber.copies[0].empty()) fiber.copies.assign(1, {});
            if (fiber.products.size() != 1 || !fiber.products[0].empty()) fiber.products.assign(1, {});
            fiber.barrier = nullptr;
        }
        // One warp lags behind: it runs when the others cannot.
        unsigned slow = (turns * 2654435761u >> 16) % (threads / 32);
        const bool is_alone = threads == 32;
        bool is_its_turn = is_alone;
        for (unsigned left = threads; left > 0;) {
            bool moved = false;
            const unsigned before = passed;
            const unsigned from = is_its_turn ? 32 * slow : 0, until = is_its_turn ? from + 32 : threads;
            // Another order each time, so that what a missing barrier does is seen.
            unsigned turn = turns++ * 2654435761u;
            unsigned next = from + (turn >> 8) % (until - from);
            for (unsigned n = from; n < until; ++n) {
                unsigned i = next;
                if (turn >> 31)
                    next = i + 1 == until ? from : i + 1;
                else
                    next = i == from ? until - 1 : i - 1;
                Fiber& fiber = *fibers[i];
                if (!is_its_turn && i / 32 == slow) continue;
                if (fiber.done || (fiber.barrier && *fiber.barrier == fiber.generation)) continue;
                fiber.barrier = nullptr;
                moved = true;
                run_fiber(fiber);
                left -= fiber.done;
            }
            // Copies are made as late as they may, and then one after the other.
            if (!moved && is_its_turn && passed == before && !make_box()) {
                fibers.clear(); // they have not come to their end
                return false;
            }
            is_its_turn = is_alone || (!is_its_turn ? !moved : moved && passed == before);
        }
        return true;
    }
};

static Machine& made_machine() {
    static thread_local std::unique_ptr<Machine> machine;
    if (!machine) machine.reset(running = new Machine);
    return *machine;
}

const Shown* show(const Shown& own) {
    Machine& machine = *running;
    unsigned index = current->index.x;
    Shown* shown = machine.shown[static_cast<Fiber&>(*current).shows++ % 2];
    shown[index] = own;
    machine.wait(machine.warps[index / 32]);
    return &shown[index / 32 * 32];
}
void fail(const char* what) { running->failure = what; }

static void make(const Copy& copy) {
    if (copy.is_real)
        std::memcpy(copy.to, copy.from, 16);
    else
        std::memset(copy.to, 0, 16);
}

void copy_async(void* to, const void* from, bool is_real) {
    if ((uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0) return fail("a copy that is not aligned to 16 bytes");
    // A card makes it at any time until it is waited for: now, or then.
    if (running->turns % 2 == 0)
        make({to, from, is_real});
    else
        static_cast<Fiber&>(*current).copies.back().push_back({to, from, is_real});
}
void commit_copies() { static_cast<Fiber&>(*current).copies.emplace_back(); }
void wait_for_copies_but_latest() {
    auto& copies = static_cast<Fiber&>(*current).copies;
    // The last list is not committed yet, the one before it is the latest.
    while (copies.size() > 2) {
        for (const Copy& copy : copies.front()) make(copy);
        copies.erase(copies.begin());
    }
}

static void end_phase_if_done(Barrier* barrier) {
    if (barrier->pending > 0 || barrier->kib != 0) return;
    ++barrier->phase;
    ++running->passed;
    barrier->pending = barrier->count;
}
void start_barrier(Barrier* barrier, int arrivals) {
    barrier->phase = 0;
    barrier->count = barrier->pending = arrivals;
    barrier->kib = 0;
}
void arrive(Barrier* barrier, int bytes) {
    if (barrier->pending <= 0 || bytes % 1024 != 0) return fail("more arrivals than a barrier has, or parts of boxes");
    barrier->kib += bytes / 1024;
    --barrier->pending;
    end_phase_if_done(barrier);
}
void wait_for(Barrier* barrier, unsigned parity) {
    Fiber& fiber = static_cast<Fiber&>(*current);
    while (barrier->phase % 2 == parity) {
        fiber.barrier = &barrier->phase;
        fiber.generation = barrier->phase;
        running->leave(fiber);
    }
}
void copy_box(unsigned short* to, const Matrix& from, int column, int row, Barrier* barrier) {
    if ((uintptr_t)to % 1024 != 0) return fail("a box that is not at a multiple of 1024 bytes");
    running->boxes.push_back({to, from, column, row, barrier});
    if (running->turns % 3 == 0) running->make_box();
}
bool Machine::make_box() {
    if (boxes.empty()) return false;
    Box box = boxes.front();
    boxes.pop_front();
    for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j) {
            uint64_t row = (uint64_t)(box.row + i), column = (uint64_t)(box.column + j);
            bool is_real = row < box.from.rows && column < box.from.columns;
            box.to[64 * i + j] = is_real ? box.from.at[row * box.from.columns + column] : 0;
        }
    box.barrier->kib -= 8;
    end_phase_if_done(box.barrier);
    return true;
}

float Operand::at(int i, int j) const {
    i += row;
    j += column;
    uint32_t bits = (uint32_t)tile[(j / 64 * rows + i) * 64 + j % 64] << 16;
    return __uint_as_float(bits);
}
static void make(const Product& of) {
    unsigned thread = current->index.x % 128;
    for (int n = 0; n < of.tiles; ++n)
        for (int i = 0; i < 4; ++i) {
            int row = (int)(thread / 32 * 16 + thread % 32 / 4) + i / 2 * 8, column = 8 * n + (int)(thread % 4) * 2 + i % 2;
            float sum = of.adds ? of.c[n][i] : 0.0f;
            for (int k = 0; k < 16; ++k)
                sum += (of.is_left_given ? of.left[i / 2][k] : of.a.at(row, k)) *
                       (of.is_right_transposed ? of.b.at(column, k) : of.b.at(k, column));
            of.c[n][i] = sum;
        }
}
void multiply(const Product& product) { static_cast<Fiber&>(*current).products.back().push_back(product); }
void commit_products() { static_cast<Fiber&>(*current).products.emplace_back(); }
// A card makes them at any time until they are waited for: here as late as it may.
void wait_for_products(unsigned latest) {
    Fiber& fiber = static_cast<Fiber&>(*current);
    auto& products = fiber.products;
    // Others go on first: what they are told before the products are made, they may believe.
    running->leave(fiber);
    // The last list is not committed yet.
    while (products.size() > latest + 1) {
        for (const Product& product : products.front()) make(product);
        products.erase(products.begin());
    }
}

void Machine::main() {
    // Once for each block.
    for (Machine& machine = *running;;) {
        machine.kernel->call(machine.kernel->function, machine.arguments);
        Fiber& fiber = static_cast<Fiber&>(*current);
        // Later kernels wait for this one only: earlier ones are done if all of it has waited for them.
        if (machine.overlaps && !fiber.waited) fail("a thread that does not wait for earlier work");
        fiber.done = true;
        machine.leave(fiber);
    }
}

void sync_threads() { running->wait(running->all); }
void wait_for_earlier_work() { static_cast<Fiber&>(*current).waited = true; }

uint64_t exchange(uint64_t bits, int lane_mask) {
    Machine& machine = *running;
    unsigned index = current->index.x;
    uint64_t* slots = machine.slots[static_cast<Fiber&>(*current).exchanges++ % 2];
    slots[index] = bits;
    machine.wait(machine.warps[index / 32]);
    return slots[index ^ (unsigned)lane_mask];
}
} // namespace emulated

using namespace emulated;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };

static const size_t GUARD = 256;
static const unsigned SHARED_OPTIN = 227 * 1024;
static const size_t MEMORY = (size_t)256 << 20;

// A copy from the host that has not been made yet.
struct Upload {
    uint64_t to;
    const void* from;
    size_t bytes;
};
// What a graph does, piece by piece; each returns a driver's code.
typedef std::vector<std::function<int()>> Captured;
// Each stream has a device's memory for itself, because each test has a stream; so it is its own pool, too.
struct Stream {
    // Taken from the card: in buffers, and in what is kept for further ones. What is kept is not divided.
    size_t reserved = 0;
    std::multiset<size_t> kept;
    // A card makes them at any time until it is waited for: here as late as it may.
    std::deque<Upload> uploads;
    size_t queued = 0;
    // While work is captured: what was queued, in order; nothing once something was asked for that can't be.
    std::unique_ptr<Captured> capture;
    bool is_capturing = false;
    int error = SUCCESS; // of a kernel that failed: all later ones do, too
    // Launches that overlap with earlier work are refused: none, those that are captured, or all.
    int refused_overlaps = 0;

    void upload_until(size_t number) {
        for (; queued - uploads.size() < number; uploads.pop_front()) {
            const Upload& next = uploads.front();
            std::memcpy(reinterpret_cast<void*>((uintptr_t)next.to), next.from, next.bytes);
        }
    }
};
static Stream* stream_of(void* stream) { return static_cast<Stream*>(stream); }
// Of this thread: the calls that name no stream mean it.
static thread_local Stream* latest;

// Everything that was queued is done after an event.
struct Event {
    Stream* stream;
    size_t number;
};

// Page-locked memory of the host.
static std::mutex locked_mutex;
static std::map<uintptr_t, size_t> locked;
static bool is_locked(const void* from, size_t bytes) {
    std::lock_guard<std::mutex> guard(locked_mutex);
    auto after = locked.upper_bound((uintptr_t)from);
    if (after == locked.begin()) return false;
    auto [start, len] = *--after;
    return (uintptr_t)from + bytes <= start + len;
}

static std::atomic<bool> corrupted;

// Around memory lie numbers that are not a number in f32 and in bf16, and that arithmetic changes; they differ from one
// allocation to the next.
static unsigned char guard_byte(uint16_t mark, size_t i) { return (unsigned char)(i % 2 ? mark >> 8 : mark & 0xff); }

static int complain(int code, const Kernel* kernel, const char* what) {
    std::fprintf(stderr, "emulated device: %s: %s\n", kernel ? kernel->name.c_str() : "driver", what);
    return code;
}

// What a capture can't hold ends it. A real one also holds copies from and to the host, and memory.
static int refuse_captured(void* stream, const char* what) {
    Stream& own = *stream_of(stream);
    if (!own.is_capturing) return SUCCESS;
    own.capture.reset();
    return complain(CAPTURE_UNSUPPORTED, nullptr, what);
}
#define REFUSE_CAPTURED(stream, what) if (int code = refuse_captured(stream, what " is captured")) return code

extern "C" {
int cuInit(unsigned) { return SUCCESS; }
int cuGetErrorName(int code, const char** text) {
    *text = code == INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE" : "an emulated error";
    return SUCCESS;
}
int cuGetErrorString(int, const char** text) {
    *text = "see standard error";
    return SUCCESS;
}
int cuDeviceGetCount(int* count) {
    *count = 1;
    return SUCCESS;
}
int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? SUCCESS : 101;
}
int cuDeviceGetName(char* name, int len, int) {
    std::snprintf(name, (size_t)len, "emulated device");
    return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = MEMORY;
    return SUCCESS;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 75: *value = 9; break;             // compute capability, major
        case 76: *value = 0; break;             // minor
        case 16: *value = 3; break;             // multiprocessors
        case 97: *value = SHARED_OPTIN; break;  // shared memory of a block, opt-in
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}
int cuDeviceGetDefaultMemPool(void** pool, int) {
    *pool = latest;
    return SUCCESS;
}
int cuMemPoolSetAttribute(void*, int, void*) { return SUCCESS; }
int cuMemPoolGetAttribute(void* pool, int attribute, void* value) {
    if (attribute != 5) return INVALID_VALUE; // bytes that it has reserved
    *static_cast<uint64_t*>(value) = stream_of(pool)->reserved;
    return SUCCESS;
}
int cuMemPoolTrimTo(void* pool, size_t) {
    for (size_t bytes : stream_of(pool)->kept) stream_of(pool)->reserved -= bytes;
    stream_of(pool)->kept.clear();
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
    static int one;
    *context = &one;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
int cuCtxSetCurrent(void*) { return SUCCESS; }
int cuStreamCreate(void** stream, unsigned) {
    *stream = latest = new Stream;
    return SUCCESS;
}
int cuStreamDestroy_v2(void* stream) {
    if (latest == stream) latest = nullptr;
    delete stream_of(stream);
    return SUCCESS;
}
// Makes all copies that were queued; cuBLAS is told by this, too.
void emulated_upload_all(void* stream) { stream_of(stream)->upload_until(stream_of(stream)->queued); }
// Whether work was captured instead of being done now; cuBLAS asks this, too.
bool emulated_capture(void* stream, std::function<int()> work) {
    Stream& own = *stream_of(stream);
    if (own.capture) own.capture->push_back(std::move(work));
    return own.is_capturing;
}
int cuStreamBeginCapture_v2(void* stream, int) {
    if (std::getenv("EMULATED_WITHOUT_GRAPHS")) return 801;
    stream_of(stream)->capture.reset(new Captured);
    stream_of(stream)->is_capturing = true;
    return SUCCESS;
}
int cuStreamEndCapture(void* stream, void** graph) {
    stream_of(stream)->is_capturing = false;
    *graph = stream_of(stream)->capture.release();
    return *graph ? SUCCESS : CAPTURE_INVALIDATED;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
    *exec = new Captured(*static_cast<Captured*>(graph));
    return SUCCESS;
}
int cuGraphLaunch(void* exec, void* stream) {
    REFUSE_CAPTURED(stream, "launching a graph");
    for (auto& work : *static_cast<Captured*>(exec))
        if (int code = work()) return code;
    return SUCCESS;
}
int cuGraphExecDestroy(void* exec) {
    delete static_cast<Captured*>(exec);
    return SUCCESS;
}
int cuGraphDestroy(void* graph) { return cuGraphExecDestroy(graph); }
int cuStreamSynchronize(void* stream) {
    REFUSE_CAPTURED(stream, "waiting");
    emulated_upload_all(stream);
    return corrupted ? ILLEGAL_ADDRESS : SUCCESS;
}
int cuEventCreate(void** event, unsigned) {
    *event = new Event{nullptr, 0};
    return SUCCESS;
}
int cuEventDestroy_v2(void* event) {
    delete static_cast<Event*>(event);
    return SUCCESS;
}
int cuEventRecord(void* event, void* stream) {
    REFUSE_CAPTURED(stream, "an event");
    *static_cast<Event*>(event) = {stream_of(stream), stream_of(stream)->queued};
    return SUCCESS;
}
int cuEventSynchronize(void* event) {
    Event& of = *static_cast<Event*>(event);
    if (of.stream) of.stream->upload_until(of.number);
    return SUCCESS;
}
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
    *free_bytes = MEMORY - (latest ? latest->reserved : 0);
    *total = MEMORY;
    return SUCCESS;
}

int cuMemAllocAsync(uint64_t* pointer, size_t bytes, void* stream) {
    if (bytes == 0) return INVALID_VALUE;
    REFUSE_CAPTURED(stream, "taking memory");
    Stream* own = stream_of(stream);
    auto kept = own->kept.lower_bound(bytes);
    size_t taken = bytes;
    if (kept != own->kept.end()) {
        taken = *kept;
        own->kept.erase(kept);
    } else {
        if (bytes > MEMORY - own->reserved) return OUT_OF_MEMORY;
        own->reserved += bytes;
    }
    size_t all = (bytes + 255) / 256 * 256 + 2 * GUARD;
    unsigned char* memory = static_cast<unsigned char*>(std::aligned_alloc(256, all));
    static std::atomic<unsigned> count;
    uint16_t mark = (uint16_t)(0x7fa1 + count++ % 8 * 2);
    for (size_t i = 0; i < all; ++i) memory[i] = guard_byte(mark, i);
    std::memset(memory + GUARD, 0xff, bytes);
    std::memcpy(memory, &bytes, sizeof bytes);
    std::memcpy(memory + 16, &taken, sizeof taken);
    *pointer = (uint64_t)(uintptr_t)(memory + GUARD);
    return SUCCESS;
}
int cuMemFreeAsync(uint64_t pointer, void* stream) {
    REFUSE_CAPTURED(stream, "freeing memory");
    emulated_upload_all(stream);
    unsigned char* memory = reinterpret_cast<unsigned char*>((uintptr_t)pointer) - GUARD;
    size_t bytes, taken;
    std::memcpy(&bytes, memory, sizeof bytes);
    std::memcpy(&taken, memory + 16, sizeof taken);
    size_t all = (bytes + 255) / 256 * 256 + 2 * GUARD;
    // Where the mark is that this memory was given.
    uint16_t mark;
    std::memcpy(&mark, memory + sizeof bytes, sizeof mark);
    for (size_t i = sizeof bytes; i < all; ++i)
        if ((i < 16 || i >= 16 + sizeof taken) && (i < GUARD || i >= GUARD + bytes) && memory[i] != guard_byte(mark, i)) corrupted = true;
    stream_of(stream)->kept.insert(taken);
    if (corrupted) complain(0, nullptr, "a kernel wrote beyond its buffer");
    std::free(memory);
    return corrupted ? ILLEGAL_ADDRESS : SUCCESS;
}
int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    *pointer = std::malloc(bytes);
    std::lock_guard<std::mutex> guard(locked_mutex);
    locked[(uintptr_t)*pointer] = bytes;
    return SUCCESS;
}
int cuMemFreeHost(void* pointer) {
    std::lock_guard<std::mutex> guard(locked_mutex);
    locked.erase((uintptr_t)pointer);
    std::free(pointer);
    return SUCCESS;
}
int cuMemsetD8Async(uint64_t pointer, unsigned char value, size_t bytes, void* stream) {
    if (emulated_capture(stream, [=] { return cuMemsetD8Async(pointer, value, bytes, stream); })) return SUCCESS;
    emulated_upload_all(stream);
    std::memset(reinterpret_cast<void*>((uintptr_t)pointer), value, bytes);
    return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    REFUSE_CAPTURED(stream, "a copy from the host");
    // The driver may read other memory after the caller has freed it.
    if (!is_locked(from, bytes)) return complain(INVALID_VALUE, nullptr, "a copy from memory that is not page-locked");
    stream_of(stream)->uploads.push_back({to, from, bytes});
    ++stream_of(stream)->queued;
    return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    REFUSE_CAPTURED(stream, "a copy to the host");
    emulated_upload_all(stream);
    std::memcpy(to, reinterpret_cast<void*>((uintptr_t)from), bytes);
    return SUCCESS;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    if (emulated_capture(stream, [=] { return cuMemcpyDtoDAsync_v2(to, from, bytes, stream); })) return SUCCESS;
    emulated_upload_all(stream);
    std::memcpy(reinterpret_cast<void*>((uintptr_t)to), reinterpret_cast<void*>((uintptr_t)from), bytes);
    return SUCCESS;
}

// Boxes of 64 by 64 elements of a matrix in bf16, swizzled by 128 bytes: the only ones that are asked for.
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* at, const uint64_t* sizes, const uint64_t* strides,
                           const uint32_t* box, const uint32_t*, int, int swizzle, int, int) {
    bool is_known = type == 9 && rank == 2 && box[0] == 64 && box[1] == 64 && swizzle == 3;
    if (!is_known || (uintptr_t)at % 16 != 0 || strides[0] != 2 * sizes[0] || strides[0] % 16 != 0) return INVALID_VALUE;
    *static_cast<Matrix*>(map) = {static_cast<const unsigned short*>(at), sizes[0], sizes[1]};
    return SUCCESS;
}

// An image is the name of a program.
int cuModuleLoadData(void** module, const void* image) {
    // It is loaded into memory that the pool has not reserved.
    if (latest && latest->reserved > MEMORY - (1 << 20)) return OUT_OF_MEMORY;
    std::string program = static_cast<const char*>(image);
    for (auto& kernel : kernels())
        if (kernel->program == program) {
            *module = new std::string(program);
            return SUCCESS;
        }
    std::fprintf(stderr, "emulated device: no program \"%s\"\n", program.c_str());
    return INVALID_IMAGE;
}
int cuModuleUnload(void* module) {
    delete static_cast<std::string*>(module);
    return SUCCESS;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    for (auto& kernel : kernels())
        if (kernel->program == *static_cast<std::string*>(module) && kernel->name == name) {
            *function = kernel.get();
            return SUCCESS;
        }
    return NOT_FOUND;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
    Kernel* kernel = static_cast<Kernel*>(function);
    if (attribute != 8 || value < 0 || (unsigned)value > SHARED_OPTIN)
        return complain(INVALID_VALUE, kernel, "more shared memory than a block may have");
    kernel->shared_max = (unsigned)value;
    return SUCCESS;
}
static int launch(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void* stream, void** arguments, bool overlaps) {
    Kernel* kernel = static_cast<Kernel*>(function);
    // Of each argument the bytes that the widest could have: burnish passes them so.
    std::vector<uint64_t> kept;
    for (int i = 0; i < kernel->parameters; ++i) kept.push_back(*static_cast<uint64_t*>(arguments[i]));
    auto again = [=]() mutable {
        std::vector<void*> each;
        for (uint64_t& argument : kept) each.push_back(&argument);
        return launch(function, gx, gy, gz, bx, by, bz, shared, stream, each.data(), overlaps);
    };
    if (emulated_capture(stream, again)) return SUCCESS;
    emulated_upload_all(stream);
    Stream& own = *stream_of(stream);
    if (own.error) return own.error;
    if (gx == 0 || gy == 0 || gz == 0 || gx > 0x7fffffffu || gy > 65535 || gz > 65535)
        return complain(INVALID_VALUE, kernel, "grid");
    if (bx == 0 || bx % 32 != 0 || by != 1 || bz != 1 || (int)bx > kernel->threads)
        return complain(INVALID_VALUE, kernel, "block");
    if (shared > kernel->shared_max) return complain(INVALID_VALUE, kernel, "dynamic shared memory without opting in");
    std::unique_ptr<float4[]> memory(new float4[shared / 16 + 2]); // and 16 bytes that nobody may write
    dynamic_shared = &memory[0].x;
    grid = {gx, gy, gz};
    block_size = {bx, by, bz};
    Machine& machine = made_machine();
    machine.kernel = kernel;
    machine.arguments = arguments;
    machine.failure = nullptr;
    machine.overlaps = overlaps;
    for (unsigned z = 0; z < gz; ++z)
        for (unsigned y = 0; y < gy; ++y)
            for (unsigned x = 0; x < gx; ++x) {
                std::memset(dynamic_shared, 0xff, shared + 16);
                block = {x, y, z};
                if (!machine.run_block(bx))
                    return own.error = complain(LAUNCH_FAILED, kernel, "a barrier that not all threads reach");
                if (machine.failure) return own.error = complain(LAUNCH_FAILED, kernel, machine.failure);
                for (unsigned i = 0; i < 16; ++i)
                    if (reinterpret_cast<unsigned char*>(dynamic_shared)[shared + i] != 0xff)
                        return own.error = complain(LAUNCH_FAILED, kernel, "a write beyond dynamic shared memory");
            }
    return SUCCESS;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** arguments, void**) {
    return launch(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, false);
}
struct Attribute {
    int id, pad, value;
    char rest[60];
};
struct Config {
    unsigned grid[3], block[3], shared;
    void* stream;
    Attribute* attributes;
    unsigned count;
};
int cuLaunchKernelEx(const Config* config, void* function, void** arguments, void**) {
    const auto& [grid, block, shared, stream, attributes, count] = *config;
    if (count != 1 || attributes->id != 6 || attributes->value != 1)
        return complain(INVALID_VALUE, static_cast<Kernel*>(function), "attributes other than an overlap with earlier work");
    Stream& own = *stream_of(stream);
    if (own.refused_overlaps > !own.is_capturing) {
        own.capture.reset();
        return CAPTURE_UNSUPPORTED;
    }
    return launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, arguments, true);
}
void emulated_refuse_overlaps(void* stream, int refused) { stream_of(stream)->refused_overlaps = refused; }
}
