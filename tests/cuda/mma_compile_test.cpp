// The suite's epilogues compile for the portable kernel without spills: for sm_80, and for newer
// GPUs where they differ. No device is needed; skipped where NVRTC is missing.
#include "cuda/backend.h"
#include "cuda/emit/fragment.h"
#include "cuda/emit/generic.h"
#include "cuda/run/nvrtc.h"
#include "lower/lower.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace postlude::inline v0::cuda {
namespace {

struct Case {
  const char* epilogue;
  const char* arch;
};

class MmaCompiles : public testing::TestWithParam<Case> {};

// The epilogue where every operand and output is aligned.
FusedEpilogue aligned(const Graph& graph, const Gemm& gemm) {
  lower::Options options;
  options.halves = halves;
  const lower::Program program = lower::lower(graph.data(), facts_of(gemm), options);
  return emit_fragment(program, 0, aligned_places(program, 4096), Hold::groups);
}

TEST(Compiled, IsRejectedWhereItSpillsMoreThanALittle) {
  EXPECT_EQ(rejection({.cubin = {}, .log = {}, .registers = 0, .spill_bytes = 16}), "");
  EXPECT_NE(rejection({.cubin = {}, .log = {}, .registers = 0, .spill_bytes = 17}).find("17 bytes"), std::string::npos);
  EXPECT_NE(rejection({.cubin = {}, .log = "warning C7510: serialised", .registers = 0, .spill_bytes = 0}), "");
}

TEST_P(MmaCompiles, WithoutSpills) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const auto [name, arch] = GetParam();
  Gemm gemm;
  gemm.a = gemm.b = std::string(name) == "fp8_rowwise" ? DType::e4m3 : DType::bf16;
  FusedEpilogue epilogue = aligned(parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), gemm);
  epilogue.needs.element_bytes = static_cast<int>(size_of(gemm.a));
  const std::vector<Schedule> schedules = rank(epilogue.needs, 1, 4096, 4096, 4096, 108, true);
  ASSERT_FALSE(schedules.empty());
  // Where the first spills (dgelu_dbias on sm_80), the product takes the next, whose subtiles are
  // narrower, as here.
  std::string reasons;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, schedules.size()); ++i) {
    const Schedule& schedule = schedules[i];
    const KernelVariant loop = {
        .a = gemm.a, .b = gemm.b, .whole_m = true, .whole_n = true, .apart = is_long(epilogue.needs)};
    const Compiled compiled = compile(gemm_source(loop, schedule, epilogue), arch);
    const std::string reason = rejection(compiled);
    if (reason.empty()) {
      EXPECT_EQ(compiled.spill_bytes, 0) << to_string(schedule);
      EXPECT_LE(compiled.registers * threads(schedule) * (consumers(schedule) == 1 ? 2 : 1), 65536)
          << to_string(schedule);
      return;
    }
    reasons += to_string(schedule) + ": " + reason + "\n";
  }
  FAIL() << reasons;
}

// All but fp8_rowwise, whose products sm_80 lacks, for sm_80; for the others what differs: fp8,
// registers, the newest instruction set.
std::vector<Case> portable_cases() {
  std::vector<Case> all;
  for (const char* epilogue : {"plain", "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias", "swiglu",
                               "bce", "rowmax", "rmsnorm", "softmax", "argmax", "xent", "qk_norm_rope", "fp8_groups"}) {
    all.push_back({epilogue, "sm_80"});
  }
  for (const char* epilogue : {"fp8_rowwise", "dgelu_dbias"}) all.push_back({epilogue, "sm_89"});
  for (const char* epilogue : {"bce", "bias_gelu_res_aux"}) all.push_back({epilogue, "sm_90"});
  for (const char* epilogue : {"fp8_rowwise", "swiglu", "argmax"}) all.push_back({epilogue, "sm_120"});
  return all;
}

// A depthwise convolution: so many pixels of so wide a filter.
struct DepthwiseCase {
  const char* epilogue;
  const char* arch;
  Stencil::Axis y, x;
  DType type = DType::bf16;
};

class StencilCompiles : public testing::TestWithParam<DepthwiseCase> {};

TEST_P(StencilCompiles, WithoutSpills) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  auto [name, arch, y, x, type] = GetParam();
  for (Stencil::Axis* const axis : {&y, &x}) {
    axis->extent = axis->pixels * axis->step, axis->first = -(axis->taps / 2) * axis->reach;
    axis->stride = axis == &x ? 96 : 96 * x.pixels * x.step, axis->weight_stride = axis == &x ? 1 : x.taps;
  }
  FusedEpilogue epilogue = aligned(parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"),
                                   Gemm{.a = DType::bf16, .b = DType::bf16});
  epilogue.needs.element_bytes = static_cast<int>(size_of(type));
  const std::int64_t image = std::int64_t{96} * y.extent * x.extent;
  epilogue.needs.stencil = {y, x, y.taps * x.taps, true, 96, image, true},
  epilogue.needs.boxes = std::string(arch) == "sm_90a";
  std::vector<Schedule> schedules = rank(epilogue.needs, 128, y.pixels * x.pixels, 96, 49, 132, true);
  ASSERT_FALSE(schedules.empty());
  for (const Schedule& s : candidates(epilogue.needs, true))
    if (s.ring) schedules.push_back(s);
  // The one that is taken first, in its turn each tile that may be.
  for (const Schedule& schedule : schedules) {
    const KernelVariant loop = {.a = type, .b = type, .a_form = 2, .whole_n = true, .stencil = {y, x}};
    const Compiled compiled = compile(gemm_source(loop, schedule, epilogue), arch);
    EXPECT_EQ(rejection(compiled), "") << to_string(schedule);
    EXPECT_EQ(compiled.spill_bytes, 0) << to_string(schedule);
    EXPECT_LE(compiled.registers * threads(schedule) * resident(schedule, epilogue.needs), 65536)
        << to_string(schedule);
    if (&schedule != &schedules[0] && std::string(arch) != "sm_90a") break;
  }
}

INSTANTIATE_TEST_SUITE_P(Depthwise, StencilCompiles,
                         testing::Values(DepthwiseCase{"bias_relu", "sm_90a", {56, 7}, {56, 7}},
                                         DepthwiseCase{"bias_gelu_res_aux", "sm_90a", {7, 7}, {7, 7}},
                                         DepthwiseCase{"bias_relu", "sm_90a", {7, 7}, {7, 7}},
                                         DepthwiseCase{"plain", "sm_90a", {28, 3, 2}, {28, 3, 2}, DType::f16},
                                         DepthwiseCase{"xent", "sm_90a", {14, 5, 1, 2}, {14, 5, 1, 2}},
                                         DepthwiseCase{"bias_relu", "sm_90a", {56, 3}, {56, 3}},
                                         DepthwiseCase{"bias_gelu", "sm_90a", {12, 7}, {12, 7}},
                                         DepthwiseCase{"bias_relu", "sm_80", {14, 7}, {14, 7}, DType::f32}),
                         [](const auto& i) {
                           return std::string(i.param.epilogue) + "_" + i.param.arch + "_" + std::to_string(i.index);
                         });

struct FiltersCase {
  const char* arch;
  Stencil::Axis y, x;
  DType type = DType::bf16;
};

class FiltersCompile : public testing::TestWithParam<FiltersCase> {};

TEST_P(FiltersCompile, WithoutSpills) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const auto& [arch, y, x, type] = GetParam();
  const Stencil stencil{y, x};
  const int bytes = static_cast<int>(size_of(type)), limit = std::string(arch) == "sm_90a" ? 115712 : 50176;
  const auto schedule = filter_schedule(stencil, {96, 128, bytes, limit, 132});
  ASSERT_TRUE(schedule);
  std::string why;
  const auto tile = filter_tile(*schedule, stencil, bytes, limit, why);
  ASSERT_TRUE(tile) << why;
  const Compiled compiled = compile(filters_source(type, stencil, *tile), arch);
  EXPECT_EQ(rejection(compiled), "") << to_string(*schedule);
  EXPECT_EQ(compiled.spill_bytes, 0) << to_string(*schedule);
  EXPECT_LE(compiled.registers * FilterTile::warps * 32 * FilterTile::resident, 65536) << to_string(*schedule);
}

INSTANTIATE_TEST_SUITE_P(Depthwise, FiltersCompile,
                         testing::Values(FiltersCase{"sm_90a", {56, 7}, {56, 7}}, FiltersCase{"sm_90a", {7, 7}, {7, 7}},
                                         FiltersCase{"sm_90a", {56, 3}, {56, 3}, DType::f16},
                                         FiltersCase{"sm_90a", {13, 5, 2, 2}, {29, 5, 2, 2}},
                                         FiltersCase{"sm_80", {14, 7}, {14, 7}, DType::f32}),
                         [](const auto& i) { return std::string(i.param.arch) + "_" + std::to_string(i.index); });

INSTANTIATE_TEST_SUITE_P(Suite, MmaCompiles, testing::ValuesIn(portable_cases()),
                         [](const auto& i) { return std::string(i.param.epilogue) + "_" + i.param.arch; });

}  // namespace
}  // namespace postlude::inline v0::cuda
