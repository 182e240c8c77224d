// CUTLASS 3's epilogue visitor trees, compiled by Postlude. A program changes its include and says
//   namespace cutlass = postlude::evt::cutlass;
//   namespace cute = postlude::evt::cutlass;
// docs/from-cutlass.md goes through every node, operation and rule.
#pragma once

#include <postlude/evt/cutlass/functions.h>
#include <postlude/evt/cutlass/gemm.h>
#include <postlude/evt/cutlass/nodes.h>
#include <postlude/evt/cutlass/operations.h>
#include <postlude/evt/cutlass/types.h>
#include <postlude/evt/evt.h>

// CUTLASS's own namespaces.
namespace postlude::inline v0::evt::cutlass {
namespace epilogue::fusion {
using namespace postlude::evt::cutlass;
}
namespace epilogue::thread {
using namespace postlude::evt::cutlass;
}
namespace gemm {
using namespace postlude::evt::cutlass;
}
}  // namespace postlude::inline v0::evt::cutlass
