#include "cpu/combiner.h"

#include "cpu/ops.h"
#include "graph/typing.h"

#include <algorithm>

namespace postlude::inline v0::cpu {

namespace {

constexpr std::int64_t slot_bytes(std::int64_t elements) { return (elements * 8 + 63) / 64 * 64; }

void fill_constant(const Literal& literal, DType type, void* to) {
  switch (type) {
    case DType::i32: *static_cast<std::int32_t*>(to) = static_cast<std::int32_t>(literal.value()); break;
    case DType::i64:
      *static_cast<std::int64_t*>(to) =
          literal.type == DType::f32 ? static_cast<std::int64_t>(literal.real) : literal.integer;
      break;
    case DType::boolean: *static_cast<std::int32_t*>(to) = literal.value() != 0; break;
    default: *static_cast<float*>(to) = static_cast<float>(literal.value()); break;
  }
}

}  // namespace

Combiner::Combiner(const Lambda& body, std::span<const DType> types, const StripTable& table)
    : components_(static_cast<int>(types.size())), types_(types.begin(), types.end()) {
  std::vector<TypeState> parameters(2 * types.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].type = types[i % types.size()];
  const std::vector<TypeState> states = Typing().infer_body(body, parameters);

  std::vector<int> value(body.nodes.size(), -1);  // of each node
  std::vector<DType> type_of(2 * types.size());
  for (std::size_t i = 0; i < type_of.size(); ++i) type_of[i] = types[i % types.size()];
  auto append = [&](Operation operation) {
    operation.slot = slots_++;
    type_of.push_back(operation.type);
    operations_.push_back(std::move(operation));
    return static_cast<int>(type_of.size()) - 1;
  };
  auto converted = [&](int v, DType type) {
    if (type_of[v] == type) return v;
    return append({table.cast[compute_index(type_of[v])][static_cast<int>(type)], {v}, -1, {}, type});
  };
  for (std::size_t id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    const DType type = states[id].type.value_or(DType::f32);
    if (node.op == Op::parameter) {
      value[id] = node.index;
      continue;
    }
    if (node.op == Op::constant) {
      value[id] = append({nullptr, {}, -1, node.literal, type});
      continue;
    }
    std::vector<TypeState> given;
    for (const NodeId arg : node.args) given.push_back(states[arg]);
    Operation operation;
    operation.type = type;
    DType last = type;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      last = node.op == Op::call   ? DType::f32
             : node.op == Op::cast ? type_of[value[node.args[i]]]
                                   : argument_type(node, i, given);
      operation.arguments.push_back(converted(value[node.args[i]], last));
    }
    if (node.op == Op::cast) {
      operation.type = compute_type(node.dtype);
      operation.function = table.cast[compute_index(last)][static_cast<int>(node.dtype)];
    } else if (node.op == Op::call) {
      const NativeStrip* native = find_native(table, node.function->name);
      if (native) operation.function = native->function;
    } else {
      operation.function = table.ops[static_cast<int>(node.op)][compute_index(last)];
    }
    if (operation.function == nullptr) {
      throw Error(ErrorCode::unsupported, "the CPU has no code for '" + std::string(info(node.op).id) + "' in a combiner");
    }
    value[id] = append(std::move(operation));
  }
  // A result that is a parameter is copied first, because another result may be written over it.
  for (std::size_t i = 0; i < types.size(); ++i) {
    int v = converted(value[body.results[i]], types[i]);
    if (v < 2 * components_ && v != static_cast<int>(i)) v = append({table.copy[compute_index(types[i])], {v}, -1, {}, types[i]});
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
    return {scratch + made.slot * pitch, 0, made.function ? 1 : 0};
  };
  Strip strip;
  strip.rows = 1;
  strip.columns = elements;
  strip.out_row_stride = elements;
  StripArg arguments[8];
  strip.args = arguments;
  for (const Operation& operation : operations_) {
    strip.out = scratch + operation.slot * pitch;
    if (operation.function == nullptr) {
      fill_constant(operation.constant, operation.type, strip.out);
      continue;
    }
    for (std::size_t i = 0; i < operation.arguments.size(); ++i) arguments[i] = source(operation.arguments[i]);
    operation.function(strip);
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
