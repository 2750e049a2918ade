// The part of NVRTC that burnish calls. The image of a program is its name and macros: "attention.cu HEAD_DIM=64 TILE=32".
#include <cstddef>
#include <cstring>
#include <string>

struct Program {
    std::string image;
    bool is_ptx;
};

extern "C" {
int nvrtcVersion(int* major, int* minor) {
    *major = 0;
    *minor = 1;
    return 0;
}
// Older than the newest cards.
static const int KNOWN[] = {80, 90, 100};
int nvrtcGetNumSupportedArchs(int* count) {
    *count = 3;
    return 0;
}
int nvrtcGetSupportedArchs(int* known) {
    std::memcpy(known, KNOWN, sizeof KNOWN);
    return 0;
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int, const char* const*,
                       const char* const*) {
    if (!source || !std::strstr(source, "KERNEL(")) return 3;
    *program = new Program{name, false};
    return 0;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    Program& of = *static_cast<Program*>(program);
    bool has_arch = false;
    for (int i = 0; i < count; ++i) {
        for (int known : KNOWN) {
            std::string number = std::to_string(known);
            has_arch |= options[i] == "--gpu-architecture=sm_" + number;
            has_arch |= options[i] == "--gpu-architecture=sm_" + number + "a";
            of.is_ptx |= options[i] == "--gpu-architecture=compute_" + number;
        }
        if (std::strncmp(options[i], "-D", 2) == 0) of.image += std::string(" ") + (options[i] + 2);
    }
    return has_arch || of.is_ptx ? 0 : 5;
}
int nvrtcGetProgramLogSize(void*, size_t* size) {
    *size = 1;
    return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
    *log = 0;
    return 0;
}
static int size_of(void* program, bool is_ptx, size_t* size) {
    Program& of = *static_cast<Program*>(program);
    if (of.is_ptx != is_ptx) return 3;
    *size = of.image.size() + 1;
    return 0;
}
static int image_of(void* program, char* image) {
    std::strcpy(image, static_cast<Program*>(program)->image.c_str());
    return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* size) { return size_of(program, false, size); }
int nvrtcGetPTXSize(void* program, size_t* size) { return size_of(program, true, size); }
int nvrtcGetCUBIN(void* program, char* image) { return image_of(program, image); }
int nvrtcGetPTX(void* program, char* image) { return image_of(program, image); }
int nvrtcDestroyProgram(void** program) {
    delete static_cast<Program*>(*program);
    return 0;
}
}
