// acc = X: nothing is multiplied.
#include "core/convert.h"
#include "loop/main_loop.h"
#include "loop/names.h"

#include <postlude/error.h>

namespace postlude::inline v0 {
namespace {

class StreamLoop final : public MainLoop {
 public:
  explicit StreamLoop(const Stream& stream) : stream_(stream) {}

  [[nodiscard]] std::string_view name() const override { return "stream"; }
  [[nodiscard]] std::string describe() const override { return "stream " + std::string(postlude::name(stream_.x)); }
  [[nodiscard]] Problem over(std::span<const DType> dtypes, bool batched) const override {
    return Stream{.x = dtypes[0], .batched = batched};
  }

  [[nodiscard]] bool batched() const override { return stream_.batched; }
  [[nodiscard]] Facts facts() const override {
    if (core::checked(stream_.x) == DType::i64 || stream_.x == DType::boolean) {
      throw Error(ErrorCode::unsupported,
                  "X is " + std::string(postlude::name(stream_.x)) + ": a stream's accumulator is f32 or i32",
                  stream_.x == DType::i64 ? "Bind X as i32 or f32." : "Bind X as u8, whose bytes are the same.");
    }
    return {.accumulator = is_float(stream_.x) ? DType::f32 : DType::i32,
            .operand = default_operand(stream_.x),
            .output = default_output(stream_.x),
            .batched = stream_.batched,
            .source = Facts::Source{name_x, stream_.x}};
  }
  [[nodiscard]] std::vector<Input> inputs() const override {
    return {{.name = name_x, .dtype = stream_.x, .axes = {"M", "N"}, .use = Input::Use::accumulator}};
  }
  [[nodiscard]] std::optional<Contraction> contraction() const override { return {}; }

  [[nodiscard]] Domain settle(std::span<const Given> inputs) const override {
    return {.m = {inputs[0].shape[0], 0}, .n = {inputs[0].shape[1], 0}, .k = {}, .batch = {}};
  }
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t, const Shape& s) const override { return {s.m, s.n}; }
  [[nodiscard]] Operands operands(std::span<const Given> inputs) const override { return {inputs[0].bound(), {}, {}}; }
  [[nodiscard]] std::optional<Element> element(Factor, std::span<const Given> inputs, std::int64_t b, std::int64_t,
                                               std::int64_t row, std::int64_t column) const override {
    return element_of(inputs, 0, b, row, column);
  }

 private:
  Stream stream_;
};

}  // namespace

std::shared_ptr<const MainLoop> main_loop(const Stream& stream) { return std::make_shared<StreamLoop>(stream); }

}  // namespace postlude::inline v0
