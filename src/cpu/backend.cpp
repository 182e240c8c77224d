// What the CPU refuses, and what it makes of a Program before any memory is bound.
#include "cpu/backend.h"

#include "core/fast.h"
#include "core/threads.h"
#include "cpu/decide/decision.h"
#include "cpu/product/gemm.h"
#include "cpu/run/call.h"
#include "cpu/strips/ops.h"

#include <optional>

namespace postlude::inline v0::cpu {

using lower::Program;

namespace {

class CpuExecutable final : public Executable {
 public:
  explicit CpuExecutable(std::shared_ptr<const Subject> subject) : subject_(std::move(subject)) {}

  [[nodiscard]] std::unique_ptr<BoundCall> bind(const Bindings& bindings) const override {
    return std::make_unique<Call>(subject_, decide(*subject_, layout_of(bindings)), bindings);
  }

  void prepare(const Asked&) const override {}  // kernels are there
  [[nodiscard]] std::string explain(ExplainPart part, const Asked& asked) const override {
    switch (part) {
      case ExplainPart::loops: return decided(asked).loops_text();
      case ExplainPart::source: return "the CPU interprets strips and generates no source\n";
      default: return decided(asked).schedule_text();
    }
  }

  [[nodiscard]] Outline outline(const Asked& asked) const override { return decided(asked).outline(); }

  [[nodiscard]] ErrorModel error_model(const Asked&) const override { return {}; }

  [[nodiscard]] std::shared_ptr<const void> pack(const Bindings& bindings) const override {
    if (!subject_->multiplies()) return nullptr;
    Product product;
    product.m = bindings.shape.m;
    product.n = bindings.shape.n;
    product.k = bindings.shape.k;
    product.a.dtype = subject_->contraction->a;
    product.b = {.data = bindings.b.data,
                 .dtype = bindings.b.dtype,
                 .row_stride = bindings.b.strides[1],
                 .column_stride = bindings.b.strides[2]};
    if (!std::holds_alternative<std::monostate>(bindings.addressing.b)) product.b.address = &bindings.addressing.b;
    product.pieces = product_pieces(subject_->program);
    return std::make_shared<const PackedB>(
        pack_b(product, subject_->isa, subject_->threads, subject_->contraction->a_form));
  }

 private:
  [[nodiscard]] Decision decided(const Asked& asked) const {
    return decide(*subject_, asked.tensors ? layout_of(*asked.tensors) : usual_layout(*subject_, asked.shape));
  }

  std::shared_ptr<const Subject> subject_;
};

std::optional<Isa> isa_of(const Target& target) {
  if (target.isa.empty()) return best_isa();
  return parse_isa(target.isa);
}

std::string text_of(const Error& error) { return error.message() + (error.hint().empty() ? "" : ". " + error.hint()); }

// What stands against the target and the problem, before the Program is looked at.
std::vector<std::string> target_refusals(const Problem& problem, const Target& target, const std::optional<Isa>& isa) {
  std::vector<std::string> reasons;
  if (!isa) {
    reasons.push_back("the CPU has no instruction set " + quoted(target.isa) + "; take portable, avx2, avx512 or amx");
  } else if (*isa > machine_isa()) {
    reasons.push_back("this machine has no " + std::string(name(*isa)) + "; the best it has is " +
                      std::string(name(machine_isa())));
  }
  if (core::is_fast(target.schedule)) reasons.emplace_back("fp8 is accumulated \"fast\" on Hopper alone; leave it out");
  if (const std::string_view schedule = core::without_fast(target.schedule); !schedule.empty())
    reasons.push_back("the CPU chooses its schedule from the shapes; leave the schedule " + quoted(schedule) + " out");
  if (const auto contraction = problem.loop().contraction(); contraction && reasons.empty()) {
    try {
      static_cast<void>(choose_blocking({.m = 1, .n = 1, .k = 1, .a = contraction->a, .b = contraction->b}, *isa));
    } catch (const Error& error) { reasons.push_back(text_of(error)); }
  }
  return reasons;
}

}  // namespace

std::vector<std::string> refusals(const Problem& problem, const Program& program, const Target& target) {
  const std::optional<Isa> isa = isa_of(target);
  std::vector<std::string> reasons = target_refusals(problem, target, isa);
  if (!reasons.empty()) return reasons;
  try {
    static_cast<void>(prepare(program, strips(*isa)));
  } catch (const Error& error) { reasons.push_back(text_of(error)); }
  return reasons;
}

std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const Program> program,
                                    const Target& target) {
  const std::optional<Isa> isa = isa_of(target);
  const std::vector<std::string> reasons = target_refusals(problem, target, isa);
  if (!reasons.empty()) throw Error(ErrorCode::unsupported, reasons[0]);
  auto subject = std::make_shared<Subject>();
  subject->contraction = problem.loop().contraction();
  if (const auto source = problem.loop().facts().source) subject->source = source->dtype;
  subject->isa = *isa;
  subject->program = prepare(*program, strips(subject->isa), &subject->phase_of);
  subject->threads = target.threads > 0 ? target.threads : core::available_threads();
  return std::make_unique<CpuExecutable>(std::move(subject));
}

}  // namespace postlude::inline v0::cpu
