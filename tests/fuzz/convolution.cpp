#include "fuzz/convolution.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace postlude::fuzz {
namespace {

using Direction = Convolution::Direction;

std::int64_t over(const std::vector<Convolution::Along>& axes, std::int64_t (*extent)(const Convolution::Along&)) {
  std::int64_t all = 1;
  for (const Convolution::Along& along : axes) all *= extent(along);
  return all;
}

template <template <std::size_t> class Description, std::size_t Rank>
Description<Rank> described(const Convolution& c) {
  Description<Rank> d;
  d.groups = static_cast<std::int32_t>(c.groups);
  for (std::size_t i = 0; i < Rank; ++i) {
    const Convolution::Along& along = c.axes[i];
    d.stride[i] = along.stride;
    d.padding[i] = {along.before, along.after};
    d.dilation[i] = along.dilation;
    if constexpr (requires { d.output_padding; })
      d.output_padding[i] = along.stride < 1 ? 0 : static_cast<std::int32_t>(along.free() % along.stride);
    if constexpr (requires { d.filter; }) d.filter[i] = along.taps;
  }
  return d;
}

template <std::size_t Rank>
Problem problem_of(const Convolution& c) {
  switch (c.direction) {
    case Direction::forward: {
      auto d = described<Conv, Rank>(c);
      d.x = c.first, d.w = c.second;
      return d;
    }
    case Direction::dgrad: {
      auto d = described<ConvDgrad, Rank>(c);
      d.dy = c.first, d.w = c.second;
      return d;
    }
    default: {
      auto d = described<ConvWgrad, Rank>(c);
      d.x = c.first, d.dy = c.second;
      return d;
    }
  }
}

Convolution::Along draw_axis(Choices& pick, std::int32_t most) {
  constexpr std::int32_t taps[] = {1, 1, 2, 3, 3, 4, 5, 7}, strides[] = {1, 1, 1, 2, 2, 3, 4, 9},
                         dilations[] = {1, 1, 1, 2, 3}, paddings[] = {0, 0, 0, 1, 1, 2, 3, 5, 8};
  Convolution::Along along;
  along.taps = std::min(pick.pick(taps), most);
  along.stride = pick.pick(strides);
  along.dilation = pick.pick(dilations);
  along.before = pick.pick(paddings);
  along.after = pick.chance(60) ? along.before : pick.pick(paddings);
  along.image = 1 + static_cast<std::int32_t>(pick.below(pick.chance(20) ? 1 : most));
  if (along.free() < 0)
    along.image -= static_cast<std::int32_t>(along.free());  // a pixel at least; as often as not exactly one
  return along;
}

}  // namespace

bool Convolution::possible() const {
  return std::ranges::all_of(axes, [](const Along& along) { return along.image >= 1 && along.pixels() >= 1; });
}

Problem Convolution::problem() const {
  return axes.size() == 1 ? problem_of<1>(*this) : axes.size() == 2 ? problem_of<2>(*this) : problem_of<3>(*this);
}

Shape Convolution::shape() const {
  const std::int64_t taps = over(axes, [](const Along&a) -> std::int64_t { return a.taps; }),
                     pixels = over(axes, [](const Along&a) { return a.pixels(); });
  switch (direction) {
    case Direction::forward: return {images, pixels, groups * filters, taps * channels};
    case Direction::dgrad:
      return {images, over(axes, [](const Along& a) -> std::int64_t { return a.image; }), groups * channels,
              taps * filters};
    default: return {1, groups * filters, taps * channels, images * pixels};
  }
}

std::vector<std::vector<std::int64_t>> Convolution::inputs() const {
  std::vector<std::int64_t> x{images, groups * channels}, w{groups * filters, channels}, dy{images, groups * filters};
  for (const Along& along : axes) {
    x.push_back(along.image);
    w.push_back(along.taps);
    dy.push_back(along.pixels());
  }
  switch (direction) {
    case Direction::forward: return {x, w};
    case Direction::dgrad: return {dy, w};
    default: return {x, dy};
  }
}

void Convolution::widen() { ++(direction == Direction::forward ? filters : channels); }

void draw_geometry(Convolution& c, Choices& pick) {
  constexpr std::int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 8, 9, 16, 17, 24, 32, 33, 64, 65, 72};
  constexpr std::int64_t counts[] = {2, 3, 4, 5, 8, 16};
  constexpr std::int32_t most[] = {40, 11, 5};  // of an image's axis, by the rank
  const std::int64_t rank = pick.chance(60) ? 2 : 1 + pick.below(3);
  c.axes.clear();
  for (std::int64_t i = 0; i < rank; ++i) c.axes.push_back(draw_axis(pick, most[rank - 1]));
  c.images = pick.chance(3) ? 0 : 1 + pick.below(4);
  c.channels = pick.pick(widths);
  c.filters = pick.pick(widths);
  c.groups = 1;
  if (pick.chance(25)) {  // in groups; every second of them depthwise
    c.groups = pick.chance(50) ? pick.pick(counts) : pick.pick(widths);
    c.channels = pick.chance(60) ? 1 : 1 + pick.below(9);
    c.filters = pick.chance(60) ? 1 : 1 + pick.below(9);
  }
  if (pick.chance(2)) c.channels = 0;
  if (pick.chance(2)) c.filters = 0;
}

std::string write(const Convolution& c) {
  constexpr std::array<const char*, 3> directions{"forward", "dgrad", "wgrad"};
  std::ostringstream out;
  out << directions[static_cast<std::size_t>(c.direction)] << ',' << c.images << ',' << c.groups << ',' << c.channels
      << ',' << c.filters;
  for (const Convolution::Along& a : c.axes)
    out << ',' << a.image << ',' << a.taps << ',' << a.stride << ',' << a.before << ',' << a.after << ',' << a.dilation;
  return out.str();
}

Convolution read_convolution(const std::string& word, DType first, DType second) {
  std::string spaced = word;
  std::ranges::replace(spaced, ',', ' ');
  std::istringstream in(spaced);
  Convolution c;
  std::string direction;
  in >> direction >> c.images >> c.groups >> c.channels >> c.filters;
  c.direction = direction == "forward" ? Direction::forward
                : direction == "dgrad" ? Direction::dgrad
                                       : Direction::wgrad;
  c.first = first, c.second = second;
  c.axes.clear();
  for (Convolution::Along a; in >> a.image >> a.taps >> a.stride >> a.before >> a.after >> a.dilation;)
    c.axes.push_back(a);
  if (c.axes.empty() || c.axes.size() > 3) throw std::runtime_error("no convolution: " + word);
  return c;
}

}  // namespace postlude::fuzz
