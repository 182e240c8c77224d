// What a graph prints parses back to the same graph.
#include "graph/equal.h"
#include "graph/printer.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace postlude {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = graph.print();
  SCOPED_TRACE(text);
  try {
    const Graph again = parse(text);
    EXPECT_TRUE(same(graph.data(), again.data()));
    EXPECT_EQ(again.print(), text);  // and printing is stable
  } catch (const Error& error) { FAIL() << error.what(); }
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

TEST(RoundTrip, TheEpiloguesOfTheDigits) {
  for (const std::string file : {"network", "unfused"}) {
    const std::string path = POSTLUDE_SOURCE_DIR "/examples/digits/" + file + ".py";
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    const std::vector<std::string> names = epilogue_names(text.str(), path);
    EXPECT_FALSE(names.empty()) << path;
    for (const std::string& name : names) expect_round_trip(parse_file(path + ":" + name));
  }
}

}  // namespace
}  // namespace postlude
