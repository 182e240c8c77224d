// What a graph prints parses back to the same graph.
#include "graph/equal.h"
#include "graph/printer.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <filesystem>

namespace postlude {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = graph.print();
  SCOPED_TRACE(text);
  try {
    const Graph again = parse(text);
    EXPECT_TRUE(same(graph.data(), again.data()));
    EXPECT_EQ(again.print(), text);  // and printing is stable
  } catch (const Error& error) {
    FAIL() << error.what();
  }
}

TEST(RoundTrip, EveryEpilogueOfTheRepository) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(POSTLUDE_SOURCE_DIR "/epilogues")) {
    if (entry.path().extension() != ".py" || entry.path().stem() == "prelude") continue;
    SCOPED_TRACE(entry.path());
    expect_round_trip(parse_file(entry.path()));
    ++files;
  }
  EXPECT_GE(files, 17);
}

}  // namespace
}  // namespace postlude
