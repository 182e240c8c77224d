// What the CUDA backend makes of a Program before any memory is bound: which product kernel, by which schedule; and
// what explain says of it.
#include "cuda/backend.h"

#include "cuda/driver.h"
#include "cuda/emit_fragment.h"
#include "cuda/emit_generic.h"
#include "cuda/executable.h"
#include "cuda/kernel.h"

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

// Stages, of 128 of K each, after which an fp8 accumulator is added to one of f32 on Hopper; docs/design.md says what
// it costs.
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

std::shared_ptr<const CudaExecutable::Product> CudaExecutable::product(const Program& program, int phase, MainLoop loop,
                                                                       bool mma, const std::vector<BufferPlace>& places,
                                                                       const Shape& shape, std::int64_t columns,
                                                                       std::vector<std::string>& rejected,
                                                                       bool compile_it) const {
  // All that decides the source. Emitting it again at each bind took most of post.matmul's 41 us on a host.
  std::string key;
  const auto add = [&](std::int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const std::int64_t value : {std::int64_t{&program == program_.get()}, shape.batch, shape.m, columns, shape.k})
    add(value);
  for (const bool flag : {loop.a_mn_major, loop.b_mn_major, mma}) key += flag ? '1' : '0';
  for (const BufferPlace& place : places)
    key += static_cast<char>('0' + place.tensor_map + 2 * place.unit + 4 * place.pair + 8 * place.wide);
  if (compile_it) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = products_.find(key); found != products_.end()) {
      rejected = found->second->rejected;
      return found->second;
    }
  }
  loop.promoted = mma ? 0 : promotes(loop.a);
  FusedEpilogue epilogue;
  std::vector<Schedule> order;
  const auto emit = [&](bool may_follow) {
    epilogue = emit_fragment(program, phase, places, may_follow);
    epilogue.needs.element_bytes = static_cast<int>(size_of(loop.a));
    epilogue.needs.b_mn_major = loop.b_mn_major;
    epilogue.needs.promoted = loop.promoted != 0;
    order = rank(epilogue.needs, shape.batch, shape.m, columns, shape.k, multiprocessors_, mma);
  };
  // Behind a long main loop the larger tiles that two launches allow are faster (8192^3, softmax: 1.01 of cuBLAS, in
  // one 1.02 to 1.07); beside a short one a phase of many instructions slows the product's own epilogue. As multiples
  // of the plain product, in two launches and in one: 16384 x 4096 x 1024, rmsnorm (3 an element) 1.73 and 1.60,
  // softmax (21) 1.55 and 1.6 to 1.7; 4096^3: rmsnorm 1.23 and 1.18, softmax 1.19 and 1.15.
  emit(!mma && !loop.promoted);
  if (!follows_well(epilogue, shape.k)) emit(false);
  if (epilogue.needs.follows && (requested_ ? !illegal(*requested_, epilogue.needs).empty() : order.empty()))
    emit(false);
  if (requested_ && &program == program_.get()) {
    if (const std::string why = illegal(*requested_, epilogue.needs); !why.empty()) {
      throw Error(ErrorCode::bad_schedule, "the schedule \"" + to_string(*requested_) + "\" is not legal here: " + why,
                  order.empty() ? "leave the choice to the heuristic" : "such as \"" + to_string(order.front()) + "\"");
    }
    order = {*requested_};
  }
  const auto compiles = [&]() -> std::shared_ptr<const Product> {
    for (const Schedule& schedule : order) {
      loop.whole_m = shape.m % schedule.bm == 0;
      loop.whole_n = columns % (schedule.bn / epilogue.needs.parts) == 0;
      Product made{schedule, epilogue, gemm_source(loop, schedule, epilogue), {}, nullptr};
      if (!compile_it) return std::make_shared<const Product>(std::move(made));
      std::shared_ptr<Loaded> module;
      std::string reason;
      {
        const std::scoped_lock lock(mutex_);
        if (const auto found = modules_.find(made.source); found != modules_.end()) module = found->second;
        if (const auto found = rejections_.find(made.source); found != rejections_.end()) reason = found->second;
      }
      if (!module && reason.empty()) {
        const Built built = build(made.source, arch_, !requested_.has_value());
        reason = built.rejected;
        if (reason.empty()) module = load(made.source, built.cubin);
        else {
          const std::scoped_lock lock(mutex_);
          rejections_[made.source] = reason;
        }
      }
      if (module) {
        made.module = std::move(module);
        made.rejected = rejected;
        auto product = std::make_shared<const Product>(std::move(made));
        const std::scoped_lock lock(mutex_);
        if (products_.size() >= most_products) products_.clear();
        return products_.insert_or_assign(key, std::move(product)).first->second;
      }
      rejected.push_back(to_string(schedule) + ": " + reason);
    }
    return nullptr;
  };
  if (auto made = compiles()) return made;
  if (epilogue.needs.follows) {  // its registers are fewer
    emit(false);
    if (requested_ && &program == program_.get()) order = {*requested_};
    if (auto made = compiles()) return made;
  }
  if (order.empty()) rejected.push_back("no tile fits in shared memory with the operands and outputs of this epilogue");
  return nullptr;
}

std::string CudaExecutable::explain(ExplainPart part, const Shape& shape) const {
  const auto* gemm = std::get_if<Gemm>(&problem_);
  std::string text;
  std::vector<int> generic;
  for (int p = 0; p < static_cast<int>(program_->phases.size()); ++p) generic.push_back(p);
  std::string why = !gemm ? "a stream has no product"
                    : !on_tensor_cores(*gemm)
                        ? "the tensor cores of " + arch_ + " do not multiply these types exactly enough"
                    : product_phase_ < 0 ? "no phase reads the accumulator"
                                         : not_fusable(*program_, product_phase_);
  int parts = 1;
  bool along_n = false, mma = mma_;
  std::int64_t columns = shape.n;
  std::string portable;
  if (why.empty()) {
    parts = accumulator_parts(program_->phases[product_phase_]);
    columns = program_->phases[product_phase_].columns.at(shape.n);
    along_n = gemm->b_layout == Layout::mn_major && size_of(gemm->b) == 2;
    if (!mma_ && !requested_) portable = portable_instead(parts, along_n, shape, columns);
    mma = mma_ || !portable.empty();
    if (parts == 2 && columns % 8 && !mma) why = ragged_halves;
  }
  if (why.empty()) {
    const std::vector<BufferPlace> places = aligned_places(*program_, columns);
    std::vector<std::string> rejected;
    if (part == ExplainPart::schedule && !portable.empty()) text += portable + ":\n";
    const MainLoop loop{.a = gemm->a,
                        .b = gemm->b,
                        .a_mn_major = gemm->a_layout == Layout::mn_major && size_of(gemm->a) == 2,
                        .b_mn_major = along_n && (parts == 1 || (mma && columns % 8 == 0)),
                        .promoted = mma ? 0 : promotes(gemm->a)};
    const bool can_compile = part == ExplainPart::schedule && !compiler_version().empty();
    FusedEpilogue epilogue = emit_fragment(*program_, product_phase_, places, !mma && !loop.promoted);
    if (!follows_well(epilogue, shape.k)) epilogue = emit_fragment(*program_, product_phase_, places, false);
    epilogue.needs.element_bytes = static_cast<int>(size_of(loop.a));
    epilogue.needs.b_mn_major = loop.b_mn_major;
    epilogue.needs.promoted = loop.promoted != 0;
    if (part == ExplainPart::schedule) {
      bool chosen = false;
      const std::vector<Schedule> order =
          requested_ ? std::vector{*requested_}
                     : rank(epilogue.needs, shape.batch, shape.m, columns, shape.k, multiprocessors_, mma);
      for (const Schedule& s : order) {
        std::string verdict = chosen ? "next" : "chosen";
        if (!chosen && can_compile) {
          MainLoop whole = loop;
          whole.whole_m = shape.m % s.bm == 0, whole.whole_n = columns % (s.bn / epilogue.needs.parts) == 0;
          const Built built = build(gemm_source(whole, s, epilogue), arch_, true);
          if (!built.rejected.empty()) verdict = "rejected: " + built.rejected;
        }
        chosen = chosen || verdict == "chosen";
        text +=
            to_string(s) + "  " + std::to_string(shared_bytes(s, epilogue.needs)) + " bytes shared  " + verdict + "\n";
      }
    }
    if (const auto made = product(*program_, product_phase_, loop, mma, places, shape, columns, rejected, false);
        made && part == ExplainPart::source)
      text += made->source;
    for (const int p : epilogue.finished)
      text += part == ExplainPart::loops ? "phase " + std::to_string(p) + ": where the partial reductions are folded\n"
                                         : "";
    if (part == ExplainPart::loops && epilogue.following >= 0)
      text += "phase " + std::to_string(epilogue.following) + ": row by row behind the product, in the same launch\n";
    generic.clear();
    for (int p = 0; p < static_cast<int>(program_->phases.size()); ++p) {
      if (!epilogue.runs(p)) generic.push_back(p);
    }
    if (part == ExplainPart::loops)
      text = "phase " + std::to_string(product_phase_) + ": on the product's fragments\n" + text;
  } else if (part != ExplainPart::source) {
    text += "epilogue from memory: " + why + "\n";
  }
  if (part == ExplainPart::source && !generic.empty()) {
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
