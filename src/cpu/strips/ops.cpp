#include "cpu/strips/ops.h"

#include "core/convert.h"
#include "core/threads.h"
#include "cpu/strips/keep.h"
#include "cpu/strips/reduce.h"
#include "graph/ir/functions.h"
#include "lower/expand.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace postlude::inline v0::cpu {

const StripTable& strips(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512_strips;
  if (isa == Isa::avx2) return avx2_strips;
#endif
  static_cast<void>(isa);
  return portable_strips;
}

const NativeStrip* find_native(const StripTable& table, std::string_view name) {
  for (int i = 0; i < table.native_count; ++i) {
    if (name == table.natives[i].name) return &table.natives[i];
  }
  return nullptr;
}

namespace {

// Rebuilds a phase's code with instructions inserted; `now` maps old values to new ones.
class Insertion {
 public:
  explicit Insertion(lower::Phase& phase) : phase_(phase), old_(std::move(phase.code)) { phase.code.clear(); }

  void run() {
    for (lower::Instruction& instruction : old_) {
      for (lower::ValueId& arg : instruction.args) arg = now_[arg];
      if (instruction.guard >= 0) instruction.guard = now_[instruction.guard];
      if (instruction.op == Op::random) {
        instruction.args = coordinates(instruction);
      } else if (instruction.op == Op::cast && instruction.round == Round::stochastic) {
        lower::Instruction random = instruction;
        random.op = Op::random;
        random.type = DType::f32;
        random.random_stream = 0;
        random.guard = -1;
        random.args = coordinates(instruction);
        instruction.args.push_back(add(random));
      } else if (instruction.op == Op::call) {
        for (lower::ValueId& arg : instruction.args) arg = as_f32(arg);
      }
      now_.push_back(add(std::move(instruction)));
    }
    lower::for_each_use(phase_, [&](lower::ValueId& v) { v = now_[v]; });
  }

 private:
  lower::ValueId add(lower::Instruction instruction) {
    phase_.code.push_back(std::move(instruction));
    return static_cast<lower::ValueId>(phase_.code.size()) - 1;
  }
  // Native functions take f32.
  lower::ValueId as_f32(lower::ValueId v) {
    if (phase_.code[v].type == DType::f32) return v;
    lower::Instruction cast;
    cast.op = Op::cast;
    cast.axes = phase_.code[v].axes;
    cast.args = {v};
    cast.node = phase_.code[v].node;
    return add(cast);
  }
  // The m and n, as i64, of the elements that `instruction` means; 0 along an axis that it lacks.
  std::vector<lower::ValueId> coordinates(const lower::Instruction& instruction) {
    lower::Instruction m, n;
    m.op = Op::m_index;
    n.op = Op::n_index;
    m.type = n.type = DType::i64;
    m.axes = instruction.axes & Axes(Axis::m);
    n.axes = instruction.axes & Axes(Axis::n);
    m.access = n.access = instruction.access;
    m.node = n.node = instruction.node;
    const lower::ValueId first = add(m);
    return {first, add(n)};
  }

  lower::Phase& phase_;
  std::vector<lower::Instruction> old_;
  std::vector<lower::ValueId> now_;
};

// The interpreter keeps arguments and components in arrays of a fixed size.
void refuse_too_many(const lower::Phase& phase) {
  const auto check = [](const Function& function) {
    if (!function.native || function.parameters.size() <= most_arguments) return;
    throw Error(ErrorCode::unsupported, "the CPU calls functions of at most " + std::to_string(most_arguments) +
                                            " arguments, and " + quoted(function.name) + " has " +
                                            std::to_string(function.parameters.size()));
  };
  for (const lower::Instruction& x : phase.code)
    if (x.op == Op::call) check(*x.function);
  for (const lower::Reduction& reduction : phase.reductions) {
    if (reduction.results.size() > max_components)
      throw Error(ErrorCode::unsupported,
                  "the CPU reduces at most " + std::to_string(max_components) + " values together, not " +
                      std::to_string(reduction.results.size()),
                  "Reduce them in several calls.");
    if (!reduction.combine) continue;
    for (const auto& function : functions_used(reduction.combine->nodes)) check(*function);
  }
}

// Whether x is rounded by as much as a factor of a product; a value in some range may be clamped to
// it.
bool has_rounding(const lower::Phase& phase, lower::ValueId x) {
  const auto calls = [&](std::string_view name) {
    const lower::Instruction& call = phase.code[x];
    return call.op == Op::call && call.function->prelude && call.function->name == name;
  };
  if (calls("clamp")) x = phase.code[x].args[0];
  return phase.code[x].op == Op::div || calls("sigmoid");
}

// A sum over N of a b + log c, which nothing else reads, becomes a sum of a b and one of log c, so
// that the steps that compute them sum them too (decision 0017).
void take_sums_apart(lower::Phase& phase) {
  std::vector<int> readers(phase.code.size(), 0);
  for (const lower::Instruction& x : phase.code) {
    for (const lower::ValueId arg : x.args) ++readers[arg];
  }
  lower::for_each_use(phase, [&](lower::ValueId v) { ++readers[v]; });
  for (lower::Reduction& reduction : phase.reductions) {
    if (reduction.reducer != lower::Reducer::sum || reduction.type != DType::f32 || !reduction.axes.has(Axis::n) ||
        reduction.group != 0 || reduction.pieces.size() != 1) {
      continue;
    }
    lower::Instruction& sum = phase.code[reduction.pieces[0].args[0]];
    if (sum.op != Op::fma || readers[reduction.pieces[0].args[0]] != 1) continue;
    const lower::ValueId term = sum.args[2];
    if (!is_summed_by_factors(phase, term) || readers[term] != 1 || phase.code[term].axes != sum.axes) continue;
    sum.op = Op::mul;
    sum.args.pop_back();
    reduction.pieces.push_back({{term}, reduction.pieces[0].columns});
  }
}

}  // namespace

bool is_summed_by_factors(const lower::Phase& phase, lower::ValueId v) {
  const lower::Instruction& x = phase.code[v];
  return x.op == Op::log && x.type == DType::f32 && x.guard < 0 && has_rounding(phase, x.args[0]);
}

bool has_native(const lower::Instruction& call, const StripTable& table) {
  const Function& function = *call.function;
  if (function.native) return true;  // at least its reference
  return function.prelude && call.type == DType::f32 && find_native(table, function.name) != nullptr;
}

lower::Program prepare(const lower::Program& program, const StripTable& table, std::vector<int>* phase_of) {
  const auto native = [&](const lower::Instruction& call) { return has_native(call, table); };
  lower::Program prepared = program;
  std::vector<int> of = keep_in_cache(prepared);
  if (phase_of != nullptr) *phase_of = std::move(of);
  for (lower::Phase& phase : prepared.phases) {
    phase = lower::expand_calls(phase, native);
    refuse_too_many(phase);
    Insertion(phase).run();
    take_sums_apart(phase);
  }
  return prepared;
}

void write_constant(const Literal& literal, DType type, char* to) {
  const auto write = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  // A float's literal beyond i64 saturates.
  const auto integer = [&] {
    return literal.type == DType::f32 ? static_cast<std::int64_t>(literal.real) : literal.integer;
  };
  switch (type) {
    case DType::i32: return write(static_cast<std::int32_t>(integer()));
    case DType::i64: return write(integer());
    case DType::boolean: return write(static_cast<std::int32_t>(literal.value() != 0));
    default: return write(static_cast<float>(literal.value()));
  }
}

void cast_rounded(const RoundedCast& cast, const Strip& strip) {
  const StripArg& x = strip.args[0];
  const bool stochastic = cast.round == Round::stochastic;
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    for (std::int64_t c = 0; c < strip.columns; ++c) {
      const std::int64_t from = r * x.row_stride + c * x.column_stride;
      const std::int64_t to = r * strip.out_row_stride + c;
      double u = 0;
      if (stochastic) {
        const StripArg& random = strip.args[1];
        u = static_cast<double>(
            static_cast<const float*>(random.data)[r * random.row_stride + c * random.column_stride]);
      }
      // Integers reach a float type through f32.
      double value = 0;
      std::int64_t integer = 0;
      if (cast.from == DType::f32) value = static_cast<double>(static_cast<const float*>(x.data)[from]);
      else if (cast.from == DType::i64) integer = static_cast<const std::int64_t*>(x.data)[from];
      else integer = static_cast<const std::int32_t*>(x.data)[from];
      if (is_float(cast.to)) {
        if (cast.from != DType::f32) value = static_cast<double>(static_cast<float>(integer));
        static_cast<float*>(strip.out)[to] = static_cast<float>(core::round_to(cast.to, value, cast.round, u));
        continue;
      }
      if (cast.from == DType::f32) integer = core::to_integer(cast.to, value, cast.round, u);
      else integer = core::to_integer(cast.to, integer);
      if (cast.to == DType::i64) static_cast<std::int64_t*>(strip.out)[to] = integer;
      else static_cast<std::int32_t*>(strip.out)[to] = static_cast<std::int32_t>(integer);
    }
  }
}

void call_native(const NativeFunction& function, const Strip& strip) {
  const std::size_t arity = static_cast<std::size_t>(function.arity);
  const std::size_t parameters = function.parameters.size();
  constexpr std::size_t most = most_arguments;
  float values[most] = {};
  for (std::size_t p = 0; p < parameters; ++p) values[p] = *static_cast<const float*>(strip.args[arity + p].data);
  constexpr std::int64_t chunk = 256;  // columns at a time, so that what is broadcast can be spread out
  float spread[most][chunk];
  for (std::int64_t r = 0; r < strip.rows; ++r) {
    float* out = static_cast<float*>(strip.out) + r * strip.out_row_stride;
    for (std::int64_t c0 = 0; c0 < strip.columns; c0 += chunk) {
      const std::int64_t count = std::min(chunk, strip.columns - c0);
      const float* x[most] = {};
      for (std::size_t a = 0; a < arity; ++a) {
        const StripArg& arg = strip.args[a];
        const float* from = static_cast<const float*>(arg.data) + r * arg.row_stride + c0 * arg.column_stride;
        if (arg.column_stride == 0) std::fill_n(spread[a], count, *from);
        x[a] = arg.column_stride == 0 ? spread[a] : from;
      }
      if (core::is_abandoned()) throw std::runtime_error("another call of a function threw");
      if (function.strip) {
        function.strip(x, values, out + c0, count);
        continue;
      }
      double element[most], constants[most];
      for (std::size_t p = 0; p < parameters; ++p) constants[p] = static_cast<double>(values[p]);
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::size_t a = 0; a < arity; ++a) element[a] = static_cast<double>(x[a][c]);
        out[c0 + c] = static_cast<float>(function.reference(element, constants));
      }
    }
  }
}

}  // namespace postlude::inline v0::cpu
