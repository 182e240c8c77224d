// A Program compiled for a GPU: its product's kernel, chosen and compiled for each shape that is bound (backend.cpp),
// and its bind (bind.cpp).
#pragma once

#include "cuda/emit/fragment.h"
#include "cuda/emit/generic.h"
#include "cuda/run/call.h"
#include "cuda/run/kernel.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

inline constexpr const char* ragged_halves = "the halves of the columns are no multiple of 8";

// Why Hopper too takes the portable kernel, for a chunked accumulator; empty: it does not.
[[nodiscard]] std::string portable_instead(int parts, bool b_mn_major, const Shape& shape, std::int64_t columns);

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const Problem& problem, std::shared_ptr<const lower::Program> program, const Target& target);

  std::unique_ptr<BoundCall> bind(const Bindings& bindings) const override;
  std::string explain(ExplainPart part, const Shape& shape) const override;
  std::vector<bool> stays(const Shape& shape) const override;
  std::shared_ptr<const void> pack(const Bindings&) const override { return nullptr; }

 private:
  friend class Binder;
  // A product and the phase that runs on it, for one shape and memory.
  struct Site {
    const lower::Program& program;
    int phase;
    MainLoop loop;
    bool mma;
    std::vector<BufferPlace> places;
    Shape shape;
    std::int64_t columns;   // the phase's
    bool in_order = false;  // a small phase's output lies over an operand, which phases before it may read
  };
  // A site whose memory is aligned, as explain assumes; without one, why.
  struct Assumed {
    std::optional<Site> site;
    std::string why, portable;  // portable: why Hopper takes the portable kernel
  };
  [[nodiscard]] Assumed assumed(const Shape& shape) const;
  struct Choice {
    FusedEpilogue epilogue;
    std::vector<Schedule> order;  // best first, or the one that was asked for
  };
  struct Product {
    Schedule schedule;
    FusedEpilogue epilogue;
    std::vector<std::string> rejected;  // schedules that were tried before, with reasons
    std::shared_ptr<Loaded> module;
  };

  [[nodiscard]] bool hopper() const { return arch_ == "sm_90a"; }
  [[nodiscard]] bool on_tensor_cores(const Gemm& gemm) const;
  std::shared_ptr<Loaded> load(const std::string& source, const std::string& cubin) const;
  std::shared_ptr<Loaded> load(const std::string& source) const;
  // The schedules to try. Tiles are held for what `hold` allows, and for their rows' statistics only where that pays.
  // Throws bad_schedule.
  [[nodiscard]] Choice choose(const Site& site, Hold hold) const;
  // Why a schedule is not legal at this site; empty: it is.
  [[nodiscard]] std::string not_here(const Schedule& schedule, const EpilogueNeeds& needs, const Site& site) const;
  [[nodiscard]] bool asked_for(const Site& site) const { return requested_ && &site.program == program_.get(); }
  // Null where no schedule of this program compiles well; then, and before the one that does, `rejected` says why.
  std::shared_ptr<const Product> product(const Site& site, std::vector<std::string>& rejected) const;
  // Phases from memory, and the product on ordinary units with its repacks: emitted and loaded once.
  struct Generic {
    GenericSource source;
    std::shared_ptr<Loaded> module;
  };
  std::shared_ptr<const Generic> generic(const std::vector<int>& phases, const Wide& wide) const;
  std::shared_ptr<Loaded> plain_product(DType a, DType b) const;

  Problem problem_;
  std::shared_ptr<const lower::Program> program_;
  Target target_;
  lower::Program accumulator_;
  std::string arch_;
  int multiprocessors_ = 132;
  int product_phase_ = -1;
  bool mma_ = false;  // the portable kernel: on GPUs other than Hopper, and where the schedule asks for it
  std::optional<Schedule> requested_;

  static constexpr std::size_t most_products = 256;  // shapes whose choice is kept; a source's module stays in any case
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Loaded>> modules_;          // by source
  mutable std::map<std::string, std::shared_ptr<const Product>> products_;  // by what they were made for
  mutable std::map<std::string, std::shared_ptr<const Generic>> generics_;  // likewise
  mutable std::map<std::string, std::string> rejections_;                   // by source
  mutable std::shared_ptr<Loaded> plain_product_;
};

}  // namespace postlude::inline v0::cuda
