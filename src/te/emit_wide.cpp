// Elements that lie side by side are read and written together, and several iterations' reads at once.
#include "te/emitter.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::te {
namespace {

// Element `e` of words, as a value.
std::string element(const std::string& words, DType type, const std::string& e) {
  const std::string storage = type == DType::boolean ? "bool" : std::string(name(type));
  if (size_of(type) == 8) return fill("i64(u64($x.x[2 * $e + 1]) << 32 | $x.x[2 * $e])", {{"x", words}, {"e", e}});
  return fill(size_of(type) == 1   ? "bits_$storage($words.x[$e / 4] >> $e % 4 * 8 & 255u)"
              : size_of(type) == 2 ? "bits_$storage($words.x[$e / 2] >> $e % 2 * 16)"
                                   : "bits_$storage($words.x[$e])",
              {{"storage", storage}, {"words", words}, {"e", e}});
}

}  // namespace

std::int64_t Emitter::words(const BufferPtr& buffer, const Statement& along) const {
  return constant_extent(along) * size_of(buffer->type) / 4;
}

// The address of the first of elements along an innermost loop.
std::string Emitter::place(const BufferPtr& buffer, const std::vector<Expr>& index, const Statement& along) {
  const Substitution start{{along.axis.get(), Expr(0)}};
  std::vector<Expr> at;
  for (const Expr& x : index) at.push_back(simplified(substitute(x, start)));
  return fill("p.$buffer + ($offset) * $size",
              {{"buffer", buffer_name(buffer)}, {"offset", offset(buffer, at)}, {"size", str(size_of(buffer->type))}});
}

// What has fewer axes than others, or is read by other statements too, is read again, and kept in L1.
std::string Emitter::fetched_words(const ExprNode& read, const Statement& along) {
  std::size_t rank = 0;
  for (const ExprNode* other : chain_->reads) rank = std::max(rank, other->args.size());
  const BufferPtr& buffer = nest_.of(read);
  const bool once = read.args.size() == rank && readers_.at(buffer.get()) == 1;
  return fill("fetch_words<$often, $words>($place)", {{"often", once ? "ONCE" : "KEPT"},
                                                      {"words", str(words(buffer, along))},
                                                      {"place", place(buffer, read.args, along)}});
}

// Some iterations of a loop at once: first all of their reads, which are then under way together,
// then what is made of them. The last ones may be fewer.
void Emitter::batches(const Statement& s, int batch) {
  const Statement* const along = chain_->inner.back();
  const std::string i = variable(s.axis), n = str(batch), v = variable(along->axis);
  const std::vector<const ExprNode*>& reads = chain_->reads;
  const auto iterations = [&] {
    line("#pragma unroll");
    open("for (int u = 0; u < $n; ++u)", {{"n", n}});
    line("const i64 $i = step + u;", {{"i", i}});
    open("if ($i < full)", {{"i", i}});
  };
  const bool outside = bound_only_;
  bound_only_ = false;
  open("for (i64 step = 0; step < full; step += $n)", {{"n", n}});
  std::vector<std::string> arrays, fetched;
  for (const ExprNode* read : reads) {
    const BufferPtr& buffer = nest_.of(*read);
    arrays.push_back(numbered("words"));
    line("Words<$words> $array[$n];", {{"words", str(words(buffer, *along))}, {"array", arrays.back()}, {"n", n}});
  }
  iterations();
  for (std::size_t r = 0; r < reads.size(); ++r) {
    const BufferPtr& buffer = nest_.of(*reads[r]);
    line("$array[u] = $words;", {{"array", arrays[r]}, {"words", fetched_words(*reads[r], *along)}});
    fetched.push_back(element(arrays[r] + "[u]", buffer->type, v));
  }
  close();
  close();
  for (std::size_t r = 0; r < reads.size(); ++r) fetched_[reads[r]] = fetched[r];
  const bool wide = std::exchange(wide_, false);
  if (in_order(*chain_->statement) && along->axis->kind == AxisNode::Kind::reduce) {
    extreme_of_batch(s, batch);
  } else {
    iterations();
    write(s.body);
    close();
    close();
  }
  wide_ = wide;
  fetched_.clear();
  close();
  bound_only_ = outside;
}

// argmax of the elements that batches() has read, which come in the order of their indices: their
// extreme, and its place only where it is beyond what there is.
void Emitter::extreme_of_batch(const Statement& s, int batch) {
  const Statement& update = *chain_->statement;
  const Statement& along = *chain_->inner.back();
  const std::int64_t extent = constant_extent(along);
  const std::vector<DType> types{update.values[0]->type, update.values[1]->type};
  const std::string largest = update.reducer->known == Known::argmax ? "<true>" : "<false>", i = variable(s.axis),
                    v = variable(along.axis), x = numbered("t"), top = numbered("t"), first = numbered("t"),
                    type = device_type(types[1]);
  line("$type $x[$count];", {{"type", type}, {"x", x}, {"count", str(batch * extent)}});
  line("#pragma unroll");
  open("for (int u = 0; u < $batch; ++u)", {{"batch", str(batch)}});
  line("const i64 $i = step + u;", {{"i", i}});
  line("#pragma unroll");
  open("for (i64 $v = 0; $v < $extent; ++$v)", {{"v", v}, {"extent", str(extent)}});
  line("$x[u * $extent + $v] = $i < full ? $value : $identity;",
       {{"x", x},
        {"extent", str(extent)},
        {"v", v},
        {"i", i},
        {"value", value(update.values[1])},
        {"identity", value(identity_of(*update.reducer, types)[1])}});
  close();
  close();
  line("$type $top = extreme_of$largest($x);", {{"type", type}, {"top", top}, {"largest", largest}, {"x", x}});
  open("if (exceeds$largest($so_far, $index, $top))", {{"largest", largest},
                                                       {"so_far", load(update.to[1], update.index)},
                                                       {"index", load(update.to[0], update.index)},
                                                       {"top", top}});
  line("const int $first = first_of($x, $top);", {{"first", first}, {"x", x}, {"top", top}});
  line("const i64 $i = step + $first / $extent, $v = $first % $extent;",
       {{"i", i}, {"first", first}, {"extent", str(extent)}, {"v", v}});
  put(update.to[0], update.index, value(update.values[0]), types[0]);
  put(update.to[1], update.index, top, types[1]);
  close();
}

// The innermost loop, whose elements are read and stored side by side.
void Emitter::innermost(const Statement& s) {
  const std::string i = variable(s.axis);
  const std::int64_t extent = constant_extent(s);
  for (const ExprNode* read : chain_->reads) {
    const BufferPtr& buffer = nest_.of(*read);
    const std::string array = numbered("words");
    line("const Words<$count> $array = $words;",
         {{"count", str(words(buffer, s))}, {"array", array}, {"words", fetched_words(*read, s)}});
    fetched_[read] = element(array, buffer->type, i);
  }
  const Statement& statement = *chain_->statement;
  std::vector<std::string> arrays;
  for (std::size_t k = 0; chain_->stores && k < statement.to.size(); ++k) {
    arrays.push_back(numbered("t"));
    line("$type $array[$extent];",
         {{"type", device_type(compute_type(statement.to[k]->type))}, {"array", arrays[k]}, {"extent", str(extent)}});
    collected_[statement.to[k].get()] = arrays[k] + "[" + i + "]";
  }
  serial(s, "0", count(s.extent), 0);
  fetched_.clear();
  collected_.clear();
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const BufferPtr& to = statement.to[k];
    const std::int64_t a_word = 4 / size_of(to->type);
    const std::string packed = numbered("words"), n = str(extent / a_word);
    const char* const elements = a_word == 1 ? "$array[e]" : "$array[2 * e], $array[2 * e + 1]";
    line("Words<$n> $packed;", {{"n", n}, {"packed", packed}});
    line("#pragma unroll");
    line(
        "for (int e = 0; e < $n; ++e) $packed.x[e] = pack_$type($elements);",
        {{"n", n}, {"packed", packed}, {"type", name(to->type)}, {"elements", fill(elements, {{"array", arrays[k]}})}});
    line("store_words<$n>($place, $packed);", {{"n", n}, {"place", place(to, statement.index, s)}, {"packed", packed}});
  }
}

}  // namespace postlude::inline v0::te
