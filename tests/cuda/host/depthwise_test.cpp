// Depthwise convolutions as stencils, in emitted kernels on the host: behind every epilogue of the suite, over geometry
// of all kinds, forward and by the data, against the reference.
#include "correctness/cases.h"
#include "cuda/host/harness.h"
#include "gpu/convolution.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <utility>

namespace postlude {
namespace {

using namespace host;
using gpu_tests::Convolution;
using gpu_tests::depthwise;
using gpu_tests::padded;

struct Depthwise {
  Convolution c;
  Plan plan;
  gpu_tests::ConvolutionTensors tensors;
  Call call;
};

class Stencils {
 public:
  explicit Stencils(const char* folder) : harness_(folder) {}
  void add(Convolution c, const std::string& epilogue, const std::string& schedule = "") {
    c.name += " behind " + epilogue + " by " + schedule;
    const Graph graph = parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + epilogue + ".py");
    Target target = Target::cuda();
    target.schedule = schedule;
    Depthwise d{c, compile(c.problem(), graph, target), gpu_tests::draw(c, graph), {}};
    d.call = d.plan.bind(d.tensors.bindings(Device::cuda));
    all_.push_back(std::move(d));
  }
  // Of the last one, bf16 pixels here and there are infinite.
  void make_infinite() {
    gpu_tests::ConvolutionTensors& given = all_.back().tensors;
    for (std::size_t i = 0; i < given.names.size(); ++i) {
      if (given.names[i] != "X") continue;
      const Tensor& images = given.tensors[i];
      auto* const pixels = static_cast<std::uint16_t*>(images.data);
      const std::int64_t count = images.shape[0] * images.strides[0];
      for (std::int64_t at = 5; at < count; at += 331) pixels[at] = at % 2 ? 0x7f80 : 0xff80;
    }
  }
  // What is said of each.
  void expect(const std::string& words) { expected_ = words; }
  void run() {
    thin_out(all_);
    for (Depthwise& d : all_) d.call.run();
    ASSERT_TRUE(harness_.compile());
    std::size_t stencils = 0;
    for (Depthwise& d : all_) {
      const std::string schedule = d.call.describe();
      SCOPED_TRACE(d.c.name + ": " + schedule);
      stencils += schedule.find("portable product") == schedule.npos;
      EXPECT_NE(schedule.find(expected_), schedule.npos);
      for (const std::uint64_t order : {std::uint64_t{0}, d.c.seed + 1}) {
        d.tensors.poison();
        harness_.order(order);
        d.call.run();
        EXPECT_EQ(gpu_tests::wrong(d.c, d.plan, d.tensors), "");
      }
    }
    std::printf("%zu convolutions, %zu of them not by the product of groups; %zu sources\n", all_.size(), stencils,
                harness_.sources());
    EXPECT_EQ(stencils, all_.size());
  }

 private:
  Harness harness_;
  std::string expected_;
  std::vector<Depthwise> all_;
};

TEST(Depthwise, RunsBehindEveryEpilogue) {
  Stencils stencils("emission_depthwise_suite");
  std::size_t turn = 0;
  for (const std::string& name : suite()) {
    Convolution c = depthwise("7x7", 2, 256, padded(9, 7), padded(8, 7));
    if (++turn % 2) c = depthwise("3x3 strided", 3, 256, {9, 3, 2, 1, 1}, {10, 3, 2, 1, 1});
    if (turn % 3 == 0) c = depthwise("5x5 in f32", 2, 256, padded(6, 5), padded(11, 5), DType::f32);
    c.seed = turn;
    stencils.add(c, name);
    Convolution back = depthwise("7x7, data gradient", 2, 256, {8, 7, 1, 3, 2}, {10, 5, 1, 4, 1});
    back.direction = gpu_tests::Direction::dgrad;
    stencils.add(back, name);
  }
  // Of a gradient by the weights the columns are taps, which the suite's other chunks and groups do not divide.
  Convolution weights = depthwise("4x8, weight gradient", 3, 72, padded(9, 4), padded(10, 8));
  weights.direction = gpu_tests::Direction::wgrad;
  for (const char* const name : {"plain", "bias_relu", "bias_gelu_res_aux", "axpby", "rowmax", "rmsnorm", "softmax",
                                 "argmax", "xent", "bce", "swiglu"})
    stencils.add(weights, name);
  stencils.run();
}

TEST(Depthwise, RunsOverImagesOfAllKinds) {
  Stencils stencils("emission_depthwise_shapes");
  for (Convolution c : gpu_tests::depthwise_convolutions()) {
    stencils.add(c, "bias_relu");
    Convolution weights = c;
    weights.direction = gpu_tests::Direction::wgrad;
    stencils.add(weights, "bias_relu");
    c.direction = gpu_tests::Direction::dgrad;  // with a stride on tensor cores, or as sums of single channels
    stencils.add(c, "bias_relu");
  }
  stencils.run();
}

TEST(Depthwise, RunsByEveryTile) {
  Stencils stencils("emission_depthwise_tiles");
  const Convolution c = depthwise("5x3", 2, 72, padded(11, 5), padded(23, 3));
  for (const char* const tile : {"64x32 sub 32", "64x64 sub 64", "128x32 sub 32", "128x64 sub 32", "256x32 sub 32"})
    for (const char* const strip : {"14x4", "7x7", "8x2", "1x1"})
      stencils.add(c, "bias_gelu_res_aux", std::string("stencil ") + tile + "x1 aux 2 strip " + strip);
  Convolution weights = c;
  weights.direction = gpu_tests::Direction::wgrad;
  for (const char* const tile : {"23x32", "64x64", "5x128", "400x32", "92x64"})
    for (const char* const strip : {"14x2", "7x1", "8x4", "1x1", "3x2"})
      stencils.add(weights, "bias_relu", std::string("stencil ") + tile + " sub 32x1 aux 0 strip " + strip);
  for (const char* const strip : {"7x7", "8x4"})
    stencils.add(depthwise("3x3", 2, 136, padded(7, 3), padded(8, 3)), "bias_gelu_res_aux",
                 std::string("stencil 64x128 sub 32x1 aux 1 strip ") + strip);
  for (const auto& [name, aux] : {std::pair{"bce", 2}, {"argmax", 0}, {"rmsnorm", 2}, {"rowmax", 0}})
    stencils.add(depthwise("3x3", 2, 256, padded(23, 3), padded(11, 3)), name,
                 "stencil 256x32 sub 32x1 aux " + std::to_string(aux) + " strip 7x2");
  stencils.run();
}

TEST(Depthwise, RunsByBands) {
  Stencils stencils("emission_depthwise_bands");
  const auto bands = [](const std::string& tile, int aux, int rows, int images) {
    return "bands " + tile + "x1 aux " + std::to_string(aux) + " rows " + std::to_string(rows) + " images " +
           std::to_string(images);
  };
  std::size_t turn = 0;
  for (const auto& [name, aux] :
       {std::pair{"plain", 0}, {"bias_relu", 0}, {"axpby", 2}, {"rowmax", 0}, {"argmax", 0}, {"rmsnorm", 2}}) {
    Convolution c = depthwise("7x7", 5, 256, padded(9, 7), padded(7, 7));
    if (++turn % 2) c = depthwise("3x3 strided", 3, 72, {33, 3, 2, 1, 1}, {30, 3, 2, 1, 1}, DType::f16);
    stencils.add(c, name, bands(turn % 2 ? "128x32 sub 32" : "64x32 sub 32", aux, 2, turn % 2 ? 1 : 3));
  }
  for (const auto& [rows, images] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 2}, {4, 1}})
    stencils.add(depthwise("5x3", 7, 72, padded(11, 5), padded(10, 3)), "bias_gelu_res_aux",
                 bands("128x32 sub 32", 2, rows, images));
  stencils.add(depthwise("3x3", 7, 72, padded(6, 3), padded(7, 3)), "bias_relu", bands("64x32 sub 32", 0, 1, 5));
  const Convolution wide = depthwise("5x9", 2, 40, padded(23, 5), padded(60, 9));
  for (const int rows : {2, 4}) {
    stencils.add(wide, "bias_gelu_res_aux", bands("128x32 sub 32", 1, rows, 1));
    Convolution back = depthwise("data gradient", 2, 40, {23, 7, 1, 3, 2}, {60, 5, 1, 4, 1});
    back.direction = gpu_tests::Direction::dgrad;
    stencils.add(back, "bias_relu", bands("256x32 sub 32", 0, rows, 1));
    stencils.add(depthwise("dilated", 2, 40, {23, 3, 1, 2, 2, 2}, {50, 3, 1, 3, 3, 3}), "dgelu_dbias",
                 bands("64x32 sub 32", 1, rows, 1));
    stencils.add(depthwise("by three", 2, 40, {40, 3, 3, 1, 1}, {50, 3, 3, 1, 1}), "bce",
                 bands("64x32 sub 32", 2, rows, 1));
  }
  stencils.add(depthwise("7x7 of infinities", 2, 40, padded(14, 7), padded(15, 7)), "plain",
               bands("256x32 sub 32", 0, 2, 1));
  stencils.make_infinite();
  stencils.add(depthwise("3x3 of infinities", 3, 40, {9, 3, 2, 1, 1}, {8, 3, 2, 1, 1}), "plain",
               bands("64x32 sub 32", 0, 1, 2));
  stencils.make_infinite();
  stencils.run();
}

// Rings of all sizes: whose tiles keep rows for the next, of images in turns, of several at a time; one tile's and
// two's.
void add_rings(Stencils& stencils, const std::string& more) {
  const auto ring = [&](const std::string& tile, int aux, int rows, int images, int kept) {
    return "bands " + tile + "x1 aux " + std::to_string(aux) + " rows " + std::to_string(rows) + " images " +
           std::to_string(images) + " ring " + std::to_string(kept) + more;
  };
  for (const auto& [name, aux] :
       {std::pair{"plain", 0}, {"bias_relu", 0}, {"axpby", 2}, {"rowmax", 0}, {"argmax", 0}, {"rmsnorm", 2}}) {
    stencils.add(depthwise("7x7", 5, 256, padded(9, 7), padded(7, 7)), name, ring("64x32 sub 32", aux, 2, 1, 17));
    stencils.add(depthwise("3x3 strided", 9, 72, {63, 3, 2, 1, 1}, {30, 3, 2, 1, 1}, DType::f16), name,
                 ring("64x32 sub 32", aux, 2, 1, 17));
  }
  const Convolution tall = depthwise("7x7 of many tiles", 3, 72, padded(50, 7), padded(28, 7));
  for (const int kept : {10, 13, 14, 20}) stencils.add(tall, "bias_gelu_res_aux", ring("128x32 sub 32", 1, 2, 1, kept));
  stencils.add(tall, "bias_relu", ring("128x32 sub 32", 0, 4, 1, 14));
  for (const int kept : {14, 21, 28})
    stencils.add(depthwise("5x3", 13, 72, padded(9, 5), padded(7, 3)), "bias_gelu_res_aux",
                 ring("64x32 sub 32", 2, 2, 3, kept));
  stencils.add(depthwise("5x3 in three blocks", 7, 72, padded(11, 5), padded(23, 3)), "bias_relu",
               ring("128x32 sub 32", 0, 3, 1, 11));
  for (const int rows : {2, 4}) {
    stencils.add(depthwise("5x9", 2, 40, padded(23, 5), padded(60, 9)), "bias_gelu_res_aux",
                 ring("128x32 sub 32", 1, rows, 1, 12));
    Convolution back = depthwise("data gradient", 2, 40, {23, 7, 1, 3, 2}, {60, 5, 1, 4, 1});
    back.direction = gpu_tests::Direction::dgrad;
    stencils.add(back, "bias_relu", ring("256x32 sub 32", 0, rows, 1, 15));
    stencils.add(depthwise("dilated", 2, 40, {23, 3, 1, 2, 2, 2}, {50, 3, 1, 3, 3, 3}), "dgelu_dbias",
                 ring("64x32 sub 32", 1, rows, 1, 11));
    stencils.add(depthwise("by three", 2, 40, {40, 3, 3, 1, 1}, {50, 3, 3, 1, 1}), "bce",
                 ring("64x32 sub 32", 2, rows, 1, 16));
  }
  stencils.add(depthwise("rows of more than a tile", 3, 8, padded(3, 3), padded(300, 3)), "bias_relu",
               ring("128x32 sub 32", 0, 1, 1, 6));
  stencils.add(depthwise("7x7 of infinities", 2, 40, padded(14, 7), padded(15, 7)), "plain",
               ring("256x32 sub 32", 0, 2, 1, 20));
  stencils.make_infinite();
  stencils.add(depthwise("7x7 of infinities, kept rows", 3, 40, padded(40, 7), padded(23, 7)), "plain",
               ring("128x32 sub 32", 0, 2, 1, 17));
  stencils.make_infinite();
  stencils.add(depthwise("3x3 of infinities", 3, 40, {9, 3, 2, 1, 1}, {8, 3, 2, 1, 1}), "plain",
               ring("64x32 sub 32", 0, 1, 2, 18));
  stencils.make_infinite();
}

TEST(Depthwise, RunsByRings) {
  Stencils stencils("emission_depthwise_rings");
  add_rings(stencils, "");
  stencils.run();
}

TEST(Depthwise, RunsByRingsBesideTheEpilogue) {
  Stencils stencils("emission_depthwise_rings_beside");
  add_rings(stencils, " beside");
  stencils.run();
}

TEST(Depthwise, RunsStraightFromMemory) {
  Stencils stencils("emission_depthwise_direct");
  const Convolution c = depthwise("5x3", 2, 72, padded(11, 5), padded(23, 3));
  for (const char* const name : {"plain", "bias_relu", "bias_gelu", "bias_gelu_res_aux"})
    for (const char* const blocks : {"direct 4x32 strip 7x2", "direct 2x64 strip 4x4"}) stencils.add(c, name, blocks);
  for (const char* const blocks : {"direct 4x48 strip 1x1", "direct 4x80 strip 23x1", "direct 1x128 strip 5x11",
                                   "direct 16x32 strip 3x2", "direct 2x96 strip 8x8"}) {
    stencils.add(c, "bias_gelu_res_aux", blocks);
    stencils.add(depthwise("3x3 strided", 3, 136, {9, 3, 2, 1, 1}, {30, 3, 2, 1, 1}, DType::f16), "bias_relu", blocks);
  }
  for (Convolution of : gpu_tests::depthwise_convolutions()) {
    if (of.conv.x == DType::f32) continue;
    for (const char* const blocks : {"direct 4x32 strip 4x4", "direct 2x64 strip 7x7"}) {
      stencils.add(of, "bias_gelu", blocks);
      Convolution back = of;
      back.direction = gpu_tests::Direction::dgrad;
      if (of.conv.stride[0] == 1 && of.conv.stride[1] == 1) stencils.add(back, "bias_relu", blocks);
    }
  }
  for (const char* const name : {"bias_gelu_res_aux", "plain"}) {
    stencils.add(depthwise("7x7 of whole images", 5, 72, padded(7, 7), padded(7, 7)), name, "direct 4x64 strip 7x7");
    stencils.add(depthwise("windows beside the image", 3, 40, {7, 7, 1, 9, 9}, {7, 7, 1, 9, 9}), name,
                 "direct 2x32 strip 7x7");
  }
  for (const char* const blocks : {"direct 4x80 strip 12x4", "direct 4x64 strip 12x1"})
    stencils.add(depthwise("7x7 of whole rows", 3, 136, padded(11, 7), padded(12, 7)), "bias_gelu_res_aux", blocks);
  stencils.add(depthwise("7x7 of infinities", 2, 40, padded(14, 7), padded(15, 7)), "plain", "direct 2x32 strip 4x2");
  stencils.make_infinite();
  stencils.run();
}

// Blocks that have whole images in shared memory, eight at once on tensor cores.
TEST(Depthwise, RunsOverImagesInSharedMemory) {
  Stencils stencils("emission_depthwise_images");
  const auto add = [&](Convolution c, const char* epilogue, std::int64_t columns, std::int64_t x, std::int64_t y,
                       std::int64_t images) {
    const auto parts = [](std::int64_t pixels, std::int64_t strip) { return (pixels + strip - 1) / strip; };
    const auto text = [](std::int64_t number) { return std::to_string(number); };
    for (const bool back : {false, true}) {
      c.direction = back ? gpu_tests::Direction::dgrad : gpu_tests::Direction::forward;
      const auto [rows, row] = back ? std::array{c.height, c.width} : c.pixels();
      stencils.add(c, epilogue,
                   "direct " + text(images * parts(rows, y) * parts(row, x)) + "x" + text(columns) + " strip " +
                       text(x) + "x" + text(y) + " images " + text(images));
    }
  };
  for (const char* const name : {"bias_gelu_res_aux", "plain"}) {
    const Convolution c = depthwise("7x7", 11, 72, padded(7, 7), padded(7, 7));
    add(c, name, 16, 7, 4, 8), add(c, name, 64, 7, 4, 8), add(c, name, 48, 4, 7, 8), add(c, name, 16, 7, 4, 16);
    add(depthwise("5x5", 3, 136, padded(8, 5), padded(6, 5), DType::f16), name, 32, 6, 2, 8);
    add(depthwise("8x8", 8, 40, padded(8, 7), padded(8, 7)), name, 32, 8, 4, 8);
    add(depthwise("3x5", 9, 200, padded(2, 3), padded(5, 5)), name, 96, 3, 2, 8);
  }
  add(depthwise("4x4", 3, 40, {8, 4, 1, 1, 2}, {8, 4, 1, 2, 1}), "bias_relu", 32, 8, 3, 8);
  add(depthwise("2x3", 3, 40, {4, 2, 1, 1, 0}, {3, 3, 1, 3, 3}), "bias_gelu", 32, 8, 1, 8);
  add(depthwise("windows beside the image", 3, 40, {4, 4, 1, 3, 3}, {3, 3, 1, 3, 3}), "plain", 32, 8, 6, 8);
  for (const char* const blocks : {"direct 16x32 strip 4x7 images 8", "direct 24x32 strip 3x7 images 8"}) {
    stencils.add(depthwise("infinities", 9, 40, padded(7, 7), padded(7, 7)), "plain", blocks);
    stencils.make_infinite();
  }
  stencils.run();
}

TEST(Depthwise, RunsStridedGradientsStraightFromMemory) {
  Stencils stencils("emission_depthwise_strided_gradients");
  const auto add = [&](Convolution c, const std::vector<const char*>& schedules) {
    c.direction = gpu_tests::Direction::dgrad;
    for (const char* const name : {"plain", "bias_gelu_res_aux", "rowmax"}) stencils.add(c, name);
    for (const char* const schedule : schedules) stencils.add(c, "bias_gelu_res_aux", schedule);
  };
  add(depthwise("3x3 by two", 2, 72, {30, 3, 2, 1, 1}, {23, 3, 2, 1, 1}),
      {"direct 4x32 strip 4x8", "direct 2x64 strip 2x2"});
  add(depthwise("5x4 by two", 2, 40, {17, 5, 2, 2, 2}, {24, 4, 2, 0, 3}, DType::f16), {"direct 4x48 strip 6x4"});
  add(depthwise("7x7 by two", 2, 40, {15, 7, 2, 3, 3}, {15, 7, 2, 5, 0}), {"direct 4x32 strip 4x4"});
  add(depthwise("5x3 by three and one", 2, 24, {19, 5, 3, 2, 0}, {9, 3, 1, 1, 1}), {"direct 8x32 strip 2x3"});
  add(depthwise("2x2 by two", 3, 16, {8, 2, 2, 0, 0}, {11, 2, 2, 0, 0}), {"direct 8x32 strip 2x2"});
  stencils.run();
}

// Channels of an odd number, each by itself: of the last one of a row there is no pair.
TEST(Depthwise, RunsSinglesStraightFromMemory) {
  Stencils stencils("emission_depthwise_singles");
  stencils.expect("direct");
  std::size_t turn = 0;
  for (const int channels : {7, 23, 33, 241, 709}) {
    const DType type = ++turn % 2 ? DType::bf16 : DType::f16;
    Convolution c = depthwise(std::to_string(channels) + " channels", 2, channels, padded(9, 7), padded(10, 7), type);
    for (Convolution of : {c, depthwise(c.name + ", 3x3", 2, channels, padded(8, 3), padded(11, 3), type),
                           depthwise(c.name + ", by two", 2, channels, {12, 3, 2, 1, 1}, {11, 5, 2, 2, 2}, type)}) {
      of.seed = turn;
      for (const char* const name : {"bias_relu", "bias_gelu_res_aux"}) stencils.add(of, name);
      of.direction = gpu_tests::Direction::dgrad;
      stencils.add(of, turn % 2 ? "bias_gelu_res_aux" : "plain");
    }
  }
  const Convolution c = depthwise("5x3", 2, 41, padded(11, 5), padded(23, 3));
  for (const char* const by : {"direct 4x32 strip 7x2", "direct 2x64 strip 4x4", "direct 4x48 strip 1x1",
                               "direct 16x32 strip 3x2", "direct 2x96 strip 8x8"})
    for (const char* const name : {"bias_gelu_res_aux", "bias_gelu"}) stencils.add(c, name, by);
  stencils.add(depthwise("7x7 of whole images", 5, 71, padded(7, 7), padded(7, 7)), "bias_relu",
               "direct 4x64 strip 7x7");
  stencils.add(depthwise("infinities", 2, 23, padded(14, 7), padded(15, 7)), "plain", "direct 2x32 strip 4x2");
  stencils.make_infinite();
  stencils.run();
}

// A gradient by the weights reads pixels that are no whole 16 bytes from copies with zeros behind their channels.
TEST(Depthwise, SumsWeightsOfAnyNumberOfChannels) {
  Stencils stencils("emission_depthwise_channels");
  stencils.expect("images repacked");
  std::size_t turn = 0;
  for (const int channels : {7, 18, 23, 30, 241, 708}) {
    const DType type = ++turn % 2 ? DType::bf16 : DType::f16;
    Convolution c = depthwise(std::to_string(channels) + " channels", 3, channels, padded(9, 7), padded(10, 7), type);
    c.direction = gpu_tests::Direction::wgrad, c.seed = turn;
    for (const char* const name : {"bias_relu", "bias_gelu_res_aux"}) stencils.add(c, name);
    c = depthwise(c.name + " by two", 2, channels, {12, 3, 2, 1, 1}, {11, 5, 2, 2, 2}, type);
    c.direction = gpu_tests::Direction::wgrad;
    stencils.add(c, "plain");
  }
  Convolution wide = depthwise("6 channels in f32", 2, 6, padded(9, 3), padded(10, 3), DType::f32);
  wide.direction = gpu_tests::Direction::wgrad;
  stencils.add(wide, "bias_relu");
  stencils.run();
}

// Channels that are whole pairs, but no whole 16 bytes.
TEST(Depthwise, RunsPairsStraightFromMemory) {
  Stencils stencils("emission_depthwise_pairs");
  for (Convolution c : {depthwise("3x3", 2, 58, padded(15, 3), padded(13, 3)),
                        depthwise("5x5 by two", 3, 36, {14, 5, 2, 2, 2}, {15, 5, 2, 2, 2}, DType::f16),
                        depthwise("7x7", 2, 10, padded(7, 7), padded(9, 7)),
                        depthwise("3x3 dilated", 2, 102, {23, 3, 1, 2, 2, 2}, {11, 3, 1, 3, 3, 3})})
    for (const char* const name : {"plain", "bias_gelu_res_aux", "rowmax"}) {
      stencils.add(c, name);
      Convolution back = c;
      back.direction = gpu_tests::Direction::dgrad;
      stencils.add(back, name);
    }
  stencils.run();
}

TEST(Depthwise, RunsWhateverIsDrawn) {
  Stencils stencils("emission_depthwise_drawn");
  const std::uint64_t first = from_environment("POSTLUDE_EMISSION_FIRST", 1),
                      count = from_environment("POSTLUDE_EMISSION_DRAWN", 40);
  const std::vector<std::string> names{"bias_relu", "bias_gelu_res_aux", "plain", "rowmax", "dgelu_dbias"};
  for (std::uint64_t seed = first; seed < first + count;) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
    };
    const auto axis = [&] {
      return gpu_tests::Along{pick(1, 40), pick(1, 7), pick(1, 3), pick(0, 4), pick(0, 4), pick(1, 3)};
    };
    Convolution c = depthwise("seed " + std::to_string(seed), pick(1, 3), (pick(0, 1) ? 8 : 1) * pick(1, 18), axis(),
                              axis(), pick(0, 4) ? DType::bf16 : DType::f16);
    c.seed = seed++;
    const int direction = pick(0, 2);
    if (direction == 0) c.direction = gpu_tests::Direction::dgrad;
    if (direction == 1) c.direction = gpu_tests::Direction::wgrad;
    const auto [rows, columns] = c.pixels();
    if (rows < 1 || columns < 1 || (c.r == 1 && c.s == 1)) continue;
    stencils.add(c, names[seed % names.size()]);
  }
  stencils.run();
}

}  // namespace
}  // namespace postlude
