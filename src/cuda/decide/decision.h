// What a Program becomes on a GPU for given shapes and strides: one value, decided before anything touches the device
// and without memory. bind() fills it in; explain() and whoever asks what moves or stays print it.
#pragma once

#include "cuda/choose/schedule.h"
#include "cuda/decide/rows.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <postlude/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// What a decision depends on of a tensor's memory: no address.
struct Placed {
  std::array<std::int64_t, 3> strides{};  // as Bound's
  int alignment = 16;                     // bytes: what the address is a multiple of, up to 16
  bool by_value = false;
  bool in_place = false;  // as Bound's
  bool operator==(const Placed&) const = default;
};

struct Layout {
  Shape shape;
  Placed a, b;                      // b unused for a stream, whose X is `a`
  KernelRows a_rows, b_rows;        // where strides do not say it; of B, windows
  std::optional<Counted> a_k, b_k;  // how K is counted, where that is no single stride
  Groups groups;
  std::vector<KernelPart> parts;  // instead of a_rows and b_k
  // Of packed images (pack.h): what is copied; the K that comes of it, and how B's is counted.
  std::optional<agreed::UnpackedImages> images;
  std::int64_t packed_k = 0;
  std::optional<agreed::Counting> b_count;
  // Of groups of channels that share a tile's columns (pack.h): how B becomes one matrix.
  struct Diagonal {
    std::int64_t group_stride;
    int group_rows, group_columns, block_groups;
  };
  std::optional<Diagonal> diagonal;
  // Of groups of one channel (pack.h): their windows, and how the weights lie.
  std::optional<Stencil> depthwise;
  std::optional<agreed::Padded> padded;  // the accumulator of a weight gradient over packed images
  // Residues that are columns of one product (beside.h), the only part: of each, how its filters lie.
  struct Beside {
    struct Side {
      agreed::Counting count;
      std::int64_t first;  // elements
    };
    int columns;
    agreed::Interleaved places;
    std::vector<Side> sides;
  };
  std::optional<Beside> beside;
  bool one = false;             // images are rows of one product (fold.h)
  bool turned = false;          // rows are the columns that are asked for (turn.h)
  std::int64_t image_rows = 0;  // of which each has so many, where the Program counts them; 0: it does not
  std::vector<Placed> buffers;  // the Program's operands and outputs
};
[[nodiscard]] Layout layout_of(const Bindings& bindings, const lower::Program& program);
// Aligned and contiguous, as explain() assumes; A and B along K unless the problem says otherwise.
[[nodiscard]] Layout usual_layout(const Problem& problem, const lower::Program& program, const Shape& shape);

// A pointer of a kernel, known once memory is: a tensor or a place in the workspace.
struct Address {
  enum class Of : std::uint8_t { a, b, index, buffer, workspace };
  Of of = Of::workspace;
  int buffer = 0;           // of a Program
  std::int64_t offset = 0;  // bytes
};

// A kernel's arguments are a block of 64-bit words, which is complete but for these fields, and integers.
struct AddressField {
  std::size_t word;
  Address address;
};
struct ValueField {  // a scalar that is bound by value
  std::size_t word;
  int buffer;
};
struct MapField {  // 16 words that the driver encodes for the copy engine
  struct Dimension {
    std::int64_t extent, stride;  // elements; the first's stride is 1
    int box;
  };
  std::size_t word;
  Address address;
  DType type;
  std::vector<Dimension> dimensions;
  int row_bytes;  // of a box, and the swizzle's width
  // Of an image, whose dimensions are channels, columns, rows (, depth), images: the box that pixels are walked in, by
  // `step` from coordinate `lower` on and before extent + `upper`, along columns, rows (, depth).
  struct Pixels {
    int channels, count;  // of a load
    std::array<int, 3> lower, upper, step;
  };
  std::optional<Pixels> pixels{};
  bool down = false;  // it begins with the 16 bytes in which the address is
};

struct Kernel {
  std::shared_ptr<const std::string> source;
  std::string name;
  std::array<unsigned, 3> grid{1, 1, 1};
  unsigned threads = 256;
  int shared = 0;            // bytes
  bool cooperative = false;  // all blocks resident at once
  std::vector<std::uint64_t> block;
  std::vector<AddressField> addresses;
  std::vector<ValueField> values;
  std::vector<MapField> maps;
  std::vector<std::int32_t> integers;
};

// A part of the workspace.
struct Part {
  std::size_t at, bytes;
};

// A schedule that was thought of, in the order of preference.
struct Considered {
  enum class Verdict : std::uint8_t { chosen, rejected, next };
  Schedule schedule;
  int shared = 0;           // bytes
  double microseconds = 0;  // by the cost model
  std::string held_for;     // such as "rows' statistics"; empty: no tile is held
  Verdict verdict = Verdict::next;
  std::string reason;      // of the rejection
  bool may_spill = false;  // as far as can be told without a compiler
};

// Where a phase runs.
enum class Where : std::uint8_t { memory, fragments, held, folded, grouped };

struct Decision {
  std::vector<Kernel> kernels;    // in the order of their launches
  std::size_t workspace = 0;      // bytes
  std::vector<Part> cleared;      // of it, what must be zero before the first run; each run leaves it so
  bool product = false;           // on tensor cores
  std::string on_ordinary_units;  // by which kernel, if it runs on these
  bool fast = false;              // fp8 accumulates on Hopper's tensor cores alone
  bool fused = false;             // with the first phase over tiles on its fragments
  bool repack_a = false, repack_b = false;
  bool repack_images = false;
  bool patches = false;                // the pixels of a row of one are one pixel
  bool residues_share = false;         // a launch, those of a strided data gradient
  bool folded = false;                 // images are rows of one product
  bool turned = false;                 // the product's rows are the columns that are asked for
  bool by_groups = false;              // each group of columns is a problem of its own
  std::vector<Considered> considered;  // schedules of the product
  std::vector<Considered> not_fused;   // those rejected of the fused product, where there is none
  std::string why;                     // the epilogue runs from memory
  std::string portable;                // why Hopper takes the portable kernel
  std::vector<Where> phases;
  std::vector<int> in_pass;  // of each phase that runs from memory: the phase with which its pass begins
  Outline outline;
  ErrorModel error;
  int passes = 0;  // kernels that run phases from memory

  [[nodiscard]] const Considered* chosen() const;
  // What stands before a schedule of it.
  [[nodiscard]] std::string by() const;
  // One line, as Call::describe() gives it.
  [[nodiscard]] std::string describe() const;
};

// What the user asks for in place of the heuristic's choice.
struct Request {
  std::string text;             // as it was written
  bool fast = false;            // fp8 accumulates on Hopper's tensor cores alone
  bool through_memory = false;  // the accumulator goes through memory, and the epilogue runs on it as a stream
  bool mma = false;             // the portable kernel
  bool turned = false;          // the product is that of the other's rows (turn.h)
  bool by_groups = false;       // each group of columns is a problem of its own (by_groups.h)
  std::optional<Schedule> schedule;

  // What stands before its schedule.
  [[nodiscard]] std::string words() const;
};
// That the schedule that is asked for cannot run, as it was written.
[[nodiscard]] Error not_legal(const Request& request, const std::string& why,
                              const std::string& hint = "Leave the choice to the heuristic.");
// "", "mma" or a schedule, or "accumulator" or "accumulator by" and one of those, or "turned" or "turned" and a
// schedule; "fast" before any. Throws bad_schedule.
[[nodiscard]] Request parse_request(std::string_view text, bool hopper, const std::string& arch);

// A Program for GPUs of one kind: all that a decision depends on beside the layout.
struct Subject {
  Problem problem;
  std::shared_ptr<const lower::Program> program;
  std::string arch;
  int multiprocessors = 132;
  Request request;
  std::shared_ptr<const lower::Program> given{};  // of a turned product (turn.h): what it was, which passes run
};

// A problem that stands for another one.
struct Restated {
  Subject subject;
  Layout layout;
};

// Whether nothing is multiplied, where a schedule says nothing.
[[nodiscard]] bool is_empty(const Subject& subject, const Shape& shape);

// Why a source that heuristics chose is not to be used after all, or nothing. What a compiler says is a pure function
// of the source; without one, everything is accepted.
using Judge = std::function<std::string(const std::shared_ptr<const std::string>& source)>;

// Throws what bind() throws about a size or a schedule.
[[nodiscard]] Decision decide(const Subject& subject, const Layout& layout, const Judge& judge);

}  // namespace postlude::inline v0::cuda
