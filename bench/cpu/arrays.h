// Operands and one set of outputs of a plan, by name, in memory of its own.
#pragma once

#include "timing.h"

#include <postlude/plan.h>

#include <map>
#include <string>
#include <vector>

namespace postlude::bench {

using Int = std::int64_t;

// What an operand holds: N(0, 1) (B: N(0, 1/K)); about 1; in [0, 1); columns; true seven times of eight.
enum class Values : std::uint8_t { normal, scale, unit, label, keep };

class Arrays {
 public:
  Arrays(Int m, Int n, Int k, bool b_k_major = true) : m_(m), n_(n), k_(k), b_k_major_(b_k_major) {}

  // What an operand holds where its name and dtype do not say it.
  void holds(const std::string& operand, Values values) { values_[operand] = values; }
  // All that the plan binds; made when they are first asked for.
  [[nodiscard]] std::vector<Binding> bindings(const Plan& plan);

  template <class T>
  T* data(const std::string& name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? nullptr : reinterpret_cast<T*>(found->second.get());
  }

 private:
  Tensor get(const Plan& plan, const Plan::Slot& slot);
  void draw(const Plan::Slot& slot, Int elements, std::byte* to) const;

  Int m_, n_, k_;
  bool b_k_major_;
  std::map<std::string, Values> values_;
  std::map<std::string, Bytes> all_;  // whose names the bindings view
};

}  // namespace postlude::bench
