// Helpers that the tests of lowering share.
#pragma once

#include "lower/infer.h"
#include "lower/lower.h"

#include <postlude/parse.h>

#include <string>
#include <vector>

namespace postlude::inline v0::lower {

inline const Gemm bf16_gemm{.a = bf16, .b = bf16};

// Lowers with every pass checked.
inline Program lowered(const Graph& graph, const Problem& problem = bf16_gemm, Options options = {}) {
  options.verify_each = true;
  return lower(graph.data(), facts_of(problem), options);
}
inline Program lowered(std::string_view text, const Problem& problem = bf16_gemm, Options options = {}) {
  return lowered(parse(text), problem, std::move(options));
}

// The items that `passes` make of a text, as text without the inference's line numbers.
inline std::string after(std::string_view text, const std::vector<bool (*)(Work&)>& passes,
                         const Problem& problem = bf16_gemm) {
  const Graph graph = parse(text);
  Inferred inferred = infer(graph.data(), facts_of(problem), {});
  for (auto pass : passes) pass(inferred.work);
  return inferred.work.print();
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
inline int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace postlude::inline v0::lower
