// A product as that of the other's rows.
#pragma once

#include "cuda/decide/decision.h"

#include <memory>
#include <optional>

namespace postlude::inline v0::cuda {

// D^T = B^T A^T: rows become columns, which tiles may have any number of 32 of, and the epilogue's axes change places
// (decision 0266). Its decision calls A what is B.
struct Turned {
  Subject subject;
  Layout layout;
};

// None: the epilogue is more than values of an element, or Hopper's copy engine cannot move A, B and D so.
[[nodiscard]] std::optional<Turned> turned(const Subject& subject, const Layout& layout);

// A decision on that as one on the product that is asked for.
void turn_back(Decision& decision);

}  // namespace postlude::inline v0::cuda
