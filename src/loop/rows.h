// Forms of addressing (decisions 0001 and 0071): how a matrix lies whose rows are not a stride apart. A backend knows
// forms, not main loops; packing asks for a row's elements over a run of K. Strides count elements, from the matrix's
// data (Bound::data) on.
#pragma once

#include <postlude/dtype.h>

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

namespace postlude::inline v0 {

// Row r of A is row index[b, r] of a matrix of `rows` rows. Where that is none of them, it is zeros.
struct Gathered {
  const void* index = nullptr;
  DType dtype = DType::i32;  // or i64
  std::int64_t batch_stride = 0, stride = 0;
  std::int64_t rows = 0;
};

// A row for each pixel of a convolution's output, over all images, and a column for each element of its window: the
// channels of every tap. A pixel's tap lies at the coordinates first + pixel * step + tap * reach of the image; outside
// of the image it is zeros. Forward and data gradient: A is (m, k), row b * M + m. Weight gradient: B is (k, n).
struct Windows {
  struct Axis {
    std::int32_t extent = 1;  // coordinates of the image: [0, extent)
    std::int32_t pixels = 1;  // of the output
    std::int32_t taps = 1;    // of a window
    std::int32_t first = 0;   // coordinate of pixel 0 and tap 0: minus the padding
    std::int32_t step = 1;    // coordinates from a pixel to the next, at least 1: the stride
    std::int32_t reach = 1;   // coordinates from a tap to the next, at least 1: the dilation
    std::int64_t stride = 0;  // elements from a coordinate to the next
  };
  std::array<Axis, 3> axes;  // depth, rows, columns; those that a convolution lacks stand in front, as by default
  std::int64_t images = 1, image_stride = 0;
  std::int64_t channels = 1, channel_stride = 1;  // of one group
  bool channels_last = true;  // columns count (taps, channel), else (channel, taps); rows count (image, pixels)

  [[nodiscard]] std::int64_t pixels() const { return std::int64_t{axes[0].pixels} * axes[1].pixels * axes[2].pixels; }
  [[nodiscard]] std::int64_t taps() const { return std::int64_t{axes[0].taps} * axes[1].taps * axes[2].taps; }
};

// A strided matrix whose k counts several axes, outermost first; its m or n is a stride apart, as Bound says. Forward:
// B's k is (taps, channel) or (channel, taps), where that is no single stride. Data gradient: B's k is (taps, filter)
// or (filter, taps), taps backwards. Weight gradient: A's k is (image, pixels).
struct Counted {
  struct Axis {
    std::int64_t size = 1, stride = 0;  // elements, of either sign
  };
  std::array<Axis, 4> k;
};

using Address = std::variant<std::monostate, Gathered, Windows, Counted>;  // the first: strides alone
enum class Form : std::uint8_t { strided, gathered, windows, counted };

// N (or M) in `count` parts of equal size, each a product of its own: group g's A and B begin g times these strides
// further. K is a group's.
struct Groups {
  enum class Along : std::uint8_t { n, m };
  std::int64_t count = 1;
  Along along = Along::n;
  std::int64_t a_stride = 0, b_stride = 0;
};

// A residue of a strided data gradient: the pixels of the output that the same taps touch, and the product over these.
// Pixel i of one is pixel first + i * step of the output's `extent` along each axis. Rows of none are no sum: 0.
struct Residue {
  struct Place {
    std::int32_t first = 0, step = 1, extent = 1;
  };
  std::array<Place, 3> place;  // depth, rows, columns
  Windows a;
  Counted b;
  std::int64_t b_first = 0;  // elements from B's data to its k = 0

  [[nodiscard]] std::int64_t k() const { return a.taps() * a.channels; }
};

// How A and B lie, where strides do not say it. A matrix may turn out simpler than its Contraction's form: that of a
// 1 x 1 convolution is strided.
struct Addressing {
  Address a, b;
  Groups groups;
  std::vector<Residue> parts;  // instead of a and b where the Contraction has parts, the longest K first
};

}  // namespace postlude::inline v0
