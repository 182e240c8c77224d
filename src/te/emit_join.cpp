#include "te/emitter.h"
#include "te/reducer.h"

#include <algorithm>

namespace postlude::inline v0::te {

// Combines registers across the threads along the loop's axis; all of them get the result.
void Emitter::join_threads(const Statement& s) {
  std::vector<BufferPtr> partial;
  visit_statements(s.body, [&](const Statement& x) {
    if (x.kind == Statement::Kind::update && x.to[0]->name.ends_with(".red")) partial = x.to;
  });
  std::vector<DType> types;
  std::vector<std::string> values;
  for (const BufferPtr& buffer : partial) {
    types.push_back(buffer->type);
    values.push_back(registers_.at(buffer.get()).name);
  }
  const std::string tag = s.mark.thread->tag;
  const std::int64_t extent = s.extent->kind == ExprNode::Kind::constant ? s.extent->value.integer : 0;
  const bool shuffles = tag == "threadIdx.x" && extent > 0 && extent <= 32 && (extent & (extent - 1)) == 0;
  if (shuffles) return shuffle(s, types, values, extent);
  if (tag == "threadIdx.x" && extent > 32 && extent <= 1024 && (extent & (extent - 1)) == 0)
    return join_warps(s, types, values, extent);
  // Through shared memory, halving; each thread's neighbours along the axis are `step` apart.
  const std::string step = tag == "threadIdx.x" ? "1" : tag == "threadIdx.y" ? "threads_x" : "threads_x * threads_y";
  const std::string at = tag == "threadIdx.x" ? "thread_x" : tag == "threadIdx.y" ? "thread_y" : "thread_z";
  std::vector<std::string> memory;
  for (std::size_t i = 0; i < types.size(); ++i) {
    memory.push_back(numbered("meeting"));
    shared_ += fill("  __shared__ $type $memory[1024];\n", {{"type", device_type(types[i])}, {"memory", memory[i]}});
    line(memory[i] + "[thread] = " + values[i] + ";");
  }
  line("__syncthreads();");
  const bool in_order = !kept_order(*s.reducer).empty();
  if (in_order) {  // neighbours first
    open("for (i64 half = 1; half < $extent; half *= 2)", {{"extent", value(s.extent)}});
    open(fill("if (active && $at % (2 * half) == 0 && $at + half < $extent)",
              {{"at", at}, {"extent", value(s.extent)}}));
  } else {
    open("for (i64 left = $extent; left > 1; left = (left + 1) / 2)", {{"extent", value(s.extent)}});
    line("const i64 half = (left + 1) / 2;");
    open("if (active && " + at + " + half < left)");
  }
  std::vector<std::string> a, b;
  for (const std::string& m : memory) {
    a.push_back(m + "[thread]");
    b.push_back(m + "[thread + half * (" + step + ")]");
  }
  const std::vector<std::string> joined = combined(*s.reducer, a, b, types);
  for (std::size_t i = 0; i < types.size(); ++i) line(memory[i] + "[thread] = " + joined[i] + ";");
  close();
  line("__syncthreads();");
  close();
  for (std::size_t i = 0; i < types.size(); ++i)
    line("if (active) $value = $memory[thread - $at * ($step)];",
         {{"value", values[i]}, {"memory", memory[i]}, {"at", at}, {"step", step}});
  line("__syncthreads();");
}

// argmax of what has a rank of 32 bits is found by instructions that see a whole warp.
bool Emitter::joins_at_once(const ReducerNode& reducer, const std::vector<DType>& types) {
  return (reducer.known == Known::argmax || reducer.known == Known::argmin) &&
         (types[1] == DType::f32 || types[1] == DType::i32);
}
void Emitter::take_across_warp(const Statement& s, const std::vector<std::string>& values) {
  line("take_across_warp<$largest>($value, $index);",
       {{"largest", s.reducer->known == Known::argmax ? "true" : "false"}, {"value", values[1]}, {"index", values[0]}});
}

// Across the lanes of a warp, or of `extent` of them; all get the result.
void Emitter::shuffle(const Statement& s, const std::vector<DType>& types, const std::vector<std::string>& values,
                      std::int64_t extent) {
  if (extent == 32 && joins_at_once(*s.reducer, types)) return take_across_warp(s, values);
  // What another lane has of a value.
  const auto moved = [&](const std::string& direction, std::size_t i, const std::string& from) {
    const bool boolean = types[i] == DType::boolean;
    return fill("__shfl_${direction}sync(~0u, $value, $from)$truth",
                {{"direction", direction},
                 {"value", boolean ? "int(" + values[i] + ")" : values[i]},
                 {"from", from},
                 {"truth", boolean ? " != 0" : ""}});
  };
  const bool in_order = !kept_order(*s.reducer).empty();  // neighbours first
  for (std::int64_t half = extent / 2; half > 0; half /= 2) {
    const std::int64_t step = in_order ? extent / 2 / half : half;
    open("");
    std::vector<std::string> other;
    for (std::size_t i = 0; i < types.size(); ++i)
      other.push_back(temporary(types[i], moved("down_", i, str(step) + ", " + str(extent))));
    const std::vector<std::string> joined = combined(*s.reducer, values, other, types);
    for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + joined[i] + ";");
    close();
  }
  const std::string first = fill("lane_id() / $extent * $extent", {{"extent", str(extent)}});
  for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + moved("", i, first) + ";");
}

// Across whole warps: each in itself, then their results, which every warp takes from shared memory.
void Emitter::join_warps(const Statement& s, const std::vector<DType>& types, const std::vector<std::string>& values,
                         std::int64_t extent) {
  shuffle(s, types, values, 32);
  std::vector<std::string> memory;
  for (const DType type : types) {
    memory.push_back(numbered("meeting"));
    shared_ += fill("  __shared__ $type $memory[32];\n", {{"type", device_type(type)}, {"memory", memory.back()}});
  }
  open("if (lane_id() == 0)");
  for (std::size_t i = 0; i < types.size(); ++i) line(memory[i] + "[thread / 32] = " + values[i] + ";");
  close();
  line("__syncthreads();");
  const std::string warps = str(extent / 32);
  for (std::size_t i = 0; i < types.size(); ++i)
    line("$value = $memory[thread / $extent * $warps + lane_id() % $warps];",
         {{"value", values[i]}, {"memory", memory[i]}, {"extent", str(extent)}, {"warps", warps}});
  if (!bound_only_) line("__syncthreads();");                                // a loop comes back to this memory
  if (joins_at_once(*s.reducer, types)) return take_across_warp(s, values);  // each of them is there several times
  shuffle(s, types, values, extent / 32);
}

// The last block to come takes the partial results of all in the order of their numbers.
void Emitter::join_blocks(const Statement& s) {
  if (!bound_only_)
    throw Error(ErrorCode::bad_schedule,
                "bind: " + quoted(s.axis->name) + " is reduced by blocks within a loop that is not bound",
                "Bind the loops around it, or bind it to threads.");
  std::vector<BufferPtr> partial;
  visit_statements(s.body, [&](const Statement& x) {
    if (x.kind == Statement::Kind::update && x.to[0]->name.ends_with(".red")) partial = x.to;
  });
  const std::size_t tag = tag_of(s);
  if (now_.joins_blocks)
    throw Error(ErrorCode::bad_schedule,
                "bind: " + quoted(s.axis->name) + " is the second loop of its kernel that blocks reduce");
  now_.joins_blocks = true;
  numbered_ = tag + 1;
  over_.insert(tag);  // one block is left
  const std::string number = str(out_.joining++);
  const char* const grid[] = {"gridDim.x", "gridDim.y", "gridDim.z"};
  const char* const block[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
  std::string other = "0";
  for (std::size_t d = 0; d < 3; ++d)
    if (d != tag) other = fill("($other) * $grid + $block", {{"other", other}, {"grid", grid[d]}, {"block", block[d]}});
  line("const i64 other = $other, blocks = $grid;", {{"other", other}, {"grid", grid[tag]}});
  std::vector<DType> types;
  std::vector<std::string> values;
  std::int64_t bytes = 0;
  for (const BufferPtr& buffer : partial) {
    types.push_back(buffer->type);
    values.push_back(registers_.at(buffer.get()).name);
    bytes += 8;
  }
  if (bytes > join_bytes) throw Error(ErrorCode::unsupported, "blocks join at most 8 values together");
  // The place of a block's partial result.
  const auto partial_of = [&](const std::string& which, std::size_t i, const std::string& qualifier) {
    return fill("($type*)(p.partial$number + ((((other * blocks + $which) * threads + thread) * $count + $i) * 8))",
                {{"type", qualifier + (types[i] == DType::boolean ? std::string("u8") : device_type(types[i]))},
                 {"number", number},
                 {"which", which},
                 {"count", str(types.size())},
                 {"i", str(i)}});
  };
  for (std::size_t i = 0; i < types.size(); ++i)
    line("*$partial = $value;", {{"partial", partial_of(block[tag], i, "")}, {"value", values[i]}});
  shared_ += "  __shared__ u32 is_last;\n";
  line("__syncthreads();");
  open("if (thread == 0)");
  line("__threadfence();");
  line("u32* const counter = (u32*)p.counters$number + other;", {{"number", number}});
  line("is_last = arrive_and_count(counter) == u32(blocks) - 1;");
  line("if (is_last) *counter = 0;");
  line("__threadfence();");
  close();
  line("__syncthreads();");
  line("if (!is_last) return;");
  open("for (i64 from = 0; from < blocks; ++from)");
  std::vector<std::string> b;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const char* const truth = types[i] == DType::boolean ? " != 0" : "";
    b.push_back(temporary(
        types[i], fill("__ldcg($partial)$truth", {{"partial", partial_of("from", i, "const ")}, {"truth", truth}})));
  }
  open("if (from == 0)");
  for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + b[i] + ";");
  close();
  open("else");
  const std::vector<std::string> joined = combined(*s.reducer, values, b, types);
  for (std::size_t i = 0; i < types.size(); ++i) line(values[i] + " = " + joined[i] + ";");
  close();
  close();
}

}  // namespace postlude::inline v0::te
