// Included before every mutated source. The environment chooses one mutant of a build that has all.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>
#include <string>

namespace postlude_mutant {

inline const int chosen = [] {
  const char* const text = std::getenv("POSTLUDE_MUTANT");
  return text == nullptr ? 0 : std::atoi(text);
}();

constexpr unsigned long most = 4096;

// A byte for each mutant whose place was come by, in a file that processes share; nowhere without one.
inline volatile char* const reached = [] {
  static char nowhere[most];
  const char* const path = std::getenv("POSTLUDE_MUTANTS_REACHED");
  const int file = path == nullptr ? -1 : open(path, O_RDWR);
  void* const shared = file < 0 ? MAP_FAILED : mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return shared == MAP_FAILED ? nowhere : static_cast<char*>(shared);
}();

inline bool on(int mutant) {
  if (reached) reached[mutant] = 1;  // null within initialisers that run before it
  return chosen == mutant;
}
inline int one(int mutant) { return on(mutant) ? 1 : 0; }
inline int minus(int mutant) { return on(mutant) ? -1 : 1; }
inline int twice(int mutant) { return on(mutant) ? 2 : 1; }
inline bool flip(int mutant, bool condition) { return condition != on(mutant); }
inline std::string text(int mutant, const char* right, const char* wrong) { return on(mutant) ? wrong : right; }

}  // namespace postlude_mutant
