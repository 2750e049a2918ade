// What cards of compute capability 9.0 have: products of tiles in shared memory that go on while a warp group computes,
// copies of boxes by the card's copy engine, barriers that such copies complete. The emulation has its own in
// cuda_shim.h.
//
// A tile is HEAD_DIM / 64 panels, one after the other: of each row, 64 columns (128 bytes). In a panel, the chunks of 16
// bytes of a row are permuted (CU_TENSOR_MAP_SWIZZLE_128B), so that eight rows are in different banks. Tiles begin at
// multiples of 1024 bytes.
//
// Results are in fragments: warp w of a group has rows 16 w to 16 w + 15, as in mma.cuh. They are not to be touched
// between a product and `wait_for_products`.

#ifndef EMULATED
#define GROUP_THREADS 384, 1 // one block at a time on a multiprocessor: what each thread may have of its registers
#define PANEL 64

struct alignas(64) TensorMap {
    u64 opaque[16];
};
#define MAP const __grid_constant__ TensorMap

typedef u64 Barrier;

__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

__device__ __forceinline__ void start_barrier(Barrier* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Before other threads and the copy engine use barriers that were started.
__device__ __forceinline__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives; the phase also needs so many bytes to be copied.
__device__ __forceinline__ void arrive_expecting(Barrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for(Barrier* barrier, u32 parity) {
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra gone;\n"
                 "bra again;\n"
                 "gone:\n"
                 "}" ::"r"(shared_address(barrier)), "r"(parity)
                 : "memory");
}

// 64 rows of a panel, from this column and row of the matrix on; zeros beyond the matrix.
__device__ __forceinline__ void copy_box(bf16* to, const TensorMap& map, int column, int row, Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
                 : "memory");
}

#define GIVE_REGISTERS_BACK asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#define TAKE_REGISTERS asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");

// What products of this group are about to read or add to was written before.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LATEST>
__device__ __forceinline__ void wait_for_products_but() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATEST) : "memory");
}
// The compiler may not read results before this place.
template <int TILES>
__device__ __forceinline__ void are_results(float (&x)[TILES][4]) {
#pragma unroll
    for (int n = 0; n < TILES; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(x[n][i])::"memory");
}

typedef u64 Operand;
// Descriptors of operands in shared memory: address, leading and stride byte offsets in units of 16 bytes, and the
// swizzle of 128 bytes. `rows` is a tile's height. Of rows whose columns are summed over: groups of eight rows are 1024 bytes apart.
__device__ __forceinline__ Operand rows_operand(const bf16* tile, int rows, int row, int step) {
    u32 at = shared_address(tile) + step / 4 * rows * 128 + row * 128 + step % 4 * 32;
    return (u64)((at & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
// Of 16 rows that are summed over, with all columns of a head: panels are a tile's height apart.
__device__ __forceinline__ Operand columns_operand(const bf16* tile, int rows, int step) {
    u32 at = shared_address(tile) + step * 16 * 128;
    return (u64)((at & 0x3ffff) >> 4) | (u64)(rows * 128 >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

#define FOUR(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define FOURS_8(n) FOUR(n), FOUR(n + 1), FOUR(n + 2), FOUR(n + 3), FOUR(n + 4), FOUR(n + 5), FOUR(n + 6), FOUR(n + 7)
#define NAMES_32                                                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, " \
    "%23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                                    \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
             "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// c (+)= a bᵀ over 16 columns: 64 rows of one tile, 8 TILES rows of another.
__device__ __forceinline__ void multiply(float (&c)[8][4], Operand a, Operand b, int adds) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32 "}, %32, %33, adds, 1, 1, 0, 0;\n}"
                 : FOURS_8(0)
                 : "l"(a), "l"(b), "r"(adds));
}
__device__ __forceinline__ void multiply(float (&c)[16][4], Operand a, Operand b, int adds) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64 "}, %64, %65, adds, 1, 1, 0, 0;\n}"
                 : FOURS_8(0), FOURS_8(8)
                 : "l"(a), "l"(b), "r"(adds));
}
// c (+)= a b: a in fragments, b 16 rows of a tile.
__device__ __forceinline__ void multiply(float (&c)[8][4], const u32 a[4], Operand b, int adds) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" NAMES_32
                 "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 1;\n}"
                 : FOURS_8(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
__device__ __forceinline__ void multiply(float (&c)[16][4], const u32 a[4], Operand b, int adds) {
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" NAMES_64
                 "}, {%64, %65, %66, %67}, %68, adds, 1, 1, 1;\n}"
                 : FOURS_8(0), FOURS_8(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
#endif
