#include "cli/options.h"

#include "cli/conv_option.h"
#include "core/fast.h"

#include <charconv>
#include <limits>

namespace postlude::inline v0::cli {
namespace {

// "64x48x32" to `count` sizes.
std::vector<std::int64_t> sizes_of(std::string_view option, const std::string& text, std::size_t count) {
  const auto fail = [&] {
    throw Error(ErrorCode::usage, quoted(text) + " is not a size for " + std::string(option),
                count == 3 ? "Write MxNxK, as 4096x4096x1024." : "Write MxN, as 4096x1024.");
  };
  std::vector<std::int64_t> sizes;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc::result_out_of_range || value > std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorCode::size_overflow, "a size of " + std::string(option) + " is larger than 2147483647",
                  "Split the problem.");
    }
    if (error != std::errc() || value < 0) fail();
    sizes.push_back(value);
    at = next;
    if (at == end) break;
    if (*at != 'x' && *at != 'X') fail();
    ++at;
  }
  if (sizes.size() != count) fail();
  return sizes;
}

}  // namespace

Exit exit_code(ErrorCode code) {
  switch (static_cast<int>(code) / 100) {
    case 4: return Exit::unsupported;
    case 5: return Exit::missing;
    case 6: return code == ErrorCode::bad_npy ? Exit::usage : Exit::missing;
    case 9: return Exit::bug;
    default: return Exit::usage;
  }
}

namespace {

DType dtype_of(const ProblemOptions& options) {
  if (const std::optional<DType> dtype = parse_dtype(options.in)) return *dtype;
  throw Error(ErrorCode::usage, quoted(options.in) + " is no dtype",
              "--in takes f32, bf16, f16, e4m3, e5m2, s8 or u8.");
}

ConvOption conv_of(const ProblemOptions& options) {
  return parse_conv(options.conv, options.gradient, dtype_of(options));
}

}  // namespace

Problem make_problem(const ProblemOptions& options) {
  if (!options.gemm.empty() + !options.stream.empty() + !options.conv.empty() > 1) {
    throw Error(ErrorCode::usage, "two of --gemm, --stream and --conv are given",
                "One of them says what the main loop is.");
  }
  if (options.conv.empty() && !options.gradient.empty())
    throw Error(ErrorCode::usage, "--gradient is given without --conv", "It says which gradient of a convolution.");
  if (!options.conv.empty() && options.batch > 0)
    throw Error(ErrorCode::usage, "--batch is given with --conv",
                "A convolution's images are its batch: --conv 32x...");
  const DType dtype = dtype_of(options);
  if (!options.conv.empty()) return conv_of(options).problem;
  const bool batched = options.batch > 0;
  if (!options.stream.empty()) return Stream{.x = dtype, .batched = batched};
  return Gemm{.a = dtype, .b = dtype, .batched = batched};
}

Target make_target(const ProblemOptions& options) {
  Target target = Target::parse(options.target);
  target.threads = options.threads;
  target.schedule = options.accumulate.empty() ? options.schedule : core::with_fast(options.schedule);
  return target;
}

std::int64_t make_batch(const ProblemOptions& options) {
  return options.conv.empty() ? options.batch : conv_of(options).images;
}

std::optional<Sizes> make_sizes(const ProblemOptions& options) {
  if (!options.conv.empty()) return conv_of(options).sizes;
  if (!options.gemm.empty()) {
    const auto sizes = sizes_of("--gemm", options.gemm, 3);
    return Sizes{sizes[0], sizes[1], sizes[2], {}};
  }
  if (!options.stream.empty()) {
    const auto sizes = sizes_of("--stream", options.stream, 2);
    return Sizes{sizes[0], sizes[1], 0, {}};
  }
  return std::nullopt;
}

}  // namespace postlude::inline v0::cli
