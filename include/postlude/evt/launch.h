// A tree behind a product, ready to run: what the adapters of both vocabularies share.
#pragma once

#include <postlude/evt/evt.h>
#include <postlude/plan.h>

#include <memory>
#include <optional>
#include <string>

namespace postlude::inline v0::evt::detail {

// A matrix: strides along its two axes and the batch, in elements.
struct Matrix {
  const void* data = nullptr;
  std::array<std::int64_t, 3> strides{};
  std::array<std::int64_t, 2> shape{-1, -1};  // as a layout says it, if one does
};

struct Request {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b;                 // M x K, K x N
  Matrix c, d;                 // M x N
  const void* bias = nullptr;  // N elements that are added to the accumulator
  Giving given{};
  Target target{};  // where all memory is
};

// Why not, or nothing.
struct Outcome {
  std::optional<ErrorCode> code{};
  std::string why{};
};

// A tree and the types of its product, with a plan for each way in which they have been used. Shared by threads.
class Kernel {
 public:
  struct Types {
    DType a = f32, b = f32;
    Layout a_layout = Layout::any, b_layout = Layout::any;
    Element c = no_element, d = no_element, bias = no_element;
  };
  Kernel(const Description& description, const Types& types);
  ~Kernel();

  // Whether prepare() would succeed. Compiles the plan, and writes nothing.
  [[nodiscard]] Outcome check(const Request& request);
  // A call for the request. `stream`: where it will run first.
  [[nodiscard]] Outcome prepare(const Request& request, void* stream, Call& call);
  [[nodiscard]] static Outcome run(Call& call, void* stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The one kernel of an adapter's type. A tree that is not sound does not compile.
template <class Adapter>
Kernel& kernel_of(const Kernel::Types& types) {
  if constexpr (is_sound<Adapter>) {
    static Kernel made(description<Adapter>(), types);
    return made;
  } else {
    show<typename Epilogue<Adapter>::VisitorTree, fault_of<Adapter>>();
    static Kernel none({}, types);
    return none;
  }
}

}  // namespace postlude::inline v0::evt::detail
