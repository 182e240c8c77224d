// Included before every mutated source. The environment chooses one mutant of a build that has all.
#pragma once

#include <cstdlib>

namespace postlude_mutant {

inline const int chosen = [] {
  const char* const text = std::getenv("POSTLUDE_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}();

inline bool on(int mutant) { return chosen == mutant; }
inline int one(int mutant) { return on(mutant) ? 1 : 0; }
inline int minus(int mutant) { return on(mutant) ? -1 : 1; }
inline int twice(int mutant) { return on(mutant) ? 2 : 1; }
inline bool flip(int mutant, bool condition) { return condition != on(mutant); }

}  // namespace postlude_mutant
