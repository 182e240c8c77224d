// A convolution as a product of A, the windows of X, and B, the filters: nothing of A is ever in memory (decision
// 0070).
#include "loop/main_loop.h"

#include <postlude/error.h>

#include <algorithm>
#include <limits>

namespace postlude::inline v0 {
namespace {

// Coordinates stay within 32 bits however a window lies.
constexpr std::int64_t largest_image = 1 << 29;

// What the shapes of X and W make of it.
struct Geometry {
  std::int64_t images, channels, height, width, filters, r, s, p, q;
};

class Conv2dLoop final : public MainLoop {
 public:
  explicit Conv2dLoop(const Conv2d& conv) : conv_(conv) {
    for (int i = 0; i < 2; ++i) {
      const auto check = [&](std::int64_t value, std::int64_t least, const char* what) {
        if (value >= least && value <= largest_image) return;
        throw Error(ErrorCode::usage,
                    "a convolution's " + std::string(what) + " is " + std::to_string(value) +
                        (value < least ? "" : ", which is larger than " + std::to_string(largest_image)),
                    "The least is " + std::to_string(least) + ".");
      };
      check(conv.stride[i], 1, "stride");
      check(conv.dilation[i], 1, "dilation");
      for (const std::int32_t padding : conv.padding[i]) check(padding, 0, "padding");
    }
  }

  [[nodiscard]] std::string_view name() const override { return "conv2d"; }
  [[nodiscard]] std::string describe() const override {
    const auto pair = [](const std::string& name, std::int32_t rows, std::int32_t columns, std::int32_t usual) {
      if (rows == usual && columns == usual) return std::string();
      return ", " + name + " " + std::to_string(rows) + (rows == columns ? "" : " x " + std::to_string(columns));
    };
    const auto& [rows, columns] = conv_.padding;
    std::string padding;
    if (rows[0] == rows[1] && columns[0] == columns[1]) {
      padding = pair("padding", rows[0], columns[0], 0);
    } else {
      padding = ", padding (" + std::to_string(rows[0]) + ", " + std::to_string(rows[1]) + ") x (" +
                std::to_string(columns[0]) + ", " + std::to_string(columns[1]) + ")";
    }
    return "conv2d " + std::string(postlude::name(conv_.x)) + " x " + std::string(postlude::name(conv_.w)) +
           pair("stride", conv_.stride[0], conv_.stride[1], 1) + padding +
           pair("dilation", conv_.dilation[0], conv_.dilation[1], 1);
  }
  [[nodiscard]] Problem over(std::span<const DType> dtypes, bool) const override {
    Conv2d conv = conv_;
    conv.x = dtypes[0];
    conv.w = dtypes[1];
    return conv;
  }

  [[nodiscard]] bool batched() const override { return true; }
  [[nodiscard]] Facts facts() const override {
    const std::vector<Input> all = inputs();
    return {.accumulator = product_accumulator(all[0], all[1]),
            .operand = default_operand(conv_.x),
            .output = default_output(conv_.x),
            .batched = true,
            .source = {}};
  }
  [[nodiscard]] std::vector<Input> inputs() const override {
    return {{.name = "X", .dtype = conv_.x, .axes = {"N", "C", "H", "W"}, .batchable = false},
            {.name = "W", .dtype = conv_.w, .axes = {"K", "C", "R", "S"}, .batchable = false}};
  }
  [[nodiscard]] std::optional<Contraction> contraction() const override {
    return Contraction{.a = conv_.x, .b = conv_.w, .a_form = Form::windows};
  }

  [[nodiscard]] Domain settle(std::span<const Given> inputs) const override {
    const Geometry g = geometry(inputs);
    (void)linear(inputs[1]);
    std::int64_t m = 0, k = 0;
    // Too large for a size: the caller refuses it.
    if (__builtin_mul_overflow(g.p, g.q, &m)) m = std::numeric_limits<std::int64_t>::max();
    if (__builtin_mul_overflow(g.channels, g.r, &k) || __builtin_mul_overflow(k, g.s, &k))
      k = std::numeric_limits<std::int64_t>::max();
    return {.m = {m, 0}, .n = {g.filters, 1}, .k = {k, 1}, .batch = {g.images, 0}};
  }
  // M, N and K do not tell how large an image or a filter is.
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t, const Shape&) const override { return {}; }
  // Of W; X's are not known.
  [[nodiscard]] double bytes(const Shape& s) const override {
    return static_cast<double>(s.n) * static_cast<double>(s.k) * static_cast<double>(size_of(conv_.w));
  }

  [[nodiscard]] Operands operands(std::span<const Given> inputs) const override {
    const Given &x = inputs[0], &w = inputs[1];
    const Geometry g = geometry(inputs);
    const auto small = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const std::int64_t row = x.strides[2], column = x.strides[3];
    const auto step = [&](std::int32_t y, std::int32_t x) { return Windows::Step{y, x, y * row + x * column}; };

    Operands operands;
    operands.a = {.data = x.data, .dtype = x.dtype, .strides = {x.strides[0], 0, 0}};
    operands.b = {.data = w.data, .dtype = w.dtype, .strides = {0, 0, w.strides[0]}};
    Windows windows;
    windows.height = small(g.height);
    windows.width = small(g.width);
    windows.first = step(-conv_.padding[0][0], -conv_.padding[1][0]);
    windows.pixel = {
        Windows::Axis{1, {}}, {small(g.p), step(conv_.stride[0], 0)}, {small(g.q), step(0, conv_.stride[1])}};
    const Windows::Axis channel{small(g.channels), {0, 0, x.strides[1]}}, r{small(g.r), step(conv_.dilation[0], 0)},
        s{small(g.s), step(0, conv_.dilation[1])};
    const Order order = linear(w);
    operands.b.strides[1] = order.stride;
    if (order.channels_last) windows.element = {r, s, channel};
    else windows.element = {channel, r, s};
    operands.a_rows = windows;
    return operands;
  }

  [[nodiscard]] std::optional<Element> element(Factor factor, std::span<const Given> inputs, std::int64_t b,
                                               std::int64_t row, std::int64_t column) const override {
    const Given &x = inputs[0], &w = inputs[1];
    const std::int64_t k = factor == Factor::a ? column : row, rows = w.shape[2], columns = w.shape[3];
    const std::int64_t c = k / (rows * columns), r = k / columns % rows, s = k % columns;
    if (factor == Factor::b)
      return Element{1, column * w.strides[0] + c * w.strides[1] + r * w.strides[2] + s * w.strides[3]};
    const std::int64_t q = extent(x.shape[3], columns, 1);
    const std::int64_t y = row / q * conv_.stride[0] + r * conv_.dilation[0] - conv_.padding[0][0],
                       at = row % q * conv_.stride[1] + s * conv_.dilation[1] - conv_.padding[1][0];
    if (y < 0 || y >= x.shape[2] || at < 0 || at >= x.shape[3]) return {};
    return Element{0, b * x.strides[0] + c * x.strides[1] + y * x.strides[2] + at * x.strides[3]};
  }

 private:
  // Of the output, along rows (0) or columns (1).
  [[nodiscard]] std::int64_t extent(std::int64_t image, std::int64_t filter, int axis) const {
    const std::int64_t reach = conv_.dilation[axis] * (filter - 1) + 1;
    const std::int64_t free = image + conv_.padding[axis][0] + conv_.padding[axis][1] - reach;
    return free < 0 ? 0 : free / conv_.stride[axis] + 1;
  }

  [[nodiscard]] Geometry geometry(std::span<const Given> inputs) const {
    const Given &x = inputs[0], &w = inputs[1];
    if (x.shape[1] != w.shape[1]) {
      throw Error(ErrorCode::wrong_shape,
                  w.text() + " has filters of " + std::to_string(w.shape[1]) + " channels, but " + x.text() + " has " +
                      std::to_string(x.shape[1]),
                  "X is bound as (N, C, H, W) and W as (K, C, R, S), whatever their strides.");
    }
    constexpr const char* what[] = {"rows", "columns"};
    for (int axis = 0; axis < 2; ++axis) {
      const std::int64_t image = x.shape[2 + axis], filter = w.shape[2 + axis];
      const std::int64_t padded = image + conv_.padding[axis][0] + conv_.padding[axis][1];
      if (padded > largest_image) {
        throw Error(ErrorCode::size_overflow, x.text() + " has " + std::to_string(padded) + " " + what[axis] +
                                                  " with its padding: more than " + std::to_string(largest_image));
      }
      if (filter >= 1 && extent(image, filter, axis) >= 1) continue;
      throw Error(ErrorCode::wrong_shape,
                  w.text() + " spans " + std::to_string(filter < 1 ? 0 : conv_.dilation[axis] * (filter - 1) + 1) +
                      " " + what[axis] + ", but " + x.text() + " has " + std::to_string(padded) +
                      " with its padding: no pixel of the output exists",
                  filter < 1 ? "A filter has a row and a column at least." : "Choose a smaller filter, or pad more.");
    }
    return {x.shape[0],
            x.shape[1],
            x.shape[2],
            x.shape[3],
            w.shape[0],
            w.shape[2],
            w.shape[3],
            extent(x.shape[2], w.shape[2], 0),
            extent(x.shape[3], w.shape[3], 1)};
  }

  // The order of K in which a filter's elements lie a stride apart.
  struct Order {
    bool channels_last = false;
    std::int64_t stride = 0;
  };
  static Order linear(const Given& w) {
    // Whether these axes, outermost first, are one; and its stride.
    const auto joined = [&](std::array<int, 3> axes, std::int64_t& stride) {
      std::int64_t inner = 1;
      stride = 0;
      for (int i = 2; i >= 0; --i) {
        const auto axis = static_cast<std::size_t>(axes[static_cast<std::size_t>(i)]);
        if (w.shape[axis] <= 1) continue;
        if (inner == 1) stride = w.strides[axis];
        else if (w.strides[axis] != stride * inner) return false;
        inner *= w.shape[axis];
      }
      if (inner == 1) stride = 1;
      return true;
    };
    Order order;
    if (joined({2, 3, 1}, order.stride)) return {true, order.stride};
    if (joined({1, 2, 3}, order.stride)) return {false, order.stride};
    throw Error(ErrorCode::wrong_stride, w.text() + " has filters whose elements do not lie a stride apart",
                "Copy it to a contiguous or a channels_last tensor.");
  }

  Conv2d conv_;
};

}  // namespace

std::shared_ptr<const MainLoop> main_loop(const Conv2d& conv) { return std::make_shared<Conv2dLoop>(conv); }

}  // namespace postlude::inline v0
