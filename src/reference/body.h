// The body of a function or of a combiner, typed and with every call inside it laid open, ready to
// run on elements.
#pragma once

#include "graph/ir/typing.h"
#include "reference/elementwise.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace postlude::inline v0::reference {

class Body {
 public:
  Body() = default;
  // Of a combiner; `results` are the types that its results are converted to.
  Body(const Lambda& lambda, std::span<const TypeState> parameters, std::span<const DType> results, Typing& typing);
  // Of a call node: its arguments are converted to argument_type() beforehand.
  Body(const Node& call, std::span<const TypeState> args, DType result, Typing& typing);

  // `scratch` is resized; `out` has one element a result.
  void run(std::span<const Cell> parameters, const Place& place, std::vector<Cell>& scratch, std::span<Cell> out) const;

 private:
  struct Source {
    std::int32_t slot = 0;
    DType from = DType::f32, to = DType::f32;
  };
  struct Step {  // writes slot `parameters_ + its index`
    Operation operation;
    const NativeFunction* native = nullptr;
    std::shared_ptr<const Body> guard;  // of a native function: where it holds the result is 0
    std::vector<Source> args;
    Cell constant{};  // of a constant
  };
  std::int32_t parameters_ = 0;
  std::vector<Step> steps_;
  std::vector<Source> results_;

  static Step conversion(const Source& source);
  static std::shared_ptr<const Body> guard_of(const Function& function, Typing& typing);
  void open(const Lambda& lambda, std::span<const TypeState> parameters, std::span<const DType> results,
            Typing& typing);
};

// Whether a call is evaluated by its native function's reference: it has no body, or everything is
// f32.
[[nodiscard]] bool is_native(const Function& function, std::span<const TypeState> args, const Node& call);

}  // namespace postlude::inline v0::reference
