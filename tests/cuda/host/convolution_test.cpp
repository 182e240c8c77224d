// Rows of A that are no stride apart, in emitted kernels on the host: a toy main loop whose rows an index tells, and
// convolutions, behind every epilogue of the suite, against the reference.
#include "gpu/convolution.h"
#include "correctness/cases.h"
#include "cuda/emit/agreed.h"
#include "cuda/emit/gemm_source.h"
#include "cuda/host/harness.h"
#include "fuzz/case.h"
#include "fuzz/grammar.h"
#include "fuzz/oracle.h"
#include "gpu/device_run.h"
#include "loop/gathered_rows.h"

#include <postlude/parse.h>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

namespace postlude {
namespace {

using namespace host;

Target on(const char* schedule) {
  Target target = Target::cuda();
  target.schedule = schedule;
  return target;
}

Graph epilogue(const std::string& name) { return parse_file(POSTLUDE_SOURCE_DIR "/epilogues/" + name + ".py"); }

// A convolution that is bound.
struct Convolving {
  gpu_tests::Convolution c;
  Plan plan;
  gpu_tests::ConvolutionTensors tensors;
  Call call;
};
Convolving convolving(const gpu_tests::Convolution& c, const Graph& graph, const char* schedule) {
  Convolving r{c, compile(c.problem(), graph, on(schedule)), gpu_tests::draw(c, graph), {}};
  r.call = r.plan.bind(r.tensors.bindings(Device::cuda));
  return r;
}

// Runs an emitted one with its blocks in each of these orders, and compares what it gives.
void expect_agreement(Harness& harness, Convolving& r, std::initializer_list<std::uint64_t> orders) {
  for (const std::uint64_t order : orders) {
    r.tensors.poison();
    harness.order(order);
    r.call.run();
    EXPECT_EQ(gpu_tests::wrong(r.c, r.plan, r.tensors), "");
  }
}

// Where a kernel finds the windows of images that have more pixels together than an int counts.
TEST(Emission, FindsWindowsBehindTwoBillionPixels) {
  const auto device = [](const char* name) {
    std::ifstream in(POSTLUDE_SOURCE_DIR "/src/cuda/device/" + std::string(name));
    std::string text(std::istreambuf_iterator<char>(in), {});
    return text.substr(text.find('\n'), text.rfind(')') - text.find('\n'));
  };
  const std::string text =
      "#include \"" POSTLUDE_SOURCE_DIR "/tests/cuda/host/shim.h\"\n" + cuda::base_source() +
      "#define A_FORM 2\n#define A_RUN 128\n#define A_DEPTH 0\n#define STAGE_K 128\n#define ELEM_BYTES 2\n" +
      cuda::rows_source() +
      "struct TensorMap {};\nvoid tma_load_pixels(u32, const TensorMap&, u32, int, int, int, int, int, int) {}\n" +
      device("sm90_windows.cu") +
      "extern \"C\" void find(const Rows* rows, int batch, int row, long long* at) {\n"
      "  const Spot s = row_spot(*rows, batch, row);\n  Window w;\n  w.begin(*rows, batch, row, 0, 0);\n"
      "  const long long all[] = {s.offset, s.x, s.y, w.image, w.x, w.y};\n"
      "  for (int i = 0; i < 6; ++i) at[i] = all[i];\n}\n";
  const std::filesystem::path folder = empty_folder("emission_far_windows");
  void* library = compiled(folder, text);
  ASSERT_TRUE(library);
  const auto find =
      reinterpret_cast<void (*)(const cuda::agreed::WindowRows*, int, int, long long*)>(dlsym(library, "find"));
  constexpr std::int64_t side = 8192;
  cuda::agreed::WindowRows rows{};
  rows.axis[0] = {1, 1, 1, 0, 1, 1, 0};
  rows.axis[1] = {side, side, 3, -1, 1, 1, side};
  rows.axis[2] = {side, side, 3, -1, 1, 1, 1};
  rows.image_stride = side * side, rows.channels = rows.all_channels = 1, rows.images = 200, rows.taps = 9;
  rows.m = side * side;
  for (const int image : {0, 31, 32, 63, 64, 199}) {
    long long at[6];
    find(&rows, image, 5 * side + 7, at);
    const std::array<long long, 6> expected{image * side * side + 4 * side + 6, 6, 4, image, 6, 4};
    EXPECT_TRUE(std::equal(at, at + 6, expected.begin())) << image;
  }
  std::filesystem::remove_all(folder);
}

TEST(Emission, GathersRows) {
  Harness harness("emission_gathered");
  struct Running {
    fuzz::Case c;
    fuzz::Tensors tensors;
    Call call;
  };
  std::vector<Running> all;
  const auto add = [&](const std::string& name, DType type, const Shape& shape, std::uint64_t layout,
                       const char* schedule) {
    fuzz::Case c = suite_case(name, postlude_test::GatheredRows{type, type, shape.batch > 1}, shape,
                              is_float(type) ? fuzz::Values::normal : fuzz::Values::integers);
    c.layout = layout;
    Running r{c, fuzz::materialise(c), {}};
    std::vector<Binding> named = r.tensors.named();
    for (Binding& one : named) one.tensor.device = Device::cuda;
    r.call = compile(c.problem, Graph(std::make_shared<const GraphData>(c.graph)), on(schedule)).bind(named);
    all.push_back(std::move(r));
  };
  for (const std::string& name : suite()) {
    const DType type = name.find("fp8") == name.npos ? DType::bf16 : DType::e4m3;
    add(name, type, {1, 70, 256, 40}, 0, "mma");
    add(name, type, {2, 70, 256, 37}, 3, "");  // on Hopper, and elements one by one
    add(name, DType::f32, {1, 70, 256, 19}, 0, "");
  }
  add("plain", DType::s8, {1, 70, 72, 50}, 0, "mma");
  thin_out(all);
  for (Running& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Running& r : all) {
    SCOPED_TRACE(r.call.describe() + "\n" + fuzz::write(r.c));
    r.tensors.poison_outputs();
    harness.order(r.c.data);
    r.call.run();
    EXPECT_EQ(fuzz::compare(reference::evaluate(r.c.graph, r.c.problem, r.tensors.bindings, {.accumulator = {}}), r.c,
                            r.tensors, "the host"),
              "");
    EXPECT_EQ(r.tensors.damage(), "");
  }
}

TEST(Emission, Convolves) {
  Harness harness("emission_convolution");
  std::vector<Convolving> all;
  const auto add = [&](gpu_tests::Convolution c, const Graph& graph, const char* schedule) {
    c.name += std::string(" by ") + schedule;
    all.push_back(convolving(c, graph, schedule));
  };
  std::size_t turn = 0;  // kernels and directions in turns, where all of each would take minutes
  for (const std::string& name : suite()) {
    const DType type = name.find("fp8") == name.npos ? DType::bf16 : DType::e4m3;
    gpu_tests::Convolution c = gpu_tests::convolutions(type)[name.size() % 3];
    c.name += " behind " + name, c.filters = 256;
    add(c, epilogue(name), "");
    if (++turn % 3 != 0) add(c, epilogue(name), "mma");
    gpu_tests::Convolution each = with_gradients(c)[1 + turn % 2];
    // So many columns as the suite's chunks and groups divide.
    if (each.direction == gpu_tests::Direction::dgrad) each.channels = 256, each.filters = 64;
    if (each.direction == gpu_tests::Direction::wgrad) each.channels = 128, each.r = 2, each.s = 1, each.filters = 70;
    add(each, epilogue(name), turn % 5 ? "" : "mma");
  }
  const Graph bias = epilogue("bias_relu");
  for (const gpu_tests::Convolution& forward : gpu_tests::convolutions(DType::bf16))
    for (const gpu_tests::Convolution& c : with_gradients(forward)) {
      add(c, bias, "");
      if (++turn % 2) add(c, bias, "mma");
    }
  // Rows of patches are runs of memory.
  constexpr int of_patches[][4] = {{36, 4, 4, 4}, {9, 40, 2, 2}, {48, 3, 16, 16}, {32, 64, 9, 9}, {13, 8, 3, 2}};
  for (const auto& [size, channels, taps, stride] : of_patches) {
    gpu_tests::Convolution c = gpu_tests::convolutions(DType::bf16)[0];
    c.name = "patches", c.conv.padding = {}, c.conv.stride = {stride, stride};
    c.channels = channels, c.height = c.width = size, c.r = c.s = taps;
    for (const gpu_tests::Convolution& each : with_gradients(c)) {
      add(each, bias, "");
      if (each.direction != gpu_tests::Direction::dgrad) {
        EXPECT_EQ(all.back().call.describe().find("images repacked"), std::string::npos) << all.back().call.describe();
      }
    }
  }
  for (const DType type : {DType::f32, DType::s8})
    for (const gpu_tests::Convolution& forward : gpu_tests::convolutions(type))
      add(with_gradients(forward)[++turn % 3], epilogue("plain"), "");
  const std::uint64_t first = from_environment("POSTLUDE_EMISSION_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + 24; ++seed)
    add(with_gradients(gpu_tests::random_convolution(seed, seed % 8 ? DType::bf16 : DType::f32))[seed % 3], bias, "");
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  int by_wgmma = 0, by_mma = 0, shared = 0;
  for (Convolving& r : all) {
    const std::string schedule = r.call.describe();
    SCOPED_TRACE(r.c.name + ": " + schedule);
    by_mma += schedule.starts_with("mma");
    shared += schedule.find("residues share a launch") != schedule.npos;
    by_wgmma += schedule.starts_with("pingpong") || schedule.starts_with("cooperative");
    expect_agreement(harness, r, {r.c.seed});
  }
  std::printf("%zu convolutions: %d by mma, %d by wgmma; %zu sources\n", all.size(), by_mma, by_wgmma,
              harness.sources());
  if (every() > 1) return;
  EXPECT_GE(by_wgmma, 60);
  EXPECT_GE(by_mma, 40);
  EXPECT_GE(shared, 4);
}

// Strided data gradients by filters that are no whole 16 bytes of dY's pixels.
TEST(Emission, CopiesPixelsOfResidues) {
  Harness harness("emission_residues_copied");
  std::vector<Convolving> all;
  for (const int filters : {20, 71, 133})
    for (const int taps : {1, 2, 3, 5})
      for (const char* const name : {"bias_relu", "rowmax"}) {
        gpu_tests::Convolution c = with_gradients(gpu_tests::convolutions(DType::bf16)[2])[1];
        c.filters = filters, c.channels = 64, c.r = taps, c.s = std::max(1, taps - 1);
        c.channels_last = filters != 71;
        c.name = std::to_string(filters) + " filters of " + std::to_string(taps) + " behind " + name;
        all.push_back(convolving(c, epilogue(name), ""));
      }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Convolving& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    EXPECT_EQ(r.call.describe().find("mma "), std::string::npos);
    r.tensors.poison();
    r.call.run();
    EXPECT_EQ(gpu_tests::wrong(r.c, r.plan, r.tensors), "");
  }
}

// Strided data gradients whose pixels the copy engine does not write: a warp finds the rows that it stores.
TEST(Emission, WritesPixelsOfResiduesOfAnyChannels) {
  Harness harness("emission_residues_of_any_channels");
  const Graph graphs[] = {
      epilogue("bias_relu"),
      parse("def f(acc, saved: tile, s: scalar):\n    D = relu(acc * s + saved)\n    E: f32 = acc\n    return D, E\n")};
  std::vector<Convolving> all;
  for (const int channels : {33, 100, 131})
    for (const int taps : {1, 3})
      for (const Graph& graph : graphs) {
        gpu_tests::Convolution c = with_gradients(gpu_tests::convolutions(DType::bf16)[2])[1];
        c.filters = 64, c.channels = channels, c.r = taps, c.s = std::max(1, 4 - taps);
        c.name = std::to_string(channels) + " channels of " + std::to_string(taps) + " taps";
        for (const char* const schedule : {"", "mma"}) all.push_back(convolving(c, graph, schedule));
      }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Convolving& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    expect_agreement(harness, r, {0, r.c.seed});
  }
}

// Weight gradients whose rows of few channels are no whole 64 columns.
TEST(Emission, PadsRowsOfFewChannels) {
  Harness harness("emission_few_channels");
  std::vector<Convolving> all;
  for (const int channels : {1, 2, 3, 6, 10, 13})
    for (const int stride : {1, 2, 3, 4})
      for (const int taps : {2, 4}) {
        gpu_tests::Convolution c = with_gradients(gpu_tests::convolutions(DType::bf16)[0])[2];
        c.conv.padding = {}, c.conv.stride = {stride, stride};
        c.channels = channels, c.height = 9, c.width = 16, c.r = 2, c.s = taps;
        c.name = std::to_string(channels) + " channels, " + std::to_string(taps) + " taps by " + std::to_string(stride);
        all.push_back(convolving(c, epilogue("bias_relu"), ""));
      }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Convolving& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    r.tensors.poison();
    r.call.run();
    EXPECT_EQ(gpu_tests::wrong(r.c, r.plan, r.tensors), "");
  }
}

// Filters in groups as they lie, also by tiles that share them.
TEST(Emission, ReadsFiltersOfGroupsAsTheyLie) {
  Harness harness("emission_groups");
  std::vector<Convolving> all;
  const Graph bias = epilogue("bias_relu");
  for (gpu_tests::Convolution c : gpu_tests::in_groups())
    for (const gpu_tests::Direction direction : {gpu_tests::Direction::forward, gpu_tests::Direction::dgrad}) {
      c.direction = direction;
      all.push_back(convolving(c, bias, ""));
      // Where a group's columns fit no tile, no schedule of tiles can be asked for.
      const bool in_tiles = !all.back().call.describe().starts_with("portable");
      if (c.seed % 3 == 0 && c.conv.stride[0] == 1 && in_tiles)
        all.push_back(convolving(c, bias, "pingpong 64x64x6 sub 32x2 aux 0 raster 2 cluster 2x1"));
    }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  int copied = 0;
  for (Convolving& r : all) {
    const std::string schedule = r.call.describe();
    SCOPED_TRACE(r.c.name + ": " + schedule);
    copied += schedule.find("B repacked") != schedule.npos;
    expect_agreement(harness, r, {0, r.c.seed});
  }
  std::printf("%zu convolutions, of %d filters are copied\n", all.size(), copied);
  if (every() > 1) return;
  EXPECT_EQ(copied, 7);  // groups of 8 bytes, lines of 128 bytes that have two taps, gradients by data of 1x1
}

// Weight gradients of channels that 64 columns do not divide, as they lie: the products of one tap are plain ones, and
// of others the epilogue runs where taps have columns between them.
TEST(Emission, SumsPixelsOfAnyChannels) {
  struct One {
    const char* name;
    std::int64_t channels, filters, r, s;
    std::int32_t stride, padding;
    const char* schedule;
    bool fused = true, channels_last = true;
    std::int64_t images = 3, height = 9, width = 8;
  };
  Harness harness("emission_weights");
  std::vector<Convolving> all;
  std::vector<bool> fused;
  const Graph step = parse(R"(
@epilogue
def step(acc, W: tile, V: tile[f32], rate: scalar, scale: col):
    momentum: f32 = 0.5 * V + acc * scale
    stepped = W - rate * momentum
    return momentum, stepped
)");
  const Graph narrow = parse(R"(
@epilogue
def narrow(acc):
    D: e4m3 = acc * 0.25
    return D
)");
  const Graph bias = epilogue("bias_relu"), axpby = epilogue("axpby"), plain = epilogue("plain");
  const char* const parts = "pingpong 64x64x6 sub 32x2 aux 0 raster 2 split 3 by memory";
  for (const One& one :
       {One{"96", 96, 72, 3, 3, 1, 1, ""}, One{"24", 24, 40, 3, 2, 1, 0, ""}, One{"40 by 2", 40, 64, 3, 3, 2, 1, ""},
        One{"8, one tap along a row", 8, 64, 3, 1, 1, 1, ""}, One{"200", 200, 136, 2, 2, 1, 0, ""},
        One{"72 in parts", 72, 64, 2, 3, 1, 1, parts},
        One{"328 by a cooperative tile", 328, 130, 1, 3, 1, 1, "cooperative 128x192x3 sub 64x2 aux 0 raster 2"},
        One{"41, which are copied", 41, 40, 3, 3, 1, 1, "", false},
        One{"44, which are copied", 44, 64, 2, 2, 1, 0, "", false}, One{"44 in patches", 44, 64, 2, 2, 2, 0, ""},
        One{"96 that lie first", 96, 64, 3, 3, 1, 1, "", true, false}, One{"1x1 of 24", 24, 24, 1, 1, 1, 0, ""},
        One{"1x1 of 96", 96, 40, 1, 1, 1, 0, ""}, One{"1x1 of 472 in parts", 472, 72, 1, 1, 1, 0, parts},
        One{"1x1 by 2", 72, 64, 1, 1, 2, 0, ""}, One{"1x1 padded", 40, 64, 1, 1, 1, 1, ""},
        One{"1x1 of 44", 44, 64, 1, 1, 1, 0, ""},
        One{"1x1 of one image, channels first", 40, 64, 1, 1, 1, 0, "", true, false, 1, 8, 8},
        One{"1x1 of one pixel", 96, 64, 1, 1, 1, 0, "", true, true, 70, 1, 1}}) {
    gpu_tests::Convolution c;
    c.name = std::string("weights of ") + one.name;
    c.direction = gpu_tests::Direction::wgrad;
    c.conv.x = c.conv.w = all.size() % 2 ? DType::bf16 : DType::f16;
    c.conv.stride = {one.stride, one.stride},
    c.conv.padding = {{{one.padding, one.padding}, {one.padding, one.padding}}};
    c.images = one.images, c.height = one.height, c.width = one.width, c.channels = one.channels;
    c.filters = one.filters, c.r = one.r, c.s = one.s, c.channels_last = one.channels_last, c.seed = 90 + all.size();
    const bool asked = *one.schedule;
    for (const Graph* graph : {&plain, &step, &axpby, &narrow, &bias}) {
      if (asked && graph != &plain) continue;
      all.push_back(convolving(c, *graph, one.schedule));
      // Where there are windows, an epilogue asks for no column, and a tap has whole 16 bytes.
      const bool plain_product = one.r * one.s * one.stride == 1 && one.padding == 0;
      fused.push_back(one.fused && (plain_product || (graph != &bias && (graph != &narrow || one.channels % 16 == 0))));
    }
  }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (std::size_t i = 0; i < all.size(); ++i) {
    Convolving& r = all[i];
    const std::string schedule = r.call.describe();
    SCOPED_TRACE(r.c.name + ": " + schedule);
    if (every() == 1) { EXPECT_EQ(schedule.find("from memory") == schedule.npos, fused[i]); }
    expect_agreement(harness, r, {0, r.c.seed});
  }
}

// Of other types a weight gradient of one tap is no plain product: ordinary units sum its pixels in parts.
TEST(Emission, SumsPixelsOfOneTapInParts) {
  Harness harness("emission_one_tap");
  std::vector<Convolving> all;
  for (const DType type : {DType::f32, DType::e4m3, DType::s8}) {
    gpu_tests::Convolution c;
    c.name = "weights of 1x1 in " + std::string(name(type)), c.direction = gpu_tests::Direction::wgrad;
    c.conv.x = c.conv.w = type;
    c.images = 3, c.height = 20, c.width = 19, c.channels = 40, c.filters = 24, c.seed = 120 + all.size();
    all.push_back(convolving(c, epilogue("plain"), ""));
  }
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Convolving& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    EXPECT_NE(r.call.describe().find("in 2 parts"), std::string::npos);
    expect_agreement(harness, r, {r.c.seed});
  }
}

// Residues of few channels as columns of one product, and apart.
TEST(Emission, PutsResiduesBesideOneAnother) {
  Harness harness("emission_residues_beside");
  struct Running : Convolving {
    bool beside;
  };
  std::vector<Running> all;
  const Graph bias = epilogue("bias_relu");
  for (const gpu_tests::Convolution& c : gpu_tests::residues_of_few_channels()) {
    for (const char* schedule : {"", "pingpong 64x64x6 sub 32x2 aux 0 raster 2"}) {
      all.push_back({convolving(c, bias, schedule), !*schedule});
    }
  }
  thin_out(all);
  for (Running& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Running& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    EXPECT_EQ(r.call.describe().find("residues are columns of one product") != std::string::npos, r.beside);
    expect_agreement(harness, r, {0, r.c.seed});
  }
}

// Data gradients by filters as wide as their stride: the pixels of a patch's row are one pixel of more channels, behind
// epilogues of single elements.
TEST(Emission, TakesRowsOfPatchesForPixels) {
  Harness harness("emission_patches");
  struct Running : Convolving {
    bool patches;
  };
  const Graph graphs[] = {
      epilogue("plain"),
      parse("def f(acc, saved: tile, s: scalar):\n    D = relu(acc * s + saved)\n    E: f32 = acc\n    return D, E\n"),
      epilogue("bias_relu"), parse("def f(acc):\n    D = acc + n_index()\n    return D\n"),
      parse("def f(acc):\n    D = acc + q_index()\n    return D\n")};
  std::vector<Running> all;
  for (const auto& [c, patches] : gpu_tests::gradients_by_patches())
    for (std::size_t i = 0, most = all.empty() ? std::size(graphs) : 2; i < most; ++i)
      all.push_back({convolving(c, graphs[i], ""), patches && i < 2});
  thin_out(all);
  for (Running& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  for (Running& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    EXPECT_EQ(r.call.describe().find("rows of patches are pixels") != std::string::npos, r.patches);
    EXPECT_EQ(r.call.describe().find("mma ") != std::string::npos, r.c.height == 19);
    expect_agreement(harness, r, {0, r.c.seed});
  }
}

// Where an epilogue asks for pixels and for nothing else of an image, tiles cross images, and rows are counted again.
TEST(Emission, CountsPixelsInTilesThatCrossImages) {
  Harness harness("emission_pixels");
  std::vector<Convolving> all;
  const Graph graphs[] = {
      parse("def f(acc, bias: row):\n    return where((p_index() > 1) & (q_index() < 3), relu(acc + bias), 0)\n"),
      parse("def f(acc):\n    s: f32 = sum(acc * m_index(), axis=1)\n    D = acc + q_index()\n    return D, s\n")};
  for (gpu_tests::Convolution c : gpu_tests::convolutions(DType::bf16)) {
    if (c.images < 2 || c.conv.groups > 1 || !c.channels_last) continue;
    c.whole = true;
    for (const Graph& graph : graphs)
      for (const gpu_tests::Direction direction : {gpu_tests::Direction::forward, gpu_tests::Direction::dgrad}) {
        c.direction = direction;
        const bool strided = c.conv.stride[0] > 1 || c.conv.stride[1] > 1;
        if (direction == gpu_tests::Direction::dgrad && strided) continue;  // its residues' rows lie apart
        all.push_back(convolving(c, graph, ""));
      }
  }
  thin_out(all);
  for (Convolving& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  std::size_t crossed = 0;
  for (Convolving& r : all) {
    SCOPED_TRACE(r.c.name + ": " + r.call.describe());
    crossed += r.call.describe().find("tiles cross images") != std::string::npos;
    expect_agreement(harness, r, {r.c.seed});
  }
  std::printf("%zu convolutions, tiles of %zu cross images\n", all.size(), crossed);
  if (every() > 1) return;
  EXPECT_GE(crossed, 20U);
}

constexpr int walked_draws = 10;  // of each direction
bool by_hopper(std::string_view schedule) {
  constexpr std::string_view alone = "accumulator by ";
  if (schedule.starts_with(alone)) schedule.remove_prefix(alone.size());
  return schedule.starts_with("pingpong") || schedule.starts_with("cooperative");
}

// Random geometry in all directions, behind random epilogues.
TEST(Emission, ConvolvesWhateverIsDrawn) {
  Harness harness("emission_drawn_convolution");
  struct Running {
    fuzz::Case c;
    fuzz::Tensors tensors;
    Call call;
  };
  std::vector<Running> all;
  const std::uint64_t first = from_environment("POSTLUDE_EMISSION_FIRST", 1),
                      count = from_environment("POSTLUDE_EMISSION_DRAWN", 60);
  const auto add = [&](const fuzz::Case& c, std::uint64_t seed, std::uint64_t schedule) {
    Running r{c, fuzz::materialise(c), {}};
    std::vector<Binding> named = r.tensors.named();
    for (Binding& one : named) one.tensor.device = Device::cuda;
    bool drawn = false;
    const Graph graph(std::make_shared<const GraphData>(c.graph));
    try {
      r.call = schedule == 1 ? gpu_tests::bind_case(c, named, seed, drawn)
                             : compile(c.problem, graph, on(schedule ? "" : "mma")).bind(named);
    } catch (const Error& error) {  // nothing reads the accumulator
      if (error.code() != ErrorCode::bad_schedule) throw;
      r.call = compile(c.problem, graph, on("")).bind(named);
    }
    all.push_back(std::move(r));
  };
  const auto draw = [&](std::uint64_t seed, bool tensor_cores, std::uint64_t schedule) {
    fuzz::Case c = fuzz::generate(seed, {.most_nodes = 20, .most_elements = 3000, .convolutions = 100});
    if (tensor_cores) c = gpu_tests::on_tensor_cores(c);
    if (fuzz::divisible(c)) add(c, seed, schedule);
  };
  // Of the residues some see two planes of dY, others one: all by maps of images with a depth.
  fuzz::Convolution planes{
      .direction = fuzz::Convolution::Direction::dgrad, .first = DType::bf16, .second = DType::bf16};
  planes.images = 2, planes.channels = 24, planes.filters = 64;
  planes.axes = {{.image = 3, .taps = 3, .stride = 2}, {.image = 5, .taps = 2}, {.image = 4, .taps = 1}};
  fuzz::Case of_planes = suite_case("bias_relu", planes.problem(), planes.shape(), fuzz::Values::normal);
  fuzz::set_convolution(of_planes, planes);
  add(of_planes, 1, 2);
  EXPECT_TRUE(by_hopper(all.back().call.describe())) << all.back().call.describe();
  for (std::uint64_t seed = first; seed < first + count; ++seed) draw(seed, seed % 6 != 0, seed % 4);
  // Few of these are walked by the copy engine. So many more are, in all directions.
  int walked[3] = {};
  for (std::uint64_t seed = first + count; seed < first + 100 * count; ++seed) {
    const std::size_t before = all.size();
    draw(seed, true, 1 + seed % 2);
    if (all.size() == before) continue;
    int& of_direction = walked[static_cast<std::size_t>(all.back().c.conv->direction)];
    if (by_hopper(all.back().call.describe()) && of_direction < walked_draws) ++of_direction;
    else all.pop_back();
    if (std::all_of(walked, walked + 3, [](int n) { return n == walked_draws; })) break;
  }
  for (Running& r : all) r.call.run();
  ASSERT_TRUE(harness.compile());
  int by_wgmma = 0;
  for (Running& r : all) {
    const std::string schedule = r.call.describe();
    SCOPED_TRACE(schedule + "\n" + fuzz::write(r.c));
    by_wgmma += by_hopper(schedule);
    const reference::Evaluation expected = reference::evaluate(r.c.graph, r.c.problem, r.tensors.bindings,
                                                               {.accumulator = gpu_tests::error_model(r.c, schedule)});
    for (const std::uint64_t order : {std::uint64_t{0}, r.c.seed + 1}) {
      harness.order(order);
      r.tensors.poison_outputs();
      r.call.run();
      EXPECT_EQ(fuzz::compare(expected, r.c, r.tensors, "the host"), "");
      EXPECT_EQ(r.tensors.damage(), "");
    }
  }
  std::printf("%zu convolutions: %d by wgmma; %zu sources\n", all.size(), by_wgmma, harness.sources());
  EXPECT_GE(by_wgmma, count < 60 ? 1 : 3 * walked_draws);
}

}  // namespace
}  // namespace postlude
