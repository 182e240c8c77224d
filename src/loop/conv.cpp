// A convolution and its gradients as products of addressed matrices: nothing of a window is ever in memory (decision
// 0071, which has the table of b, m, n and k). It is longer than most because the three share their geometry, and each
// step of it stands beside the same step of the others.
#include "loop/descriptors.h"
#include "loop/main_loop.h"
#include "loop/names.h"

#include <postlude/error.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace postlude::inline v0 {
namespace {

// Coordinates stay within 32 bits however a window lies.
constexpr std::int64_t largest_image = 1 << 29;

enum class Direction : std::uint8_t { forward, dgrad, wgrad };

// Of one spatial axis. What a direction does not have is as here.
struct AxisGiven {
  std::int32_t stride = 1, before = 0, after = 0, dilation = 1;
  std::int32_t output_padding = 0;  // data gradient
  std::int32_t filter = 1;          // weight gradient
};

// The public descriptions as one.
struct Description {
  Direction direction = Direction::forward;
  DType first = DType::f32, second = DType::f32;  // of the inputs
  int rank = 2;
  std::array<AxisGiven, 3> axes;  // the last `rank`
  std::int64_t groups = 1;

  [[nodiscard]] std::size_t lacking() const { return static_cast<std::size_t>(3 - rank); }
};

// What the inputs' shapes make of it; axes that it lacks have 1.
struct Geometry {
  std::int64_t images = 0, channels = 0, filters = 0;  // of all groups
  std::array<std::int64_t, 3> image{1, 1, 1}, pixels{1, 1, 1}, taps{1, 1, 1};
};

std::int64_t product(const std::array<std::int64_t, 3>& extents) {
  std::int64_t all = 1;
  for (const std::int64_t extent : extents) {
    // Too large for a size: the caller refuses it.
    if (__builtin_mul_overflow(all, extent, &all)) return std::numeric_limits<std::int64_t>::max();
  }
  return all;
}
std::int64_t product(std::int64_t a, std::int64_t b) { return product({a, b, 1}); }

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
  [[nodiscard]] bool packs() const { return d_.groups == 1 && !strided_gradient(); }
  [[nodiscard]] std::optional<Contraction> contraction() const override {
    Contraction c{.a = d_.first, .b = d_.second, .groups = d_.groups};
    c.a_form = Form::windows;
    c.b_form = Form::counted;
    if (d_.direction == Direction::wgrad) {
      std::swap(c.a, c.b);
      std::swap(c.a_form, c.b_form);
    }
    c.parts = strided_gradient();
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
    const Geometry g = geometry(inputs);
    switch (d_.direction) {
      case Direction::forward: return forward(inputs[0], inputs[1], g);
      case Direction::dgrad: return data_gradient(inputs[0], inputs[1], g);
      default: return weight_gradient(inputs[0], inputs[1], g);
    }
  }

  // As forward() and data_gradient() address what is packed: channels innermost, of the gradient taps backwards.
  [[nodiscard]] Packing packing(const Given& w) const override {
    const bool forward_loop = d_.direction == Direction::forward;
    Counted k;
    std::int64_t taps = 1, first = 0;
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      const std::int64_t count = extent(w, i), step = stride(w, i);
      k.k[i] = {count, forward_loop ? step : -step};
      if (!forward_loop) first += (count - 1) * step;
      taps = product(taps, count);
    }
    const std::size_t along_n = forward_loop ? 0 : 1, along_k = 1 - along_n;
    k.k[3] = {w.shape[along_k], w.strides[along_k]};
    Operands operands;
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[along_n]}};
    if (w.data) operands.b.data = static_cast<char*>(w.data) + first * size_of(w.dtype);
    operands.addressing.b = k;
    join(operands);
    return {operands.b, operands.addressing.b, product(taps, w.shape[along_k]), w.shape[along_n]};
  }

  [[nodiscard]] std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                               std::int64_t group, std::int64_t row,
                                               std::int64_t column) const override {
    const Geometry g = geometry(inputs);
    const std::int64_t channels = g.channels / d_.groups, filters = g.filters / d_.groups;
    // An element of an input at (first, second, spatial).
    const auto at = [&](std::size_t input, std::int64_t first, std::int64_t second,
                        const std::array<std::int64_t, 3>& place) {
      Element e{input, first * inputs[input].strides[0] + second * inputs[input].strides[1]};
      for (std::size_t i = d_.lacking(); i < 3; ++i) e.offset += place[i] * stride(inputs[input], i);
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

  // A data gradient of several residues.
  [[nodiscard]] bool strided_gradient() const {
    return d_.direction == Direction::dgrad &&
           std::ranges::any_of(d_.axes, [](const AxisGiven& axis) { return axis.stride > 1; });
  }

  // Of a tensor along a spatial axis; the convolution has it.
  [[nodiscard]] std::int64_t extent(const Given& x, std::size_t axis) const { return x.shape[2 + axis - d_.lacking()]; }
  [[nodiscard]] std::int64_t stride(const Given& x, std::size_t axis) const {
    return axis < d_.lacking() ? 0 : x.strides[2 + axis - d_.lacking()];
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

  // ---- geometry

  static constexpr const char* along[] = {"planes", "rows", "columns"};

  [[nodiscard]] static std::int64_t reach(const AxisGiven& axis, std::int64_t taps) {
    return axis.dilation * (taps - 1) + 1;
  }
  // Pixels of the output along an axis; none: 0.
  [[nodiscard]] static std::int64_t pixels_of(const AxisGiven& axis, std::int64_t image, std::int64_t taps) {
    const std::int64_t free = image + axis.before + axis.after - reach(axis, taps);
    return free < 0 ? 0 : free / axis.stride + 1;
  }
  [[nodiscard]] std::string bound_as() const {
    std::string text;
    for (const Input& input : inputs()) {
      text += (text.empty() ? "" : " and ") + std::string(input.name) + (text.empty() ? " is bound as (" : " as (");
      for (std::size_t i = 0; i < input.axes.size(); ++i) text += (i == 0 ? "" : ", ") + std::string(input.axes[i]);
      text += ")";
    }
    return text + ", whatever their strides.";
  }
  void divides(const Given& tensor, std::int64_t number, const char* what) const {
    if (number % d_.groups == 0) return;
    throw Error(ErrorCode::wrong_shape,
                tensor.text() + " has " + std::to_string(number) + " " + what + ", which " + std::to_string(d_.groups) +
                    " groups do not divide",
                "Every group has as many channels, and as many filters.");
  }

  [[nodiscard]] Geometry geometry(std::span<const Given> inputs) const {
    Geometry g;
    const Given &first = inputs[0], &second = inputs[1];
    g.images = first.shape[0];
    switch (d_.direction) {
      case Direction::forward:
        g.channels = first.shape[1];
        g.filters = second.shape[0];
        divides(first, g.channels, "channels");
        divides(second, g.filters, "filters");
        if (g.channels / d_.groups != second.shape[1]) {
          throw Error(ErrorCode::wrong_shape,
                      second.text() + " has filters of " + std::to_string(second.shape[1]) + " channels, but " +
                          first.text() + " has " + std::to_string(g.channels) +
                          (d_.groups > 1 ? " in " + std::to_string(d_.groups) + " groups" : ""),
                      bound_as());
        }
        break;
      case Direction::dgrad:
        g.filters = first.shape[1];
        if (second.shape[0] != g.filters) {
          throw Error(ErrorCode::wrong_shape,
                      second.text() + " has " + std::to_string(second.shape[0]) + " filters, but " + first.text() +
                          " has the outputs of " + std::to_string(g.filters),
                      bound_as());
        }
        divides(second, g.filters, "filters");
        g.channels = product(second.shape[1], d_.groups);
        break;
      default:
        g.channels = first.shape[1];
        g.filters = second.shape[1];
        divides(first, g.channels, "channels");
        divides(second, g.filters, "filters");
        if (second.shape[0] != g.images) {
          throw Error(ErrorCode::wrong_shape,
                      second.text() + " has " + std::to_string(second.shape[0]) + " images, but " + first.text() +
                          " has " + std::to_string(g.images),
                      bound_as());
        }
    }
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      if (d_.direction == Direction::forward) forward_axis(g, first, second, i);
      else if (d_.direction == Direction::dgrad) dgrad_axis(g, first, second, i);
      else wgrad_axis(g, first, second, i);
    }
    return g;
  }

  [[nodiscard]] std::int64_t padded(const Given& x, std::size_t i) const {
    const std::int64_t all = extent(x, i) + d_.axes[i].before + d_.axes[i].after;
    if (all <= largest_image) return all;
    throw Error(ErrorCode::size_overflow, x.text() + " has " + std::to_string(all) + " " + along[i] +
                                              " with its padding: more than " + std::to_string(largest_image));
  }

  void forward_axis(Geometry& g, const Given& x, const Given& w, std::size_t i) const {
    g.image[i] = extent(x, i);
    g.taps[i] = extent(w, i);
    const std::int64_t image = padded(x, i);
    g.pixels[i] = g.taps[i] < 1 ? 0 : pixels_of(d_.axes[i], g.image[i], g.taps[i]);
    if (g.pixels[i] >= 1) return;
    throw Error(ErrorCode::wrong_shape,
                w.text() + " spans " + std::to_string(g.taps[i] < 1 ? 0 : reach(d_.axes[i], g.taps[i])) + " " +
                    along[i] + ", but " + x.text() + " has " + std::to_string(image) +
                    " with its padding: no pixel of the output exists",
                g.taps[i] < 1 ? "A filter has a row and a column at least." : "Choose a smaller filter, or pad more.");
  }

  void dgrad_axis(Geometry& g, const Given& dy, const Given& w, std::size_t i) const {
    const AxisGiven& axis = d_.axes[i];
    g.pixels[i] = extent(dy, i);
    g.taps[i] = extent(w, i);
    if (g.pixels[i] < 1 || g.taps[i] < 1) {
      throw Error(
          ErrorCode::wrong_shape, (g.pixels[i] < 1 ? dy : w).text() + " has no " + along[i],
          g.taps[i] < 1 ? "A filter has a row and a column at least." : "A convolution's output has a pixel at least.");
    }
    const std::int64_t padded = (g.pixels[i] - 1) * axis.stride + reach(axis, g.taps[i]) + axis.output_padding;
    if (padded > largest_image) {
      throw Error(ErrorCode::size_overflow, "the image of " + dy.text() + " has " + std::to_string(padded) + " " +
                                                along[i] + " with its padding: more than " +
                                                std::to_string(largest_image));
    }
    g.image[i] = padded - axis.before - axis.after;
    if (g.image[i] >= 1) return;
    throw Error(ErrorCode::wrong_shape,
                dy.text() + " has " + std::to_string(g.pixels[i]) + " " + along[i] + ", as an image of " +
                    std::to_string(g.image[i]) + " would: no pixel of the gradient exists",
                "Take the padding and the stride of the convolution.");
  }

  void wgrad_axis(Geometry& g, const Given& x, const Given& dy, std::size_t i) const {
    const AxisGiven& axis = d_.axes[i];
    g.image[i] = extent(x, i);
    g.pixels[i] = extent(dy, i);
    g.taps[i] = axis.filter;
    (void)padded(x, i);
    const std::int64_t pixels = pixels_of(axis, g.image[i], g.taps[i]);
    if (pixels >= 1 && pixels == g.pixels[i]) return;
    throw Error(ErrorCode::wrong_shape,
                dy.text() + " has " + std::to_string(g.pixels[i]) + " " + along[i] + ", but a filter of " +
                    std::to_string(axis.filter) + " over " + x.text() + " makes " + std::to_string(pixels),
                "Take the filter size, the padding, the stride and the dilation of the convolution.");
  }

  // ---- addressing

  static std::int32_t small(std::int64_t n) { return static_cast<std::int32_t>(n); }

  // Over the images of X, as forward and weight gradient read them.
  [[nodiscard]] Windows windows(const Given& x, const Geometry& g) const {
    Windows w;
    w.images = g.images;
    w.image_stride = x.strides[0];
    w.channels = g.channels / d_.groups;
    w.channel_stride = x.strides[1];
    for (std::size_t i = d_.lacking(); i < 3; ++i) {
      w.axes[i] = {.extent = small(g.image[i]),
                   .pixels = small(g.pixels[i]),
                   .taps = small(g.taps[i]),
                   .first = -d_.axes[i].before,
                   .step = d_.axes[i].stride,
                   .reach = d_.axes[i].dilation,
                   .stride = stride(x, i)};
    }
    return w;
  }

  // Whether (c, t, r, s) is counted with the channels innermost: where those of the image lie together, else where
  // those of the filters do. Filters that are packed are counted so whatever the image is.
  [[nodiscard]] static bool channels_last(const Given& image, std::int64_t channels, const Given& w,
                                          std::size_t of_filter) {
    return w.packed || channels <= 1 || image.strides[1] == 1 || w.strides[of_filter] == 1;
  }
  // k of the filters as one stride, where it is one.
  static void join(Operands& operands) {
    const auto& k = std::get<Counted>(operands.addressing.b).k;
    std::int64_t size = 1, step = 1;
    for (auto axis = k.rbegin(); axis != k.rend(); ++axis) {
      if (axis->size == 1) continue;
      if (size == 1) step = axis->stride;
      else if (axis->stride != step * size) return;
      size *= axis->size;
    }
    operands.b.strides[1] = step;
    operands.addressing.b = std::monostate();
  }

  // A as strides, where windows are single pixels one stride apart: of a 1 x 1 convolution without padding.
  static void join_pixels(Operands& operands) {
    const auto& w = std::get<Windows>(operands.addressing.a);
    std::int64_t size = 1, step = 0;
    for (std::size_t i = 3; i-- > 0;) {
      const Windows::Axis& axis = w.axes[i];
      const std::int64_t last = axis.first + (axis.pixels - std::int64_t{1}) * axis.step;
      if (axis.taps != 1 || axis.first != 0 || last >= axis.extent) return;
      if (axis.pixels == 1) continue;
      if (size == 1) step = axis.step * axis.stride;
      else if (axis.step * axis.stride != step * size) return;
      size *= axis.pixels;
    }
    operands.a.strides = {w.image_stride, step, w.channel_stride};
    operands.addressing.a = std::monostate();
  }

  [[nodiscard]] Operands forward(const Given& x, const Given& w, const Geometry& g) const {
    Operands operands;
    operands.a = {.data = x.data, .dtype = x.dtype, .strides = {}};
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[0]}};
    Windows over = windows(x, g);
    over.channels_last = channels_last(x, over.channels, w, 1);
    const Counted::Axis channel{over.channels, w.strides[1]};
    Counted filters;
    for (std::size_t i = 0; i < 3; ++i) filters.k[i + (over.channels_last ? 0 : 1)] = {g.taps[i], stride(w, i)};
    filters.k[over.channels_last ? 3 : 0] = channel;
    operands.addressing = {.a = over,
                           .b = filters,
                           .groups = {.count = d_.groups,
                                      .a_stride = over.channels * x.strides[1],
                                      .b_stride = g.filters / d_.groups * w.strides[0]},
                           .parts = {}};
    join(operands);
    join_pixels(operands);
    return operands;
  }

  // The pixels h = first + i * stride of an image's axis that the same taps touch, those taps backwards, and which
  // pixels of dY they are.
  struct AxisResidue {
    Residue::Place place;
    Windows::Axis axis;
    std::int64_t tap = 0, tap_step = 0;  // of W: the first, and from one to the next
  };
  [[nodiscard]] std::vector<AxisResidue> residues(const Given& dy, const Geometry& g, std::size_t i) const {
    const AxisGiven& axis = d_.axes[i];
    const std::int64_t together = std::gcd(axis.stride, axis.dilation), apart = axis.stride / together;
    std::vector<AxisResidue> all;
    for (std::int64_t tap = 0; tap < std::min(apart, g.taps[i]); ++tap) {
      // Pixels h with h + before = tap * dilation, but for a multiple of the stride.
      std::int64_t first = (tap * axis.dilation - axis.before) % axis.stride;
      if (first < 0) first += axis.stride;
      if (first >= g.image[i]) continue;
      const std::int64_t taps = (g.taps[i] - tap + apart - 1) / apart, reach = axis.dilation / together;
      AxisResidue r;
      r.place = {small(first), axis.stride, small(g.image[i])};
      r.axis = {.extent = small(g.pixels[i]),
                .pixels = small((g.image[i] - first + axis.stride - 1) / axis.stride),
                .taps = small(taps),
                .first = small((first + axis.before - tap * axis.dilation) / axis.stride - (taps - 1) * reach),
                .step = 1,
                .reach = small(reach),
                .stride = stride(dy, i)};
      r.tap = tap + (taps - 1) * apart;
      r.tap_step = -apart;
      all.push_back(r);
    }
    return all;
  }

  [[nodiscard]] Operands data_gradient(const Given& dy, const Given& w, const Geometry& g) const {
    const std::int64_t filters = g.filters / d_.groups;
    Operands operands;
    operands.a = {.data = dy.data, .dtype = dy.dtype, .strides = {}};
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[1]}};
    Addressing& addressing = operands.addressing;
    addressing.groups = {.count = d_.groups, .a_stride = filters * dy.strides[1], .b_stride = filters * w.strides[0]};
    Residue part;
    part.a.images = g.images;
    part.a.image_stride = dy.strides[0];
    part.a.channels = filters;
    part.a.channel_stride = dy.strides[1];
    part.a.channels_last = channels_last(dy, filters, w, 0);
    const std::size_t at = part.a.channels_last ? 0 : 1;
    part.b.k[part.a.channels_last ? 3 : 0] = {filters, w.strides[0]};
    std::array<std::vector<AxisResidue>, 3> all;
    for (std::size_t i = 0; i < 3; ++i) all[i] = residues(dy, g, i);
    for (const AxisResidue& depth : all[0])
      for (const AxisResidue& row : all[1])
        for (const AxisResidue& column : all[2]) {
          const AxisResidue* const of[] = {&depth, &row, &column};
          part.b_first = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            part.place[i] = of[i]->place;
            part.a.axes[i] = of[i]->axis;
            part.b.k[at + i] = {of[i]->axis.taps, of[i]->tap_step * stride(w, i)};
            part.b_first += of[i]->tap * stride(w, i);
          }
          addressing.parts.push_back(part);
        }
    std::ranges::stable_sort(addressing.parts, std::ranges::greater(), &Residue::k);
    if (!contraction()->parts) {  // one
      addressing.a = addressing.parts[0].a;
      addressing.b = addressing.parts[0].b;
      if (w.data) operands.b.data = static_cast<char*>(w.data) + addressing.parts[0].b_first * size_of(w.dtype);
      addressing.parts.clear();
      join(operands);
      join_pixels(operands);
    }
    return operands;
  }

  [[nodiscard]] Operands weight_gradient(const Given& x, const Given& dy, const Geometry& g) const {
    Operands operands;
    operands.a = {.data = dy.data, .dtype = dy.dtype, .strides = {0, dy.strides[1], 0}};
    operands.b = {.data = x.data, .dtype = x.dtype, .strides = {}};
    Counted pixels;
    pixels.k[0] = {g.images, dy.strides[0]};
    for (std::size_t i = 0; i < 3; ++i) pixels.k[i + 1] = {g.pixels[i], stride(dy, i)};
    operands.addressing = {.a = pixels,
                           .b = windows(x, g),
                           .groups = {.count = d_.groups,
                                      .along = Groups::Along::m,
                                      .a_stride = g.filters / d_.groups * dy.strides[1],
                                      .b_stride = g.channels / d_.groups * x.strides[1]},
                           .parts = {}};
    return operands;
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
