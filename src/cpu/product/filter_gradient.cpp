#include "cpu/product/filter_gradient.h"

#include "core/divide.h"
#include "core/threads.h"
#include "cpu/product/rows.h"

#include <algorithm>
#include <cstring>

namespace postlude::inline v0::cpu {
namespace {

constexpr std::int64_t whole_vector = 16;  // of every instruction set

// The pixels of an output as windows of one tap.
Windows pixels_of(const Counted& counted) {
  Windows w;
  w.images = counted.k[0].size;
  w.image_stride = counted.k[0].stride;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto size = static_cast<std::int32_t>(counted.k[i + 1].size);
    w.axes[i] = {.extent = size, .pixels = size, .stride = counted.k[i + 1].stride};
  }
  return w;
}

bool reads(const Windows& w, std::int64_t distance) { return distance == 1 || w.axes[2].stride == 1; }

}  // namespace

bool FilterGradient::fits(const ProductShape& whole, const Addressing& addressing) {
  const Groups& groups = addressing.groups;
  const auto* const x = std::get_if<Windows>(&addressing.b);
  const auto* const dy = std::get_if<Counted>(&addressing.a);
  return groups.along == Groups::Along::m && groups.count == whole.m && groups.count > 1 && x && dy &&
         x->channels == 1 && whole.n == x->taps() && whole.pieces.count == 1 && whole.k > 0 && is_float(whole.a) &&
         is_float(whole.b) && reads(*x, groups.b_stride) && reads(pixels_of(*dy), groups.a_stride);
}

FilterGradient::FilterGradient(const ProductShape& whole, const Addressing& addressing, const Kernels& kernels)
    : kernels_(&kernels), channels_(whole.m), taps_(whole.n), row_(round_up(whole.m, whole_vector) | whole_vector) {
  x_ = {.windows = std::get<Windows>(addressing.b), .distance = addressing.groups.b_stride, .turned = {}};
  dy_ = {.windows = pixels_of(std::get<Counted>(addressing.a)), .distance = addressing.groups.a_stride, .turned = {}};
  const auto take = [this](std::int64_t bytes) {
    const std::int64_t at = end_;
    end_ += round_up(bytes, 64);
    return at;
  };
  constexpr std::int64_t address = sizeof(const char*);
  zeros_ = take(row_ * 4);
  sums_ = take(taps_ * row_ * 4);
  taps_at_ = take(row_group * taps_ * address);
  pixels_at_ = take(row_group * address);
  for (Side* side : {&x_, &dy_}) {
    if ((side == &x_ ? whole.b : whole.a) == DType::f32 && side->distance == 1) continue;
    side->turned.emplace(side->windows, channels_, side->distance);
    side->strip = take(side->turned->bytes());
  }
}

std::int64_t FilterGradient::units() const { return ceil_div(channels_, whole_vector); }

void FilterGradient::run(const Product& whole, const RunOptions& options, float* acc, std::int64_t acc_row) const {
  const int threads = static_cast<int>(std::min<std::int64_t>(options.threads, units()));
  core::parallel(threads, [&](int thread) {
    const std::int64_t first = units() * thread / threads * whole_vector,
                       end = std::min(units() * (thread + 1) / threads * whole_vector, channels_);
    run_channels(whole, first, end,
                 options.thread_scratch + static_cast<std::size_t>(thread) * options.thread_scratch_stride,
                 acc + first * acc_row, acc_row);
  });
}

// Sums of so many pixels as addresses are found for, and of these sums.
void FilterGradient::run_channels(const Product& whole, std::int64_t first, std::int64_t end, std::byte* scratch,
                                  float* acc, std::int64_t acc_row) const {
  auto* const own = reinterpret_cast<char*>(scratch);
  auto* const sums = reinterpret_cast<float*>(own + sums_);
  auto* const taps = reinterpret_cast<const char**>(own + taps_at_);
  auto* const pixels = reinterpret_cast<const char**>(own + pixels_at_);
  const std::int64_t channels = end - first;
  std::memset(own + zeros_, 0, static_cast<std::size_t>(row_ * 4));
  std::memset(sums, 0, static_cast<std::size_t>(taps_ * row_ * 4));
  const auto of = [&](const Matrix& matrix, const Side& side) {
    Matrix from = matrix;
    from.data = static_cast<const char*>(matrix.data) + first * side.distance * size_of(matrix.dtype);
    return from;
  };
  const Matrix x = of(whole.b, x_), dy = of(whole.a, dy_);
  std::optional<TurnedStrips> turned_x = x_.turned, turned_dy = dy_.turned;
  const std::int64_t rows = x_.windows.pixels();
  std::int64_t strip = rows;
  for (const auto* turned : {&turned_x, &turned_dy})
    if (*turned) strip = std::min(strip, (*turned)->rows());
  const auto addresses = [&](std::optional<TurnedStrips>& turned, const Matrix& from, const Side& side,
                             std::int64_t row, int count, const char** to) {
    tap_addresses(turned ? turned->matrix() : from, turned ? turned->windows() : side.windows, row, count, own + zeros_,
                  to);
  };
  DepthwiseGradient run;
  run.x = taps, run.dy = pixels, run.taps = taps_, run.channels = channels, run.c = sums, run.c_row = row_;
  for (std::int64_t image = 0; image < x_.windows.images; ++image) {
    for (std::int64_t at = 0; at < rows; at += strip) {
      const std::int64_t row0 = image * rows + at, row1 = image * rows + std::min(at + strip, rows);
      if (turned_x) turned_x->turn(x, *kernels_, row0, row1 - row0, channels, own + x_.strip);
      if (turned_dy) turned_dy->turn(dy, *kernels_, row0, row1 - row0, channels, own + dy_.strip);
      for (std::int64_t row = row0; row < row1; row += row_group) {
        run.pixels = static_cast<int>(std::min<std::int64_t>(row_group, row1 - row));
        addresses(turned_x, x, x_, row, run.pixels, taps);
        addresses(turned_dy, dy, dy_, row, run.pixels, pixels);
        kernels_->depthwise_gradient(run);
      }
    }
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t t = 0; t < taps_; ++t) acc[c * acc_row + t] = sums[t * row_ + c];
}

}  // namespace postlude::inline v0::cpu
