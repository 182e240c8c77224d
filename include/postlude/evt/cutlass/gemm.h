// CUTLASS's way of running a product with a tree behind it.
#pragma once

#include <postlude/evt/cutlass/nodes.h>
#include <postlude/evt/evt.h>
#include <postlude/evt/launch.h>

#include <string>

namespace postlude::inline v0::evt::cutlass {

namespace detail {

[[nodiscard]] Status status_of(const Outcome& outcome);

template <class Layout>
inline constexpr postlude::Layout k_major = postlude::Layout::any;
template <>
inline constexpr postlude::Layout k_major<TagToStrideA_t<RowMajor>> = postlude::Layout::k_major;
template <>
inline constexpr postlude::Layout k_major<TagToStrideA_t<ColumnMajor>> = postlude::Layout::mn_major;

// What stands behind a product: a named operation or a tree, with the types of C and D.
template <class Fusion, class ElementA, class ElementC, class ElementD>
struct Behind {
  using Base = evt::detail::Epilogue<Fusion>;
  using VisitorTree = typename Base::VisitorTree;
  static constexpr bool stores_root = !std::is_void_v<ElementD>;
  static constexpr Element output = element_of<ElementD>;
  static constexpr DType accumulator = is_float(static_cast<DType>(element_of<ElementA>)) ? f32 : i32;

  static constexpr Fault check(const auto& told) {
    bool stores = stores_root;
    for (int i = 0; i < told.count; ++i) {
      const Row& row = told.rows[static_cast<std::size_t>(i)];
      stores |= row.kind == Row::Kind::store || row.kind == Row::Kind::reduce || row.kind == Row::Kind::own;
      if (row.kind != Row::Kind::source) continue;
      if (row.element != no_element && std::is_void_v<ElementC>) return {Mistake::no_source, 0, 0, row.path};
      if (row.element != no_element && row.element != element_of<ElementC>)
        return {Mistake::type_mismatch, element_of<ElementC>, row.element, row.path};
    }
    if (output == unsupported_element) return {Mistake::unsupported_element};
    return {stores ? Mistake::none : Mistake::result_is_not_stored};
  }
};

}  // namespace detail

// A product A B with a named operation or a tree behind it, as CUTLASS's adapter of that name. Compiled for
// Arguments::target when it is first initialised; equal epilogues share a plan. Not for two threads at once.
template <class ElementA_, class LayoutA_, class ElementB_, class LayoutB_, class ElementC_, class LayoutC_,
          class ElementD_, class LayoutD_, class FusionOpOrTree>
class GemmUniversal {
 public:
  using ElementA = ElementA_;
  using ElementB = ElementB_;
  using ElementC = ElementC_;
  using ElementD = ElementD_;
  using LayoutA = LayoutA_;
  using LayoutB = LayoutB_;
  using LayoutC = LayoutC_;
  using LayoutD = LayoutD_;
  using StrideA = TagToStrideA_t<LayoutA>;
  using StrideB = TagToStrideB_t<LayoutB>;
  using StrideC = TagToStrideC_t<LayoutC>;
  using StrideD = TagToStrideC_t<LayoutD>;
  using Fusion = FusionOpOrTree;
  using EpilogueType = detail::Behind<Fusion, ElementA, ElementC, ElementD>;
  static_assert(
      element_of<ElementA> >= 0 && element_of<ElementB> >= 0,
      "A or B has an element type that Postlude does not multiply: use float, half_t, bfloat16_t, float_e4m3_t, "
      "float_e5m2_t, int8_t or uint8_t");

  struct MainloopArguments {
    ElementA const* ptr_A = nullptr;
    StrideA dA = {};
    ElementB const* ptr_B = nullptr;
    StrideB dB = {};
  };
  struct EpilogueArguments {
    using Thread = typename Fusion::Arguments;
    Thread thread = {};
    ElementC const* ptr_C = nullptr;
    StrideC dC = {};
    ElementD* ptr_D = nullptr;
    StrideD dD = {};
  };
  struct Arguments {
    ProblemShape problem_shape = {};
    MainloopArguments mainloop = {};
    EpilogueArguments epilogue = {};
    Target target = {};  // where all pointers lead
  };

  // Whether initialize() would succeed; why() says why not. Nothing is written.
  [[nodiscard]] static Status can_implement(const Arguments& args) { return said(kernel().check(request(args))); }
  // A sentence for each reason why this thread's last can_implement(), initialize() or run() of this type said no.
  [[nodiscard]] static const std::string& why() { return reason(); }
  // 0: a call owns its workspace.
  [[nodiscard]] static std::size_t get_workspace_size(const Arguments&) { return 0; }

  // `stream`: where it will run first, on a GPU.
  Status initialize(const Arguments& args, void* workspace = nullptr, void* stream = nullptr) {
    static_cast<void>(workspace);
    return status_ = said(kernel().prepare(request(args), stream, call_ = {}));
  }
  Status update(const Arguments& args, void* workspace = nullptr) { return initialize(args, workspace); }
  Status run(void* stream = nullptr) {
    if (status_ != Status::kSuccess) return status_;
    return said(evt::detail::Kernel::run(call_, stream));
  }
  Status run(const Arguments& args, void* workspace = nullptr, void* stream = nullptr) {
    return initialize(args, workspace, stream) == Status::kSuccess ? run(stream) : status_;
  }
  Status operator()(void* stream = nullptr) { return run(stream); }
  Status operator()(const Arguments& args, void* workspace = nullptr, void* stream = nullptr) {
    return run(args, workspace, stream);
  }

 private:
  Call call_;
  Status status_ = Status::kInvalid;  // not initialised

  static std::string& reason() {
    static thread_local std::string text;
    return text;
  }
  static Status said(const evt::detail::Outcome& outcome) {
    reason() = outcome.why;
    return detail::status_of(outcome);
  }
  static evt::detail::Kernel& kernel() {
    return evt::detail::kernel_of<GemmUniversal>({.a = static_cast<DType>(element_of<ElementA>),
                                                  .b = static_cast<DType>(element_of<ElementB>),
                                                  .a_layout = detail::k_major<StrideA>,
                                                  .b_layout = detail::k_major<StrideB>,
                                                  .c = element_of<ElementC>,
                                                  .d = element_of<ElementD>});
  }
  static void give(const typename EpilogueType::VisitorTree::Arguments& arguments, Giving& giving) {
    evt::detail::give<typename EpilogueType::VisitorTree>(&arguments, giving);
  }
  static evt::detail::Request request(const Arguments& args) {
    const auto matrix = [](const void* data, const auto& stride, bool swap) {
      auto strides = detail::strides(stride);
      if (swap) std::swap(strides[0], strides[1]);
      return evt::detail::Matrix{data, strides};
    };
    evt::detail::Request made;
    made.m = args.problem_shape.M, made.n = args.problem_shape.N, made.k = args.problem_shape.K;
    made.batch = args.problem_shape.L;
    made.a = matrix(args.mainloop.ptr_A, args.mainloop.dA, false);
    made.b = matrix(args.mainloop.ptr_B, args.mainloop.dB, true);  // its modes are N, K
    made.c = matrix(args.epilogue.ptr_C, args.epilogue.dC, false);
    made.d = matrix(args.epilogue.ptr_D, args.epilogue.dD, false);
    made.target = args.target;
    const auto& thread = args.epilogue.thread;
    if constexpr (requires { Fusion::tree_arguments(thread); }) give(Fusion::tree_arguments(thread), made.given);
    else give(thread, made.given);
    return made;
  }
};

}  // namespace postlude::inline v0::evt::cutlass
