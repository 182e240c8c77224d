#include "cpu/product/direct.h"

#include "core/convert.h"

#include <algorithm>
#include <cmath>

namespace postlude::inline v0::cpu {

using lower::Instruction;
using lower::ValueId;

namespace {

// Takes a stored value of a phase apart, from the store towards the accumulator.
class Matcher {
 public:
  Matcher(const lower::Program& program, const lower::Phase& phase, std::span<const Placed> buffers)
      : program_(program), phase_(phase), buffers_(buffers) {}

  std::optional<DirectForm> match(const lower::Store& store) {
    if (program_.accumulator != DType::f32 || !plain_tile(store.access)) return {};
    form_.out = store.access.buffer;
    return scale_and_bias(addend(bounds(store.value))) ? std::optional(form_) : std::nullopt;
  }
  [[nodiscard]] bool used_all() const { return used_ == static_cast<int>(phase_.code.size()); }

 private:
  [[nodiscard]] const Instruction& at(ValueId v) const { return phase_.code[v]; }
  const Instruction& use(ValueId v) {
    ++used_;
    return at(v);
  }
  [[nodiscard]] bool plain(ValueId v, Op op, int arguments) const {
    const Instruction& instruction = at(v);
    return instruction.op == op && instruction.type == DType::f32 && instruction.guard < 0 &&
           static_cast<int>(instruction.args.size()) == arguments;
  }
  [[nodiscard]] bool calls(ValueId v, const char* name, int arguments) const {
    return plain(v, Op::call, arguments) && at(v).function->prelude && at(v).function->name == name;
  }
  [[nodiscard]] bool plain_tile(const lower::Access& access) const {
    const lower::Buffer& buffer = program_.buffers[access.buffer];
    return buffer.dtype == DType::f32 && buffer.axes.contains(tile_axes) && access.columns.identity() &&
           access.divide_rows == 1 && contiguous(access.buffer);
  }
  [[nodiscard]] bool contiguous(lower::BufferId buffer) const { return buffers_[buffer].strides[2] == 1; }
  std::optional<float> constant(ValueId v) const {
    if (at(v).op != Op::constant || at(v).type != DType::f32) return {};
    const auto value = static_cast<float>(at(v).literal.value());
    if (std::isnan(value)) return {};
    return value;
  }

  ValueId bounds(ValueId v) {
    if (calls(v, "relu", 1)) {
      form_.lo = 0;
      return use(v).args[0];
    }
    if (calls(v, "clamp", 3)) {
      const std::optional<float> lo = constant(at(v).args[1]), hi = constant(at(v).args[2]);
      if (!lo || !hi || *hi == 0 || !(*lo <= *hi)) return v;
      form_.lo = *lo;
      form_.hi = *hi;
      used_ += at(v).args[1] == at(v).args[2] ? 1 : 2;
      return use(v).args[0];
    }
    if (plain(v, Op::max, 2)) {
      for (int i = 0; i < 2; ++i) {
        const std::optional<float> lo = constant(at(v).args[i]);
        if (!lo || at(v).args[0] == at(v).args[1]) continue;
        form_.lo = *lo;
        ++used_;
        return use(v).args[1 - i];
      }
    }
    return v;
  }

  ValueId addend(ValueId v) {
    if (!plain(v, Op::add, 2)) return v;
    for (int i = 0; i < 2; ++i) {
      const ValueId tile = at(v).args[i];
      if (!is_tile(tile)) continue;
      form_.add = at(tile).access.buffer;
      ++used_;
      return use(v).args[1 - i];
    }
    return v;
  }

  bool is_accumulator(ValueId v) { return plain(v, Op::acc, 0) && at(v).access.columns.identity() && (++used_, true); }
  bool is_bias(ValueId v) {
    if (!plain(v, Op::operand, 0) || at(v).axes != Axes(Axis::n)) return false;
    const lower::Access& access = at(v).access;
    if (program_.buffers[access.buffer].dtype != DType::f32 || !access.columns.identity() ||
        !contiguous(access.buffer)) {
      return false;
    }
    form_.bias = access.buffer;
    ++used_;
    return true;
  }
  bool is_scale(ValueId v) {
    if (const std::optional<float> value = constant(v)) {
      form_.alpha = *value;
    } else if (plain(v, Op::operand, 0) && at(v).axes.empty()) {
      form_.alpha_from = at(v).access.buffer;
    } else {
      return false;
    }
    ++used_;
    return true;
  }

  // scaled(beta, tile): a product that is 0, and does not read the tile, where beta is 0.
  bool is_scaled_tile(ValueId v) {
    const Instruction& product = at(v);
    if (product.op != Op::mul || product.guard < 0 || form_.add >= 0) return false;
    const Instruction& zero = at(product.guard);
    const ValueId beta = product.args[0], tile = product.args[1];
    if (!plain(beta, Op::operand, 0) || !at(beta).axes.empty() || zero.op != Op::eq || zero.args[0] != beta ||
        constant(zero.args[1]) != 0.0f || !is_tile(tile)) {
      return false;
    }
    form_.beta_from = at(beta).access.buffer;
    form_.add = at(tile).access.buffer;
    used_ += 5;
    return true;
  }
  [[nodiscard]] bool is_tile(ValueId v) const {
    return plain(v, Op::operand, 0) && at(v).axes.contains(tile_axes) && plain_tile(at(v).access);
  }

  bool scale_and_bias(ValueId v) {
    if (at(v).op == Op::acc) return is_accumulator(v);
    for (int i = 0; i < 2; ++i) {
      if (plain(v, Op::add, 2) && at(at(v).args[i]).op == Op::acc) {
        return is_accumulator(at(v).args[i]) && is_bias(at(v).args[1 - i]) && (++used_, true);
      }
      if (plain(v, Op::mul, 2) && at(at(v).args[i]).op == Op::acc) {
        return is_accumulator(at(v).args[i]) && is_scale(at(v).args[1 - i]) && (++used_, true);
      }
      if (plain(v, Op::fma, 3) && at(at(v).args[i]).op == Op::acc) {
        return is_accumulator(at(v).args[i]) && is_scale(at(v).args[1 - i]) &&
               (is_bias(at(v).args[2]) || is_scaled_tile(at(v).args[2])) && (++used_, true);
      }
    }
    return false;
  }

  const lower::Program& program_;
  const lower::Phase& phase_;
  std::span<const Placed> buffers_;
  DirectForm form_;
  int used_ = 0;
};

// The phase once `store` is done, whose value its accumulators are then. None where something else is made of the
// accumulators, or read from where the output lies.
std::optional<lower::Phase> behind(const lower::Phase& phase, const lower::Store& store,
                                   std::span<const Placed> buffers) {
  lower::Phase rest = phase;
  rest.stores.erase(rest.stores.begin() + (&store - phase.stores.data()));
  std::vector<Instruction>& code = rest.code;
  code[store.value] =
      *std::find_if(phase.code.begin(), phase.code.end(), [](const auto& x) { return x.op == Op::acc; });

  std::vector<bool> needed(code.size(), false);
  lower::for_each_use(rest, [&](ValueId v) { needed[v] = true; });
  for (std::size_t v = code.size(); v-- > 0;) {
    if (!needed[v]) continue;
    for (const ValueId arg : code[v].args) needed[arg] = true;
    if (code[v].guard >= 0) needed[code[v].guard] = true;
  }
  if (!needed[store.value]) return {};

  std::vector<ValueId> moved(code.size(), -1);
  std::vector<Instruction> kept;
  for (std::size_t v = 0; v < code.size(); ++v) {
    if (!needed[v]) continue;
    Instruction& x = code[v];
    if (x.op == Op::acc && static_cast<ValueId>(v) != store.value) return {};
    if (x.op == Op::operand && buffers[x.access.buffer].base == buffers[store.access.buffer].base) return {};
    for (ValueId& arg : x.args) arg = moved[arg];
    if (x.guard >= 0) x.guard = moved[x.guard];
    moved[v] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(x));
  }
  code = std::move(kept);
  lower::for_each_use(rest, [&](ValueId& v) { v = moved[v]; });
  return rest;
}

}  // namespace

std::optional<DirectForm> direct_form(const lower::Program& program, const lower::Phase& phase,
                                      std::span<const Placed> buffers) {
  if (phase.stores.size() != 1 || !phase.reductions.empty()) return {};
  Matcher matcher(program, phase, buffers);
  const std::optional<DirectForm> form = matcher.match(phase.stores[0]);
  return matcher.used_all() ? form : std::nullopt;  // every other value of the phase would be lost
}

std::optional<DirectHead> direct_head(const lower::Program& program, const lower::Phase& phase,
                                      std::span<const Placed> buffers) {
  for (const lower::Store& store : phase.stores) {
    const std::optional<DirectForm> form = Matcher(program, phase, buffers).match(store);
    std::optional<lower::Phase> rest = form ? behind(phase, store, buffers) : std::nullopt;
    if (rest) return DirectHead{*form, std::move(*rest)};
  }
  return {};
}

bool is_column_sum(const lower::Phase& rest) {
  if (!rest.stores.empty() || rest.code.size() != 1 || rest.reductions.size() != 1) return false;
  const lower::Reduction& sum = rest.reductions[0];
  return rest.code[0].op == Op::acc && sum.reducer == lower::Reducer::sum && sum.type == DType::f32 && sum.group == 0 &&
         sum.axes.has(Axis::m) && !sum.axes.has(Axis::n) && sum.pieces.size() == 1 && sum.pieces[0].columns.identity();
}

Direct DirectForm::at(std::span<const Bound> buffers, std::int64_t batch) const {
  auto base = [&](lower::BufferId buffer) {
    return buffer < 0 ? nullptr : static_cast<float*>(buffers[buffer].data) + batch * buffers[buffer].strides[0];
  };
  Direct direct;
  direct.out = base(out);
  direct.row_stride = buffers[out].strides[1];
  direct.bias = base(bias);
  direct.add = base(add);
  direct.add_row_stride = add < 0 ? 0 : buffers[add].strides[1];
  if (alpha) direct.alpha = *alpha;
  if (alpha_from >= 0) {
    const Bound& from = buffers[alpha_from];
    direct.alpha = static_cast<float>(core::load_real(from.dtype, from.data, batch * from.strides[0]));
  }
  if (beta_from >= 0) {
    const Bound& from = buffers[beta_from];
    direct.has_beta = true;
    direct.beta = static_cast<float>(core::load_real(from.dtype, from.data, batch * from.strides[0]));
    if (direct.beta == 0) direct.add = nullptr;
  }
  direct.lo = lo;
  direct.hi = hi;
  return direct;
}

}  // namespace postlude::inline v0::cpu
