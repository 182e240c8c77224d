// Every epilogue of the suite compiles for Hopper without a device, on the schedule that the heuristic chooses, and within
// the limits of spills and warnings. Skipped where NVRTC is missing.
#include "cuda/nvrtc.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

namespace postlude::inline v0::cuda {
namespace {

class SuiteCompiles : public testing::TestWithParam<const char*> {};

TEST_P(SuiteCompiles, ForHopper) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  const std::string name = GetParam();
  Gemm gemm;
  gemm.a = gemm.b = name == "fp8_rowwise" ? DType::e4m3 : DType::bf16;
  Target target;
  target.device = Device::cuda;
  target.isa = "sm_90a";
  const Plan plan = postlude::compile(gemm, parse_file(std::string(POSTLUDE_SOURCE_DIR) + "/epilogues/" + name + ".py"), target);
  const std::string schedules = plan.explain(ExplainPart::schedule, 4096, 4096, 4096);
  EXPECT_NE(schedules.find("chosen"), std::string::npos) << schedules;
  EXPECT_EQ(schedules.find("rejected"), std::string::npos) << "the heuristic's first choice does not compile well\n" << schedules;
}

INSTANTIATE_TEST_SUITE_P(Epilogues, SuiteCompiles,
                         testing::Values("plain", "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias", "swiglu", "bce", "rowmax", "rmsnorm",
                                         "softmax", "argmax", "xent", "fp8_rowwise"),
                         [](const auto& i) { return std::string(i.param); });

TEST(Compile, ReportsTheCompilersError) {
  if (compiler_version().empty()) GTEST_SKIP() << describe_compiler();
  try {
    (void)compile("extern \"C\" __global__ void k() { int x = ; }", "sm_90a");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_NE(error.message().find("expected an expression"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace postlude::inline v0::cuda
