#include "lower/subexpressions.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace postlude::inline v0::lower {
namespace {

// Everything that distinguishes two items, as words; shared_ptrs by address.
std::vector<std::uint64_t> key_of(const Item& x) {
  std::vector<std::uint64_t> key;
  key.reserve(16 + x.args.size());
  const auto add = [&](auto... words) { (key.push_back(static_cast<std::uint64_t>(words)), ...); };
  add(static_cast<int>(x.op) | static_cast<int>(x.type) << 8 | x.vary.bits << 16 | x.axes.bits << 20 |
      static_cast<int>(x.reducer) << 24);
  switch (x.op) {
    case Op::constant: add(std::bit_cast<std::uint64_t>(x.literal.real), x.literal.integer); break;
    case Op::operand:
    case Op::parameter: add(x.index); break;
    case Op::chunk:
    case Op::concat:
    case Op::repeat: add(x.index, x.pieces, x.group); break;
    case Op::cast: add(x.dtype, x.round, x.seed); break;
    case Op::random: add(x.seed, x.random_stream); break;
    case Op::call: add(reinterpret_cast<std::uintptr_t>(x.function.get())); break;
    case Op::get: add(x.index, x.group); break;
    case Op::reduce:
      add(x.reduction, x.group, reinterpret_cast<std::uintptr_t>(x.combine.get()));
      for (double d : x.identity) add(std::bit_cast<std::uint64_t>(d));
      break;
    default: break;
  }
  if (x.args.empty() && x.op != Op::constant) add(x.rows.times, x.rows.over, x.columns.times, x.columns.over);
  const std::size_t first = key.size();
  for (NodeId a : x.args) add(a);
  if (is_commutative(x.op)) std::sort(key.begin() + static_cast<std::ptrdiff_t>(first), key.end());
  return key;
}

struct Hash {
  std::size_t operator()(const std::vector<std::uint64_t>& key) const {
    std::uint64_t h = key.size();
    for (std::uint64_t word : key) h = (std::rotl(h, 25) ^ word) * 0x9e3779b97f4a7c15;
    return h ^ (h >> 31);
  }
};

}  // namespace

bool subexpressions(Work& work) {
  std::unordered_map<std::vector<std::uint64_t>, NodeId, Hash> seen;
  seen.reserve(work.items.size());
  Rewriter to(work);
  Item item;
  while (to.next(item)) {
    std::vector<std::uint64_t> key = key_of(item);
    const auto it = seen.find(key);
    if (it != seen.end()) {
      to.replace(it->second);
    } else {
      to.keep(std::move(item));
      seen.emplace(std::move(key), to.now(to.current()));
    }
  }
  return to.finish();
}

}  // namespace postlude::inline v0::lower
