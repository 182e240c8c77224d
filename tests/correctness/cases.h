// Cases from text and from the suite.
#pragma once

#include "fuzz/case.h"
#include "fuzz/oracle.h"

#include <postlude/parse.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace postlude {

// The epilogues of epilogues/, without the prelude: the suite and what stands beside it.
inline std::vector<std::string> suite() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/epilogues"))
    if (entry.path().extension() == ".py" && entry.path().stem() != "prelude") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

inline fuzz::Case make_case(const GraphData& graph, const Problem& problem, const Shape& shape, fuzz::Values values) {
  fuzz::Case c;
  c.problem = problem;
  c.graph = fuzz::with_dtypes(graph, problem);
  c.shape = shape;
  c.values = values;
  c.data = 20261121;
  for (int tries = 0; tries < 256 && !fuzz::divisible(c); ++tries) ++c.shape.n;
  return c;
}
inline fuzz::Case make_case(const std::string& text, const Problem& problem, const Shape& shape, fuzz::Values values) {
  return make_case(parse(text).data(), problem, shape, values);
}
inline fuzz::Case suite_case(const std::string& name, const Problem& problem, const Shape& shape, fuzz::Values values) {
  return make_case(parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + name + ".py").data(), problem, shape, values);
}

}  // namespace postlude
