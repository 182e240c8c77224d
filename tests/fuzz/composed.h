// Epilogues as networks have them, of pieces that follow one another: a gate, what is done to each element, statistics
// and what they normalise or quantise, and other outputs beside these.
#pragma once

#include "fuzz/choices.h"

#include <string>

namespace postlude::fuzz {

// Its text. `columns` and `rows`: what its groups divide.
struct Composed {
  std::string text;
  int columns = 1, rows = 1;
};
[[nodiscard]] Composed compose(Choices& pick);

}  // namespace postlude::fuzz
