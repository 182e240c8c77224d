// Outputs in place of operands: allowed where every element is read before it is written.
#include "plan/support.h"

#include "lower/lower.h"
#include "plan/backends.h"
#include "plan/plan_data.h"

#include <memory>

using namespace postlude_test;

namespace {

constexpr std::int64_t rows = 70, columns = 48, depth = 9;

// Runs `text` with D in memory of its own and then in place of `operand`, and compares to the bit.
void expect_same_in_place(const char* text, const std::string& operand) {
  const Plan plan = compile(Gemm{}, parse(text));
  const Array a({rows, depth}), b({depth, columns});
  std::vector<float> expected;
  for (const bool in_place : {false, true}) {
    std::vector<Array> owned;
    owned.reserve(plan.slots().size());
    std::vector<Binding> bindings = {{"A", a.view()}, {"B", b.view()}};
    Tensor replaced;
    const auto slots = plan.slots();
    for (const auto& slot : slots) {
      if (slot.name == "A" || slot.name == "B") continue;
      owned.emplace_back(plan.shape_of(slot.name, rows, columns, depth), 0.5f);
      Tensor tensor = owned.back().view();
      if (slot.name == operand) replaced = tensor;
      if (slot.name == "D" && in_place) tensor = replaced;
      if (slot.name == "D" && !in_place) replaced = tensor;  // where the result is
      bindings.push_back({slot.name, tensor});
    }
    plan.bind(bindings).run();
    const auto* result = static_cast<const float*>(replaced.data);
    const std::vector<float> values(result, result + rows * columns);
    if (in_place) EXPECT_EQ(values, expected) << text;
    else expected = values;
  }
}

TEST(InPlace, ResidualInOnePhase) {
  expect_same_in_place("def f(acc, x: tile):\n    D = gelu(acc) + x\n    return D\n", "x");
}

TEST(InPlace, ResidualThatALaterPhaseNeeds) {
  expect_same_in_place(
      "def f(acc, x: tile):\n"
      "    z = acc + x\n"
      "    D = z * rsqrt(mean(z * z, axis=1) + 1e-6)\n"
      "    return D\n",
      "x");
}

TEST(InPlace, WrittenBeforeItsRowStatisticIsUsed) {
  // The second output needs x again after D has replaced it: the cut must carry it.
  expect_same_in_place(
      "def f(acc, x: tile):\n"
      "    D = acc + x\n"
      "    y = x * max(abs(x + acc), axis=1)\n"
      "    return D, y\n",
      "x");
}

TEST(InPlace, ChunksMoveElements) {
  const Plan plan = compile(Gemm{}, parse("def f(acc, x: tile):\n"
                                          "    a, b = chunk(x, 2)\n"
                                          "    c, d = chunk(acc, 2)\n"
                                          "    D = concat((b + c, a + d))\n"
                                          "    return D\n"));
  // D's left half needs x's right half and the other way around: a strip that holds both halves may
  // do that in place, any other must refuse. Either way no wrong result.
  const Array a({rows, depth}), b({depth, columns}), apart({rows, columns}, 0);
  Array x({rows, columns});
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"x", x.view()}, {"D", apart.view()}}).run();
  try {
    plan.bind({{"A", a.view()}, {"B", b.view()}, {"x", x.view()}, {"D", x.view()}}).run();
    EXPECT_TRUE(std::equal(x.values.begin(), x.values.begin() + rows * columns, apart.values.begin()));
  } catch (const Error& error) { EXPECT_EQ(error.code(), ErrorCode::overlap) << error.what(); }
}

TEST(InPlace, StreamOverX) {
  const Plan plan = compile(Stream{}, parse("def softmax(acc):\n"
                                            "    e = exp(acc - max(acc, axis=1))\n"
                                            "    return e / sum(e, axis=1)\n"));
  Array x({rows, columns}), apart({rows, columns});
  plan.bind({{"X", x.view()}, {"D", apart.view()}}).run();
  plan.bind({{"X", x.view()}, {"D", x.view()}}).run();
  EXPECT_TRUE(std::equal(x.values.begin(), x.values.begin() + rows * columns, apart.values.begin()));
}

TEST(InPlace, VectorThatTilesStillNeedIsKept) {
  expect_same_in_place("def f(acc, x: tile, bias: row):\n    D = acc * bias + x * 2\n    return D\n", "x");
  const Plan plan = compile(Gemm{}, parse("def f(acc, bias: row):\n"
                                          "    z = acc + bias\n"
                                          "    new = bias - 0.5 * sum(z, axis=0)\n"
                                          "    return z, new\n"));
  const Array a({rows, depth}), b({depth, columns}), z({rows, columns}), z2({rows, columns}), fresh({columns});
  const Array bias({columns});
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"bias", bias.view()}, {"z", z.view()}, {"new", fresh.view()}}).run();
  plan.bind({{"A", a.view()}, {"B", b.view()}, {"bias", bias.view()}, {"z", z2.view()}, {"new", bias.view()}}).run();
  EXPECT_EQ(z.values, z2.values);
  EXPECT_TRUE(std::equal(bias.values.begin(), bias.values.begin() + columns, fresh.values.begin()));
}

// A plan compiles once for outputs that are bound in place.
TEST(InPlace, CompilesOnce) {
  const char* const text =
      "def f(acc, x: tile):\n    D = acc + x\n    y = x * max(abs(x + acc), axis=1)\n    return D, y\n";
  const Plan plan = compile(Gemm{}, parse(text));
  PlanData data{};
  data.graph = plan.graph();
  data.problem = plan.problem();
  data.target = plan.target();
  data.base.program = std::make_shared<const lower::Program>(program_of(plan));
  data.backend = &plan::find_backend(data.target.device);
  const InPlace pair = {{"D", "x"}};
  ASSERT_NE(lower::in_place_conflict(*data.base.program, pair, 1), "");
  const Variant& first = variant_for(data, pair, 1);
  EXPECT_EQ(&variant_for(data, pair, 1), &first);
  EXPECT_EQ(data.variants.size(), 1u);
}

// The rule itself, on Programs made by hand.
lower::Program program_with(std::vector<std::vector<lower::Instruction>> phases, std::size_t storing_phase,
                            lower::ColumnMap stored = {}) {
  lower::Program program;
  program.operands = program.outputs = 1;
  program.buffers.resize(2);
  program.buffers[0] = {.kind = lower::BufferKind::operand, .name = "x", .axes = tile_axes, .rows = {}, .columns = {}};
  program.buffers[1] = {.kind = lower::BufferKind::output, .name = "D", .axes = tile_axes, .rows = {}, .columns = {}};
  for (auto& code : phases) {
    lower::Phase phase;
    phase.domain = tile_axes;
    phase.code = std::move(code);
    program.phases.push_back(std::move(phase));
  }
  program.phases[storing_phase].stores.push_back({.value = 0, .access = {.buffer = 1, .columns = std::move(stored)}});
  return program;
}

lower::Instruction load(lower::ColumnMap columns = {}) {
  lower::Instruction instruction;
  instruction.op = Op::operand;
  instruction.access.buffer = 0;
  instruction.access.columns = std::move(columns);
  return instruction;
}

TEST(InPlaceRule, OrderAndPlace) {
  const InPlace pair = {{"D", "x"}};
  using lower::in_place_conflict;
  EXPECT_EQ(in_place_conflict(program_with({{load()}}, 0), pair, 1), "");
  EXPECT_EQ(in_place_conflict(program_with({{load()}, {}}, 1), pair, 1), "");
  EXPECT_NE(in_place_conflict(program_with({{}, {load()}}, 0), pair, 1).find("again after it was written"),
            std::string::npos);
  lower::ColumnMap half;
  half.steps.push_back({.pieces = 2, .piece = 1});
  EXPECT_NE(in_place_conflict(program_with({{load(half)}}, 0), pair, 1).find("at other elements"), std::string::npos);
  EXPECT_EQ(in_place_conflict(program_with({{load(half)}}, 0, half), pair, 1), "");
  // An output without a batch axis in a batched problem meets its operand once a batch.
  EXPECT_NE(in_place_conflict(program_with({{load()}}, 0), pair, 2), "");
}

}  // namespace
