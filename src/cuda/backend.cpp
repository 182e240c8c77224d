// What the CUDA backend makes of a Program before any memory is bound, and what explain says of it.
#include "cuda/backend.h"

#include "core/fast.h"
#include "cuda/decide/product.h"
#include "cuda/executable.h"
#include "cuda/run/driver.h"
#include "cuda/run/kernel.h"

#include <postlude/error.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <set>
#include <system_error>

namespace postlude::inline v0::cuda {

using lower::Phase;
using lower::Program;

namespace {

// What values make, as the key of a map.
class Key {
 public:
  void add(std::int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void add(const Placed& placed) {
    for (const std::int64_t stride : placed.strides) add(stride);
    add(placed.alignment + 32 * placed.by_value + 64 * placed.in_place);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string key_of(const Layout& layout) {
  Key key;
  for (const std::int64_t extent : {layout.shape.batch, layout.shape.m, layout.shape.n, layout.shape.k})
    key.add(extent);
  key.add(layout.a), key.add(layout.b);
  for (const Placed& buffer : layout.buffers) key.add(buffer);
  for (const std::optional<Counted>* k : {&layout.a_k, &layout.b_k}) {
    key.add(k->has_value());
    for (std::size_t i = 0; *k && i < 4; ++i) key.add((*k)->k[i].size), key.add((*k)->k[i].stride);
  }
  key.add(layout.groups.count), key.add(layout.groups.a_stride), key.add(layout.groups.b_stride);
  std::string parts;
  for (const KernelPart& part : layout.parts) {
    parts += bytes_of(part.a);
    parts.append(reinterpret_cast<const char*>(&part.scatter), sizeof part.scatter);
    key.add(part.b_first);
    for (const Counted::Axis& axis : part.b_k.k) key.add(axis.size), key.add(axis.stride);
  }
  return key.take() + bytes_of(layout.a_rows) + bytes_of(layout.b_rows) + parts;
}

Subject subject_of(const Problem& problem, std::shared_ptr<const Program> program, const Target& target) {
  Subject subject{problem, std::move(program), target.isa, 132, {}};
  if (target.isa.empty()) {
    const DeviceInfo& info = device(target.device_index);
    subject.arch = architecture(info);
    subject.multiprocessors = info.multiprocessors;
  }
  subject.request = parse_request(target.schedule, subject.arch == "sm_90a", subject.arch);
  return subject;
}

}  // namespace

CudaExecutable::CudaExecutable(const Problem& problem, std::shared_ptr<const Program> program, const Target& target)
    : subject_(subject_of(problem, std::move(program), target)), target_(target) {}

CudaExecutable::Compiled& CudaExecutable::compiled(const std::string& source, bool may_reject,
                                                   std::unique_lock<std::mutex>& lock) const {
  compiled_one_.wait(lock, [&] { return !compiling_.contains(source); });
  if (const auto found = compiled_.find(source); found != compiled_.end()) {
    Compiled& known = found->second;
    if (may_reject || known.module || !known.cubin.empty()) return known;
  }
  const auto mine = compiling_.insert(source).first;
  const auto end = [&] {
    lock.lock();
    compiling_.erase(mine);
    compiled_one_.notify_all();
  };
  lock.unlock();
  Built built;
  try {
    built = build(source, subject_.arch, may_reject);
  } catch (...) {
    end();
    throw;
  }
  end();
  Compiled& made = compiled_[source];
  made.cubin = std::move(built.cubin);
  if (may_reject) made.rejected = std::move(built.rejected);
  return made;
}

std::string CudaExecutable::judge(const std::string& source) const {
  std::unique_lock lock(mutex_);
  return compiled(source, true, lock).rejected;
}

std::shared_ptr<Loaded> CudaExecutable::load(const std::string& source) const {
  std::unique_lock lock(mutex_);
  Compiled& entry = compiled(source, false, lock);  // which stays where it is
  if (entry.module) return entry.module;
  const std::string cubin = entry.cubin;
  lock.unlock();
  auto loaded = std::make_shared<Loaded>();
  loaded->module = Module(target_.device_index, cubin);
  lock.lock();
  if (!entry.module) entry.module = std::move(loaded), entry.cubin.clear();
  return entry.module;
}

CudaExecutable::Known CudaExecutable::known(const std::string& source, bool may_reject) const {
  const auto said = [](const std::string& rejected) { return rejected.empty() ? Known::accepted : Known::rejected; };
  const std::scoped_lock lock(mutex_);
  if (const auto found = compiled_.find(source); found != compiled_.end()) return said(found->second.rejected);
  std::optional<Built> built = find_built(source, subject_.arch, may_reject);
  if (!built) return Known::nothing;
  Compiled& made = compiled_[source];
  made.cubin = std::move(built->cubin), made.rejected = std::move(built->rejected);
  return said(made.rejected);
}

void CudaExecutable::compile_all(std::map<std::string, bool, std::less<>> wanted) const {
  std::erase_if(wanted, [&](const auto& one) { return known(one.first, one.second) != Known::nothing; });
  if (wanted.size() < 2) return;  // whoever asks compiles it
  std::vector<std::future<void>> all;
  try {
    for (const auto& one : wanted) {
      all.push_back(std::async(std::launch::async, [this, &one] {
        std::unique_lock lock(mutex_);
        static_cast<void>(compiled(one.first, one.second, lock));
      }));
    }
  } catch (const std::system_error&) {}             // no more threads
  for (std::future<void>& each : all) each.wait();  // what fails is compiled again, and fails, for whoever asks
}

std::optional<Decision> CudaExecutable::compile_together(const Layout& layout) const {
  using Source = std::shared_ptr<const std::string>;
  const int threads = compile_threads();
  if (threads < 2) return {};
  std::map<std::string, bool, std::less<>> wanted;  // sources, and whether they may be rejected
  std::optional<Decision> first;
  std::vector<Source> judged;
  for (std::size_t spilt = 0; spilt < 2; ++spilt) {
    std::vector<Source> asked;
    Decision d = decide(subject_, layout, [&](const Source& source) {
      asked.push_back(source);
      return std::string(asked.size() <= spilt ? "it spills" : "");
    });
    if (!asked.empty()) wanted[*asked.back()] = true;
    const Considered* const chosen = d.chosen();
    const bool another = spilt == 0 && threads >= 4 && !asked.empty() && chosen && chosen->may_spill &&
                         known(*asked.back(), true) != Known::accepted;
    if (spilt == 0) {
      for (const Kernel& kernel : d.kernels) wanted.emplace(*kernel.source, false);
      first = std::move(d), judged = std::move(asked);
    }
    if (!another) break;
  }
  compile_all(std::move(wanted));
  for (const Source& source : judged)
    if (!judge(*source).empty()) return {};
  return first;
}

Decision CudaExecutable::decided(const Layout& layout) const {
  if (std::optional<Decision> together = compile_together(layout)) return *std::move(together);
  return decide(subject_, layout, [this](const std::shared_ptr<const std::string>& source) { return judge(*source); });
}

std::shared_ptr<const CudaExecutable::Prepared> CudaExecutable::prepared(const Layout& layout) const {
  // Emitting the sources again at each bind took most of post.matmul's 41 us on a host.
  std::string key = key_of(layout);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = prepared_.find(key); found != prepared_.end()) return found->second;
  }
  auto made = std::make_shared<Prepared>();
  made->decision = decided(layout);
  for (Kernel& kernel : made->decision.kernels) {
    made->modules.push_back(load(*kernel.source));
    kernel.source.reset();  // the module stays
  }
  const std::scoped_lock lock(mutex_);
  if (prepared_.size() >= most_prepared) prepared_.clear();
  return prepared_.insert_or_assign(std::move(key), std::move(made)).first->second;
}

void CudaExecutable::prepare(const Asked& asked) const {
  const Shape& shape = asked.shape;
  std::vector<Layout> layouts{layout_for(asked)};
  const auto gemm = subject_.problem.loop().contraction();
  if (!asked.tensors && gemm && gemm->a_form == Form::strided && gemm->b_form == Form::strided &&
      gemm->b_layout == postlude::Layout::any) {
    Layout along_n = layouts[0];  // a caller may bind either
    along_n.b.strides[1] = shape.k > 1 ? shape.n : 0, along_n.b.strides[2] = shape.n > 1 ? 1 : 0;
    layouts.push_back(std::move(along_n));
  }
  for (const Layout& layout : layouts) {
    if (target_.isa.empty()) {
      const CurrentDevice current(target_.device_index);
      const DuringCaptures allowed;
      static_cast<void>(prepared(layout));
      continue;
    }
    // There need be no GPU to load them on.
    for (const Kernel& kernel : decided(layout).kernels) {
      std::unique_lock lock(mutex_);
      static_cast<void>(compiled(*kernel.source, false, lock));
    }
  }
}

Layout CudaExecutable::layout_for(const Asked& asked) const {
  return asked.tensors ? layout_of(*asked.tensors, program()) : usual_layout(subject_.problem, program(), asked.shape);
}

Decision CudaExecutable::explained(const Asked& asked) const {
  const bool can_compile = !compiler_version().empty();
  return decide(subject_, layout_for(asked), [&](const std::shared_ptr<const std::string>& source) {
    return can_compile ? judge(*source) : std::string();
  });
}

Outline CudaExecutable::outline(const Asked& asked) const { return explained(asked).outline; }

// Without a judge: whichever schedule compiles, it accumulates alike.
ErrorModel CudaExecutable::error_model(const Asked& asked) const {
  return decide(subject_, layout_for(asked), [](const auto&) { return std::string(); }).error;
}

namespace {

// Three digits: the model knows no more.
std::string round_microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.1f" : "%.0f", us);
  return text;
}

std::string schedules_text(const Decision& d) {
  std::string text, held_for;
  if (!d.portable.empty()) text += d.portable + ":\n";
  const auto list = [&](const std::vector<Considered>& all, const std::string& before) {
    for (const Considered& c : all) {
      if (c.held_for != held_for && !c.held_for.empty()) text += "held for its " + c.held_for + ":\n";
      held_for = c.held_for;
      constexpr const char* verdicts[] = {"chosen", "rejected", "next"};
      text += before + to_string(c.schedule) + "  " + std::to_string(c.shared) + " bytes shared, about " +
              round_microseconds(c.microseconds) + " us  " + verdicts[static_cast<int>(c.verdict)] +
              (c.reason.empty() ? "" : ": " + c.reason) + "\n";
    }
  };
  list(d.not_fused, "");
  if (!d.fused) text += "epilogue from memory: " + d.why + "\n";
  list(d.considered, d.by());
  if (!d.on_ordinary_units.empty()) text += "accumulator by the " + d.on_ordinary_units + "\n";
  if (d.fast) text += "fp8 accumulates fast: all of K on the tensor cores\n";
  if (d.repack_a) text += "A is repacked\n";
  if (d.repack_b) text += "B is repacked\n";
  if (d.repack_images) text += "images are repacked: pixels, or rows of a window, of whole 16 bytes\n";
  if (d.folded) text += "images are rows of one product: tiles cross them\n";
  if (d.patches) text += "rows of patches are pixels\n";
  if (d.residues_share) text += "residues are products of one launch\n";
  return text;
}

std::string loops_text(const Decision& d) {
  std::string first, finished, held, passes;
  if (!d.fused) first = "epilogue from memory: " + d.why + "\n";
  const Considered* c = d.chosen();
  for (std::size_t p = 0; p < d.phases.size(); ++p) {
    const std::string phase = "phase " + std::to_string(p) + ": ";
    switch (d.phases[p]) {
      case Where::fragments: first += phase + "on the product's fragments\n"; break;
      case Where::folded: finished += phase + "where the partial reductions are folded\n"; break;
      case Where::grouped: finished += phase + "where the groups' statistics are known\n"; break;
      case Where::held: held += phase + "on the same fragments, once their " + c->held_for + " are known\n"; break;
      case Where::memory: {
        const int first = d.in_pass[p];
        passes +=
            phase +
            (first == static_cast<int>(p) ? "a pass over memory" : "in the pass of phase " + std::to_string(first)) +
            "\n";
        break;
      }
    }
  }
  return first + finished + held + passes;
}

}  // namespace

std::string CudaExecutable::explain(ExplainPart part, const Asked& asked) const {
  const Decision decision = explained(asked);
  if (part == ExplainPart::schedule) return schedules_text(decision);
  if (part == ExplainPart::loops) return loops_text(decision);
  std::string text;
  std::set<const std::string*> seen;
  for (const Kernel& kernel : decision.kernels) {
    if (seen.insert(kernel.source.get()).second) text += *kernel.source;
  }
  return text;
}

bool halves(std::int64_t group) { return holds_pieces(2, group / 2); }

std::optional<Error> unusable() {
  try {
    (void)device(0);
    require_compiler();
  } catch (const Error& error) { return error; }
  return {};
}

std::vector<std::string> refusals(const Problem& problem, const Program& program, const Target& target) {
  std::vector<std::string> reasons;
  if (!target.isa.empty()) {
    if (!target.isa.starts_with("sm_")) {
      reasons.push_back("the CUDA target has no architecture " + postlude::quoted(target.isa) +
                        "; write sm_90a, sm_80 or the like");
    } else if (std::atoi(target.isa.c_str() + 3) < 80) {
      reasons.push_back("no kernels are made for " + target.isa + "; sm_80 or newer is needed");
    }
  } else if (!unusable()) {  // else that is said already
    try {
      const DeviceInfo& info = device(target.device_index);
      if (info.major < 8) reasons.push_back("the GPU is " + architecture(info) + "; sm_80 or newer is needed");
    } catch (const Error& error) { reasons.push_back(error.message()); }
  }
  if (const auto gemm = problem.loop().contraction()) {
    for (const DType type : {gemm->a, gemm->b}) {
      if (type == DType::i64 || type == DType::boolean)
        reasons.push_back("a product of " + std::string(name(type)) + " is not done on a GPU");
    }
  }
  if (const auto gemm = problem.loop().contraction(); core::is_fast(target.schedule) && !(gemm && promotes(gemm->a)))
    reasons.emplace_back("only fp8 is accumulated \"fast\", and nothing is fp8 here; leave it out");
  for (const Phase& phase : program.phases) {
    for (const auto& instruction : phase.code) {
      if (instruction.op == Op::call && instruction.function->body.nodes.empty() && instruction.function->native &&
          instruction.function->native->cuda.empty()) {
        reasons.push_back("the function " + postlude::quoted(instruction.function->name) +
                          " has no CUDA code; set NativeFunction::cuda");
      }
    }
  }
  return reasons;
}

std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const Program> program,
                                    const Target& target) {
  return std::make_unique<CudaExecutable>(problem, std::move(program), target);
}

}  // namespace postlude::inline v0::cuda
