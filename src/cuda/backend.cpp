// What the CUDA backend makes of a Program before any memory is bound: which product kernel, by which schedule; and
// what explain says of it.
#include "cuda/backend.h"

#include "core/divide.h"
#include "cuda/emit/fragment.h"
#include "cuda/emit/generic.h"
#include "cuda/executable.h"
#include "cuda/run/driver.h"
#include "cuda/run/kernel.h"

#include <postlude/error.h>

#include <cstdlib>

namespace postlude::inline v0::cuda {

using lower::BufferKind;
using lower::Phase;
using lower::Program;

namespace {

// acc as an f32 or i32 output and nothing else: the product of a Program whose epilogue runs from memory.
Program accumulator_program(const Program& of) {
  Program program;
  program.accumulator = of.accumulator;
  program.batched = of.batched;
  lower::Buffer& buffer = program.buffers.emplace_back();
  buffer.kind = BufferKind::output;
  buffer.dtype = of.accumulator;
  buffer.axes = Axis::m | Axis::n;
  program.outputs = 1;
  Phase phase;
  phase.domain = buffer.axes;
  phase.batched = of.batched;
  lower::Instruction& accumulator = phase.code.emplace_back();
  accumulator.op = Op::acc;
  accumulator.type = of.accumulator;
  accumulator.axes = buffer.axes;
  lower::Store store;
  store.value = 0;
  store.access.buffer = 0;
  phase.stores.push_back(store);
  program.phases.push_back(phase);
  return program;
}

// `architecture`: 80 for sm_80; the tensor cores multiply fp8 since 89.
bool tensor_core_types(DType a, DType b, int architecture) {
  const auto fp8 = [](DType t) { return t == DType::e4m3 || t == DType::e5m2; };
  const auto int8 = [](DType t) { return t == DType::s8 || t == DType::u8; };
  return (a == b && (a == DType::bf16 || a == DType::f16)) || (fp8(a) && fp8(b) && architecture >= 89) ||
         (int8(a) && int8(b));
}

// Stages, of 128 of K each, after which an fp8 accumulator is added to one of f32 on Hopper (decision 0026).
constexpr int promoted_stages = 4;
int promotes(DType type) { return type == DType::e4m3 || type == DType::e5m2 ? promoted_stages : 0; }

}  // namespace

// mma.sync takes 2.2e-15 s longer a product than wgmma (device/sm80_gemm.cu), memory moves 4e12 bytes a second.
std::string portable_instead(int parts, bool b_mn_major, const Shape& shape, std::int64_t columns) {
  if (parts != 2) return {};
  // 8 bytes an element of the accumulator to memory and back.
  if (columns % 8)
    return shape.k <= 890 ? "halves of no multiple of 8 columns, and K is short: cheaper than an epilogue from memory"
                          : "";
  // A repack of B across its layout moves 1.5e12 (one H200, 8192 x 4096: 0.087 ms).
  return b_mn_major && shape.m <= 1000 ? "both halves of B along N, and M is small: cheaper than repacking B" : "";
}

CudaExecutable::CudaExecutable(const Problem& problem, std::shared_ptr<const Program> program, const Target& target)
    : problem_(problem), program_(std::move(program)), target_(target), accumulator_(accumulator_program(*program_)) {
  if (target.isa.empty()) {
    const DeviceInfo& info = device(target.device_index);
    arch_ = architecture(info);
    multiprocessors_ = info.multiprocessors;
  } else {
    arch_ = target.isa;
  }
  mma_ = !hopper() || target.schedule.starts_with("mma");
  if (!target.schedule.empty() && target.schedule != "mma") requested_ = parse_schedule(target.schedule);
  if (requested_ && requested_->mma != mma_) {
    throw Error(ErrorCode::bad_schedule,
                "the schedule \"" + target.schedule + "\" is for Hopper, and the target is " + arch_,
                "begin it with mma, or leave the choice to the heuristic");
  }
  for (int p = 0; p < static_cast<int>(program_->phases.size()); ++p) {
    if (program_->phases[p].domain == (Axis::m | Axis::n) && program_->phases[p].reads_accumulator()) {
      product_phase_ = p;
      break;
    }
  }
}

bool CudaExecutable::on_tensor_cores(const Gemm& gemm) const {
  return tensor_core_types(gemm.a, gemm.b, std::atoi(arch_.c_str() + 3));
}

std::shared_ptr<Loaded> CudaExecutable::load(const std::string& source, const std::string& cubin) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = modules_.find(source); found != modules_.end()) return found->second;
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->module = Module(target_.device_index, cubin);
  const std::scoped_lock lock(mutex_);
  return modules_.emplace(source, std::move(loaded)).first->second;
}

std::shared_ptr<Loaded> CudaExecutable::load(const std::string& source) const {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = modules_.find(source); found != modules_.end()) return found->second;
  }
  return load(source, build(source, arch_, false).cubin);
}

namespace {

// What values make, as the key of a map.
class Key {
 public:
  template <class... T>
  explicit Key(T... values) {
    (add(values), ...);
  }
  void add(std::int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Whether an epilogue is done long before the other consumer's main loop is. What is held has a second phase.
bool hides(const EpilogueNeeds& needs, std::int64_t k) {
  return k >= (needs.holds || needs.group ? 96 : 48) * std::int64_t{needs.operations};
}

// Whether the epilogue's fragments are computed one after another. Left alone, the compiler begins all elements of a
// subtile, runs out of registers, and then computes one after another, each waiting for itself. On one H200, over
// cuBLAS's plain product, without and with: bce at 16384 x 4096 x 1024 1.30 and 1.17, swiglu 0.911 and 0.888,
// bias_gelu_res_aux 1.079 and 1.052, xent 0.996 and 0.980; at 8192^3 argmax 0.970 and 0.949; at 4096^3 softmax 1.042
// and 1.025. Where nothing hides it, only a long one gains (K = 256: swiglu 0.96 and 1.04; fp8_groups, held, at
// K = 1024 1.05 and 1.075). Beside 192 accumulators a long one is in the products' way (8192^3, bce: 0.960 and 0.984).
bool apart(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  if (schedule.mma) return is_long(needs);
  if (!is_long(needs)) return schedule.ping_pong && hides(needs, k);
  return !hides(needs, k) || (schedule.ping_pong && schedule.bm * schedule.bn <= 128 * 128);
}

// Whether they also wait for one another, for three quarters of the main loop that hides them: an epilogue that
// computes or moves much and is done early is in the products' way. At 4096^3, without and with: bce 1.055 and 1.036 of
// cuBLAS, bias_gelu_res_aux 1.084 and 1.074, dgelu_dbias 1.093 and 1.085; axpby, xent and argmax gain nothing.
bool paced(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  const int work = needs.operations + 4 * (needs.aux_bytes_column + needs.d_bytes_column);
  return schedule.ping_pong && !schedule.mma && !needs.holds && !needs.group && work >= 30 && k >= 3072 &&
         hides(needs, k) && apart(needs, schedule, k);
}

// The source of a site's product by one schedule.
std::string source_of(MainLoop loop, const Shape& shape, std::int64_t columns, const FusedEpilogue& epilogue,
                      const Schedule& schedule) {
  loop.promoted = schedule.mma ? 0 : promotes(loop.a);
  loop.whole_m = shape.m % schedule.bm == 0;
  loop.whole_n = columns % (schedule.bn / epilogue.needs.parts) == 0;
  loop.apart = apart(epilogue.needs, schedule, shape.k);
  loop.paced = paced(epilogue.needs, schedule, shape.k);
  return gemm_source(loop, schedule, epilogue);
}

// Why there is no schedule for these needs.
std::string nothing_fits(EpilogueNeeds needs, bool mma) {
  const int group = std::exchange(needs.group, 0);
  return group && !candidates(needs, mma).empty()
             ? "no tile holds groups of " + std::to_string(group) + " columns"
             : "no tile fits in shared memory with the operands and outputs of this epilogue";
}

// Behind a long main loop the larger tiles that two launches allow are as fast (8192^3, softmax: 1.00 of cuBLAS), but
// for a single wave of tiles.
bool holds_well(const Shape& shape, std::int64_t columns, int multiprocessors) {
  return shape.k <= 6144 || shape.batch * shape.m * columns <= std::int64_t{128} * 128 * multiprocessors;
}

}  // namespace

std::string CudaExecutable::not_here(const Schedule& s, const EpilogueNeeds& needs, const Site& site) const {
  if (std::string why = illegal(s, needs); !why.empty()) return why;
  const std::int64_t k_blocks = ceil_div(site.shape.k * needs.element_bytes, k_bytes(s));
  if (k_blocks < s.split) return std::to_string(s.split) + " blocks cannot share a K of " + std::to_string(k_blocks);
  const Tiles tiles = tiles_of(s, needs, site.shape.batch, site.shape.m, site.columns);
  if (!blocks(s, needs, tiles, multiprocessors_))
    return "the epilogue needs blocks at once that may not run so, for " + std::to_string(tiles.all) + " tiles";
  return {};
}

CudaExecutable::Choice CudaExecutable::choose(const Site& site, Hold hold) const {
  const bool promoted = !site.mma && promotes(site.loop.a) != 0;
  Choice choice;
  FusedEpilogue& e = choice.epilogue;
  e = emit_fragment(site.program, site.phase, site.places,
                    std::min(hold, site.in_order ? Hold::in_order
                                   : site.mma    ? Hold::groups
                                                 : Hold::rows));
  e.needs.element_bytes = static_cast<int>(size_of(site.loop.a));
  e.needs.b_mn_major = site.loop.b_mn_major;
  e.needs.promoted = promoted;
  if (e.needs.holds && site.shape.k <= 2048) e.needs.most_stages = 5;
  choice.order = rank(e.needs, site.shape.batch, site.shape.m, site.columns, site.shape.k, multiprocessors_, site.mma);
  const std::string why = asked_for(site) ? not_here(*requested_, e.needs, site) : std::string();
  if (e.held >= 0 && !why.empty()) return choose(site, Hold::nothing);
  if (e.needs.holds && (!holds_well(site.shape, site.columns, multiprocessors_) || choice.order.empty()))
    return choose(site, Hold::nothing);
  if (!asked_for(site)) return choice;
  if (!why.empty()) {
    throw Error(ErrorCode::bad_schedule, "the schedule \"" + to_string(*requested_) + "\" is not legal here: " + why,
                choice.order.empty() ? "leave the choice to the heuristic"
                                     : "such as \"" + to_string(choice.order.front()) + "\"");
  }
  choice.order = {*requested_};
  return choice;
}

std::shared_ptr<const CudaExecutable::Product> CudaExecutable::product(const Site& site,
                                                                       std::vector<std::string>& rejected) const {
  // All that decides the source. Emitting it again at each bind took most of post.matmul's 41 us on a host.
  Key key(&site.program == program_.get(), site.shape.batch, site.shape.m, site.columns, site.shape.k,
          site.loop.a_mn_major, site.loop.b_mn_major, site.mma, site.in_order);
  for (const BufferPlace& place : site.places)
    key.add(place.tensor_map + 2 * place.unit + 4 * place.pair + 8 * place.wide);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = products_.find(key.text()); found != products_.end()) {
      rejected = found->second->rejected;
      return found->second;
    }
  }
  for (Hold hold = Hold::rows;; hold = Hold::nothing) {
    const Choice choice = choose(site, hold);
    for (const Schedule& schedule : choice.order) {
      const std::string source = source_of(site.loop, site.shape, site.columns, choice.epilogue, schedule);
      std::shared_ptr<Loaded> module;
      std::string reason;
      {
        const std::scoped_lock lock(mutex_);
        if (const auto found = modules_.find(source); found != modules_.end()) module = found->second;
        if (const auto found = rejections_.find(source); found != rejections_.end()) reason = found->second;
      }
      if (!module && reason.empty()) {
        const Built built = build(source, arch_, !requested_);
        reason = built.rejected;
        if (reason.empty()) module = load(source, built.cubin);
      }
      const std::scoped_lock lock(mutex_);
      if (module) {
        auto made = std::make_shared<const Product>(schedule, choice.epilogue, rejected, std::move(module));
        if (products_.size() >= most_products) products_.clear();
        return products_.insert_or_assign(key.text(), std::move(made)).first->second;
      }
      rejections_[source] = reason;
      rejected.push_back(to_string(schedule) + ": " + reason);
    }
    if (choice.epilogue.held >= 0) continue;
    if (choice.order.empty()) rejected.push_back(nothing_fits(choice.epilogue.needs, site.mma));
    return nullptr;
  }
}

std::shared_ptr<const CudaExecutable::Generic> CudaExecutable::generic(const std::vector<int>& phases,
                                                                       const Wide& wide) const {
  Key key(static_cast<int>(wide.source), wide.accumulator);
  for (const int phase : phases) key.add(phase);
  key.add(-1);
  for (const std::int64_t columns : wide.columns) key.add(columns);
  for (const bool buffer : wide.buffers) key.add(buffer);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = generics_.find(key.text()); found != generics_.end()) return found->second;
  }
  auto made = std::make_shared<Generic>();
  made->source = emit_generic(*program_, phases, wide);
  made->module = load(made->source.text);
  const std::scoped_lock lock(mutex_);
  if (generics_.size() >= most_products) generics_.clear();
  return generics_.insert_or_assign(key.text(), std::move(made)).first->second;
}

std::shared_ptr<Loaded> CudaExecutable::plain_product(DType a, DType b) const {
  {
    const std::scoped_lock lock(mutex_);
    if (plain_product_) return plain_product_;
  }
  auto made = load(product_source(a, b));
  const std::scoped_lock lock(mutex_);
  return plain_product_ = std::move(made);
}

CudaExecutable::Assumed CudaExecutable::assumed(const Shape& shape) const {
  const auto* gemm = std::get_if<Gemm>(&problem_);
  Assumed result;
  result.why = !gemm ? "a stream has no product"
               : !on_tensor_cores(*gemm)
                   ? "the tensor cores of " + arch_ + " do not multiply these types exactly enough"
               : product_phase_ < 0 ? "no phase reads the accumulator"
                                    : not_fusable(*program_, product_phase_);
  if (!result.why.empty()) return result;
  const int parts = accumulator_parts(program_->phases[product_phase_]);
  const std::int64_t columns = program_->phases[product_phase_].columns.at(shape.n);
  const bool along_n = gemm->b_layout == Layout::mn_major && size_of(gemm->b) == 2;
  if (!mma_ && !requested_) result.portable = portable_instead(parts, along_n, shape, columns);
  const bool mma = mma_ || !result.portable.empty();
  if (parts == 2 && columns % 8 && !mma) {
    result.why = ragged_halves;
    return result;
  }
  result.site.emplace(Site{*program_,
                           product_phase_,
                           {.a = gemm->a,
                            .b = gemm->b,
                            .a_mn_major = gemm->a_layout == Layout::mn_major && size_of(gemm->a) == 2,
                            .b_mn_major = along_n && (parts == 1 || (mma && columns % 8 == 0))},
                           mma,
                           aligned_places(*program_, columns),
                           shape,
                           columns});
  if (const Choice choice = choose(*result.site, Hold::nothing); choice.order.empty()) {
    result.why = nothing_fits(choice.epilogue.needs, mma);
    result.site.reset();
  }
  return result;
}

std::vector<bool> CudaExecutable::stays(const Shape& shape) const {
  std::vector<bool> stays(program_->buffers.size());
  const Assumed made = assumed(shape);
  if (!made.site) return stays;
  const FusedEpilogue epilogue = choose(*made.site, Hold::rows).epilogue;
  for (std::size_t i = 0; epilogue.held >= 0 && i < stays.size(); ++i) {
    stays[i] = program_->buffers[i].kind == BufferKind::crossing &&
               program_->phases[epilogue.phase].stores_to(static_cast<lower::BufferId>(i));
  }
  return stays;
}

std::string CudaExecutable::explain(ExplainPart part, const Shape& shape) const {
  std::string text;
  std::vector<int> generic;
  for (int p = 0; p < static_cast<int>(program_->phases.size()); ++p) generic.push_back(p);
  const Assumed made = assumed(shape);
  if (made.site) {
    const Site& site = *made.site;
    if (part == ExplainPart::schedule && !made.portable.empty()) text += made.portable + ":\n";
    Choice choice = choose(site, Hold::rows);
    if (part == ExplainPart::schedule) {
      const bool can_compile = !compiler_version().empty();
      for (bool chosen = false; !chosen; choice = choose(site, Hold::nothing)) {
        if (choice.epilogue.held >= 0) text += "held for its " + choice.epilogue.held_for() + ":\n";
        for (const Schedule& s : choice.order) {
          std::string verdict = chosen ? "next" : "chosen";
          if (!chosen && can_compile) {
            const std::string reason =
                build(source_of(site.loop, shape, site.columns, choice.epilogue, s), arch_, !requested_).rejected;
            if (!reason.empty()) verdict = "rejected: " + reason;
          }
          chosen = chosen || verdict == "chosen";
          text += to_string(s) + "  " + std::to_string(shared_bytes(s, choice.epilogue.needs)) + " bytes shared  " +
                  verdict + "\n";
        }
        if (choice.epilogue.held < 0) break;
      }
    }
    const FusedEpilogue& epilogue = choice.epilogue;
    if (part == ExplainPart::source && !choice.order.empty())
      text += source_of(site.loop, shape, site.columns, epilogue, choice.order.front());
    if (part == ExplainPart::loops) {
      for (const int p : epilogue.finished)
        text += "phase " + std::to_string(p) +
                (across_of(program_->phases[p]) == Across::groups ? ": where the groups' statistics are known\n"
                                                                  : ": where the partial reductions are folded\n");
      if (epilogue.held >= 0)
        text += "phase " + std::to_string(epilogue.held) + ": on the same fragments, once their " +
                epilogue.held_for() + " are known\n";
      text = "phase " + std::to_string(product_phase_) + ": on the product's fragments\n" + text;
    }
    generic.clear();
    for (int p = 0; p < static_cast<int>(program_->phases.size()); ++p) {
      if (!epilogue.runs(p)) generic.push_back(p);
    }
  } else if (part != ExplainPart::source) {
    text += "epilogue from memory: " + made.why + "\n";
  }
  if (part == ExplainPart::source && !generic.empty()) {
    const auto* gemm = std::get_if<Gemm>(&problem_);
    Wide vectors;  // as if all were aligned
    vectors.source = gemm ? program_->accumulator : std::get<Stream>(problem_).x;
    bool eights = true;
    for (const Phase& phase : program_->phases) {
      vectors.columns.push_back(phase.domain.has(Axis::n) ? phase.columns.at(shape.n) : 1);
      eights = eights && (!phase.domain.has(Axis::n) || vectors.columns.back() % 8 == 0);
    }
    vectors.accumulator = eights && vector_type(vectors.source);
    for (const auto& buffer : program_->buffers)
      vectors.buffers.push_back(eights && vector_type(buffer.dtype) && buffer.axes.has(Axis::n));
    text += emit_generic(*program_, generic, vectors).text;
  }
  if (part == ExplainPart::loops) {
    for (const int p : generic) text += "phase " + std::to_string(p) + ": a pass over memory\n";
  }
  return text;
}

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
  if (const auto* gemm = std::get_if<Gemm>(&problem)) {
    for (const DType type : {gemm->a, gemm->b}) {
      if (type == DType::i64 || type == DType::boolean)
        reasons.push_back("a product of " + std::string(name(type)) + " is not done on a GPU");
    }
  }
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

namespace {
bool is_fp8(const Problem& problem) {
  const auto* gemm = std::get_if<Gemm>(&problem);
  return gemm && (gemm->a == DType::e4m3 || gemm->a == DType::e5m2);
}
}  // namespace

double accumulator_unit(const Problem& problem) { return is_fp8(problem) ? 0x1p-13 : 0x1p-23; }

double accumulator_drift(const Problem& problem) {
  const auto* gemm = std::get_if<Gemm>(&problem);
  if (is_fp8(problem)) return 16 * 0x1p-13 / 32;
  return gemm && size_of(gemm->a) == 2 ? 2 * 0x1p-23 / 16 : 0;
}

std::unique_ptr<Executable> compile(const Problem& problem, std::shared_ptr<const Program> program,
                                    const Target& target) {
  return std::make_unique<CudaExecutable>(problem, std::move(program), target);
}

}  // namespace postlude::inline v0::cuda
