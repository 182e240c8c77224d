#include "cpu/strips/combiner.h"

#include "core/divide.h"

#include "lower/emit.h"
#include "lower/expand.h"
#include "lower/infer.h"

#include <algorithm>

namespace postlude::inline v0::cpu {

namespace {

constexpr std::int64_t slot_bytes(std::int64_t elements) { return round_up(elements * 8, 64); }

}  // namespace

Combiner::Combiner(const Lambda& body, std::span<const DType> types, const StripTable& table)
    : components_(static_cast<int>(types.size())), types_(types.begin(), types.end()) {
  lower::Phase phase;
  std::vector<DType> parameters;
  std::vector<lower::ValueId> ids;
  for (std::size_t i = 0; i < 2 * types.size(); ++i) {
    parameters.push_back(types[i % types.size()]);
    ids.push_back(static_cast<lower::ValueId>(i));
    lower::Instruction& parameter = phase.code.emplace_back();
    parameter.op = Op::parameter;
    parameter.type = parameters.back();
  }
  Typing typing;
  const lower::Work work = lower::infer_body(body, parameters, std::vector<Axes>(parameters.size()), -1, typing);
  for (const lower::ValueId result : lower::emit_body(work, ids, {}, phase.code)) phase.stores.push_back({result, {}});
  phase = lower::expand_calls(phase, [&](const lower::Instruction& call) { return has_native(call, table); });

  std::vector<int> value;  // of each instruction
  std::vector<DType> type_of = parameters;
  const auto append = [&](Operation operation) {
    operation.slot = slots_++;
    type_of.push_back(operation.type);
    operations_.push_back(std::move(operation));
    return static_cast<int>(type_of.size()) - 1;
  };
  const auto converted = [&](int v, DType type) {
    if (type_of[v] == type) return v;
    return append(
        {.type = type, .function = table.cast[compute_index(type_of[v])][static_cast<int>(type)], .arguments = {v}});
  };
  for (const lower::Instruction& x : phase.code) {
    if (x.op == Op::parameter) {
      value.push_back(static_cast<int>(value.size()));
      continue;
    }
    Operation operation{.type = x.type};
    for (const lower::ValueId arg : x.args) {
      operation.arguments.push_back(x.op == Op::call ? converted(value[arg], DType::f32) : value[arg]);
    }
    const DType last = x.args.empty() ? x.type : type_of[operation.arguments.back()];
    if (x.op == Op::constant) {
      operation.constant = x.literal;
    } else if (x.op == Op::cast && x.round != Round::nearest_even && (last == DType::f32 || is_float(x.dtype))) {
      operation.cast = RoundedCast{last, x.dtype, x.round};
    } else if (x.op == Op::cast) {
      operation.function = table.cast[compute_index(last)][static_cast<int>(x.dtype)];
    } else if (x.op == Op::call && x.function->prelude) {
      operation.function = find_native(table, x.function->name)->function;
    } else if (x.op == Op::call) {
      operation.native = x.function->native;
    } else {
      operation.function = table.ops[static_cast<int>(x.op)][compute_index(last)];
      if (operation.function == nullptr)
        throw Error(ErrorCode::internal, "the CPU has no strip function for '" + std::string(info(x.op).id) + "'");
    }
    int made = append(std::move(operation));
    if (x.guard >= 0) {
      const int zero = append({.type = x.type, .constant = {x.type, 0, 0}});
      made = append({.type = x.type,
                     .function = table.ops[static_cast<int>(Op::where)][compute_index(x.type)],
                     .arguments = {value[x.guard], zero, made}});
    }
    value.push_back(made);
  }
  // A result that is a parameter is copied first, because another result may be written over it.
  for (std::size_t i = 0; i < types.size(); ++i) {
    int v = converted(value[phase.stores[i].value], types[i]);
    if (v < 2 * components_ && v != static_cast<int>(i)) {
      v = append({.type = types[i], .function = table.copy[compute_index(types[i])], .arguments = {v}});
    }
    results_.push_back(v);
  }
}

std::int64_t Combiner::scratch_bytes(std::int64_t elements) const {
  return std::max<std::int64_t>(1, slots_) * slot_bytes(elements);
}

void Combiner::combine(void* const* a, const void* const* b, void* const* out, std::int64_t elements,
                       char* scratch) const {
  const std::int64_t pitch = slot_bytes(elements);
  const int parameters = 2 * components_;
  auto source = [&](int v) -> StripArg {
    if (v < components_) return {a[v], 0, 1};
    if (v < parameters) return {b[v - components_], 0, 1};
    const Operation& made = operations_[v - parameters];
    return {scratch + made.slot * pitch, 0, made.is_constant() ? 0 : 1};
  };
  Strip strip;
  strip.rows = 1;
  strip.columns = elements;
  strip.out_row_stride = elements;
  StripArg arguments[most_arguments];
  strip.args = arguments;
  for (const Operation& operation : operations_) {
    strip.out = scratch + operation.slot * pitch;
    if (operation.is_constant()) {
      write_constant(operation.constant, operation.type, static_cast<char*>(strip.out));
      continue;
    }
    for (std::size_t i = 0; i < operation.arguments.size(); ++i) arguments[i] = source(operation.arguments[i]);
    if (operation.native) call_native(*operation.native, strip);
    else if (operation.cast) cast_rounded(*operation.cast, strip);
    else operation.function(strip);
  }
  for (int i = 0; i < components_; ++i) {
    const StripArg from = source(results_[i]);
    if (from.data == out[i]) continue;
    const std::int64_t size = strip_bytes(types_[i]);
    if (from.column_stride == 0) {
      for (std::int64_t e = 0; e < elements; ++e) {
        std::copy_n(static_cast<const char*>(from.data), size, static_cast<char*>(out[i]) + e * size);
      }
    } else {
      std::copy_n(static_cast<const char*>(from.data), elements * size, static_cast<char*>(out[i]));
    }
  }
}

}  // namespace postlude::inline v0::cpu
