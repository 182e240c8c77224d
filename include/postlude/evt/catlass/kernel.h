// CATLASS's way of running a product with a graph behind it: BlockEpilogue, a kernel's type, the device's adapter.
#pragma once

#include <postlude/evt/catlass/nodes.h>
#include <postlude/evt/evt.h>
#include <postlude/evt/launch.h>

#include <string>

namespace postlude::inline v0::evt::catlass {

template <bool USE_UB_WORKSPACE_ = false>
struct EpilogueVisitor {
  static constexpr bool USE_UB_WORKSPACE = USE_UB_WORKSPACE_;
};

// What of a matrix unit's configuration matters here: the matrices. Bias: a row that is added to the accumulator.
template <class ArchTag_, bool enableUnitFlag = false>
struct MmadPingpong {
  using ArchTag = ArchTag_;
};
template <class ArchTag, class ElementA, class LayoutTagA_, class ElementB, class LayoutTagB_, class ElementC,
          class LayoutTagC_, class ElementBias = void>
struct PackedTileCopyTla {
  using LayoutTagA = LayoutTagA_;
  using LayoutTagB = LayoutTagB_;
  using LayoutTagC = LayoutTagC_;
};
enum class CopyL0CToUBMode { NO_SPLIT, SPLIT_M, SPLIT_N };
template <class ArchTag, class ElementA, class LayoutTagA, class ElementB, class LayoutTagB, class ElementC,
          class LayoutTagC, class ElementBias = void, CopyL0CToUBMode mode = CopyL0CToUBMode::NO_SPLIT>
struct PackedTileCopyTlaToUB
    : PackedTileCopyTla<ArchTag, ElementA, LayoutTagA, ElementB, LayoutTagB, ElementC, LayoutTagC, ElementBias> {};
template <class DispatchPolicy, class L1TileShape, class L0TileShape, class ElementA_, class ElementB_, class ElementC_,
          class ElementBias_ = void,
          class TileCopy = PackedTileCopyTla<void, ElementA_, layout::RowMajor, ElementB_, layout::RowMajor, ElementC_,
                                             layout::RowMajor, ElementBias_>>
struct BlockMmadTla {
  using ElementA = ElementA_;
  using ElementB = ElementB_;
  using ElementC = ElementC_;
  using ElementBias = ElementBias_;
  using LayoutA = typename TileCopy::LayoutTagA;
  using LayoutB = typename TileCopy::LayoutTagB;
  using LayoutC = typename TileCopy::LayoutTagC;
};
template <int offset = 1, int direction = 0>
struct GemmIdentityBlockSwizzle {};

namespace detail {

// How many elements of each buffer fit on chip twice, by CATLASS's rule: one buffer for each node but the stores, and
// none for an accumulator that is there already.
template <class ArchTag, bool on_chip, class EVG, class ElementC>
constexpr std::uint32_t compute_length() {
  std::uint32_t buffers = 0;
  for (int i = 0; i < told<EVG>.count; ++i) {
    const Row::Kind kind = told<EVG>.rows[static_cast<std::size_t>(i)].kind;
    buffers += kind != Row::Kind::store && !(on_chip && kind == Row::Kind::accumulator);
  }
  const std::uint32_t bytes = ArchTag::UB_SIZE - (on_chip ? ArchTag::L0C_SIZE / 2 : 0);
  return RoundDown(bytes / (buffers > 0 ? buffers : 1) / 2 / static_cast<std::uint32_t>(sizeof(ElementC)), BYTE_PER_C0);
}

template <class ComputeLength>
inline constexpr std::uint32_t given_length = static_cast<std::uint32_t>(ComputeLength::value);
template <>
inline constexpr std::uint32_t given_length<void> = 0;

template <class EVG, class ElementA, class ElementC>
struct Behind {
  using VisitorTree = EVG;
  static constexpr bool stores_root = false;
  static constexpr Element output = no_element;
  static constexpr DType accumulator = is_float(static_cast<DType>(element_of<ElementA>)) ? f32 : i32;
  static constexpr Fault check(const auto& told) {
    for (int i = 0; i < told.count; ++i) {
      const Row& row = told.rows[static_cast<std::size_t>(i)];
      if (row.kind == Row::Kind::accumulator && row.element != element_of<ElementC>)
        return {Mistake::type_mismatch, element_of<ElementC>, row.element, row.path};
    }
    return Whole::check(told);
  }
};

}  // namespace detail

// ComputeLength: Int<n>, a multiple of BYTE_PER_C0; Int<0> or void has it computed. Here it decides nothing: a schedule
// does.
template <class DispatchPolicy, class ArchTag_, class ComputeLength, class EVG_, class ElementC_>
struct BlockEpilogue {
  static constexpr bool USE_UB_WORKSPACE = DispatchPolicy::USE_UB_WORKSPACE;
  using ArchTag = ArchTag_;
  using EVG = EVG_;
  using ElementC = ElementC_;
  static constexpr std::uint32_t COMPUTE_LENGTH =
      detail::given_length<ComputeLength> > 0 ? detail::given_length<ComputeLength>
                                              : detail::compute_length<ArchTag, USE_UB_WORKSPACE, EVG, ElementC>();
  static_assert(COMPUTE_LENGTH % BYTE_PER_C0 == 0, "a compute length is a multiple of BYTE_PER_C0");
};

namespace detail {

// A kernel is a type here: what it multiplies and what follows.
template <class BlockMmad_, class BlockEpilogue_>
struct Kernel {
  using BlockMmad = BlockMmad_;
  using BlockEpilogue = BlockEpilogue_;
  using ElementA = typename BlockMmad::ElementA;
  using ElementB = typename BlockMmad::ElementB;
  using ElementC = typename BlockMmad::ElementC;
  using ElementBias = typename BlockMmad::ElementBias;
  using LayoutA = typename BlockMmad::LayoutA;
  using LayoutB = typename BlockMmad::LayoutB;
  using LayoutC = typename BlockMmad::LayoutC;
  using EVG = typename BlockEpilogue::EVG;
  using EpilogueType = Behind<EVG, ElementA, ElementC>;
  static_assert(std::is_same_v<ElementC, typename BlockEpilogue::ElementC>,
                "the block epilogue has another ElementC than the product");
  static_assert(element_of<ElementA> >= 0 && element_of<ElementB> >= 0,
                "A or B has an element type that Postlude does not multiply");

  struct Arguments {
    GemmCoord problemShape = {};
    const void* ptrA = nullptr;
    LayoutA layoutA = {};
    const void* ptrB = nullptr;
    LayoutB layoutB = {};
    GM_ADDR ptrC = nullptr;  // neither of these is used: stores say where results go
    LayoutC layoutC = {};
    const void* ptrBias = nullptr;  // N elements; null: none
    typename EVG::Arguments evg_args = {};
    Target target = {};  // where all pointers lead
  };

  static bool CanImplement(const Arguments& args) { return said(kernel().check(request(args))); }
  // 0: a call owns its workspace.
  static std::size_t GetWorkspaceSize(const Arguments&) { return 0; }
  // A sentence for each reason why this thread's last check or run of this type said no.
  [[nodiscard]] static const std::string& why() { return reason(); }

  static bool prepare(const Arguments& args, void* stream, Call& call) {
    return said(kernel().prepare(request(args), stream, call = {}));
  }
  static bool run(Call& call, void* stream) { return said(evt::detail::Kernel::run(call, stream)); }

 private:
  static std::string& reason() {
    static thread_local std::string text;
    return text;
  }
  static bool said(const Outcome& outcome) {
    reason() = outcome.why;
    return !outcome.code;
  }
  static evt::detail::Kernel& kernel() {
    return kernel_of<Kernel>({.a = static_cast<DType>(element_of<ElementA>),
                              .b = static_cast<DType>(element_of<ElementB>),
                              .bias = element_of<ElementBias>});
  }
  static Request request(const Arguments& args) {
    const auto matrix = [](const void* data, const layout::Matrix& layout) {
      return Matrix{data, {layout.row_stride, layout.column_stride, 0}, {layout.rows, layout.columns}};
    };
    Request made;
    made.m = args.problemShape.m(), made.n = args.problemShape.n(), made.k = args.problemShape.k();
    made.a = matrix(args.ptrA, args.layoutA);
    made.b = matrix(args.ptrB, args.layoutB);
    made.bias = args.ptrBias;
    made.target = args.target;
    evt::detail::give<EVG>(&args.evg_args, made.given);
    return made;
  }
};

}  // namespace detail

// The accumulator goes through memory in CATLASS; here it stays on chip with either kernel, and the results are equal.
template <class BlockMmad, class BlockEpilogue, class BlockScheduler = void>
struct BasicMatmulTlaVisitor : detail::Kernel<BlockMmad, BlockEpilogue> {
  static_assert(!BlockEpilogue::USE_UB_WORKSPACE, "BasicMatmulTlaVisitor takes an EpilogueVisitor<false>");
};
template <class BlockMmad, class BlockEpilogue, class BlockScheduler = void>
struct BasicMatmulTlaUbVisitor : detail::Kernel<BlockMmad, BlockEpilogue> {
  static_assert(BlockEpilogue::USE_UB_WORKSPACE, "BasicMatmulTlaUbVisitor takes an EpilogueVisitor<true>");
};

// Not for two threads at once.
template <class Kernel_>
class DeviceGemm {
 public:
  using Kernel = Kernel_;
  using Arguments = typename Kernel::Arguments;

  // Whether Initialize() would succeed; why() says why not. Nothing is written.
  [[nodiscard]] static Status CanImplement(const Arguments& args) { return status(Kernel::CanImplement(args)); }
  [[nodiscard]] static const std::string& why() { return Kernel::why(); }
  [[nodiscard]] static std::size_t GetWorkspaceSize(const Arguments& args) { return Kernel::GetWorkspaceSize(args); }
  Status Initialize(const Arguments& args, void* workspace = nullptr, void* stream = nullptr) {
    static_cast<void>(workspace);
    return status(ready_ = Kernel::prepare(args, stream, call_));
  }
  Status operator()(void* stream = nullptr, std::uint32_t blockDim = 0) { return Run(stream, blockDim); }
  Status Run(void* stream = nullptr, std::uint32_t blockDim = 0, std::uint64_t = 0) {
    static_cast<void>(blockDim);  // a schedule's business
    return status(ready_ && Kernel::run(call_, stream));
  }

 private:
  static Status status(bool ok) { return ok ? Status::kSuccess : Status::kInvalid; }
  Call call_;
  bool ready_ = false;
};

}  // namespace postlude::inline v0::evt::catlass
