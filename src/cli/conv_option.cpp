#include "cli/conv_option.h"

#include "loop/main_loop.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace postlude::inline v0::cli {
namespace {

using Sizes64 = std::vector<std::int64_t>;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(
      ErrorCode::usage, quoted(text) + " is no convolution",
      "Write NxHxWxC:KxRxS, and after another colon what is not usual of s (stride), p (padding), d (dilation) and g "
      "(groups), each once: 32x56x56x64:128x3x3:s2,p1. One size less, or one more, is one axis less, or more.");
}

// "56x56" to numbers.
Sizes64 numbers(const std::string& whole, std::string_view text) {
  Sizes64 all;
  const char *at = text.data(), *const end = at + text.size();
  for (;; ++at) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc::result_out_of_range || value > std::numeric_limits<std::int32_t>::max())
      throw Error(ErrorCode::size_overflow, "a size of --conv is larger than 2147483647", "Split the problem.");
    if (error != std::errc() || value < 0) refuse(whole);
    all.push_back(value);
    at = next;
    if (at == end) return all;
    if (*at != 'x' && *at != 'X') refuse(whole);
  }
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(by);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

struct Parsed {
  Sizes64 x, w;  // N, C, spatial; K, C / groups, spatial: as a plan wants them
  Sizes64 stride, padding, dilation;
  std::int64_t groups = 1;
};

Parsed parse(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) refuse(text);
  Sizes64 image = numbers(text, parts[0]), filter = numbers(text, parts[1]);
  if (image.size() < 3 || image.size() > 5 || filter.size() != image.size() - 1) refuse(text);
  const std::size_t rank = image.size() - 2;
  Parsed p{.x = {image.front(), image.back()},
           .w = {filter.front(), 0},
           .stride = Sizes64(rank, 1),
           .padding = Sizes64(rank, 0),
           .dilation = Sizes64(rank, 1)};
  p.x.insert(p.x.end(), image.begin() + 1, image.end() - 1);
  p.w.insert(p.w.end(), filter.begin() + 1, filter.end());
  std::string given;  // letters
  for (const std::string_view option : parts.size() == 3 ? split(parts[2], ',') : std::vector<std::string_view>{}) {
    if (option.size() < 2 || given.find(option[0]) != std::string::npos) refuse(text);
    given += option[0];
    const Sizes64 values = numbers(text, option.substr(1));
    if (option[0] == 'g' && values.size() == 1) {
      p.groups = values[0];
      continue;
    }
    Sizes64* const to = option[0] == 's'   ? &p.stride
                        : option[0] == 'p' ? &p.padding
                        : option[0] == 'd' ? &p.dilation
                                           : nullptr;
    if (!to || (values.size() != 1 && values.size() != rank)) refuse(text);
    for (std::size_t i = 0; i < rank; ++i) (*to)[i] = values[values.size() == 1 ? 0 : i];
  }
  p.w[1] = p.groups > 0 ? image.back() / p.groups : 0;
  return p;
}

template <class Description>
void fill(Description& d, const Parsed& p) {
  for (std::size_t i = 0; i < d.stride.size(); ++i) {
    const auto small = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    d.stride[i] = small(p.stride[i]);
    d.padding[i] = {small(p.padding[i]), small(p.padding[i])};
    d.dilation[i] = small(p.dilation[i]);
    if constexpr (requires { d.filter; }) d.filter[i] = small(p.w[i + 2]);
    if constexpr (requires { d.output_padding; }) {
      const std::int64_t free = p.x[i + 2] + 2 * p.padding[i] - p.dilation[i] * (p.w[i + 2] - 1) - 1;
      d.output_padding[i] = small(free % std::max<std::int64_t>(p.stride[i], 1));
    }
  }
  d.groups = static_cast<std::int32_t>(p.groups);
}

// A problem over inputs of these shapes, settled.
ConvOption settled(const Problem& problem, std::vector<Sizes64> shapes) {
  std::vector<Given> given;
  const std::vector<Input> inputs = problem.loop().inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given.push_back(postlude::given(inputs[i], Tensor(nullptr, inputs[i].dtype, shapes[i])));
  const Domain domain = problem.loop().settle(given);
  return {.problem = problem,
          .sizes = {.m = domain.m.value, .n = domain.n.value, .k = domain.k.value, .inputs = std::move(shapes)},
          .images = domain.batch.input >= 0 ? domain.batch.value : 0};
}

template <std::size_t Rank>
ConvOption of_rank(const Parsed& p, const std::string& gradient, DType dtype) {
  Conv<Rank> forward{.x = dtype, .w = dtype};
  fill(forward, p);
  ConvOption made = settled(forward, {p.x, p.w});
  if (gradient.empty()) return made;
  Sizes64 dy{p.x[0], p.w[0]};
  for (std::size_t i = 0; i < Rank; ++i)
    dy.push_back((p.x[i + 2] + 2 * p.padding[i] - p.dilation[i] * (p.w[i + 2] - 1) - 1) / p.stride[i] + 1);
  if (gradient == "data") {
    ConvDgrad<Rank> d{.dy = dtype, .w = dtype};
    fill(d, p);
    return settled(d, {dy, p.w});
  }
  ConvWgrad<Rank> d{.x = dtype, .dy = dtype};
  fill(d, p);
  return settled(d, {p.x, dy});
}

}  // namespace

ConvOption parse_conv(const std::string& text, const std::string& gradient, DType dtype) {
  const Parsed p = parse(text);
  switch (p.stride.size()) {
    case 1: return of_rank<1>(p, gradient, dtype);
    case 2: return of_rank<2>(p, gradient, dtype);
    default: return of_rank<3>(p, gradient, dtype);
  }
}

}  // namespace postlude::inline v0::cli
