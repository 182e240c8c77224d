#include "fuzz/mutations.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace postlude::fuzz {

namespace {

using lower::Access;
using lower::BufferKind;
using lower::Instruction;
using lower::Phase;
using lower::Program;
using lower::Reducer;
using lower::Reduction;
using lower::Store;

// Changes one of the phases' instructions or reductions that `wanted` takes.
template <class T, class Wanted, class Change>
bool one_of(std::vector<T> Phase::*list, Program& program, std::uint64_t choice, Wanted wanted, Change change) {
  std::vector<T*> found;
  for (Phase& phase : program.phases)
    for (T& x : phase.*list)
      if (wanted(x)) found.push_back(&x);
  if (found.empty()) return false;
  change(*found[choice % found.size()]);
  return true;
}
template <class Wanted, class Change>
bool one_instruction(Program& program, std::uint64_t choice, Wanted wanted, Change change) {
  return one_of(&Phase::code, program, choice, wanted, change);
}
template <class Wanted, class Change>
bool one_reduction(Program& program, std::uint64_t choice, Wanted wanted, Change change) {
  return one_of(&Phase::reductions, program, choice, wanted, change);
}

template <Op from, Op to>
bool replace(Program& program, std::uint64_t choice) {
  return one_instruction(
      program, choice, [](const Instruction& x) { return x.op == from; }, [](Instruction& x) { x.op = to; });
}

template <Op op, int first, int second>
bool swap_arguments(Program& program, std::uint64_t choice) {
  return one_instruction(
      program, choice, [](const Instruction& x) { return x.op == op && x.args[first] != x.args[second]; },
      [](Instruction& x) { std::swap(x.args[first], x.args[second]); });
}

// The instruction becomes its argument (min(x, x): the identity).
template <Op op>
bool forget(Program& program, std::uint64_t choice) {
  return one_instruction(
      program, choice, [](const Instruction& x) { return x.op == op && x.type != boolean; },
      [](Instruction& x) {
        x.op = Op::min;
        x.args.push_back(x.args[0]);
      });
}

template <Reducer from, Reducer to>
bool replace(Program& program, std::uint64_t choice) {
  return one_reduction(
      program, choice, [](const Reduction& r) { return r.reducer == from; }, [](Reduction& r) { r.reducer = to; });
}

template <Reducer reducer>
bool swap_results(Program& program, std::uint64_t choice) {
  return one_reduction(
      program, choice,
      [](const Reduction& r) { return r.reducer == reducer && r.results[0] >= 0 && r.results[1] >= 0; },
      [](Reduction& r) { std::swap(r.results[0], r.results[1]); });
}

bool has_pieces(const Access& a) {
  return std::any_of(a.columns.steps.begin(), a.columns.steps.end(), [](const auto& s) { return s.pieces > 1; });
}
void next_piece(Access& a) {
  for (auto& s : a.columns.steps)
    if (s.pieces > 1) s.piece = (s.piece + 1) % s.pieces;
}

template <Op op>
bool wrong_piece(Program& program, std::uint64_t choice) {
  return one_instruction(
      program, choice, [](const Instruction& x) { return x.op == op && has_pieces(x.access); },
      [](Instruction& x) { next_piece(x.access); });
}

template <Op op>
bool without_group(Program& program, std::uint64_t choice) {
  const auto grouped = [](const Instruction& x) {
    return x.op == op && std::any_of(x.access.columns.steps.begin(), x.access.columns.steps.end(),
                                     [](const auto& s) { return s.group != 0 && s.pieces > 1; });
  };
  return one_instruction(program, choice, grouped, [](Instruction& x) {
    for (auto& s : x.access.columns.steps) s.group = 0;
  });
}

template <class Wanted, class Change>
bool one_store(Program& program, std::uint64_t choice, Wanted wanted, Change change) {
  std::vector<std::pair<Phase*, std::size_t>> found;
  for (Phase& phase : program.phases)
    for (std::size_t i = 0; i < phase.stores.size(); ++i)
      if (wanted(phase, phase.stores[i])) found.emplace_back(&phase, i);
  if (found.empty()) return false;
  const auto [phase, i] = found[choice % found.size()];
  change(*phase, i);
  return true;
}

bool drop_store(Program& program, std::uint64_t choice) {
  return one_store(
      program, choice, [](const Phase&, const Store&) { return true; },
      [](Phase& phase, std::size_t i) { phase.stores.erase(phase.stores.begin() + static_cast<std::ptrdiff_t>(i)); });
}

bool store_wrong_piece(Program& program, std::uint64_t choice) {
  return one_store(
      program, choice, [](const Phase&, const Store& s) { return has_pieces(s.access); },
      [](Phase& phase, std::size_t i) { next_piece(phase.stores[i].access); });
}

// Stores the value computed just before, where that has the same type and axes.
bool store_neighbour(Program& program, std::uint64_t choice) {
  const auto neighbour = [](const Phase& phase, const Store& s) {
    if (s.value == 0) return false;
    const auto v = static_cast<std::size_t>(s.value);
    return phase.code[v - 1].type == phase.code[v].type && phase.code[v - 1].axes == phase.code[v].axes;
  };
  return one_store(program, choice, neighbour, [](Phase& phase, std::size_t i) { --phase.stores[i].value; });
}

template <class Wanted, class Change>
bool one_constant(Program& program, std::uint64_t choice, Wanted wanted, Change change) {
  return one_instruction(
      program, choice, [&](const Instruction& x) { return x.op == Op::constant && wanted(x.literal); },
      [&](Instruction& x) { change(x.literal); });
}

template <DType from, DType to>
bool cast_to(Program& program, std::uint64_t choice) {
  return one_instruction(
      program, choice, [](const Instruction& x) { return x.op == Op::cast && x.dtype == from && x.type == f32; },
      [](Instruction& x) { x.dtype = to; });
}

constexpr Mutation all[] = {
    // operations
    {"sub with its arguments swapped", swap_arguments<Op::sub, 0, 1>},
    {"div with its arguments swapped", swap_arguments<Op::div, 0, 1>},
    {"pow with its arguments swapped", swap_arguments<Op::pow, 0, 1>},
    {"floordiv with its arguments swapped", swap_arguments<Op::floordiv, 0, 1>},
    {"where with its branches swapped", swap_arguments<Op::where, 1, 2>},
    {"fma adds a factor and multiplies the addend", swap_arguments<Op::fma, 1, 2>},
    {"add for sub", replace<Op::sub, Op::add>},
    {"sub for add", replace<Op::add, Op::sub>},
    {"mul for div", replace<Op::div, Op::mul>},
    {"max for min", replace<Op::min, Op::max>},
    {"min for max", replace<Op::max, Op::min>},
    {"lt for le", replace<Op::le, Op::lt>},
    {"ge for gt", replace<Op::gt, Op::ge>},
    {"ne for eq", replace<Op::eq, Op::ne>},
    {"lt with its arguments swapped", swap_arguments<Op::lt, 0, 1>},
    {"or for and", replace<Op::bit_and, Op::bit_or>},
    {"exp2 for exp", replace<Op::exp, Op::exp2>},
    {"log2 for log", replace<Op::log, Op::log2>},
    {"log for log1p", replace<Op::log1p, Op::log>},
    {"exp for expm1", replace<Op::expm1, Op::exp>},
    {"erf for tanh", replace<Op::tanh, Op::erf>},
    {"sqrt for rsqrt", replace<Op::rsqrt, Op::sqrt>},
    {"cos for sin", replace<Op::sin, Op::cos>},
    {"ceil for floor", replace<Op::floor, Op::ceil>},
    {"floor for round", replace<Op::round, Op::floor>},
    {"a negation is lost", forget<Op::neg>},
    {"an absolute value is lost", forget<Op::abs>},
    // constants and attributes
    {"a constant changes its sign",
     [](Program& p, std::uint64_t c) {
       return one_constant(p, c, [](const Literal& l) { return l.type == f32 && l.real != 0; }, [](Literal& l) { l.real = -l.real; });
     }},
    {"a constant is off by 1 in 1000",
     [](Program& p, std::uint64_t c) {
       return one_constant(p, c, [](const Literal& l) { return l.type == f32 && l.real != 0; }, [](Literal& l) { l.real *= 1.001; });
     }},
    {"an integer constant is off by one",
     [](Program& p, std::uint64_t c) {
       return one_constant(p, c, [](const Literal& l) { return l.type != f32 && l.type != boolean; }, [](Literal& l) { ++l.integer; });
     }},
    {"f16 for bf16 in a cast", cast_to<bf16, f16>},
    {"e5m2 for e4m3 in a cast", cast_to<e4m3, e5m2>},
    {"a cast rounds to nearest",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::cast && x.round != Round::nearest_even && x.round != Round::stochastic; },
                              [](Instruction& x) { x.round = Round::nearest_even; });
     }},
    {"a stochastic cast truncates",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::cast && x.round == Round::stochastic; },
                              [](Instruction& x) { x.round = Round::toward_zero; });
     }},
    {"random takes the next seed",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::random; }, [](Instruction& x) { ++x.seed; });
     }},
    {"random takes the next stream",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::random; }, [](Instruction& x) { ++x.random_stream; });
     }},
    {"a guard is dropped",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.guard >= 0; }, [](Instruction& x) { x.guard = -1; });
     }},
    // pieces and coordinates
    {"the accumulator of another piece", wrong_piece<Op::acc>},
    {"an operand of another piece", wrong_piece<Op::operand>},
    {"the column index of another piece", wrong_piece<Op::n_index>},
    {"a chunk forgets its group", without_group<Op::acc>},
    {"a store to another piece", store_wrong_piece},
    {"a repeated statistic is not divided",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::operand && x.access.columns.divide > 1; },
                              [](Instruction& x) { x.access.columns.divide *= 2; });
     }},
    {"a repeated statistic of rows is divided by too much",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::operand && x.access.divide_rows > 1; },
                              [](Instruction& x) { x.access.divide_rows *= 2; });
     }},
    // stores
    {"a store is dropped", drop_store},
    {"a store takes its neighbour's value", store_neighbour},
    {"a crossing buffer is rounded to bf16",
     [](Program& p, std::uint64_t) {
       bool any = false;
       for (auto& b : p.buffers) {
         if (b.kind != BufferKind::crossing || b.dtype != f32) continue;
         b.dtype = bf16;
         any = true;
       }
       return any;
     }},
    {"a statistic is rounded to bf16",
     [](Program& p, std::uint64_t) {
       bool any = false;
       for (auto& b : p.buffers) {
         if (b.kind != BufferKind::statistic || b.dtype != f32) continue;
         b.dtype = bf16;
         any = true;
       }
       return any;
     }},
    // reductions
    {"a maximum for a minimum", replace<Reducer::min, Reducer::max>},
    {"a minimum for a maximum", replace<Reducer::max, Reducer::min>},
    {"all for any", replace<Reducer::any, Reducer::all>},
    {"argmin for argmax", replace<Reducer::argmax, Reducer::argmin>},
    {"a product for a sum", replace<Reducer::sum, Reducer::prod>},
    {"a maximum for a sum", replace<Reducer::sum, Reducer::max>},
    {"softmax's maximum and sum exchanged", swap_results<Reducer::online_softmax>},
    {"the mean and the squares of Welford exchanged", swap_results<Reducer::welford>},
    {"a reduction forgets a piece",
     [](Program& p, std::uint64_t c) {
       return one_reduction(p, c, [](const Reduction& r) { return r.pieces.size() > 1; }, [](Reduction& r) { r.pieces.pop_back(); });
     }},
    {"a reduction takes a piece twice",
     [](Program& p, std::uint64_t c) {
       return one_reduction(p, c, [](const Reduction& r) { return r.pieces.size() > 1; }, [](Reduction& r) { r.pieces[0] = r.pieces[1]; });
     }},
    {"a group is larger by one",
     [](Program& p, std::uint64_t c) {
       return one_reduction(p, c, [](const Reduction& r) { return r.group > 1; }, [](Reduction& r) { ++r.group; });
     }},
    {"a general reduction starts from one more",
     [](Program& p, std::uint64_t c) {
       return one_reduction(p, c, [](const Reduction& r) { return r.reducer == Reducer::custom; },
                            [](Reduction& r) { for (double& x : r.identity) x = x == 0 ? 1 : 0; });
     }},
    {"a count counts rows for columns",
     [](Program& p, std::uint64_t c) {
       return one_instruction(p, c, [](const Instruction& x) { return x.op == Op::get && (x.count_axes & tile_axes).bits != tile_axes.bits; },
                              [](Instruction& x) { x.count_axes.bits ^= tile_axes.bits; x.group = 0; });
     }},
    // what the kernels are bound to
    {"the last term of K is left out", nullptr,
     [](Bindings& b, const Program&, std::uint64_t) { return b.shape.k > 0 && (--b.shape.k, true); }},
    {"the last row is left out", nullptr,
     [](Bindings& b, const Program&, std::uint64_t) { return b.shape.m > 1 && (--b.shape.m, true); }},
    {"an operand is read as if it were the same in every row", nullptr,
     [](Bindings& b, const Program& p, std::uint64_t c) {
       if (p.operands == 0) return false;
       auto& stride = b.buffers[c % static_cast<std::uint64_t>(p.operands)].strides[1];
       return stride != 0 && b.shape.m > 1 && (stride = 0, true);
     }},
    {"an operand is read as if it were the same in every column", nullptr,
     [](Bindings& b, const Program& p, std::uint64_t c) {
       if (p.operands == 0) return false;
       auto& stride = b.buffers[c % static_cast<std::uint64_t>(p.operands)].strides[2];
       return stride != 0 && b.shape.n > 1 && (stride = 0, true);
     }},
    {"B is the same in every batch", nullptr,
     [](Bindings& b, const Program&, std::uint64_t) { return b.shape.batch > 1 && b.b.strides[0] != 0 && (b.b.strides[0] = 0, true); }},
    {"an output's columns are stored one apart", nullptr,
     [](Bindings& b, const Program& p, std::uint64_t c) {
       auto& stride = b.buffers[static_cast<std::size_t>(p.operands) + c % static_cast<std::uint64_t>(p.outputs)].strides[2];
       return stride > 1 && b.shape.n > 1 && (stride = 1, true);
     }},
};

}  // namespace

std::span<const Mutation> mutations() { return all; }

}  // namespace postlude::fuzz
