// Elements that lie side by side are read and written together, and several iterations' reads at once.
#include "te/emitter.h"

#include <algorithm>
#include <utility>

namespace postlude::inline v0::te {
namespace {

// Element `e` of words, as a value.
std::string element(const std::string& words, DType type, const std::string& e) {
  const std::string storage = type == DType::boolean ? "bool" : std::string(name(type));
  switch (size_of(type)) {
    case 1: return "bits_" + storage + "(" + words + ".x[" + e + " / 4] >> " + e + " % 4 * 8 & 255u)";
    case 2: return "bits_" + storage + "(" + words + ".x[" + e + " / 2] >> " + e + " % 2 * 16)";
    case 4: return "bits_" + storage + "(" + words + ".x[" + e + "])";
    default: return "i64(u64(" + words + ".x[2 * " + e + " + 1]) << 32 | " + words + ".x[2 * " + e + "])";
  }
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
  return "p." + buffer_name(buffer) + " + (" + offset(buffer, at) + ") * " + str(size_of(buffer->type));
}

// What has fewer axes than others is read again, and kept in L1.
std::string Emitter::fetched_words(const ExprNode& read, const Statement& along) {
  std::size_t rank = 0;
  for (const ExprNode* other : chain_->reads) rank = std::max(rank, other->args.size());
  const BufferPtr& buffer = nest_.of(read);
  return "fetch_words<" + std::string(read.args.size() == rank ? "ONCE" : "KEPT") + ", " + str(words(buffer, along)) +
         ">(" + place(buffer, read.args, along) + ")";
}

// Some iterations of a loop at once: first all of their reads, which are then under way together,
// then what is made of them. The last ones may be fewer.
void Emitter::batches(const Statement& s, int batch) {
  const Statement* const along = chain_->inner.back();
  const std::string i = variable(s.axis), n = str(batch), v = variable(along->axis);
  const std::vector<const ExprNode*>& reads = chain_->reads;
  const auto iterations = [&] {
    line("#pragma unroll");
    open("for (int u = 0; u < " + n + "; ++u)");
    line("const i64 " + i + " = step + u;");
    open("if (" + i + " < full)");
  };
  const bool outside = bound_only_;
  bound_only_ = false;
  open("for (i64 step = 0; step < full; step += " + n + ")");
  std::vector<std::string> arrays, fetched;
  for (const ExprNode* read : reads) {
    const BufferPtr& buffer = nest_.of(*read);
    arrays.push_back("words" + str(temporaries_++));
    line("Words<" + str(words(buffer, *along)) + "> " + arrays.back() + "[" + n + "];");
  }
  iterations();
  for (std::size_t r = 0; r < reads.size(); ++r) {
    const BufferPtr& buffer = nest_.of(*reads[r]);
    line(arrays[r] + "[u] = " + fetched_words(*reads[r], *along) + ";");
    fetched.push_back(element(arrays[r] + "[u]", buffer->type, v));
  }
  close();
  close();
  for (std::size_t r = 0; r < reads.size(); ++r) fetched_[reads[r]] = fetched[r];
  const bool wide = std::exchange(wide_, false);
  if (in_order_ && !te::reads(chain_->statement->values[0])) {
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
                    v = variable(along.axis), x = "t" + str(temporaries_++), top = "t" + str(temporaries_++),
                    first = "t" + str(temporaries_++), type = device_type(types[1]);
  line(type + " " + x + "[" + str(batch * extent) + "];");
  line("#pragma unroll");
  open("for (int u = 0; u < " + str(batch) + "; ++u)");
  line("const i64 " + i + " = step + u;");
  line("#pragma unroll");
  open("for (int " + v + " = 0; " + v + " < " + str(extent) + "; ++" + v + ")");
  line(x + "[u * " + str(extent) + " + " + v + "] = " + i + " < full ? " + value(update.values[1]) + " : " +
       value(identity_of(*update.reducer, types)[1]) + ";");
  close();
  close();
  line("const " + type + " " + top + " = extreme_of" + largest + "(" + x + ");");
  open("if (exceeds" + largest + "(" + load(update.to[1], update.index) + ", " + load(update.to[0], update.index) +
       ", " + top + "))");
  line("const int " + first + " = first_of(" + x + ", " + top + ");");
  line("const i64 " + i + " = step + " + first + " / " + str(extent) + ", " + v + " = " + first + " % " + str(extent) +
       ";");
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
    const std::string array = "words" + str(temporaries_++);
    line("const Words<" + str(words(buffer, s)) + "> " + array + " = " + fetched_words(*read, s) + ";");
    fetched_[read] = element(array, buffer->type, i);
  }
  const Statement& statement = *chain_->statement;
  std::vector<std::string> arrays;
  for (std::size_t k = 0; chain_->stores && k < statement.to.size(); ++k) {
    arrays.push_back("t" + str(temporaries_++));
    line(device_type(compute_type(statement.to[k]->type)) + " " + arrays[k] + "[" + str(extent) + "];");
    collected_[statement.to[k].get()] = arrays[k] + "[" + i + "]";
  }
  serial(s, "0", count(s.extent), 0);
  fetched_.clear();
  collected_.clear();
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const BufferPtr& to = statement.to[k];
    const std::int64_t a_word = 4 / size_of(to->type);
    const std::string packed = "words" + str(temporaries_++), n = str(extent / a_word),
                      pack = "pack_" + std::string(name(to->type));
    line("Words<" + n + "> " + packed + ";");
    line("#pragma unroll");
    line("for (int e = 0; e < " + n + "; ++e) " + packed + ".x[e] = " + pack + "(" + arrays[k] +
         (a_word == 1 ? "[e]" : "[2 * e], " + arrays[k] + "[2 * e + 1]") + ");");
    line("store_words<" + n + ">(" + place(to, statement.index, s) + ", " + packed + ");");
  }
}

}  // namespace postlude::inline v0::te
