// The text of every suite epilogue's passes and Program, in golden/NAME.txt. A change of lowering
// that is meant shows as a difference of these files: POSTLUDE_UPDATE_GOLDEN=1 writes them anew.
#include "helpers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace postlude::inline v0::lower {
namespace {

const std::filesystem::path source = POSTLUDE_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string passes_and_program(const std::string& name) {
  Gemm gemm = bf16_gemm;
  if (name == "fp8_rowwise") gemm.a = gemm.b = e4m3;
  std::string text;
  Options options;
  options.watch = [&](std::string_view pass, const std::string& after) {
    text += "== " + std::string(pass) + (after.empty() ? ": unchanged\n" : "\n" + after);
  };
  (void)lowered(parse_file((source / "epilogues" / (name + ".py")).string()), gemm, options);
  return text;
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, PassesAndProgram) {
  const std::string text = passes_and_program(GetParam());
  const auto path = source / "tests/lower/golden" / (std::string(GetParam()) + ".txt");
  if (std::getenv("POSTLUDE_UPDATE_GOLDEN")) std::ofstream(path) << text;
  EXPECT_EQ(text, read(path)) << "if this is meant: POSTLUDE_UPDATE_GOLDEN=1";
  EXPECT_EQ(text, passes_and_program(GetParam())) << "lowering is not deterministic";
}

INSTANTIATE_TEST_SUITE_P(Suite, Golden,
                         testing::Values("plain", "bias_relu", "bias_gelu", "axpby", "bias_gelu_res_aux", "dgelu_dbias",
                                         "swiglu", "bce", "rowmax", "rmsnorm", "softmax", "argmax", "xent",
                                         "fp8_rowwise", "layernorm", "log_softmax", "rope"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace postlude::inline v0::lower
