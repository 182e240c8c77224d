// A convolution and its gradients as products of addressed matrices (decision 0071, which has the table of b, m, n and
// k).
#include "loop/convolution.h"
#include "loop/descriptors.h"
#include "loop/main_loop.h"
#include "loop/names.h"

#include <postlude/error.h>

#include <functional>
#include <tuple>

namespace postlude::inline v0 {
namespace {

using convolution::AxisGiven;
using convolution::Description;
using convolution::Direction;
using convolution::Geometry;
using convolution::largest_image;
using convolution::product;

// The coordinates of a place that is numbered along three axes.
std::array<std::int64_t, 3> coordinates(std::int64_t number, const std::array<std::int64_t, 3>& extents) {
  return {number / extents[2] / extents[1], number / extents[2] % extents[1], number % extents[2]};
}

class ConvLoop final : public MainLoop {
 public:
  using Over = std::function<Problem(std::span<const DType>)>;  // the public description over other dtypes

  ConvLoop(const Description& description, Over over) : d_(description), over_(std::move(over)) {
    const auto check = [&](std::int64_t value, std::int64_t least, const char* what) {
      if (value >= least && value <= largest_image) return;
      throw Error(ErrorCode::usage,
                  "a convolution's " + std::string(what) + " is " + std::to_string(value) +
                      (value < least ? "" : ", which is larger than " + std::to_string(largest_image)),
                  value < least ? "The least is " + std::to_string(least) + "." : "");
    };
    for (const AxisGiven& axis : d_.axes) {
      check(axis.stride, 1, "stride");
      check(axis.dilation, 1, "dilation");
      check(axis.before, 0, "padding");
      check(axis.after, 0, "padding");
      check(axis.filter, 1, "filter size");
      check(axis.output_padding, 0, "output padding");
      if (axis.output_padding >= axis.stride) {
        throw Error(ErrorCode::usage,
                    "a convolution's output padding is " + std::to_string(axis.output_padding) +
                        ", but its stride is " + std::to_string(axis.stride),
                    "No convolution makes such an output of such an input: it has less than the stride.");
      }
    }
    check(d_.groups, 1, "number of groups");
  }

  [[nodiscard]] std::string_view name() const override {
    constexpr std::string_view names[3][3] = {
        {"conv1d", "conv2d", "conv3d"},
        {"conv1d data gradient", "conv2d data gradient", "conv3d data gradient"},
        {"conv1d weight gradient", "conv2d weight gradient", "conv3d weight gradient"}};
    return names[static_cast<int>(d_.direction)][d_.rank - 1];
  }
  [[nodiscard]] std::string describe() const override {
    std::string text = std::string(name()) + " " + std::string(postlude::name(d_.first)) + " x " +
                       std::string(postlude::name(d_.second));
    // One number where all axes have it.
    const auto add = [&](const char* what, const auto& value, const std::string& usual) {
      std::string all, first;
      bool alike = true;
      for (std::size_t i = d_.lacking(); i < 3; ++i) {
        const std::string one = value(d_.axes[i]);
        if (all.empty()) first = one;
        alike = alike && one == first;
        all += (all.empty() ? "" : " x ") + one;
      }
      if (!alike || first != usual) text += std::string(", ") + what + " " + (alike ? first : all);
    };
    using Axis = const AxisGiven&;
    if (d_.direction == Direction::wgrad)
      add(
          "filter", [](Axis a) { return std::to_string(a.filter); }, "");
    add(
        "stride", [](Axis a) { return std::to_string(a.stride); }, "1");
    add(
        "padding",
        [](Axis a) {
          if (a.before == a.after) return std::to_string(a.before);
          return "(" + std::to_string(a.before) + ", " + std::to_string(a.after) + ")";
        },
        "0");
    add(
        "dilation", [](Axis a) { return std::to_string(a.dilation); }, "1");
    add(
        "output padding", [](Axis a) { return std::to_string(a.output_padding); }, "0");
    return text + (d_.groups > 1 ? ", " + std::to_string(d_.groups) + " groups" : "");
  }
  [[nodiscard]] Problem over(std::span<const DType> dtypes, bool) const override { return over_(dtypes); }

  [[nodiscard]] bool batched() const override { return d_.direction != Direction::wgrad; }
  [[nodiscard]] Facts facts() const override {
    const std::vector<Input> all = inputs();
    return {.accumulator = product_accumulator(all[0], all[1]),
            .operand = default_operand(d_.first),
            .output = default_output(d_.first),
            .batched = batched(),
            .pixels = batched() ? d_.rank : 0,
            .source = {}};
  }
  [[nodiscard]] std::vector<Input> inputs() const override {
    const auto named = [&](std::string_view name, DType dtype, std::string_view a, std::string_view b,
                           const std::array<std::string_view, 3>& spatial) {
      Input input{.name = name, .dtype = dtype, .axes = {a, b}, .batchable = false};
      input.axes.insert(input.axes.end(), spatial.begin() + static_cast<std::ptrdiff_t>(d_.lacking()), spatial.end());
      return input;
    };
    const auto x = [&](DType dtype) { return named(name_x, dtype, "N", "C", {"D", "H", "W"}); };
    const auto dy = [&](DType dtype) { return named("dY", dtype, "N", "K", {"Z", "P", "Q"}); };
    const auto w = [&](DType dtype) {
      Input input = named("W", dtype, "K", d_.groups > 1 ? "C/groups" : "C", {"T", "R", "S"});
      input.packable = packs();
      return input;
    };
    switch (d_.direction) {
      case Direction::forward: return {x(d_.first), w(d_.second)};
      case Direction::dgrad: return {dy(d_.first), w(d_.second)};
      default: return {x(d_.first), dy(d_.second)};
    }
  }
  // One product: groups and residues have several, each with filters of its own.
  [[nodiscard]] bool packs() const { return d_.groups == 1 && !d_.strided_gradient(); }
  [[nodiscard]] std::optional<Contraction> contraction() const override {
    Contraction c{.a = d_.first, .b = d_.second, .groups = d_.groups};
    c.a_form = Form::windows;
    c.b_form = Form::counted;
    if (d_.direction == Direction::wgrad) {
      std::swap(c.a, c.b);
      std::swap(c.a_form, c.b_form);
    }
    c.parts = d_.strided_gradient();
    return c;
  }

  [[nodiscard]] Domain settle(std::span<const Given> inputs) const override {
    const Geometry g = geometry(inputs);
    const std::int64_t pixels = product(g.pixels), taps = product(g.taps);
    switch (d_.direction) {
      case Direction::forward:
        return {.m = {pixels, 0},
                .n = {g.filters, 1},
                .k = {product(taps, g.channels / d_.groups), 1},
                .batch = {g.images, 0}};
      case Direction::dgrad:
        return {.m = {product(g.image), 0},
                .n = {g.channels, 1},
                .k = {product(taps, g.filters / d_.groups), 1},
                .batch = {g.images, 0}};
      default:
        return {.m = {g.filters, 1},
                .n = {product(taps, g.channels / d_.groups), 0},
                .k = {product(g.images, pixels), 1},
                .batch = {}};
    }
  }
  [[nodiscard]] std::array<std::int64_t, 3> pixels(std::span<const Given> inputs) const override {
    const Geometry g = geometry(inputs);
    return d_.direction == Direction::dgrad ? g.image : g.pixels;
  }
  // M, N and K do not tell how large an image or a filter is.
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t, const Shape&) const override { return {}; }
  [[nodiscard]] double operations(const Shape& shape) const override {
    double all = MainLoop::operations(shape);
    // A pixel of a strided data gradient is touched by its share of the taps.
    if (d_.direction == Direction::dgrad)
      for (const AxisGiven& axis : d_.axes) all /= axis.stride;
    return all;
  }
  // Of W, or of dY where that is no image; the other's are not known.
  [[nodiscard]] double bytes(const Shape& s) const override {
    const bool wgrad = d_.direction == Direction::wgrad;
    return static_cast<double>(wgrad ? s.m : s.n) * static_cast<double>(s.k) * static_cast<double>(size_of(d_.second));
  }

  // Each tensor's descriptor, and the matrix that it is seen as.
  [[nodiscard]] std::string descriptors() const {
    constexpr std::array<std::string_view, 3> image{"D", "H", "W"}, pixels{"Z", "P", "Q"}, taps{"T", "R", "S"},
        image_at{"d", "h", "w"}, pixels_at{"z", "p", "q"}, taps_at{"t", "r", "s"};
    const auto joined = [&](const std::array<std::string_view, 3>& names, const char* between) {
      std::string text;
      for (std::size_t i = d_.lacking(); i < 3; ++i) text += (i > d_.lacking() ? between : "") + std::string(names[i]);
      return text;
    };
    const std::string per_group = d_.groups > 1 ? "/" + std::to_string(d_.groups) : "";
    const std::string n_pixels = "N·" + joined(pixels, "·"), n_image = "N·" + joined(image, "·"),
                      tap_channels = joined(taps, "·") + "·C" + per_group,
                      tap_filters = joined(taps, "·") + "·K" + per_group;
    const std::string x = "X (N, C, " + joined(image, ", ") + ")",
                      w = "W (K, C" + per_group + ", " + joined(taps, ", ") + ")",
                      dy = "dY (N, K, " + joined(pixels, ", ") + ")";
    // "h = p * 2 + r - 1", for each axis.
    std::string seen;
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      const AxisGiven& a = d_.axes[i];
      const auto times = [](std::string_view index, std::int32_t factor) {
        return std::string(index) + (factor == 1 ? "" : " * " + std::to_string(factor));
      };
      seen += (seen.empty() ? "" : ", ") + std::string(image_at[i]) + " = " + times(pixels_at[i], a.stride) + " + " +
              times(taps_at[i], a.dilation) + (a.before == 0 ? "" : " - " + std::to_string(a.before));
    }
    const auto line = [](const char* matrix, const std::string& rows, const std::string& columns,
                         const std::string& of) {
      return std::string(matrix) + "  " + rows + " x " + columns + "  of " + of + "\n";
    };
    switch (d_.direction) {
      case Direction::forward:
        return line("A", n_pixels, tap_channels, x + ": " + seen + "; 0 outside") + line("B", tap_channels, "K", w) +
               line("C", n_pixels, "K", "Y: b is the image, m the pixel, n the filter");
      case Direction::dgrad:
        return line("A", n_image, tap_filters, dy + ": where " + seen + "; else 0") + line("B", tap_filters, "C", w) +
               line("C", n_image, "C", "dX: b is the image, m the pixel, n the channel");
      default:
        return line("A", "K", n_pixels, dy) + line("B", n_pixels, tap_channels, x + ": " + seen + "; 0 outside") +
               line("C", "K", tap_channels, "dW: m is the filter, n the tap and channel");
    }
  }

  [[nodiscard]] Operands operands(std::span<const Given> inputs) const override {
    return convolution::operands(d_, inputs, geometry(inputs));
  }
  [[nodiscard]] Packing packing(const Given& w) const override { return convolution::packing(d_, w); }

  [[nodiscard]] std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                               std::int64_t group, std::int64_t row,
                                               std::int64_t column) const override {
    const Geometry g = geometry(inputs);
    const std::int64_t channels = g.channels / d_.groups, filters = g.filters / d_.groups;
    // An element of an input at (first, second, spatial).
    const auto at = [&](std::size_t input, std::int64_t first, std::int64_t second,
                        const std::array<std::int64_t, 3>& place) {
      Element e{input, first * inputs[input].strides[0] + second * inputs[input].strides[1]};
      for (std::size_t i = d_.lacking(); i < 3; ++i) e.offset += place[i] * d_.stride(inputs[input], i);
      return e;
    };
    const std::int64_t k = factor == Factor::a ? column : row, taps = product(g.taps);
    switch (d_.direction) {
      case Direction::forward: {  // k = (c, t, r, s)
        const auto tap = coordinates(k % taps, g.taps);
        if (factor == Factor::b) return at(1, group * filters + column, k / taps, tap);
        const auto y = seen(coordinates(row, g.pixels), tap, g);
        if (!y) return {};
        return at(0, b, group * channels + k / taps, *y);
      }
      case Direction::dgrad: {  // k = (filter, t, r, s)
        const auto tap = coordinates(k % taps, g.taps);
        const std::int64_t filter = group * filters + k / taps;
        if (factor == Factor::b) return at(1, filter, column, tap);
        std::array<std::int64_t, 3> pixel = coordinates(row, g.image);
        for (std::size_t i = 0; i < 3; ++i) {
          const std::int64_t from = pixel[i] + d_.axes[i].before - tap[i] * d_.axes[i].dilation;
          if (from % d_.axes[i].stride != 0 || from < 0 || from / d_.axes[i].stride >= g.pixels[i]) return {};
          pixel[i] = from / d_.axes[i].stride;
        }
        return at(0, b, filter, pixel);
      }
      default: {  // k = (image, pixel), n = (t, r, s, c)
        const std::int64_t pixels = product(g.pixels);
        const auto pixel = coordinates(k % pixels, g.pixels);
        if (factor == Factor::a) return at(1, k / pixels, group * filters + row, pixel);
        const auto y = seen(pixel, coordinates(column / channels, g.taps), g);
        if (!y) return {};
        return at(0, k / pixels, group * channels + column % channels, *y);
      }
    }
  }

 private:
  using Three = std::array<std::int64_t, 3>;

  [[nodiscard]] Geometry geometry(std::span<const Given> inputs) const {
    return convolution::geometry(*this, d_, inputs);
  }

  // The coordinates of the image that a pixel sees through a tap; none outside.
  [[nodiscard]] std::optional<Three> seen(const Three& pixel, const Three& tap, const Geometry& g) const {
    Three y{};
    for (std::size_t i = 0; i < 3; ++i) {
      y[i] = pixel[i] * d_.axes[i].stride + tap[i] * d_.axes[i].dilation - d_.axes[i].before;
      if (y[i] < 0 || y[i] >= g.image[i]) return {};
    }
    return y;
  }

  Description d_;
  Over over_;
};

// A main loop of a public description; `first` and `second` are the dtypes of its inputs.
template <class Public>
std::shared_ptr<const MainLoop> make(Public conv, Direction direction, DType Public::*first, DType Public::*second) {
  constexpr std::size_t rank = std::tuple_size_v<decltype(conv.stride)>;
  Description d{.direction = direction,
                .first = conv.*first,
                .second = conv.*second,
                .rank = static_cast<int>(rank),
                .axes = {},
                .groups = conv.groups};
  for (std::size_t i = 0; i < rank; ++i) {
    AxisGiven& axis = d.axes[3 - rank + i];
    axis.stride = conv.stride[i];
    axis.before = conv.padding[i][0];
    axis.after = conv.padding[i][1];
    axis.dilation = conv.dilation[i];
    if constexpr (requires { conv.output_padding; }) axis.output_padding = conv.output_padding[i];
    if constexpr (requires { conv.filter; }) axis.filter = conv.filter[i];
  }
  return std::make_shared<ConvLoop>(d, [=](std::span<const DType> dtypes) {
    Public other = conv;
    other.*first = dtypes[0];
    other.*second = dtypes[1];
    return Problem(other);
  });
}

}  // namespace

std::string descriptors(const MainLoop& loop) {
  const auto* const conv = dynamic_cast<const ConvLoop*>(&loop);
  return conv ? conv->descriptors() : std::string();
}

template <std::size_t Rank>
std::shared_ptr<const MainLoop> main_loop(const Conv<Rank>& conv) {
  return make(conv, Direction::forward, &Conv<Rank>::x, &Conv<Rank>::w);
}
template <std::size_t Rank>
std::shared_ptr<const MainLoop> main_loop(const ConvDgrad<Rank>& conv) {
  return make(conv, Direction::dgrad, &ConvDgrad<Rank>::dy, &ConvDgrad<Rank>::w);
}
template <std::size_t Rank>
std::shared_ptr<const MainLoop> main_loop(const ConvWgrad<Rank>& conv) {
  return make(conv, Direction::wgrad, &ConvWgrad<Rank>::x, &ConvWgrad<Rank>::dy);
}

template std::shared_ptr<const MainLoop> main_loop(const Conv<1>&);
template std::shared_ptr<const MainLoop> main_loop(const Conv<2>&);
template std::shared_ptr<const MainLoop> main_loop(const Conv<3>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvDgrad<1>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvDgrad<2>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvDgrad<3>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvWgrad<1>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvWgrad<2>&);
template std::shared_ptr<const MainLoop> main_loop(const ConvWgrad<3>&);

}  // namespace postlude::inline v0
