// All kernels for the emulation. A program is named by its file and its macros, as the emulated NVRTC does it.
#include "cuda_shim.h"

#include "../kernels/common.cuh"

#define PROGRAM "elementwise.cu"
namespace elementwise {
#include "../kernels/elementwise.cu"
}
#undef PROGRAM
#define PROGRAM "gather.cu"
namespace gather {
#include "../kernels/gather.cu"
}
#undef PROGRAM
#define PROGRAM "norm.cu"
namespace norm {
#include "../kernels/norm.cu"
}
#undef PROGRAM
#define PROGRAM "rope.cu"
namespace rope_ {
#include "../kernels/rope.cu"
}
#undef PROGRAM
#define PROGRAM "scores.cu"
namespace scores {
#include "../kernels/scores.cu"
}
#undef PROGRAM
#define PROGRAM "optim.cu"
namespace optim {
#include "../kernels/optim.cu"
}
#undef PROGRAM
#define PROGRAM "draw.cu"
namespace draw_ {
#include "../kernels/draw.cu"
}
#undef PROGRAM
#define PROGRAM "decode.cu"
namespace decode {
#include "../kernels/decode.cu"
}
#undef PROGRAM
#define PROGRAM "linear_attention.cu"
namespace linear_attention {
#include "../kernels/linear_attention.cu"
}
#undef PROGRAM
#define PROGRAM "recurrent.cu"
namespace recurrent {
#include "../kernels/recurrent.cu"
}
#undef PROGRAM
#define PROGRAM "few_rows.cu"
namespace few_rows {
#include "../kernels/mma.cuh"

#include "../kernels/few_rows.cu"
}
#undef PROGRAM
