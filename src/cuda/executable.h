// A Program compiled for a GPU: what was decided for the shapes and strides that were bound, with its kernels loaded
// (backend.cpp), and its bind (run/bind.cpp).
#pragma once

#include "cuda/decide/decision.h"
#include "cuda/run/call.h"
#include "cuda/run/kernel.h"
#include "lower/program.h"
#include "plan/backend.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const Problem& problem, std::shared_ptr<const lower::Program> program, const Target& target);

  std::unique_ptr<BoundCall> bind(const Bindings& bindings) const override;
  std::string explain(ExplainPart part, const Shape& shape) const override;
  Outline outline(const Shape& shape) const override;
  ErrorModel error_model(const Shape& shape) const override;
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
  // For memory that explain() assumes.
  [[nodiscard]] Decision usual(const Shape& shape) const;
  // Decides, compiles and loads, once for each layout.
  [[nodiscard]] std::shared_ptr<const Prepared> prepare(const Layout& layout) const;
  [[nodiscard]] std::string judge(const std::string& source) const;
  [[nodiscard]] std::shared_ptr<Loaded> load(const std::string& source) const;

  Subject subject_;
  Target target_;

  static constexpr std::size_t most_prepared = 256;  // a source's module stays in any case
  mutable std::mutex mutex_;
  mutable std::map<std::string, Compiled, std::less<>> compiled_;            // by source
  mutable std::map<std::string, std::shared_ptr<const Prepared>> prepared_;  // by layout
};

}  // namespace postlude::inline v0::cuda
