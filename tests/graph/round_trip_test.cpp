// A graph prints as a text that parses back to the same graph.
#include "graph/ir/equal.h"
#include "graph/ir/extents.h"
#include "graph/ir/verify.h"
#include "graph/text/printer.h"

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

// Extents that a graph leaves open depend on which of its leaves are one, and on their order.
void expect_same_extents(const Graph& graph) {
  expect_round_trip(graph);
  const Graph again = parse(graph.print());
  const auto shapes = [](const GraphData& data) {
    const Inference inference = verify(data);
    std::string shapes;
    for (const Extent& e : inference.operand_columns) shapes += print_extent(e, 'N') + ' ';
    for (const OutputDecl& output : data.outputs) {
      const ValueInfo& value = inference.values[static_cast<std::size_t>(output.value)];
      shapes += output.name + ' ' + print_extent(value.rows, 'M') + " x " + print_extent(value.columns, 'N') + ' ';
    }
    return shapes;
  };
  EXPECT_EQ(shapes(graph.data()), shapes(again.data())) << graph.print();
}

// Found by the fuzzer (seed 777822): an operand that a builder declared after random numbers.
TEST(RoundTrip, OpenExtentsOfWhatABuilderOrderedOtherwise) {
  GraphBuilder g;
  const Value r = g.random(1);
  const std::vector<Value> halves = chunk(r, 2);
  g.output("y", halves[0] + g.row("x"));
  g.output("z", r);
  expect_same_extents(g.finish());

  GraphBuilder swapped;  // an expression in its place comes after what it was computed before
  const Value whole = abs(swapped.random(1)), half = chunk(exp(swapped.random(2)), 2)[0];
  swapped.output("y", half * whole);
  expect_same_extents(swapped.finish());
}

TEST(RoundTrip, OneLeafOfTwoUsesHasOneExtent) {
  GraphBuilder g;
  const Value r = g.random(1);
  g.output("y", chunk(r, 2)[0] + g.row("x"));
  g.output("s", chunk(exp(r), 2)[1]);
  expect_same_extents(g.finish());
}

// Found by the fuzzer (seed 1003684): two nodes that are the same piece, of which only one was
// given a name.
TEST(RoundTrip, APieceThatABuilderSaidTwice) {
  GraphBuilder g;
  const Value x = g.accumulator() + g.row("bias");
  const std::vector<Value> a = chunk(x, 2), b = chunk(x, 2);
  g.output("y", a[0] * b[1] + exp(a[0]) * exp(b[0]));
  g.output("z", b[0]);
  g.output("w", a[0]);
  const std::vector<Value> values = {g.accumulator(), g.n_index()};
  const auto larger = [](auto p, auto q) { return std::vector<Value>{max(p[0], q[0]), max(p[1], q[1])}; };
  const std::vector<double> identity = {0, 0};
  const std::vector<Value> r = reduce(values, larger, identity, Axis::n);
  g.output("r", r[0] + r[0] * r[1]);
  expect_round_trip(g.finish());
}

}  // namespace
}  // namespace postlude
