// Instructions of tensor cores, and copies that go on while a block works. Compute capability 8.0 and above.
//
// Fragments are those of `mma.m16n8k16` (PTX manual): of a 16 by 8 result, lane (group = lane / 4, pair = lane % 4) holds
// columns `2 pair` and `2 pair + 1` of rows `group` and `group + 8`. The emulation has its own in cuda_shim.h.

#ifndef EMULATED
// 16 bytes from global to shared memory, or zeros.
__device__ __forceinline__ void copy_async(bf16* to, const bf16* from, bool is_real) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(is_real ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all copies are done, except those of the latest commit.
__device__ __forceinline__ void wait_for_copies_but_latest() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Four 8 by 8 matrices; lane i gives the address of row i % 8 of matrix i / 8, and gets columns `2 pair` and `2 pair + 1`
// of row `group` of each.
__device__ __forceinline__ void load_matrices(u32 m[4], const bf16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((u32)__cvta_generic_to_shared(row))
                 : "memory");
}
// The same for the transposes of the matrices.
__device__ __forceinline__ void load_transposed(u32 m[4], const bf16* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((u32)__cvta_generic_to_shared(row))
                 : "memory");
}
// c += a b, 16 by 16 by 8.
__device__ __forceinline__ void multiply_add(float c[4], const u32 a[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// 2^x to 2 ulp; numbers too small for the normal range are 0.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
#else
__device__ __forceinline__ float power_of_two(float x) { return exp2f(x); }
__device__ __forceinline__ u32 pack(float low, float high) {
    return (u32)float_to_bf16(low) | (u32)float_to_bf16(high) << 16;
}
#endif
