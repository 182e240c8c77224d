#include "cuda/emit/reduce.h"

#include "core/divide.h"
#include "core/fill.h"
#include "cuda/emit/code.h"

#include <algorithm>
#include <cmath>

namespace postlude::inline v0::cuda {
namespace {

using lower::Reducer;

const char* const reduce_text =
#include "cuda/device/reduce.cu"
    ;

bool is_arg(Reducer reducer) { return reducer == Reducer::argmax || reducer == Reducer::argmin; }

// States hold booleans as int: they are shuffled.
std::string member_type(DType type) { return type == DType::boolean ? "int" : device_type(type); }

std::vector<DType> state_components(const lower::Phase& phase, const lower::Reduction& r) {
  switch (r.reducer) {
    case Reducer::argmax:
    case Reducer::argmin: return {r.type, DType::i64};
    case Reducer::online_softmax: return {DType::f32, DType::f32};
    case Reducer::welford: return {DType::f32, DType::f32, DType::f32};
    case Reducer::custom: {
      std::vector<DType> types;
      for (std::size_t k = 0; k < r.identity.size(); ++k) types.push_back(phase.code[r.pieces[0].args[k]].type);
      return types;
    }
    default: return {r.type};
  }
}

}  // namespace

bool index_is_column(const lower::Phase& phase, const lower::Reduction& r) {
  if (!is_arg(r.reducer) || r.pieces.size() != 1 || r.type != DType::f32) return false;
  const lower::Instruction* index = &phase.code[r.pieces[0].args[1]];
  if (index->op == Op::cast) index = &phase.code[index->args[0]];
  return index->op == Op::n_index && plain(index->access);
}

int state_bytes(const lower::Phase& phase, const lower::Reduction& r) {
  std::int64_t offset = 0, alignment = 4;
  for (const DType type : state_components(phase, r)) {
    const std::int64_t size = type == DType::i64 ? 8 : 4;
    offset = round_up(offset, size) + size, alignment = std::max(alignment, size);
  }
  return static_cast<int>(round_up(offset, alignment));
}

const char* reduction_source() { return reduce_text; }

std::string ReducerText::lift(const std::vector<std::string>& args) const {
  std::string list;
  for (const std::string& arg : args) list += (list.empty() ? "" : ", ") + arg;
  return type + "::lift(" + list + ")";
}

BlockAddition ReducerText::addition(const Block& block, const std::vector<std::string>& args,
                                    const std::string& state) const {
  const Hole array{"x", block.name}, size{"size", block.size}, at{"at", block.index}, in{"in", block.in},
      into{"state", state}, x0{"x0", args[0]};
  if (reducer == Reducer::online_softmax)
    return {fill("float $x[$size];", {array, size}), fill("$x[$at] = $in ? $x0 : (-INF);", {array, at, in, x0}),
            fill("softmax_add($state, $x);", {into, array})};
  if (reducer == Reducer::welford)
    return {
        fill("float $x[$size]; bool here[$size];", {array, size}),
        fill("$x[$at] = $x0, here[$at] = $in;", {array, at, x0, in}),
        fill("moments_add<$share>($state, $x, here, $first, $lane, $all);",
             {{"share", block.share}, into, array, {"first", block.first}, {"lane", block.lane}, {"all", block.all}})};
  if (gathered != type)  // Extreme
    return {fill("float $x[$size]; i64 index[$size]; bool here[$size];", {array, size}),
            fill("$x[$at] = $x0, index[$at] = $x1, here[$at] = $in;", {array, at, x0, {"x1", args[1]}, in}),
            fill("arg_add($state, $x, index, here, $first);", {into, array, {"first", block.first}})};
  const Hole s{"S", type};
  return {fill("$S $x[$size];", {s, array, size}),
          fill("$x[$at] = $S::select($in, $lifted, $S::identity());", {array, at, s, in, {"lifted", lift(args)}}),
          fill("block_add($state, $x);", {into, array})};
}

BlockAddition ReducerText::products(const Block& block, const std::string& a, const std::string& b,
                                    const std::string& state) const {
  return {
      fill("float x[$size], y[$size];", {{"size", block.size}}),
      fill("x[$at] = $in ? $a : 0.f, y[$at] = $in ? $b : 0.f;",
           {{"at", block.index}, {"in", block.in}, {"a", a}, {"b", b}}),
      fill("$state = $S::combine($state, $lifted);", {{"state", state}, {"S", type}, {"lifted", lift({"dot(x, y)"})}})};
}

std::string ReducerText::lanes(const std::string& function, const std::string& own, const std::string& of) const {
  if (reducer != Reducer::welford)
    return fill("$function<$S>(settled<$S>($own), $of)",
                {{"function", function}, {"S", type}, {"own", own}, {"of", of}});
  return fill("settled<$S>(combine_lanes($own, 1, 4))", {{"S", type}, {"own", own}});
}

std::string ReducerText::component(const std::string& state, std::size_t k) const {
  const std::string member = state + ".c" + str(k);
  return components[k] == DType::boolean ? "(" + member + " != 0)" : member;
}

ReducerText emit_reducer(const lower::Phase& phase, const lower::Reduction& r, int index, bool ordered,
                         Functions& functions) {
  ReducerText out;
  out.reducer = r.reducer;
  out.components = state_components(phase, r);
  out.short_step = r.type == DType::f32 && (r.reducer == Reducer::sum || r.reducer == Reducer::prod ||
                                            r.reducer == Reducer::min || r.reducer == Reducer::max);
  out.bytes = state_bytes(phase, r);
  out.type = "S" + str(index);
  const std::string& s = out.type;
  out.gathered = r.reducer == Reducer::welford ? "Moments"
                 : ordered && index_is_column(phase, r)
                     ? (r.reducer == Reducer::argmax ? "Extreme<true>" : "Extreme<false>")
                     : s;
  std::vector<std::string> identity, lifted;
  std::string combine;
  const auto literal = [&](double value) {
    return device_literal(value, r.type == DType::boolean ? DType::i32 : r.type);
  };
  const auto single = [&](double start, const std::string& code) {
    identity = {literal(start)};
    combine = "    return {" + code + "};\n";
    lifted = {"x0"};
  };
  switch (r.reducer) {
    case Reducer::sum: single(0, r.type == DType::f32 ? "a.c0 + b.c0" : "op_add(a.c0, b.c0)"); break;
    case Reducer::prod: single(1, r.type == DType::f32 ? "a.c0 * b.c0" : "op_mul(a.c0, b.c0)"); break;
    case Reducer::min: single(r.type == DType::i32 ? 0x7fffffff : HUGE_VAL, "op_min(a.c0, b.c0)"); break;
    case Reducer::max: single(-HUGE_VAL, "op_max(a.c0, b.c0)"); break;
    case Reducer::any: single(0, "a.c0 | b.c0"); break;
    case Reducer::all: single(1, "a.c0 & b.c0"); break;
    case Reducer::argmax:
    case Reducer::argmin: {
      const bool max = r.reducer == Reducer::argmax;
      identity = {max ? literal(-HUGE_VAL) : literal(r.type == DType::i32 ? 0x7fffffff : HUGE_VAL), "-1ll"};
      lifted = {"x0", "x1"};
      // b wins when it is not empty and a is empty, or by value (a NaN above all), or by index among equals.
      combine = fill(R"(    const bool an = a.c0 != a.c0, bn = b.c0 != b.c0;
    const bool better = bn ? !an : !an && b.c0 $beats a.c0;
    const bool equal = (an && bn) || a.c0 == b.c0;
    const bool take = b.c1 >= 0 && (a.c1 < 0 || better || (equal && b.c1 < a.c1));
    return take ? b : a;
)",
                     {{"beats", max ? ">" : "<"}});
      break;
    }
    case Reducer::online_softmax:
      identity = {"(-INF)", "0.f"};
      lifted = {"x0", "(x0 == (-INF) ? 0.f : 1.f)"};
      combine =
          "    const float m = op_max(a.c0, b.c0), base = m == (-INF) ? 0.f : m;\n"
          "    return {m, a.c1 * expf(a.c0 - base) + b.c1 * expf(b.c0 - base)};\n";
      break;
    case Reducer::welford:
      identity = {"0.f", "0.f", "0.f"};
      lifted = {"x0", "0.f", "1.f"};
      // Chan, Golub and LeVeque 1979. Around an infinite mean there is no variance, whichever came last.
      combine =
          "    const float n = a.c2 + b.c2, share = n > 0.f ? b.c2 * fast_reciprocal(n) : 0.f, d = b.c0 - a.c0;\n"
          "    // Infinite means have no distance.\n"
          "    const float mean = d - d == 0.f ? fmaf(d, share, a.c0) : fmaf(b.c0, share, a.c0 * (1.f - share));\n"
          "    return {b.c2 > 0.f ? mean : a.c0,\n"
          "            b.c2 > 0.f ? (a.c1 + b.c1) + (d * d * (a.c2 * share) + (mean - mean)) : a.c1, n};\n";
      break;
    case Reducer::custom: {
      std::string declared, arguments, combined;
      for (std::size_t k = 0; k < r.identity.size(); ++k) {
        const DType type = out.components[k];
        const std::string number = str(k), comma = k ? ", " : "";
        identity.push_back(device_literal(r.identity[k], type));
        lifted.push_back("x" + number);
        declared += "    " + device_type(type) + " y" + number + ";\n";
        combined += comma + "y" + number;
      }
      for (const char* side : {"a", "b"}) {
        for (std::size_t k = 0; k < r.identity.size(); ++k) arguments += out.component(side, k) + ", ";
      }
      combine = fill("$declared    $function($arguments$results);\n    return {$results};\n",
                     {{"declared", declared},
                      {"function", functions.combiner(*r.combine, out.components)},
                      {"arguments", arguments},
                      {"results", combined}});
      break;
    }
  }
  std::string members, shuffle, load, select, start, lift;
  for (std::size_t k = 0; k < out.components.size(); ++k) {
    const std::string c = "c" + str(k), comma = k + 1 < out.components.size() ? ", " : "";
    members += member_type(out.components[k]) + " " + c + "; ";
    shuffle += "__shfl_xor_sync(~0u, x." + c + ", mask)" + comma;
    load += "__ldcg(&p->" + c + ")" + comma;
    select += "t ? a." + c + " : b." + c + comma;
    start += identity[k] + comma;
    lift += lifted[k] + comma;
  }
  const std::size_t inputs = r.reducer == Reducer::custom ? r.identity.size() : is_arg(r.reducer) ? 2 : 1;
  std::string parameters;
  for (std::size_t k = 0; k < inputs; ++k) {
    parameters += (k ? ", " : "") + member_type(out.components[k]) + " x" + str(k);
  }
  out.text = fill(R"(struct $S {
  $members
  static constexpr bool rescaled = $rescaled, indexed = $indexed;
  static constexpr int counted = $counted;
  DEVICE_STATIC $S identity() { return {$identity}; }
  DEVICE_STATIC $S lift($parameters) { return {$lifted}; }
  DEVICE_STATIC $S combine($S a, $S b) {
$combine  }
  DEVICE_STATIC $S shuffle($S x, int mask) { return {$shuffled}; }
  DEVICE_STATIC $S load(const $S* p) { return {$loaded}; }
  DEVICE_STATIC $S select(bool t, $S a, $S b) { return {$selected}; }
};
)",
                  {{"S", s},
                   {"members", members},
                   {"indexed", index_is_column(phase, r) ? "true" : "false"},
                   {"rescaled", r.reducer == Reducer::online_softmax ? "true" : "false"},
                   {"counted", str(r.reducer == Reducer::welford ? r.pieces.size() : 0)},
                   {"identity", start},
                   {"parameters", parameters},
                   {"lifted", lift},
                   {"combine", combine},
                   {"shuffled", shuffle},
                   {"loaded", load},
                   {"selected", select}});
  return out;
}

}  // namespace postlude::inline v0::cuda
