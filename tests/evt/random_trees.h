// Runs a random tree and the text that it should mean on the same memory, and compares every byte of what they write.
#pragma once

#include "core/convert.h"
#include "evt/support.h"

#include <postlude/evt/catlass.h>

#include <deque>
#include <memory>

namespace postlude::evt_tests {

using T = evt::cutlass::Shape<evt::cutlass::_128, evt::cutlass::_128, evt::cutlass::_64>;
template <class E>
using amax = evt::cutlass::maximum_absolute_value_reduction<E, true>;

class Random {
 public:
  Random(int M, int N, int K, int L, DType element, DType source, DType output, bool b_row_major)
      : M(M), N(N), K(K), L(L), element_(element), output_(output), b_row_major_(b_row_major) {
    a_ = bytes(element, I64{L} * M * K, 1);
    b_ = bytes(element, I64{L} * K * N, 2);
    c_ = bytes(source, I64{L} * M * N, 3);
    source_ = tensor(c_.data(), source, {M, N}, {N, 1}, I64{M} * N);
    d_ = second_d_ = bytes(output, I64{L} * M * N, 4);
  }

  template <class E>
  Array<E>& array(std::int64_t count, int seed) {
    auto owned = std::make_shared<Array<E>>(count, seed);
    owners_.push_back(owned);
    return *owned;
  }
  void bind(std::string name, const Tensor& tensor) {
    bindings_.push_back({names_.emplace_back(std::move(name)), tensor});
  }
  // Along m and n; a batch stride of 0 is of an operand that all batches share.
  template <class E>
  Tensor tensor(const Array<E>& array, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                std::int64_t batch) {
    return tensor(array.data(), static_cast<DType>(evt::element_of<E>), std::move(extents), std::move(strides), batch);
  }
  [[nodiscard]] const Tensor& source() const { return source_; }

  // The memory of the tree's output; the text has some of its own, equal at first. The last stride is the batch's.
  template <class E>
  Array<E>& output(std::string name, std::int64_t count, std::vector<std::int64_t> extents,
                   std::vector<std::int64_t> strides) {
    Array<E>&first = array<E>(count, 5), &second = array<E>(count, 5);
    const std::int64_t batch = strides.back();
    strides.pop_back();
    bind(name, tensor(second, std::move(extents), std::move(strides), batch));
    equal_.push_back([=, &first, &second] { EXPECT_TRUE(first == second) << name; });
    return first;
  }

  template <class G>
  void run(const char* text, const typename G::Fusion::Arguments& thread) {
    using C = typename G::ElementC;
    typename G::Arguments args{};
    args.problem_shape = {M, N, K, L};
    args.mainloop = {reinterpret_cast<const typename G::ElementA*>(a_.data()),
                     {K, {}, I64{M} * K},
                     reinterpret_cast<const typename G::ElementB*>(b_.data()),
                     {}};
    if constexpr (std::is_same_v<typename G::LayoutB, evt::cutlass::RowMajor>) args.mainloop.dB = {{}, N, I64{K} * N};
    else args.mainloop.dB = {K, {}, I64{K} * N};
    args.epilogue = {thread,
                     reinterpret_cast<const C*>(c_.data()),
                     {N, {}, I64{M} * N},
                     reinterpret_cast<typename G::ElementD*>(d_.data()),
                     {N, {}, I64{M} * N}};
    G gemm;
    ASSERT_EQ(gemm.can_implement(args), evt::cutlass::Status::kSuccess) << gemm.why() << "\n" << evt::print<G>();
    ASSERT_EQ(gemm(args), evt::cutlass::Status::kSuccess) << gemm.why();
    bind("D", tensor(second_d_.data(), output_, {M, N}, {N, 1}, I64{M} * N));
    compare(text, evt::print<G>());
    EXPECT_EQ(d_, second_d_) << text << "\n" << evt::print<G>();
  }

  template <class Tree, class E, bool on_chip>
  void run_catlass(const char* text, const typename Tree::Arguments& arguments) {
    using namespace evt::catlass;
    using L_ = layout::RowMajor;
    using Mmad = BlockMmadTla<MmadPingpong<Arch::Ascend950>, T, T, E, E, float>;
    using Behind = BlockEpilogue<EpilogueVisitor<on_chip>, Arch::Ascend950, Int<0>, Tree, float>;
    struct Kernel : evt::catlass::detail::Kernel<Mmad, Behind> {};
    DeviceGemm<Kernel> gemm;
    typename Kernel::Arguments args{};
    args.problemShape = {static_cast<std::uint32_t>(M), static_cast<std::uint32_t>(N), static_cast<std::uint32_t>(K)};
    args.ptrA = a_.data(), args.layoutA = L_(M, K), args.ptrB = b_.data(), args.layoutB = L_(K, N);
    args.evg_args = arguments;
    ASSERT_EQ(gemm.CanImplement(args), Status::kSuccess) << gemm.why() << "\n" << evt::print<Tree>();
    ASSERT_EQ(gemm.Initialize(args), Status::kSuccess) << gemm.why();
    ASSERT_EQ(gemm(), Status::kSuccess) << gemm.why();
    compare(text, evt::print<Tree>());
  }

 private:
  using I64 = std::int64_t;

  static std::vector<std::uint8_t> bytes(DType dtype, std::int64_t count, int seed) {
    std::vector<std::uint8_t> made(static_cast<std::size_t>(count * size_of(dtype)));
    for (std::int64_t i = 0; i < count; ++i)
      core::store_real(dtype, made.data(), i,
                       static_cast<double>((i * 7 + seed * 5) % 17 - 8) * (is_float(dtype) ? 0.25 : 1));
    return made;
  }
  Tensor tensor(const void* data, DType dtype, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
                std::int64_t batch) const {
    if (L > 1 && batch != 0) extents.insert(extents.begin(), L), strides.insert(strides.begin(), batch);
    return {data, dtype, extents, strides};
  }
  void compare(const char* text, const std::string& printed) {
    SCOPED_TRACE(std::string(text) + "\n" + printed);
    Gemm gemm{.a = element_, .b = element_, .batched = L > 1};
    const Plan plan = compile(gemm, parse(text));
    bindings_.push_back({"A", tensor(a_.data(), element_, {M, K}, {K, 1}, I64{M} * K)});
    bindings_.push_back({"B", b_row_major_ ? tensor(b_.data(), element_, {K, N}, {N, 1}, I64{K} * N)
                                           : tensor(b_.data(), element_, {K, N}, {1, K}, I64{K} * N)});
    plan.bind(bindings_).run();
    for (const auto& check : equal_) check();
  }

  int M, N, K, L;
  DType element_, output_;
  bool b_row_major_;
  std::vector<std::uint8_t> a_, b_, c_, d_, second_d_;
  Tensor source_;
  std::vector<std::shared_ptr<void>> owners_;
  std::deque<std::string> names_;
  std::vector<Binding> bindings_;
  std::vector<std::function<void()>> equal_;
};

}  // namespace postlude::evt_tests
