#include "gpu/convolution.h"

#include "core/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace postlude::gpu_tests {
namespace {

std::vector<std::uint64_t> drawn(DType dtype, std::int64_t elements, double scale, bool whole,
                                 std::mt19937_64& random) {
  std::vector<std::uint64_t> memory(static_cast<std::size_t>(elements * size_of(dtype) / 8 + 3));
  std::normal_distribution<double> normal(0, scale);
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto small = static_cast<std::int64_t>(random() % 5) - 2;
    if (is_float(dtype)) core::store_real(dtype, memory.data(), i, whole ? static_cast<double>(small) : normal(random));
    else core::store_integer(dtype, memory.data(), i, dtype == DType::s8 ? small : std::abs(small));
  }
  return memory;
}

}  // namespace

std::array<std::int64_t, 2> Convolution::pixels() const {
  const auto along = [&](std::int64_t image, std::int64_t filter, std::size_t axis) {
    const std::int64_t steps =
        image + conv.padding[axis][0] + conv.padding[axis][1] - conv.dilation[axis] * (filter - 1) - 1;
    return steps < 0 ? 0 : steps / conv.stride[axis] + 1;
  };
  return {along(height, r, 0), along(width, s, 1)};
}

std::vector<Binding> ConvolutionTensors::bindings(Device device) const {
  std::vector<Binding> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    all.push_back({names[i], tensors[i]});
    all.back().tensor.device = device;
  }
  return all;
}

void ConvolutionTensors::poison() {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (outputs[i]) std::memset(memory[i].data(), 0xa5, memory[i].size() * 8);
  }
}

namespace {

// The same in `Rank` dimensions; a third is padded by one.
template <template <std::size_t> class Main, std::size_t Rank>
Main<Rank> with_axes(const Convolution& c) {
  Main<Rank> main;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t at = Rank - 2 + i;
    main.stride[at] = c.conv.stride[i], main.padding[at] = c.conv.padding[i], main.dilation[at] = c.conv.dilation[i];
  }
  if constexpr (Rank == 3) main.padding[0] = {1, 1};
  main.groups = c.conv.groups;
  return main;
}

template <std::size_t Rank>
Problem problem_of(const Convolution& c) {
  if (c.direction == Direction::forward) {
    Conv<Rank> main = with_axes<Conv, Rank>(c);
    main.x = c.conv.x, main.w = c.conv.w;
    return main;
  }
  if (c.direction == Direction::wgrad) {
    ConvWgrad<Rank> main = with_axes<ConvWgrad, Rank>(c);
    main.x = c.conv.x, main.dy = c.conv.w;
    main.filter[Rank - 2] = static_cast<std::int32_t>(c.r), main.filter[Rank - 1] = static_cast<std::int32_t>(c.s);
    if constexpr (Rank == 3) main.filter[0] = static_cast<std::int32_t>(c.t);
    return main;
  }
  ConvDgrad<Rank> main = with_axes<ConvDgrad, Rank>(c);
  main.dy = c.conv.x, main.w = c.conv.w;
  // What the strides leave of the image.
  const auto left = [&](std::int64_t image, std::int64_t filter, std::size_t axis) {
    const std::int64_t free =
        image + c.conv.padding[axis][0] + c.conv.padding[axis][1] - c.conv.dilation[axis] * (filter - 1) - 1;
    return static_cast<std::int32_t>(free % c.conv.stride[axis]);
  };
  main.output_padding[Rank - 2] = left(c.height, c.r, 0), main.output_padding[Rank - 1] = left(c.width, c.s, 1);
  return main;
}

}  // namespace

Problem Convolution::problem() const { return depth ? problem_of<3>(*this) : problem_of<2>(*this); }

Shape Convolution::shape() const {
  const auto [rows, columns] = pixels();
  const std::int64_t taps = r * s * std::max<std::int64_t>(t, 1), planes = depth ? depth + 3 - t : 1;
  switch (direction) {
    case Direction::forward: return {images, planes * rows * columns, filters, channels / conv.groups * taps};
    case Direction::dgrad:
      return {images, std::max<std::int64_t>(depth, 1) * height * width, channels, filters / conv.groups * taps};
    default: return {1, filters, channels / conv.groups * taps, images * planes * rows * columns};
  }
}

ConvolutionTensors draw(const Convolution& c, const Graph& graph) {
  const Plan plan = compile(c.problem(), graph, Target::cpu(1));  // for the slots' shapes
  std::mt19937_64 random(c.seed);
  ConvolutionTensors all;
  const auto add = [&](const std::string& name, DType dtype, const std::vector<std::int64_t>& shape, double scale,
                       bool last, bool output) {
    std::vector<std::int64_t> strides(shape.size());
    std::vector<std::size_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = i;
    if (last) std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    std::int64_t elements = 1;
    for (std::size_t i = axes.size(); i-- > 0;) strides[axes[i]] = elements, elements *= shape[axes[i]];
    all.memory.push_back(drawn(dtype, elements, scale, c.whole, random));
    all.names.push_back(name);
    void* data = all.memory.back().data();
    data = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data) + 15) & ~std::uintptr_t{15});
    all.tensors.emplace_back(data, dtype, shape, strides);
    all.outputs.push_back(output);
  };
  const auto [rows, columns] = c.pixels();
  const Shape shape = c.shape();
  const double scale = 1 / std::sqrt(static_cast<double>(shape.k));
  std::vector<std::int64_t> x{c.images, c.channels, c.height, c.width}, dy{c.images, c.filters, rows, columns},
      w{c.filters, c.channels / c.conv.groups, c.r, c.s};
  if (c.depth) {
    x.insert(x.begin() + 2, c.depth), w.insert(w.begin() + 2, c.t);
    dy.insert(dy.begin() + 2, c.depth + 3 - c.t);
  }
  if (c.direction == Direction::dgrad) add("dY", c.conv.x, dy, 1, c.channels_last, false);
  else add("X", c.conv.x, x, 1, c.channels_last, false);
  if (c.direction == Direction::wgrad) add("dY", c.conv.w, dy, scale, c.channels_last, false);
  else add("W", c.conv.w, w, scale, c.filters_last, false);
  const auto slots = plan.slots();
  for (std::size_t i = 2; i < slots.size(); ++i) {
    const Plan::Slot& slot = slots[i];
    std::vector<std::int64_t> extents = plan.shape_of(slot.name, shape.m, shape.n, shape.k);
    if (c.direction != Direction::wgrad && (slot.output ? slot.batched : slot.axes == tile_axes))
      extents.insert(extents.begin(), c.images);
    add(slot.name, slot.dtype, extents, 1, false, slot.output);
  }
  return all;
}

std::string wrong(const Convolution& c, const Plan& plan, const ConvolutionTensors& tensors) {
  std::string text;
  for (const Comparison& one : verify(plan, tensors.bindings(Device::cpu))) {
    if (one.error_over_bound <= 1) continue;
    text += c.name + ": " + one.output + " at " + std::to_string(one.worst[0]) + ", " + std::to_string(one.worst[1]) +
            ", " + std::to_string(one.worst[2]) + " is " + std::to_string(one.value) + " for " +
            std::to_string(one.expected) + "\n";
  }
  return text;
}

std::vector<Convolution> convolutions(DType type) {
  const auto conv = [&](std::array<std::int32_t, 2> stride, std::array<std::array<std::int32_t, 2>, 2> padding,
                        std::array<std::int32_t, 2> dilation = {1, 1}) {
    return Conv2d{.x = type, .w = type, .stride = stride, .padding = padding, .dilation = dilation, .groups = 1};
  };
  const auto grouped = [](Conv2d conv, std::int32_t groups) {
    conv.groups = groups;
    return conv;
  };
  return {
      {"3x3", conv({1, 1}, {{{1, 1}, {1, 1}}}), 3, 64, 9, 11, 64, 3, 3},
      {"3x3 with a tail of channels", conv({1, 1}, {{{1, 1}, {1, 1}}}), 2, 96, 6, 7, 40, 3, 3},
      {"3x3 strided", conv({2, 2}, {{{1, 1}, {1, 1}}}), 3, 64, 13, 12, 72, 3, 3},
      {"unequal", conv({1, 2}, {{{2, 0}, {0, 3}}}, {2, 1}), 2, 64, 10, 9, 64, 3, 2},
      {"7x7 of 8 channels", conv({2, 2}, {{{3, 3}, {3, 3}}}), 2, 8, 17, 15, 64, 7, 7},
      {"3 channels", conv({2, 2}, {{{3, 3}, {3, 3}}}), 2, 3, 15, 13, 40, 7, 7},
      {"16 channels", conv({1, 1}, {{{1, 1}, {1, 1}}}), 2, 16, 8, 9, 64, 3, 3},
      {"32 channels", conv({1, 1}, {{{1, 1}, {1, 1}}}), 2, 32, 8, 9, 64, 3, 3},
      {"1x1", conv({1, 1}, {{{0, 0}, {0, 0}}}), 3, 64, 7, 7, 128, 1, 1},
      {"1x1 padded behind", conv({1, 1}, {{{0, 1}, {0, 2}}}), 2, 64, 5, 6, 64, 1, 1},
      {"1x1 strided", conv({2, 2}, {{{0, 0}, {0, 0}}}), 3, 64, 9, 9, 128, 1, 1},
      {"one pixel", conv({1, 1}, {{{0, 0}, {0, 0}}}), 5, 64, 3, 3, 64, 3, 3},
      {"padding beyond the filter", conv({3, 3}, {{{4, 4}, {5, 4}}}), 2, 64, 3, 4, 64, 2, 2},
      {"a gradient of no tap", conv({2, 2}, {{{1, 1}, {3, 4}}}, {1, 2}), 2, 64, 5, 1, 64, 3, 1},
      {"many images", conv({1, 1}, {{{1, 1}, {1, 1}}}), 40, 64, 4, 5, 64, 3, 3},
      {"channels first", conv({1, 1}, {{{1, 1}, {1, 1}}}), 2, 16, 7, 6, 64, 3, 3, false},
      {"in groups", grouped(conv({2, 1}, {{{1, 1}, {0, 1}}}), 4), 2, 32, 7, 6, 48, 3, 3},
      {"in groups of 64", grouped(conv({1, 1}, {{{1, 1}, {1, 1}}}), 2), 2, 128, 6, 7, 128, 3, 3},
      {"in groups of 16", grouped(conv({1, 1}, {{{1, 1}, {1, 1}}}), 4), 2, 64, 6, 7, 64, 3, 3},
      {"in groups of four", grouped(conv({2, 2}, {{{1, 1}, {1, 1}}}), 16), 3, 64, 9, 8, 64, 3, 3},
      {"3x3 of 3 channels", conv({2, 2}, {{{1, 1}, {1, 1}}}), 2, 3, 9, 9, 64, 3, 3},
      {.name = "in three dimensions",
       .conv = conv({2, 1}, {{{1, 1}, {1, 0}}}),
       .images = 2,
       .channels = 64,
       .height = 7,
       .width = 6,
       .filters = 64,
       .r = 3,
       .s = 2,
       .depth = 4,
       .t = 3},
      {"depthwise", grouped(conv({1, 1}, {{{3, 3}, {3, 3}}}), 40), 2, 40, 9, 8, 40, 7, 7},
  };
}

std::vector<Convolution> with_gradients(const Convolution& c) {
  std::vector<Convolution> all{c, c, c};
  all[1].direction = Direction::dgrad, all[1].name += ", data gradient";
  all[2].direction = Direction::wgrad, all[2].name += ", weight gradient";
  return all;
}

std::vector<Convolution> in_groups() {
  struct One {
    const char* name;
    std::int32_t groups, channels, filters, stride;  // of a group
    std::int64_t height, width, r, s;
  };
  std::vector<Convolution> all;
  for (const One& one :
       {One{"32 of a group", 4, 32, 32, 1, 7, 7, 3, 3}, One{"32, three groups", 3, 32, 32, 1, 6, 5, 3, 2},
        One{"16", 8, 16, 16, 1, 5, 6, 3, 3}, One{"8", 16, 8, 8, 1, 6, 6, 3, 3},
        One{"64 channels to 32", 4, 64, 32, 1, 5, 7, 2, 3}, One{"32 channels to 64", 3, 32, 64, 1, 6, 6, 3, 3},
        One{"64 channels to 8", 8, 64, 8, 1, 5, 5, 3, 1}, One{"8 channels to 64", 8, 8, 64, 1, 5, 5, 2, 3},
        One{"128", 2, 128, 128, 1, 5, 6, 3, 3}, One{"96 channels to 64", 2, 96, 64, 1, 5, 6, 3, 3},
        One{"32 by 2", 4, 32, 32, 2, 9, 8, 3, 3}, One{"128 by 2", 2, 128, 64, 2, 8, 7, 3, 3},
        One{"1x1", 4, 32, 32, 1, 9, 9, 1, 1}, One{"4, which is copied", 16, 4, 4, 1, 6, 6, 3, 3}}) {
    Convolution c;
    c.name = std::string("groups, ") + one.name;
    c.conv.x = c.conv.w = all.size() % 4 ? DType::bf16 : DType::f16;
    c.conv.groups = one.groups, c.conv.stride = {one.stride, one.stride};
    const auto before = [](std::int64_t taps) { return static_cast<std::int32_t>(taps / 2); };
    c.conv.padding = {{{before(one.r), before(one.r)}, {before(one.s), before(one.s)}}};
    c.images = 3, c.channels = one.channels * one.groups, c.filters = one.filters * one.groups;
    c.height = one.height, c.width = one.width, c.r = one.r, c.s = one.s, c.filters_last = true,
    c.seed = 60 + all.size();
    all.push_back(std::move(c));
  }
  all.push_back(all[0]);
  all.back().name = "groups in three dimensions", all.back().depth = 3, all.back().t = 3;
  return all;
}

std::vector<Convolution> residues_of_few_channels() {
  struct One {
    const char* name;
    std::int64_t channels, filters, height, width, r, s;
    std::int32_t stride, padding, dilation;
  };
  std::vector<Convolution> all;
  for (const One& one :
       {One{"7x7 by 2", 8, 64, 20, 17, 7, 7, 2, 3, 1},
        One{"5x5 by 2, taps that begin apart", 3, 72, 15, 16, 5, 5, 2, 2, 1},
        One{"3x4 by 3", 5, 16, 14, 19, 3, 4, 3, 2, 1},
        One{"1x1 by 2, pixels without a tap", 16, 40, 9, 12, 1, 1, 2, 0, 1},
        One{"3x3 by 2", 12, 136, 11, 11, 3, 3, 2, 1, 1}, One{"7x7 by 2, odd", 8, 64, 17, 15, 7, 7, 2, 3, 1}}) {
    Convolution c;
    c.name = std::string("data gradient, few channels, ") + one.name;
    c.direction = Direction::dgrad;
    c.conv.x = c.conv.w = all.size() % 2 ? DType::f16 : DType::bf16;
    c.images = 2 + static_cast<std::int64_t>(all.size() % 2), c.channels = one.channels, c.filters = one.filters;
    c.height = one.height, c.width = one.width, c.r = one.r, c.s = one.s, c.seed = 30 + all.size();
    c.conv.stride = {one.stride, one.stride}, c.conv.dilation = {one.dilation, one.dilation};
    c.conv.padding = {{{one.padding, one.padding}, {one.padding, one.padding}}};
    all.push_back(std::move(c));
  }
  return all;
}

Along padded(std::int64_t image, std::int64_t taps) {
  const auto pad = static_cast<std::int32_t>(taps / 2);
  return {image, taps, 1, pad, pad};
}

Convolution depthwise(const std::string& name, std::int64_t images, std::int32_t channels, const Along& y,
                      const Along& x, DType type) {
  Convolution c;
  c.name = name, c.images = images, c.channels = c.filters = channels;
  c.conv = {.x = type,
            .w = type,
            .stride = {y.stride, x.stride},
            .padding = {{{y.before, y.after}, {x.before, x.after}}},
            .dilation = {y.dilation, x.dilation},
            .groups = channels};
  c.height = y.image, c.width = x.image, c.r = y.taps, c.s = x.taps;
  return c;
}

std::vector<Convolution> depthwise_convolutions() {
  return {
      depthwise("7x7 over 56", 1, 96, padded(56, 7), padded(56, 7)),
      depthwise("7x7 over 7", 3, 96, padded(7, 7), padded(7, 7)),
      depthwise("3x3 over 14", 2, 40, padded(14, 3), padded(14, 3)),
      depthwise("rows of more than a tile", 1, 8, padded(3, 3), padded(300, 3)),
      depthwise("a prime row", 1, 8, {2, 2}, {262, 3}),
      depthwise("one row", 2, 24, {1, 1}, {77, 5, 1, 2, 2}),
      depthwise("one column", 2, 24, {77, 5, 1, 2, 2}, {1, 1}),
      depthwise("one pixel", 5, 16, {3, 3}, {3, 3}),
      depthwise("many images", 70, 8, padded(3, 3), padded(4, 3)),
      depthwise("dilated", 2, 32, {15, 3, 1, 2, 2, 2}, {17, 3, 1, 3, 3, 3}),
      depthwise("stride beyond the filter", 2, 32, {15, 2, 3}, {17, 1, 4, 2, 0}),
      depthwise("padding beyond the filter", 2, 32, {4, 2, 1, 5, 4}, {3, 3, 2, 4, 7}),
      depthwise("unequal", 2, 72, {12, 4, 2, 0, 3, 2}, {13, 2, 1, 2, 0}),
      depthwise("16-bit floats", 2, 64, padded(13, 3), padded(12, 3), DType::f16),
      depthwise("f32 of four channels", 2, 4, padded(13, 3), padded(12, 7), DType::f32),
  };
}

std::vector<std::pair<Convolution, bool>> gradients_by_patches() {
  struct One {
    std::int64_t channels, filters, height, width, r, s;
    std::array<std::int32_t, 2> stride;
    std::int32_t padding;
    bool patches;
  };
  std::vector<std::pair<Convolution, bool>> all;
  for (const One& one : {One{64, 64, 8, 8, 2, 2, {2, 2}, 0, true}, One{24, 40, 12, 9, 3, 3, {3, 3}, 0, true},
                         One{8, 71, 9, 12, 2, 2, {2, 2}, 0, true}, One{3, 16, 16, 16, 8, 8, {8, 8}, 0, true},
                         One{3, 40, 32, 48, 16, 16, {16, 16}, 0, true}, One{8, 64, 18, 18, 9, 9, {9, 9}, 0, true},
                         One{8, 64, 19, 18, 9, 9, {9, 9}, 0, true}, One{48, 100, 4, 8, 4, 4, {4, 4}, 0, true},
                         One{5, 24, 11, 16, 3, 8, {2, 8}, 0, true}, One{16, 32, 6, 12, 1, 2, {1, 2}, 0, true},
                         One{16, 32, 10, 10, 2, 2, {2, 2}, 2, true}, One{16, 32, 10, 10, 2, 2, {2, 2}, 1, false},
                         One{64, 64, 8, 9, 2, 2, {2, 2}, 0, false}, One{16, 32, 8, 8, 3, 3, {2, 2}, 0, false},
                         One{3, 16, 6, 6, 2, 2, {2, 2}, 0, true}, One{125, 64, 7, 7, 4, 4, {4, 4}, 0, false},
                         One{17, 17, 9, 16, 4, 4, {4, 4}, 0, true}, One{33, 40, 6, 9, 3, 3, {3, 3}, 0, true}}) {
    Convolution c;
    c.name = "data gradient by patches, " + std::to_string(all.size());
    c.direction = Direction::dgrad;
    c.conv.x = c.conv.w = all.size() % 2 ? DType::f16 : DType::bf16;
    c.conv.stride = one.stride, c.conv.padding = {{{one.padding, one.padding}, {one.padding, one.padding}}};
    c.images = 1 + static_cast<std::int64_t>(all.size() % 3), c.channels = one.channels, c.filters = one.filters;
    c.height = one.height, c.width = one.width, c.r = one.r, c.s = one.s, c.filters_last = true;
    c.seed = 80 + all.size();
    all.emplace_back(std::move(c), one.patches);
  }
  return all;
}

Convolution random_convolution(std::uint64_t seed, DType type) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (;;) {
    Convolution c;
    c.name = "seed " + std::to_string(seed);
    c.conv.x = c.conv.w = type;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      c.conv.stride[axis] = pick(1, 3);
      c.conv.dilation[axis] = pick(1, 3);
      c.conv.padding[axis] = {pick(0, 4), pick(0, 4)};
    }
    constexpr std::int64_t channels[] = {8, 16, 24, 32, 64, 72, 128, 136, 5};
    c.images = pick(1, 6), c.channels = channels[pick(0, 8)], c.height = pick(1, 13), c.width = pick(1, 13);
    c.filters = 8 * pick(1, 20), c.r = pick(1, 4), c.s = pick(1, 4);
    c.channels_last = pick(0, 5) > 0;
    c.whole = pick(0, 1);
    c.seed = seed;
    const auto padded = [&](std::int64_t image, std::int64_t filter, std::size_t axis) {
      return image + c.conv.padding[axis][0] + c.conv.padding[axis][1] - c.conv.dilation[axis] * (filter - 1) - 1;
    };
    if (padded(c.height, c.r, 0) >= 0 && padded(c.width, c.s, 1) >= 0) return c;
  }
}

}  // namespace postlude::gpu_tests
