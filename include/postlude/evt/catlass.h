// CATLASS's epilogue visitor graphs, compiled by Postlude. A program changes its include and says
//   namespace Catlass = postlude::evt::catlass;
//   namespace tla = postlude::evt::catlass;
//   namespace AscendC = postlude::evt::catlass::AscendC;
// docs/from-catlass.md goes through every node and rule.
#pragma once

#include <postlude/evt/catlass/functions.h>
#include <postlude/evt/catlass/kernel.h>
#include <postlude/evt/catlass/nodes.h>
#include <postlude/evt/catlass/types.h>
#include <postlude/evt/evt.h>

// CATLASS's own namespaces.
namespace postlude::inline v0::evt::catlass {
namespace Epilogue {
using catlass::EpilogueVisitor;
namespace Fusion {
using namespace postlude::evt::catlass;
}
namespace Block {
using catlass::BlockEpilogue;
}
}  // namespace Epilogue
namespace Gemm {
using catlass::MmadPingpong;
namespace Block {
using catlass::BlockMmadTla;
using catlass::GemmIdentityBlockSwizzle;
}  // namespace Block
namespace Tile {
using catlass::CopyL0CToUBMode;
using catlass::PackedTileCopyTla;
using catlass::PackedTileCopyTlaToUB;
}  // namespace Tile
namespace Kernel {
using catlass::BasicMatmulTlaUbVisitor;
using catlass::BasicMatmulTlaVisitor;
}  // namespace Kernel
namespace Device {
using catlass::DeviceGemm;
}
}  // namespace Gemm
}  // namespace postlude::inline v0::evt::catlass
