// The geometry of a convolution, from the shapes of its inputs.
#include "loop/convolution.h"

#include <postlude/error.h>

#include <limits>
#include <string>

namespace postlude::inline v0::convolution {

std::int64_t product(const std::array<std::int64_t, 3>& extents) {
  std::int64_t all = 1;
  for (const std::int64_t extent : extents) {
    // Too large for a size: the caller refuses it.
    if (__builtin_mul_overflow(all, extent, &all)) return std::numeric_limits<std::int64_t>::max();
  }
  return all;
}
std::int64_t product(std::int64_t a, std::int64_t b) { return product({a, b, 1}); }

namespace {

class Shapes {
 public:
  Shapes(const MainLoop& loop, const Description& d) : loop_(loop), d_(d) {}

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

 private:
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
    for (const Input& input : loop_.inputs()) {
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

  [[nodiscard]] std::int64_t padded(const Given& x, std::size_t i) const {
    const std::int64_t all = d_.extent(x, i) + d_.axes[i].before + d_.axes[i].after;
    if (all <= largest_image) return all;
    throw Error(ErrorCode::size_overflow, x.text() + " has " + std::to_string(all) + " " + along[i] +
                                              " with its padding: more than " + std::to_string(largest_image));
  }

  void forward_axis(Geometry& g, const Given& x, const Given& w, std::size_t i) const {
    g.image[i] = d_.extent(x, i);
    g.taps[i] = d_.extent(w, i);
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
    g.pixels[i] = d_.extent(dy, i);
    g.taps[i] = d_.extent(w, i);
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
    g.image[i] = d_.extent(x, i);
    g.pixels[i] = d_.extent(dy, i);
    g.taps[i] = axis.filter;
    (void)padded(x, i);
    const std::int64_t pixels = pixels_of(axis, g.image[i], g.taps[i]);
    if (pixels >= 1 && pixels == g.pixels[i]) return;
    throw Error(ErrorCode::wrong_shape,
                dy.text() + " has " + std::to_string(g.pixels[i]) + " " + along[i] + ", but a filter of " +
                    std::to_string(axis.filter) + " over " + x.text() + " makes " + std::to_string(pixels),
                "Take the filter size, the padding, the stride and the dilation of the convolution.");
  }

  const MainLoop& loop_;
  const Description& d_;
};

}  // namespace

Geometry geometry(const MainLoop& loop, const Description& d, std::span<const Given> inputs) {
  return Shapes(loop, d).geometry(inputs);
}

}  // namespace postlude::inline v0::convolution
