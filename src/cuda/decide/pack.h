// Images that Hopper's copy engine cannot walk, or only a few bytes at a time, copied into some that it can.
#pragma once

#include "cuda/decide/decision.h"

#include <optional>

namespace postlude::inline v0::cuda {

// A convolution over a copy of its images: pixels of whole 16 bytes, side by side, or, of few channels, whole rows of a
// window as one pixel (decision 0081). None: the images are as well read as they lie, or a copy does not help.
[[nodiscard]] std::optional<Layout> packed(const Subject& subject, const Layout& layout);

// Groups of one channel as a stencil, where their channels lie side by side (decision 0086). None: they do not, or the
// schedule is another kernel's.
[[nodiscard]] std::optional<Layout> depthwise(const Subject& subject, const Layout& layout);

// Whether a kernel of strips may compute it: windows of one plane whose channels are the groups along this axis, one
// each, of types that it adds; and the request does not ask for another kernel.
[[nodiscard]] bool sums_channels(const Subject& subject, const Layout& layout, const agreed::WindowRows& w,
                                 Groups::Along along);
// Of so many channels side by side, whether all that lies apart does so by whole `bytes`; and what is copied to pixels
// of whole 16 bytes, with zeros behind their channels, after which `w` are windows of the copy (decision 0246).
[[nodiscard]] bool in_whole(int bytes, const agreed::WindowRows& w, std::int64_t channels, int alignment,
                            std::int64_t size);
// Whether the copy engine would load boxes of such pixels: none that follow each other backwards, or not at all.
[[nodiscard]] bool in_pixel_boxes(const agreed::WindowRows& w);
[[nodiscard]] agreed::UnpackedImages copy_channels(agreed::WindowRows& w, std::int64_t channels, std::int64_t size);
[[nodiscard]] Stencil stencil_of(const agreed::WindowRows& w);

// Groups of channels as one product: those of 64 columns, or one where it has more, read their channels together, and B
// has zeros off its diagonal (decision 0082). None: there are no groups, or they do not fit.
[[nodiscard]] std::optional<Layout> together(const Subject& subject, const Layout& layout);

// The same of a gradient by their weights: 64 filters and the channels of all their groups, or a group of more; what is
// off the diagonal is left out of the accumulator.
[[nodiscard]] std::optional<Layout> together_by_weights(const Subject& subject, const Layout& layout);

}  // namespace postlude::inline v0::cuda
