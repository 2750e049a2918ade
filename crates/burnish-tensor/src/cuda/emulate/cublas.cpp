// The part of cuBLAS that burnish calls, as plain loops.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

static void store(void* data, int type, long long index, float x) {
    if (type == 0) {
        static_cast<float*>(data)[index] = x;
        return;
    }
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u); // to nearest even
    static_cast<uint16_t*>(data)[index] = (uint16_t)(bits >> 16);
}

static double element(const void* data, int type, long long index) {
    if (type == 0) return static_cast<const float*>(data)[index];
    uint32_t bits = (uint32_t)static_cast<const uint16_t*>(data)[index] << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

struct Handle {
    int math; // 0 is the default; 16 disallows reductions in the type of the result
    void* stream;
};

extern "C" {
// Of the emulated driver.
void emulated_upload_all(void* stream);
bool emulated_capture(void* stream, std::function<int()> work);

int cublasCreate_v2(void** handle) {
    *handle = new Handle{0, nullptr};
    return 0;
}
int cublasDestroy_v2(void* handle) {
    delete static_cast<Handle*>(handle);
    return 0;
}
int cublasSetMathMode(void* handle, int math) {
    static_cast<Handle*>(handle)->math = math;
    return 0;
}
int cublasSetStream_v2(void* handle, void* stream) {
    static_cast<Handle*>(handle)->stream = stream;
    return 0;
}
int cublasSetWorkspace_v2(void*, void*, size_t) { return 0; }

// Column-major. Types are 0 (f32) or 14 (bf16); both operands have one type, the result is f32, or bf16 as they are.
int cublasGemmEx(void* handle, int a_op, int b_op, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,
                 const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc, int compute, int) {
    int a_rows = a_op == 0 ? m : k, b_rows = b_op == 0 ? k : n;
    if (m <= 0 || n <= 0 || k <= 0 || lda < a_rows || ldb < b_rows || ldc < m) return 7;
    if (a_type != b_type || (a_type != 0 && a_type != 14) || compute != 68) return 15;
    if (c_type != 0 && (c_type != 14 || a_type != 14)) return 15;
    // Where a card may add in bf16, no tolerance of a test is safe.
    const Handle& of = *static_cast<const Handle*>(handle);
    if (a_type == 14 && of.math != 16) return 15;
    float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
    auto again = [=] {
        return cublasGemmEx(handle, a_op, b_op, m, n, k, &scale, a, a_type, lda, b, b_type, ldb, &keep, c, c_type, ldc, compute, 0);
    };
    if (emulated_capture(of.stream, again)) return 0;
    emulated_upload_all(of.stream);
    for (int column = 0; column < n; ++column)
        for (int row = 0; row < m; ++row) {
            double sum = 0.0;
            for (int i = 0; i < k; ++i) {
                double x = element(a, a_type, a_op == 0 ? row + (long long)i * lda : i + (long long)row * lda);
                double y = element(b, b_type, b_op == 0 ? i + (long long)column * ldb : column + (long long)i * ldb);
                sum += x * y;
            }
            long long at = row + (long long)column * ldc;
            double before = keep == 0.0f ? 0.0 : keep * element(c, c_type, at);
            store(c, c_type, at, (float)(scale * sum + before));
        }
    return 0;
}
}
