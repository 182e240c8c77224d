// A main loop fills the accumulator. This interface is all that others know of one; docs/adding.md says which files a
// new one takes (decisions 0001 and 0120).
#pragma once

#include "loop/bound.h"
#include "loop/rows.h"

#include <postlude/problem.h>
#include <postlude/tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0 {

// All that lowering knows of a main loop.
struct Facts {
  DType accumulator = DType::f32;
  DType operand = DType::f32;  // of an operand that declares no dtype
  DType output = DType::f32;   // of a tile output that declares none
  bool batched = false;
  int pixels = 0;  // of how many axes the rows are the pixels (MainLoop::pixels); 0: they are none
  // The input whose elements the accumulator is: every phase may read them again, and an output may replace it.
  struct Source {
    std::string_view name;
    DType dtype;
  };
  std::optional<Source> source;
};

// acc(b, m, n) = sum over k of A(b, m, k) * B(b, k, n), as backends choose their kernels by.
struct Contraction {
  DType a = DType::f32, b = DType::f32;
  Layout a_layout = Layout::any, b_layout = Layout::any;
  Form a_form = Form::strided, b_form = Form::strided;
  std::int64_t groups = 1;
  bool parts = false;  // several products fill one output (Residue)
};

// A tensor that the main loop takes.
struct Input {
  enum class Use : std::uint8_t { multiplied, accumulator, index };

  std::string_view name;
  DType dtype = DType::f32;
  std::vector<std::string_view> axes;  // as messages call their extents: M, K
  Use use = Use::multiplied;
  bool packable = false;  // pack() may take it: it is B
  bool batchable = true;  // in a batched problem it may have a batch axis in front
};

// An input that was bound.
struct Given {
  std::string_view name;
  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;                                          // axes without the batch
  std::array<std::int64_t, Tensor::max_rank> shape{};    // of these
  std::array<std::int64_t, Tensor::max_rank> strides{};  // in elements, 0 along an axis of one element
  std::int64_t batch = -1, batch_stride = 0;             // -1: it has no batch axis, and is shared
  bool packed = false;                                   // pack() has made it of a tensor of this shape

  [[nodiscard]] std::string text() const;  // "'A' (64, 32)", as messages call it
  // Of a matrix.
  [[nodiscard]] Bound bound() const { return {data, dtype, {batch_stride, strides[0], strides[1]}}; }
};

// A tensor of the input's rank, or with a batch axis in front.
[[nodiscard]] Given given(const Input& input, const Tensor& tensor);
// The same of what pack() has made of a tensor of this shape, which has no strides any more.
[[nodiscard]] Given given_packed(const Input& input, std::span<const std::int64_t> shape);

// What the inputs' shapes make of the problem, each extent with the input that fixed it, for messages.
struct Domain {
  struct Extent {
    std::int64_t value = 0;
    int input = -1;
  };
  Extent m, n, k;
  Extent batch;  // by no input: as the batch axes in front of tensors say
};

// A and B as memory, or `a` alone where it is the accumulator.
struct Operands {
  Bound a, b;
  Addressing addressing;
};

class MainLoop {
 public:
  virtual ~MainLoop() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string describe() const = 0;  // "gemm bf16 x bf16"
  // The same main loop over inputs of other dtypes, in their order.
  [[nodiscard]] virtual Problem over(std::span<const DType> dtypes, bool batched) const = 0;

  [[nodiscard]] virtual bool batched() const = 0;
  // Throws Error unsupported where the dtypes do not go together.
  [[nodiscard]] virtual Facts facts() const = 0;
  [[nodiscard]] virtual std::vector<Input> inputs() const = 0;
  // None: the accumulator is the first input.
  [[nodiscard]] virtual std::optional<Contraction> contraction() const = 0;

  // Throws Error wrong_shape where the inputs do not go together. Their ranks have been checked.
  [[nodiscard]] virtual Domain settle(std::span<const Given> inputs) const = 0;
  // How many planes, rows and columns of pixels the rows count, where Facts::pixels says that they do.
  [[nodiscard]] virtual std::array<std::int64_t, 3> pixels(std::span<const Given>) const { return {1, 1, 1}; }
  // The shape of an input, without batch, at a problem's size; empty where the size does not tell it.
  [[nodiscard]] virtual std::vector<std::int64_t> shape_of(std::size_t input, const Shape& shape) const = 0;
  [[nodiscard]] virtual Operands operands(std::span<const Given> inputs) const = 0;
  // The input that is packable, alone: B as pack() reads it, and its extents. What is packed is counted in the same
  // order whatever the other inputs are.
  struct Packing {
    Bound b;
    Address address;
    std::int64_t k = 0, n = 0;
  };
  [[nodiscard]] virtual Packing packing(const Given& b) const;

  // The definition, which the reference computes: where an element of A (b, m, k), of B (b, k, n) or of the accumulator
  // (b, m, n) lies, with m and n counted within a group. None: it is 0. Its product with what is not finite may be left
  // out or not.
  enum class Factor : std::uint8_t { a, b, accumulator };
  struct Element {
    std::size_t input = 0;
    std::int64_t offset = 0;  // in elements from the input's data
  };
  [[nodiscard]] virtual std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                                       std::int64_t group, std::int64_t row,
                                                       std::int64_t column) const = 0;

  // Multiplications and additions, and the bytes of all inputs.
  [[nodiscard]] virtual double operations(const Shape& shape) const;
  [[nodiscard]] virtual double bytes(const Shape& shape) const;
};

[[nodiscard]] inline Facts facts_of(const Problem& problem) { return problem.loop().facts(); }

// ---- for main loops

[[nodiscard]] inline MainLoop::Element element_of(std::span<const Given> inputs, std::size_t input, std::int64_t b,
                                                  std::int64_t row, std::int64_t column) {
  const Given& x = inputs[input];
  return {input, b * x.batch_stride + row * x.strides[0] + column * x.strides[1]};
}
// The accumulator of a product of these types. Throws Error unsupported where it has none.
[[nodiscard]] DType product_accumulator(const Input& a, const Input& b);
// The default dtypes of an epilogue behind a main loop whose first input has this type.
[[nodiscard]] DType default_operand(DType leading);
[[nodiscard]] DType default_output(DType leading);
// The hint for a matrix whose two extents are exchanged.
[[nodiscard]] std::string looks_transposed(std::string_view name);

}  // namespace postlude::inline v0
