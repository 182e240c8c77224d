// One input of the parser's fuzzer: any bytes are an epilogue or an Error, and what an epilogue
// prints parses back to the same graph. parser_test.cpp drives it with mutations for a fixed time;
// for libFuzzer, compile this file and the library with `clang++ -fsanitize=fuzzer,address`.
#include "graph/ir/equal.h"

#include <postlude/parse.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace postlude;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ParseLimits limits{.bytes = 1 << 20, .nodes = 20'000, .nesting = 100};
  const auto wrong = [&](const char* what, const std::string& more) {
    std::fprintf(stderr, "%s\n--- text\n%.*s\n---\n%s\n", what, static_cast<int>(text.size()), text.data(),
                 more.c_str());
    std::abort();
  };
  Graph graph;
  try {
    graph = parse(text, {}, "fuzz.py", limits);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || static_cast<int>(error.code()) >= 300)
      wrong("an error of the wrong kind", error.what());
    return 0;
  }
  const std::string printed = graph.print();
  try {
    const Graph again = parse(printed, {}, "printed.py");
    if (!same(graph.data(), again.data()))
      wrong("the printed graph is another one", printed + "\n--- printed again\n" + again.print());
    if (again.print() != printed)
      wrong("the printed graph prints otherwise", printed + "\n--- printed again\n" + again.print());
  } catch (const Error& error) { wrong("the printed graph does not parse", printed + "\n--- error\n" + error.what()); }
  return 0;
}
