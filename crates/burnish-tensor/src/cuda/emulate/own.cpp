// What each thread of the host has for itself, in a library of its own: a library whose threads reach this memory without
// a call may have little of it, and what blocks share is more.
#include "cuda_shim.h"

namespace emulated {
OWN Thread* current;
OWN dim3 block, grid, block_size;
OWN float* dynamic_shared;
OWN Machine* running;
} // namespace emulated
