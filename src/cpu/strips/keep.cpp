#include "cpu/strips/keep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

namespace postlude::inline v0::cpu {

using lower::Buffer;
using lower::BufferId;
using lower::BufferKind;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::ValueId;

namespace {

// More f32 tiles than this would not stay in L2 beside what the phases read and write.
constexpr std::size_t most_kept = 2;

bool loads(const Instruction& x, BufferId buffer) {
  return x.op == Op::operand && x.access.buffer == buffer && x.access.columns.identity() && x.access.divide_rows == 1 &&
         x.guard < 0;
}

class Keeper {
 public:
  explicit Keeper(Program& program) : program_(program) {}

  // Rewrites phases p and p + 1, perhaps with one between. Returns how many there are now.
  std::size_t run(std::size_t p) {
    if (!share_a_pass(program_.phases[p], program_.phases[p + 1])) return 2;
    keep_values(program_.phases[p], program_.phases[p + 1]);
    return split_softmax(p) ? 3 : 2;
  }

 private:
  bool share_a_pass(const Phase& first, const Phase& second) const {
    return first.domain == tile_axes && second.domain == tile_axes && first.batched == second.batched &&
           first.rows == second.rows && first.columns == second.columns && same_rows_suffice(second);
  }

  // Whether a phase reads earlier ones on its own rows only. Then they share a pass, and e never
  // leaves the cache.
  bool same_rows_suffice(const Phase& phase) const {
    return std::all_of(phase.code.begin(), phase.code.end(), [&](const Instruction& x) {
      if (x.op != Op::operand) return true;
      const Buffer& buffer = program_.buffers[x.access.buffer];
      return buffer.kind == BufferKind::operand || (buffer.axes.has(Axis::m) && x.access.divide_rows == 1);
    });
  }

  lower::Access new_buffer(const Phase& phase) {
    Buffer buffer;
    buffer.kind = BufferKind::crossing;
    buffer.name = "kept" + std::to_string(program_.buffers.size());
    buffer.axes = phase.batched ? tile_axes | Axis::b : tile_axes;
    buffer.rows = phase.rows;
    buffer.columns = phase.columns;
    program_.buffers.push_back(buffer);
    lower::Access access;
    access.buffer = static_cast<BufferId>(program_.buffers.size()) - 1;
    return access;
  }
  static Instruction load_of(const lower::Access& access, const Instruction& value) {
    Instruction load;
    load.op = Op::operand;
    load.type = DType::f32;
    load.axes = value.axes;
    load.batched = value.batched;
    load.access = access;
    load.node = value.node;
    return load;
  }

  // ---- values ----

  using Key = std::tuple<Op, DType, DType, Round, const Function*, std::vector<ValueId>>;
  static Key key_of(const Instruction& x, std::vector<ValueId> args) {
    return {x.op, x.type, x.dtype, x.round, x.function.get(), std::move(args)};
  }
  static bool pure(const Instruction& x) {
    return !x.args.empty() && x.guard < 0 && x.op != Op::random && x.round != Round::stochastic;
  }

  // For each value of `second` the equal one of `first`, or -1.
  std::vector<ValueId> equals(const Phase& first, const Phase& second) const {
    std::map<Key, ValueId> computed;
    for (std::size_t v = 0; v < first.code.size(); ++v) {
      if (pure(first.code[v])) computed.emplace(key_of(first.code[v], first.code[v].args), static_cast<ValueId>(v));
    }
    const auto find = [&](auto&& same) {
      const auto it = std::find_if(first.code.begin(), first.code.end(), same);
      return it == first.code.end() ? -1 : static_cast<ValueId>(it - first.code.begin());
    };
    std::vector<ValueId> equal(second.code.size(), -1);
    for (std::size_t v = 0; v < second.code.size(); ++v) {
      const Instruction& x = second.code[v];
      if (x.guard >= 0) continue;
      if (x.op == Op::operand && program_.buffers[x.access.buffer].kind == BufferKind::crossing) {
        for (const lower::Store& store : first.stores) {
          if (store.access == x.access && first.code[store.value].type == x.type) equal[v] = store.value;
        }
      } else if (x.op == Op::acc ||
                 (x.op == Op::operand && program_.buffers[x.access.buffer].kind == BufferKind::operand)) {
        equal[v] = find([&](const Instruction& y) {
          return y.op == x.op && y.access == x.access && y.type == x.type && y.guard < 0;
        });
      } else if (x.op == Op::constant) {
        equal[v] = find([&](const Instruction& y) {
          return y.op == x.op && y.type == x.type && y.literal.type == x.literal.type &&
                 y.literal.integer == x.literal.integer &&
                 std::memcmp(&y.literal.real, &x.literal.real, sizeof x.literal.real) == 0;
        });
      } else if (pure(x)) {
        std::vector<ValueId> args;
        for (const ValueId arg : x.args) args.push_back(equal[arg]);
        if (std::count(args.begin(), args.end(), -1) > 0) continue;
        const auto it = computed.find(key_of(x, std::move(args)));
        if (it != computed.end()) equal[v] = it->second;
      }
    }
    return equal;
  }

  void keep_values(Phase& first, Phase& second) {
    const std::vector<ValueId> equal = equals(first, second);
    std::vector<bool> wanted(second.code.size(), false);  // by what the first phase does not compute
    for (std::size_t v = 0; v < second.code.size(); ++v) {
      if (equal[v] >= 0) continue;
      for (const ValueId arg : second.code[v].args) wanted[arg] = true;
    }
    lower::for_each_use(second, [&](ValueId v) { wanted[v] = true; });
    std::vector<std::size_t> kept;
    for (std::size_t v = 0; v < second.code.size(); ++v) {
      const Instruction& x = second.code[v];
      if (wanted[v] && equal[v] >= 0 && pure(x) && x.type == DType::f32 && x.axes.contains(tile_axes))
        kept.push_back(v);
    }
    if (kept.empty() || kept.size() > most_kept) return;
    for (const std::size_t v : kept) {
      const lower::Access access = new_buffer(first);
      first.stores.push_back({equal[v], access});
      second.code[v] = load_of(access, second.code[v]);
    }
    drop_unused(second);
    drop_unread_stores(first);
  }

  // Drops stores of crossing values that no phase loads any more.
  void drop_unread_stores(Phase& phase) {
    std::erase_if(phase.stores, [&](const lower::Store& store) {
      if (program_.buffers[store.access.buffer].kind != BufferKind::crossing) return false;
      return std::none_of(program_.phases.begin(), program_.phases.end(),
                          [&](const Phase& reader) { return reader.loads(store.access.buffer); });
    });
  }

  // ---- softmax ----

  bool split_softmax(std::size_t p) {
    const Phase& first = program_.phases[p];
    const Phase& second = program_.phases[p + 1];
    for (std::size_t r = 0; r < first.reductions.size(); ++r) {
      const Reduction& reduction = first.reductions[r];
      if (reduction.reducer != Reducer::online_softmax || reduction.axes != Axes(Axis::n) || reduction.group != 0 ||
          reduction.pieces.size() != 1 || !reduction.pieces[0].columns.identity() || reduction.results[0] < 0 ||
          reduction.results[1] < 0) {
        continue;
      }
      for (std::size_t e = 0; e < second.code.size(); ++e) {
        if (!is_exponential(first, second, reduction, second.code[e])) continue;
        rewrite(p, r, static_cast<ValueId>(e));
        return true;
      }
    }
    return false;
  }

  // Whether a value is exp(x - m) of the reduction's x and m.
  static bool is_exponential(const Phase& first, const Phase& second, const Reduction& reduction,
                             const Instruction& e) {
    if (e.op != Op::exp || e.guard >= 0) return false;
    const Instruction& difference = second.code[e.args[0]];
    if (difference.op != Op::sub || difference.type != DType::f32 || difference.guard >= 0) return false;
    const Instruction& x = second.code[difference.args[0]];
    if (!loads(second.code[difference.args[1]], reduction.results[0])) return false;
    const ValueId reduced = reduction.pieces[0].args[0];
    if (x.op == Op::acc) {
      const Instruction& acc = first.code[reduced];
      return acc.op == Op::acc && acc.access == x.access && acc.access.columns.identity() && x.type == DType::f32;
    }
    return x.type == DType::f32 &&
           std::any_of(first.stores.begin(), first.stores.end(), [&](const lower::Store& store) {
             return store.value == reduced && store.access.columns.identity() && loads(x, store.access.buffer);
           });
  }

  void rewrite(std::size_t p, std::size_t r, ValueId e) {
    Phase& first = program_.phases[p];
    Phase& second = program_.phases[p + 1];
    const lower::Access here = new_buffer(first);
    Phase between = second;
    between.stores = {{e, here}};
    Reduction sum = first.reductions[r];
    sum.reducer = Reducer::sum;
    sum.pieces[0].args = {e};
    sum.results = {sum.results[1]};
    between.reductions = {sum};
    first.reductions[r].reducer = Reducer::max;
    first.reductions[r].results.resize(1);

    second.code[e] = load_of(here, second.code[e]);
    // Where all elements are -inf their exponentials are NaN, and so is this sum: no step needs to
    // say it.
    for (Instruction& x : second.code) {
      if (x.op != Op::where || x.guard >= 0 || !loads(second.code[x.args[2]], sum.results[0])) continue;
      const Instruction &both = second.code[x.args[0]], &value = second.code[x.args[1]];
      if (both.op != Op::bit_and || value.op != Op::constant || !std::isnan(value.literal.real)) continue;
      const Instruction& equal = second.code[both.args[0]];
      if (equal.op != Op::eq || !loads(second.code[equal.args[0]], first.reductions[r].results[0])) continue;
      const Instruction& limit = second.code[equal.args[1]];
      if (limit.op == Op::constant && limit.literal.real == -INFINITY) x = second.code[x.args[2]];
    }
    drop_unused(between);
    drop_unused(second);
    program_.phases.insert(program_.phases.begin() + static_cast<std::ptrdiff_t>(p) + 1, std::move(between));
  }

  static void drop_unused(Phase& phase) {
    std::vector<bool> used(phase.code.size(), false);
    lower::for_each_use(phase, [&](ValueId v) { used[v] = true; });
    for (std::size_t v = phase.code.size(); v-- > 0;) {
      if (!used[v]) continue;
      for (const ValueId arg : phase.code[v].args) used[arg] = true;
      if (phase.code[v].guard >= 0) used[phase.code[v].guard] = true;
    }
    std::vector<ValueId> now(phase.code.size(), -1);
    std::vector<Instruction> code;
    for (std::size_t v = 0; v < phase.code.size(); ++v) {
      if (!used[v]) continue;
      Instruction& x = phase.code[v];
      for (ValueId& arg : x.args) arg = now[arg];
      if (x.guard >= 0) x.guard = now[x.guard];
      now[v] = static_cast<ValueId>(code.size());
      code.push_back(std::move(x));
    }
    phase.code = std::move(code);
    lower::for_each_use(phase, [&](ValueId& v) { v = now[v]; });
  }

  Program& program_;
};

}  // namespace

std::vector<int> keep_in_cache(Program& program) {
  std::vector<int> was(program.phases.size());
  std::iota(was.begin(), was.end(), 0);
  for (std::size_t p = 0; p + 1 < program.phases.size();) {
    const std::size_t phases = Keeper(program).run(p);
    // The one between is what the second one was.
    if (phases == 3) was.insert(was.begin() + static_cast<std::ptrdiff_t>(p) + 1, was[p + 1]);
    p += phases - 1;
  }
  return was;
}

}  // namespace postlude::inline v0::cpu
