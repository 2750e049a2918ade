// The part of NVRTC that burnish calls. The image of a program is its name and macros: "attention.cu HEAD_DIM=64 TILE=32".
#include <cstddef>
#include <cstring>
#include <string>

extern "C" {
int nvrtcVersion(int* major, int* minor) {
    *major = 0;
    *minor = 1;
    return 0;
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int, const char* const*,
                       const char* const*) {
    if (!source || !std::strstr(source, "KERNEL(")) return 3;
    *program = new std::string(name);
    return 0;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    bool has_arch = false;
    for (int i = 0; i < count; ++i) {
        has_arch |= std::strcmp(options[i], "--gpu-architecture=sm_90") == 0;
        if (std::strncmp(options[i], "-D", 2) == 0) *static_cast<std::string*>(program) += std::string(" ") + (options[i] + 2);
    }
    return has_arch ? 0 : 5;
}
int nvrtcGetProgramLogSize(void*, size_t* size) {
    *size = 1;
    return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
    *log = 0;
    return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* size) {
    *size = static_cast<std::string*>(program)->size() + 1;
    return 0;
}
int nvrtcGetCUBIN(void* program, char* image) {
    std::strcpy(image, static_cast<std::string*>(program)->c_str());
    return 0;
}
int nvrtcDestroyProgram(void** program) {
    delete static_cast<std::string*>(*program);
    return 0;
}
}
