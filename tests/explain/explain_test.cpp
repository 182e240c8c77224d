// What explain says of problems of each kind, whole. The cases are in explain.golden, each with a first line
//   TARGET gemm MxNxK DTYPE | stream MxN DTYPE | conv2d NxCxHxW KxCxRxS DTYPE
// and words behind it: spills=NAME=VALUE (sources that define this spill registers), and the parts wanted.
// POSTLUDE_UPDATE_GOLDEN=1 writes what is said now.
#include "golden_cases.h"

#include <postlude/error.h>
#include <postlude/parse.h>
#include <postlude/plan.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace postlude {
namespace {

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> all;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, 'x');) all.push_back(std::stoll(one));
  return all;
}

std::string explained(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  std::string target_name, loop, sizes, filters, dtype, word;
  words >> target_name >> loop >> sizes;
  if (loop == "conv2d") words >> filters;
  words >> dtype;
  const DType type = parse_dtype(dtype).value();
  Target target = Target::parse(target_name);
  if (target.device == Device::cpu) target.threads = 1;
  unsetenv("FAKE_NVRTC_SPILLS");
  std::vector<std::pair<std::string, ExplainPart>> parts;
  while (words >> word) {
    if (word.starts_with("spills=")) {
      const std::size_t value = word.rfind('=');
      setenv("FAKE_NVRTC_SPILLS",
             ("#define " + word.substr(7, value - 7) + " " + word.substr(value + 1) + "\n").c_str(), 1);
    } else if (word == "summary") {
      parts.emplace_back(word, ExplainPart::summary);
    } else if (word == "passes") {
      parts.emplace_back(word, ExplainPart::passes);
    } else if (word == "program") {
      parts.emplace_back(word, ExplainPart::program);
    } else if (word == "schedule") {
      parts.emplace_back(word, ExplainPart::schedule);
    } else if (word == "loops") {
      parts.emplace_back(word, ExplainPart::loops);
    } else {
      ADD_FAILURE() << word;
    }
  }
  const Problem problem = loop == "conv2d"   ? Problem(Conv2d{.x = type, .w = type})
                          : loop == "stream" ? Problem(Stream{.x = type})
                                             : Problem(Gemm{.a = type, .b = type});
  const std::vector<std::int64_t> size = numbers(sizes);
  const Plan plan = compile(problem, parse(text.substr(text.find('\n') + 1)), target);
  std::string all;
  for (const auto& [name, part] : parts)
    all += "[" + name + "]\n" +
           (loop == "conv2d" ? plan.explain(part, {size, numbers(filters)})
                             : plan.explain(part, size[0], size[1], loop == "stream" ? 0 : size[2]));
  return all;
}

// A compiler of our own: what ours says of registers is not the same everywhere.
class Explain : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Of this process alone: what another keeps may have been compiled with other registers.
    setenv("POSTLUDE_CACHE_DIR", cache().c_str(), 1);
    setenv("POSTLUDE_NVRTC", POSTLUDE_FAKE_NVRTC, 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(cache()); }

 private:
  static std::filesystem::path cache() {
    return std::filesystem::path(POSTLUDE_BINARY_DIR) / ("explain_cache." + std::to_string(::getpid()));
  }
};

TEST_F(Explain, SaysOfEveryKindOfProblemWhatItSaid) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "panels of a CPU have another width";
#endif
  check_golden(POSTLUDE_SOURCE_DIR "/tests/explain/explain.golden", 12, explained);
}

// What the line says, as a number of bytes.
double bytes_at(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  if (at == text.npos) return -1;
  std::istringstream in(text.substr(at + before.size()));
  double value = 0;
  std::string unit;
  in >> value >> unit;
  return value * (unit.starts_with("kB") ? 1e3 : unit.starts_with("MB") ? 1e6 : 1);
}

constexpr const char* conv_relu = "def f(acc, bias: row[f32]):\n    D: f32 = relu(acc + bias)\n    return D\n";

// The shapes of a convolution's inputs tell what M, N and K do not.
TEST_F(Explain, CountsTheBytesOfAConvolutionsInputs) {
  const std::vector<std::vector<std::int64_t>> inputs = {{8, 32, 20, 20}, {64, 32, 3, 3}};
  const double x = 8 * 32 * 20 * 20 * 4, w = 64 * 32 * 3 * 3 * 4, d = 8 * 18 * 18 * 64 * 4, bias = 64 * 4;
  for (const char* target : {"portable", "sm_80"}) {
    const Plan plan = compile(Conv2d{}, parse(conv_relu), Target::parse(target));
    const std::string text = plan.explain(ExplainPart::summary, inputs);
    EXPECT_NE(text.find("(8, 32, 20, 20)"), text.npos) << text;
    EXPECT_NE(text.find("(64, 32, 3, 3)"), text.npos) << text;
    EXPECT_NE(text.find("at M = 324, N = 64, K = 288, batch = 8\n"), text.npos) << text;
    EXPECT_NEAR(bytes_at(text, "op, "), x + w, 0.005 * (x + w)) << text;  // "main loop   95.6 Mop, 1.93 MB of input"
    EXPECT_NEAR(bytes_at(text, "  floor       "), x + w + d + bias, 0.005 * (x + w + d)) << text;
  }
}

// A product reads the copy of its images, with the channels that were added, and each residue of a strided data
// gradient reads all pixels.
TEST_F(Explain, CountsWhatTheMainLoopReads) {
  const auto explained = [](const Problem& problem, const std::vector<std::vector<std::int64_t>>& inputs) {
    return compile(problem, parse("def f(acc):\n    D: bf16 = acc\n    return D\n"), Target::parse("sm_90a"))
        .explain(ExplainPart::summary, inputs);
  };
  const double x = 2. * 32 * 3 * 224 * 224, w = 2 * 64 * 3 * 49, d = 2. * 32 * 218 * 218 * 64,
               copied_x = 2. * 32 * 224 * 225 * 8, copied_w = 2 * 64 * 7 * 8 * 8;
  const std::string conv = explained(Conv2d{.x = DType::bf16, .w = DType::bf16}, {{32, 3, 224, 224}, {64, 3, 7, 7}});
  const double moved = x + 2 * copied_x + w + 2 * copied_w + d;
  EXPECT_NEAR(bytes_at(conv, "read as "), copied_x + copied_w, 0.005 * copied_x) << conv;
  EXPECT_NEAR(bytes_at(conv, "  moves       "), moved, 0.005 * moved) << conv;
  // A gradient by the weights copies both operands, of channels that are no whole 16 bytes.
  const double pixels = 2. * 64 * 30 * 28 * 28, copied = 2. * 64 * 32 * 28 * 28;
  const std::string by_weights = explained(
      ConvWgrad2d{.x = DType::bf16, .dy = DType::bf16, .filter = {5, 5}, .padding = {{{2, 2}, {2, 2}}}, .groups = 30},
      {{64, 30, 28, 28}, {64, 30, 28, 28}});
  EXPECT_NEAR(bytes_at(by_weights, "read as "), 2 * copied, 0.005 * copied) << by_weights;
  EXPECT_NEAR(bytes_at(by_weights, "images repacked: "), 2 * pixels, 0.005 * copied) << by_weights;
  const double dy = 2. * 64 * 64 * 28 * 28, filters = 2 * 64 * 64 * 9, dx = 2. * 64 * 64 * 56 * 56;
  const std::string dgrad = explained(ConvDgrad2d{.dy = DType::bf16,
                                                  .w = DType::bf16,
                                                  .stride = {2, 2},
                                                  .padding = {{{1, 1}, {1, 1}}},
                                                  .output_padding = {1, 1}},
                                      {{64, 64, 28, 28}, {64, 64, 3, 3}});
  EXPECT_NEAR(bytes_at(dgrad, "read as "), 4 * dy + filters, 0.02 * dy) << dgrad;
  EXPECT_NEAR(bytes_at(dgrad, "  moves       "), 4 * dy + filters + dx, 0.005 * dx) << dgrad;
}

TEST_F(Explain, SaysTheSameOfAProductByItsInputsShapes) {
  for (const char* target : {"portable", "sm_90a"}) {
    const Plan plan = compile(Gemm{.a_layout = Layout::k_major, .b_layout = Layout::mn_major}, parse(conv_relu),
                              Target::parse(target));
    for (const ExplainPart part : {ExplainPart::schedule, ExplainPart::loops, ExplainPart::program})
      EXPECT_EQ(plan.explain(part, {{256, 128}, {128, 512}}), plan.explain(part, 256, 512, 128)) << target;
  }
}

TEST_F(Explain, RefusesShapesThatBindRefuses) {
  const Plan conv = compile(Conv2d{}, parse(conv_relu), Target::cpu(1));
  const auto code = [&](const std::vector<std::vector<std::int64_t>>& inputs) {
    try {
      (void)conv.explain(ExplainPart::summary, inputs);
    } catch (const Error& error) { return error.code(); }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code({{8, 32, 20, 20}}), ErrorCode::usage);
  EXPECT_EQ(code({{8, 32, 20}, {64, 32, 3, 3}}), ErrorCode::wrong_rank);
  EXPECT_EQ(code({{8, 32, 20, 20}, {64, 16, 3, 3}}), ErrorCode::wrong_shape);
  EXPECT_EQ(code({{8, 32, 2, 20}, {64, 32, 3, 3}}), ErrorCode::wrong_shape);
  EXPECT_EQ(code({{8, 32, -1, 20}, {64, 32, 3, 3}}), ErrorCode::size_overflow);
  EXPECT_EQ(conv.explain(ExplainPart::summary, {{0, 32, 20, 20}, {64, 32, 3, 3}}),
            "every output is empty: nothing runs\n");
}

}  // namespace
}  // namespace postlude
