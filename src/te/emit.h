// A nest as CUDA C++: a kernel for each stage at the root.
//
// Blocks and threads are the loops bound to them. A kernel's threads are numbered in one dimension,
// rounded up to whole warps; idle ones hold identities where threads reduce together. Where no loop
// is bound, the outermost one that is not reduced is shared by all threads of the grid.
#pragma once

#include "te/nest.h"

#include <string>
#include <vector>

namespace postlude::inline v0::te {

struct KernelSource {
  std::string name;
  Expr grid[3], block[3];  // extents of the loops bound to them; empty: 1
  bool empties[6] = {};    // of the blocks' axes, then the threads': whether nothing is left to do without its loops
  Expr shared_loop;        // instead: the extent of the loop that all threads share; empty: none
  bool joins_blocks = false;
};

// One parameter of every kernel, 8 bytes each: addresses of arguments and global buffers, strides of
// arguments, sizes, then of each kernel that joins blocks an address of partial results and one of
// counters.
struct CudaSource {
  std::string text;
  std::vector<KernelSource> kernels;
  std::vector<BufferPtr> globals;
  std::vector<AxisPtr> sizes;
  std::size_t joining = 0;  // kernels that join blocks
};

inline constexpr int auto_threads = 128;        // of a block whose kernel binds nothing
inline constexpr std::int64_t join_bytes = 64;  // of partial results a thread, at most

[[nodiscard]] CudaSource emit(const Nest& nest);

}  // namespace postlude::inline v0::te
