// acc = A B, with a batch of both or of one.
#include "loop/main_loop.h"
#include "loop/names.h"

#include <postlude/error.h>

namespace postlude::inline v0 {
namespace {

class GemmLoop final : public MainLoop {
 public:
  explicit GemmLoop(const Gemm& gemm) : gemm_(gemm) {}

  [[nodiscard]] std::string_view name() const override { return "gemm"; }
  [[nodiscard]] std::string describe() const override {
    return "gemm " + std::string(postlude::name(gemm_.a)) + " x " + std::string(postlude::name(gemm_.b));
  }
  [[nodiscard]] Problem over(std::span<const DType> dtypes, bool batched) const override {
    Gemm gemm = gemm_;
    gemm.a = dtypes[0];
    gemm.b = dtypes[1];
    gemm.batched = batched;
    return gemm;
  }

  [[nodiscard]] bool batched() const override { return gemm_.batched; }
  [[nodiscard]] Facts facts() const override {
    return {.accumulator = product_accumulator(a(), b()),
            .operand = default_operand(gemm_.a),
            .output = default_output(gemm_.a),
            .batched = gemm_.batched,
            .source = {}};
  }
  [[nodiscard]] std::vector<Input> inputs() const override { return {a(), b()}; }
  [[nodiscard]] std::optional<Contraction> contraction() const override {
    return Contraction{gemm_.a, gemm_.b, gemm_.a_layout, gemm_.b_layout, Form::strided};
  }

  [[nodiscard]] Domain settle(std::span<const Given> inputs) const override {
    const Given &a = inputs[0], &b = inputs[1];
    if (b.shape[0] != a.shape[1]) {
      throw Error(ErrorCode::wrong_shape,
                  b.text() + " has K = " + std::to_string(b.shape[0]) + " rows, but " + a.text() + " fixes K to " +
                      std::to_string(a.shape[1]),
                  b.shape[1] == a.shape[1] ? looks_transposed(b.name) : "B is bound as K x N, whatever its strides.");
    }
    return {.m = {a.shape[0], 0}, .n = {b.shape[1], 1}, .k = {a.shape[1], 0}, .batch = {}};
  }
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t input, const Shape& s) const override {
    return input == 0 ? std::vector{s.m, s.k} : std::vector{s.k, s.n};
  }
  [[nodiscard]] Operands operands(std::span<const Given> inputs) const override {
    return {inputs[0].bound(), inputs[1].bound(), {}};
  }
  [[nodiscard]] std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                               std::int64_t, std::int64_t row, std::int64_t column) const override {
    return element_of(inputs, factor == Factor::a ? 0 : 1, b, row, column);
  }

 private:
  [[nodiscard]] Input a() const { return {.name = name_a, .dtype = gemm_.a, .axes = {"M", "K"}}; }
  [[nodiscard]] Input b() const { return {.name = name_b, .dtype = gemm_.b, .axes = {"K", "N"}, .packable = true}; }

  Gemm gemm_;
};

}  // namespace

std::shared_ptr<const MainLoop> main_loop(const Gemm& gemm) { return std::make_shared<GemmLoop>(gemm); }

}  // namespace postlude::inline v0
