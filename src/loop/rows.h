// Forms of addressing (decision 0001): how the rows of A lie that are not a stride apart. A backend knows forms, not
// main loops; packing asks for a row's elements over a run of K.
#pragma once

#include <postlude/dtype.h>

#include <array>
#include <cstdint>
#include <variant>

namespace postlude::inline v0 {

// Row r of A is row index[b, r] of a matrix of `rows` rows. Where that is none of them, it is zeros.
struct Gathered {
  const void* index = nullptr;
  DType dtype = DType::i32;  // or i64
  std::int64_t batch_stride = 0, stride = 0;
  std::int64_t rows = 0;
};

// Row r of A is the window of pixel r of an image's output, and k counts the window's elements. Outside of the image
// they are zeros.
struct Windows {
  // Coordinates (y, x) in the image, and elements from its first one; or what one step adds to these.
  struct Step {
    std::int32_t y = 0, x = 0;
    std::int64_t offset = 0;
  };
  struct Axis {
    std::int32_t size = 1;
    Step step;
  };
  std::int32_t height = 0, width = 0;  // of an image
  Step first;                          // of pixel 0 and k 0
  std::array<Axis, 3> pixel;           // image, row and column, outermost first
  std::array<Axis, 3> element;         // of K, outermost first; the innermost steps along x, or within a pixel
};

using Rows = std::variant<std::monostate, Gathered, Windows>;  // the first: a stride apart
enum class Form : std::uint8_t { strided, gathered, windows };

}  // namespace postlude::inline v0
