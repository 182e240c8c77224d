// A Program compiled for a GPU: what was decided for the shapes and strides that were bound, with its kernels loaded
// (backend.cpp), and its bind (run/bind.cpp).
#pragma once

#include "cuda/decide/decision.h"
#include "cuda/run/call.h"
#include "cuda/run/kernel.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const Problem& problem, std::shared_ptr<const lower::Program> program, const Target& target);

  std::unique_ptr<BoundCall> bind(const Bindings& bindings) const override;
  void prepare(const Asked& asked) const override;
  std::string explain(ExplainPart part, const Asked& asked) const override;
  Outline outline(const Asked& asked) const override;
  ErrorModel error_model(const Asked& asked) const override;
  std::shared_ptr<const void> pack(const Bindings&) const override { return nullptr; }

 private:
  // A decision and the module of each of its kernels.
  struct Prepared {
    Decision decision;
    std::vector<std::shared_ptr<Loaded>> modules;
  };
  // What is known of a source.
  struct Compiled {
    std::string cubin;  // until it is loaded
    std::string rejected;
    std::shared_ptr<Loaded> module;
  };

  [[nodiscard]] const lower::Program& program() const { return *subject_.program; }
  [[nodiscard]] Layout layout_for(const Asked& asked) const;
  [[nodiscard]] Decision explained(const Asked& asked) const;
  // Decides, compiles and loads, once for each layout.
  [[nodiscard]] std::shared_ptr<const Prepared> prepared(const Layout& layout) const;
  [[nodiscard]] Decision decided(const Layout& layout) const;
  // What is known of a source once it is compiled, by this thread or by another that is at it: each waits for a source
  // that it needs, and compiles those that nobody does. `lock` is held before and after.
  [[nodiscard]] Compiled& compiled(const std::string& source, bool may_reject,
                                   std::unique_lock<std::mutex>& lock) const;
  [[nodiscard]] std::string judge(const std::string& source) const;
  // Compiles side by side what a layout will most likely ask for, where a machine has threads for it: the kernels'
  // sources and, where the product's accumulators leave an epilogue few registers, that of the schedule which is next
  // if the first one spills (decision 0109). What was decided for that, if it holds; no result depends on it.
  [[nodiscard]] std::optional<Decision> compile_together(const Layout& layout) const;
  // Sources, and whether they may be rejected: those that nothing is known of, side by side.
  void compile_all(std::map<std::string, bool, std::less<>> wanted) const;
  // Whether a source was compiled before, here or on disk, and if so, was rejected.
  enum class Known : std::uint8_t { nothing, accepted, rejected };
  [[nodiscard]] Known known(const std::string& source, bool may_reject) const;
  [[nodiscard]] std::shared_ptr<Loaded> load(const std::string& source) const;

  Subject subject_;
  Target target_;

  static constexpr std::size_t most_prepared = 256;  // a source's module stays in any case
  mutable std::mutex mutex_;
  mutable std::condition_variable compiled_one_;
  mutable std::set<std::string, std::less<>> compiling_;                     // sources
  mutable std::map<std::string, Compiled, std::less<>> compiled_;            // by source
  mutable std::map<std::string, std::shared_ptr<const Prepared>> prepared_;  // by layout
};

}  // namespace postlude::inline v0::cuda
