// Texts of the epilogue language become graphs.
#pragma once

#include <postlude/graph.h>

#include <string>
#include <string_view>
#include <vector>

namespace postlude::inline v0 {

struct ParseLimits {
  std::size_t bytes = std::size_t{16} << 20;
  int nodes = 1 << 17;  // of a graph, a builder's too
  int nesting = 200;    // of brackets in one expression
};

// Parses the epilogue `name` of the text, or its last def if `name` is empty. `file` is used in
// errors only. Throws Error of the 01xx and 02xx kinds.
[[nodiscard]] Graph parse(std::string_view text, std::string_view name = {}, std::string_view file = "<text>",
                          const ParseLimits& limits = {});
// Parses a file; `path` may be "FILE.py:NAME". Throws cannot_read too.
[[nodiscard]] Graph parse_file(const std::string& path);

// The names of the defs in a text, in order.
[[nodiscard]] std::vector<std::string> epilogue_names(std::string_view text, std::string_view file = "<text>");

}  // namespace postlude::inline v0
