// Convolutions on the device, against the reference: geometry of all kinds, every epilogue of the suite, both product
// kernels. Skipped where there is no GPU.
#include "cuda/run/driver.h"
#include "gpu/convolution.h"
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace postlude::gpu_tests {
namespace {

// "" or what went wrong, in a first run or in the bits of a second.
std::string run(const Convolution& c, const Graph& graph, const std::string& schedule) {
  const cuda::CurrentDevice current(0);
  const cuda::Driver& d = cuda::driver();
  Target target = Target::cuda();
  target.schedule = schedule;
  const Plan plan = compile(c.problem(), graph, target);
  ConvolutionTensors tensors = draw(c, graph);
  std::vector<Binding> bindings = tensors.bindings(Device::cuda);
  std::vector<cuda::Buffer> memory;
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(tensors.tensors[i].elements() * size_of(tensors.tensors[i].dtype));
    memory.emplace_back(0, bytes + 16);
    if (bytes) cuda::check(d.MemcpyHtoD(memory[i].pointer(), tensors.tensors[i].data, bytes), "copying in");
    bindings[i].tensor.data = reinterpret_cast<void*>(memory[i].pointer());
  }
  Call call = plan.bind(bindings);
  std::vector<std::vector<std::uint64_t>> first;
  for (int time = 0; time < 2; ++time) {
    tensors.poison();
    call.run();
    cuda::check(d.CtxSynchronize(), "running a convolution");
    for (std::size_t i = 0; i < bindings.size(); ++i) {
      const auto bytes = static_cast<std::size_t>(tensors.tensors[i].elements() * size_of(tensors.tensors[i].dtype));
      if (tensors.outputs[i] && bytes)
        cuda::check(d.MemcpyDtoH(tensors.tensors[i].data, memory[i].pointer(), bytes), "copying out");
    }
    if (time == 0) first = tensors.memory;
    else if (first != tensors.memory) return c.name + ": a second run gives other bits by " + call.describe();
  }
  const std::string text = wrong(c, plan, tensors);
  return text.empty() ? text : text + "by " + call.describe();
}

class Convolutions : public testing::TestWithParam<const char*> {};

TEST_P(Convolutions, AgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const std::string name = GetParam();
  const Graph graph = suite_graph(name);
  for (Convolution c : convolutions(name.starts_with("fp8") ? DType::e4m3 : DType::bf16)) {
    if (c.channels < 16 || c.images > 10 || c.conv.groups > 1) continue;
    c.filters = 256;
    EXPECT_EQ(run(c, graph, ""), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Suite, Convolutions, testing::ValuesIn(suite_names),
                         [](const auto& i) { return std::string(i.param); });

class DepthwiseConvolutions : public testing::TestWithParam<const char*> {};

TEST_P(DepthwiseConvolutions, AgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Graph graph = suite_graph(GetParam());
  for (Convolution c : {depthwise("7x7", 3, 256, padded(19, 7), padded(23, 7)),
                        depthwise("3x3 strided", 3, 256, {29, 3, 2, 1, 1}, {30, 3, 2, 1, 1})}) {
    EXPECT_EQ(run(c, graph, ""), "");
    c.direction = Direction::dgrad, c.conv.stride = {1, 1};
    EXPECT_EQ(run(c, graph, ""), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Suite, DepthwiseConvolutions, testing::ValuesIn(suite_names),
                         [](const auto& i) { return std::string(i.param); });

TEST(DepthwiseGeometry, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (Convolution c : depthwise_convolutions()) {
    EXPECT_EQ(run(c, suite_graph("bias_relu"), ""), "");
    Convolution weights = c;
    weights.direction = Direction::wgrad;
    EXPECT_EQ(run(weights, suite_graph("bias_relu"), ""), "");
    c.direction = Direction::dgrad;
    EXPECT_EQ(run(c, suite_graph("bias_relu"), ""), "");
  }
}

// Rows of outputs and operands between 16 bytes, and images that are copied.
TEST(DepthwiseChannels, OfAnyNumberAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (Convolution c : {depthwise("7x7 of 45 channels", 30, 45, padded(21, 7), padded(20, 7)),
                        depthwise("18 channels, unequal", 9, 18, {12, 4, 2, 0, 3, 2}, {13, 2, 1, 2, 0}, DType::f16)}) {
    for (const char* const name : {"bias_relu", "bias_gelu_res_aux"}) EXPECT_EQ(run(c, suite_graph(name), ""), "");
    Convolution weights = c;
    weights.direction = Direction::wgrad;
    EXPECT_EQ(run(weights, suite_graph("bias_relu"), ""), "");
    c.direction = Direction::dgrad;
    EXPECT_EQ(run(c, suite_graph("bias_gelu_res_aux"), ""), "");
  }
}

// Each by a test of its own, for they are compiled one after another.
class Geometry : public testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(Geometry, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const auto [type, index] = GetParam();
  const Convolution c = convolutions(type)[static_cast<std::size_t>(index)];
  for (const Convolution& each : with_gradients(c))
    for (const char* schedule : kernels)
      EXPECT_EQ(run(each, suite_graph(type == DType::s8 ? "plain" : "bias_relu"), schedule), "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Geometry,
                         testing::Combine(testing::Values(DType::bf16, DType::f16, DType::e4m3, DType::f32, DType::s8),
                                          testing::Range(0, static_cast<int>(convolutions(DType::bf16).size()))),
                         [](const auto& i) {
                           return std::string(name(std::get<0>(i.param))) + "_" + std::to_string(std::get<1>(i.param));
                         });

class RandomGeometry : public testing::TestWithParam<int> {};

TEST_P(RandomGeometry, AgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (int seed = 6 * GetParam(); seed < 6 * GetParam() + 6; ++seed) {
    const Convolution c = random_convolution(static_cast<std::uint64_t>(seed), seed % 8 ? DType::bf16 : DType::f32);
    for (const Convolution& each : with_gradients(c)) EXPECT_EQ(run(each, suite_graph("bias_relu"), ""), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGeometry, testing::Range(0, 12));

// As networks have them: many tiles a block, and images that tiles cross.
TEST(Convolution, OfLayersAgreesWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Conv2d same{.x = DType::bf16, .w = DType::bf16, .padding = {{{1, 1}, {1, 1}}}};
  Conv2d half = same;
  half.stride = {2, 2};
  for (const Convolution& c : {Convolution{"64 at 56", same, 2, 64, 56, 56, 64, 3, 3},
                               {"128 at 14", same, 5, 128, 14, 14, 128, 3, 3},
                               {"256 at 7", same, 5, 256, 7, 7, 256, 3, 3},
                               {"64 at 56, strided", half, 3, 64, 56, 56, 128, 3, 3}})
    for (const Convolution& each : with_gradients(c)) EXPECT_EQ(run(each, suite_graph("bias_gelu"), ""), "");
}

// Where an epilogue asks for pixels and for nothing else of an image, tiles cross images.
TEST(Convolution, PixelsOfTilesThatCrossImagesAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Graph graph =
      parse("def f(acc, bias: row):\n    return where((p_index() > 1) & (q_index() < 9), relu(acc + bias), 0)\n");
  for (const Convolution& c : convolutions(DType::bf16)) {
    if (c.images < 2 || c.conv.groups > 1 || !c.channels_last) continue;
    const std::vector<Convolution> all = with_gradients(c);
    EXPECT_EQ(run(all[0], graph, ""), "");
    EXPECT_EQ(run(all[1], graph, ""), "");
  }
}

// As columns of one product, and apart.
TEST(Convolution, ResiduesOfFewChannelsAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Convolution& c : residues_of_few_channels())
    for (const char* schedule : {"", "pingpong 64x64x6 sub 32x2 aux 0 raster 2"})
      EXPECT_EQ(run(c, suite_graph("bias_relu"), schedule), "");
}

TEST(Convolution, GradientsByPatchesAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Graph graph = parse("def f(acc, saved: tile):\n    D = relu(acc + saved)\n    return D\n");
  for (const auto& [c, patches] : gradients_by_patches())
    for (const Graph& each : {suite_graph("plain"), graph}) EXPECT_EQ(run(c, each, ""), "") << patches;
}

// A weight gradient whose K many parts add up, by one block and in shares.
TEST(Convolution, FiltersOfGroupsAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Convolution& c : in_groups())
    for (const Convolution& each : with_gradients(c)) EXPECT_EQ(run(each, suite_graph("bias_relu"), ""), "");
}

TEST(Convolution, PartsOfAWeightGradientAgreeWithTheReference) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const Conv2d same{.x = DType::bf16, .w = DType::bf16, .padding = {{{1, 1}, {1, 1}}}};
  const Convolution c = with_gradients({"64 at 28", same, 8, 64, 28, 28, 72, 3, 3})[2];
  for (const char* schedule : {"pingpong 128x64x6 sub 32x2 aux 0 raster 2 split 13 by memory",
                               "pingpong 128x64x6 sub 32x2 aux 0 raster 2 split 13 by memory in shares",
                               "pingpong 64x192x5 sub 32x2 aux 0 raster 2 split 22 by memory in shares",
                               "cooperative 128x192x5 sub 32x2 aux 0 raster 2 split 20 by memory in shares",
                               "cooperative 128x128x4 sub 32x2 aux 0 raster 2 split 2 by memory in shares"})
    EXPECT_EQ(run(c, suite_graph("bias_relu"), schedule), "");
}

// For compute-sanitizer: the smallest of each kind, by both kernels.
TEST(Convolution, Sanitized) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  Conv2d half{.x = DType::bf16, .w = DType::bf16, .stride = {2, 2}, .padding = {{{1, 1}, {1, 1}}}};
  for (const Convolution& c : with_gradients({"3x3 by 2", half, 2, 64, 8, 8, 64, 3, 3}))
    for (const char* schedule : kernels) EXPECT_EQ(run(c, suite_graph("bias_relu"), schedule), "");
  for (const auto& [c, patches] : gradients_by_patches()) EXPECT_EQ(run(c, suite_graph("plain"), ""), "") << patches;
}

// Bands whose rows of pixels the copy engine loads, several tiles a block: that keep rows for the next, and whole
// images.
const std::tuple<Convolution, const char*, const char*> rings[] = {
    {depthwise("7x7", 20, 72, padded(28, 7), padded(28, 7)), "bias_relu",
     "bands 64x32 sub 32x1 aux 0 rows 2 images 1 ring 10"},
    {depthwise("7x7, in pairs", 80, 96, padded(14, 7), padded(14, 7)), "bias_gelu_res_aux",
     "bands 64x32 sub 32x1 aux 1 rows 2 images 1 ring 14"},
    {depthwise("3x3 strided", 60, 72, {63, 3, 2, 1, 1}, {29, 3, 2, 1, 1}), "bias_gelu_res_aux",
     "bands 64x32 sub 32x1 aux 2 rows 2 images 1 ring 13"},
    {depthwise("5x3 of whole images", 600, 72, padded(7, 5), padded(9, 3)), "rowmax",
     "bands 64x32 sub 32x1 aux 0 rows 2 images 3 ring 24"}};

// For compute-sanitizer too.
TEST(DepthwiseRings, Sanitized) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [c, epilogue, schedule] : rings) EXPECT_EQ(run(c, suite_graph(epilogue), schedule), "");
}

// Straight from memory: strips that do not divide the image, weights in registers and in shared memory, rows in turn,
// and channels that do not fill the last block; and images on tensor cores.
const std::tuple<Convolution, const char*, const char*> direct[] = {
    {depthwise("3x3", 20, 72, padded(29, 3), padded(27, 3)), "bias_gelu_res_aux", "direct 4x96 strip 4x8"},
    {depthwise("3x3 strided", 60, 136, {63, 3, 2, 1, 1}, {29, 3, 2, 1, 1}, DType::f16), "bias_relu",
     "direct 4x64 strip 2x4"},
    {depthwise("5x3", 20, 96, padded(11, 5), padded(23, 3)), "bias_gelu", "direct 8x32 strip 7x2"},
    {depthwise("7x7 of whole images", 30, 192, padded(7, 7), padded(7, 7)), "bias_relu", "direct 4x64 strip 7x7"},
    {depthwise("7x7 of whole images, a residual", 9, 72, padded(7, 7), padded(7, 7)), "bias_gelu_res_aux",
     "direct 4x64 strip 7x7"},
    {depthwise("eight images at once", 30, 200, padded(7, 7), padded(7, 7)), "bias_gelu_res_aux",
     "direct 32x16 strip 7x4 images 16"},
    {depthwise("the same of more rows than columns", 9, 72, padded(8, 5), padded(6, 5), DType::f16), "bias_relu",
     "direct 16x32 strip 6x4 images 8"}};

// A stride of the gradient's pixels lies between those of dY.
const std::tuple<Convolution, const char*, const char*> upwards[] = {
    {depthwise("3x3 by two", 20, 72, {61, 3, 2, 1, 1}, {40, 3, 2, 1, 1}), "bias_relu", "direct 4x32 strip 4x8"},
    {depthwise("5x4 by two", 9, 96, {30, 5, 2, 2, 2}, {57, 4, 2, 0, 3}, DType::f16), "bias_gelu_res_aux",
     "direct 4x96 strip 2x4"},
    {depthwise("7x7 by two", 12, 40, {29, 7, 2, 3, 3}, {32, 7, 2, 3, 3}), "rowmax", ""}};

TEST(DepthwiseDirect, Sanitized) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  for (const auto& [c, epilogue, schedule] : direct) EXPECT_EQ(run(c, suite_graph(epilogue), schedule), "");
  for (auto [c, epilogue, schedule] : upwards) {
    c.direction = Direction::dgrad;
    EXPECT_EQ(run(c, suite_graph(epilogue), schedule), "");
  }
}

}  // namespace
}  // namespace postlude::gpu_tests
