// The combiner of a general reduction, interpreted on strips: k values a and k values b give k
// values.
#pragma once

#include "cpu/strips/ops.h"
#include "graph/ir/ir.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace postlude::inline v0::cpu {

class Combiner {
 public:
  // `types`: of the k components.
  Combiner(const Lambda& body, std::span<const DType> types, const StripTable& table);

  [[nodiscard]] int components() const { return components_; }
  [[nodiscard]] std::int64_t scratch_bytes(std::int64_t elements) const;
  // out[i] = combine(a[i], b[i]) for `elements` elements; out may be a.
  void combine(void* const* a, const void* const* b, void* const* out, std::int64_t elements, char* scratch) const;

 private:
  struct Operation {
    DType type = DType::f32;
    StripFn function = nullptr;  // or one of the next two; or none: a constant
    std::shared_ptr<const NativeFunction> native{};
    std::optional<RoundedCast> cast{};
    Literal constant{};
    std::vector<int> arguments{};  // values: 2k parameters, then operations
    int slot = -1;
    [[nodiscard]] bool is_constant() const { return !function && !native && !cast; }
  };
  int components_ = 0;
  std::vector<DType> types_;
  std::vector<Operation> operations_;
  std::vector<int> results_;
  int slots_ = 0;
};

}  // namespace postlude::inline v0::cpu
