#include <postlude/evt/launch.h>

#include "core/convert.h"
#include "evt/graph.h"
#include "graph/ir/equal.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace postlude::inline v0::evt::detail {
namespace {

bool same_target(const Target& a, const Target& b) {
  return a.device == b.device && a.threads == b.threads && a.isa == b.isa && a.device_index == b.device_index &&
         a.schedule == b.schedule;
}

bool same_problem(const Gemm& a, const Gemm& b) {
  return a.a == b.a && a.b == b.b && a.a_layout == b.a_layout && a.b_layout == b.b_layout && a.batched == b.batched;
}

// One plan for equal graphs, whatever types they come from.
Plan plan_of(const Gemm& gemm, const Graph& graph, const Target& target) {
  struct Known {
    Gemm gemm;
    Target target;
    Plan plan;
  };
  static std::mutex mutex;
  static std::vector<Known> all;
  const std::scoped_lock lock(mutex);
  for (const Known& known : all) {
    if (same_problem(known.gemm, gemm) && same_target(known.target, target) &&
        same(known.plan.graph().data(), graph.data()))
      return known.plan;
  }
  return all.emplace_back(Known{gemm, target, compile(gemm, graph, target)}).plan;
}

double number(const Given& given, DType dtype) { return core::load_real(dtype, given.value.data(), 0); }

// Each thread of CUTLASS begins with the identity: a sum or a product has only one that changes nothing.
void check_identity(const Slot& slot, double identity) {
  const bool sum = slot.family == Family::sum;
  if ((!sum && slot.family != Family::prod) || identity == (sum ? 0 : 1)) return;
  throw Error(
      ErrorCode::bad_attribute,
      "the reduction into " + quoted(slot.name) + " begins with a reduction_identity of " + std::to_string(identity),
      sum ? "A sum's is 0." : "A product's is 1.");
}

// Throws where a size is negative.
void check_sizes(const Request& r) {
  if (r.m >= 0 && r.n >= 0 && r.k >= 0 && r.batch >= 0) return;
  throw Error(ErrorCode::size_overflow, "a problem of M = " + std::to_string(r.m) + ", N = " + std::to_string(r.n) +
                                            ", K = " + std::to_string(r.k) + ", L = " + std::to_string(r.batch) +
                                            " has a negative size");
}

// Throws where a layout says another shape than the problem.
void check_shape(std::string_view name, const std::array<std::int64_t, 2>& said, std::int64_t rows,
                 std::int64_t columns) {
  if (said[0] < 0 || (said[0] == rows && said[1] == columns)) return;
  const auto text = [](std::int64_t r, std::int64_t c) { return std::to_string(r) + " x " + std::to_string(c); };
  throw Error(ErrorCode::wrong_shape, "the layout of " + quoted(name) + " is " + text(said[0], said[1]) +
                                          ", but the problem makes it " + text(rows, columns));
}

Tensor matrix(const Matrix& from, DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const auto& [s0, s1, sb] = from.strides;
  if (batch == 1) return {from.data, dtype, {rows, columns}, {s0, s1}};
  return {from.data, dtype, {batch, rows, columns}, {sb, s0, s1}};
}

Tensor by_value(const Given& given, DType dtype) {
  Tensor scalar;
  scalar.dtype = dtype;
  scalar.by_value = true;
  scalar.value = given.value;
  return scalar;
}

// Partial results lie in whole tiles; the node gave the other extent of its tile.
std::array<std::int64_t, 3> partial_strides(const Slot& slot, const Given& given,
                                            std::span<const std::int64_t> extents) {
  const auto whole = [](std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile * tile; };
  static_cast<void>(slot);
  if (given.strides[1] != 0) {  // ceil(M / tile) x whole N
    const std::int64_t row = whole(extents[1], given.strides[1]);
    return {row, 1, extents[0] * row};
  }
  const std::int64_t column = whole(extents[0], given.strides[0]);  // whole M, contiguous, x ceil(N / tile)
  return {1, column, extents[1] * column};
}

Plan::Slot find_slot(const std::vector<Plan::Slot>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Plan::Slot& slot) { return slot.name == name; });
  return found == all.end() ? Plan::Slot{} : *found;
}

// All that decides a graph and its plan, in bytes.
std::string key(const Form& form, bool batched, const Target& target) {
  std::string bytes;
  bytes += static_cast<char>(batched | form.source << 1 | form.bias.has_value() << 2);
  for (const Form::Use use : form.uses) bytes += static_cast<char>(use);
  for (const double identity : form.identities) bytes.append(reinterpret_cast<const char*>(&identity), sizeof identity);
  bytes += static_cast<char>(target.device);
  return bytes + std::to_string(target.threads) + ' ' + std::to_string(target.device_index) + ' ' + target.isa + ' ' +
         target.schedule;
}

}  // namespace

// One way in which a tree is used: its plan, and what of the arguments is bound to it.
struct Used {
  Form form;
  Plan plan;
  std::vector<Slot> slots;
  std::vector<Plan::Slot> wanted;  // in the order of `slots`, where they are in the graph
  std::optional<Plan::Slot> c, d;
};

struct Kernel::State {
  Description description;
  Types types;
  std::mutex mutex{};
  std::optional<std::vector<Slot>> declared{};
  std::map<std::string, std::shared_ptr<const Used>> uses{};  // by key()

  [[nodiscard]] Form first_form() const {
    Form form;
    form.accumulator = description.accumulator;
    form.source = types.c != no_element;
    if (types.bias != no_element) form.bias = static_cast<DType>(types.bias);
    return form;
  }
  [[nodiscard]] bool is_zero(int row, const Giving& giving) const;
  [[nodiscard]] bool reads_source(const Request& r) const;
  [[nodiscard]] Form form(const Request& r, const std::vector<Given>& given);
  std::shared_ptr<const Used> find(const Request& r, const std::vector<Given>& given);
  // The plan for a request, and its bindings.
  std::pair<Plan, std::vector<Binding>> bind(const Request& r, std::shared_ptr<const Used>& used);
};

// Whether the operand of a row is 0 by value.
bool Kernel::State::is_zero(int row, const Giving& giving) const {
  const Row& operand = description.rows[row];
  std::size_t first = 0;
  for (int i = 0; i < row; ++i) first += given_count(description.rows[i]);
  std::size_t zeros = 0;
  for (std::size_t k = 0; k < given_count(operand); ++k) {
    const Given& g = giving[first + k];
    zeros += !g.data && number(g, static_cast<DType>(operand.element)) == 0;
  }
  return zeros == given_count(operand) || (zeros > 0 && operand.family == Family::prod);
}

// Where C is null it is not read, if all that would read it is multiplied by a beta of 0.
bool Kernel::State::reads_source(const Request& r) const {
  if (types.c == no_element || r.c.data) return types.c != no_element;
  bool read = description.rows[description.root].kind == Row::Kind::source;
  for (int i = 0; i < description.count; ++i) {
    const Row& row = description.rows[i];
    for (std::size_t k = 0; k < static_cast<std::size_t>(row.input_count); ++k) {
      if (description.rows[row.inputs[k]].kind != Row::Kind::source) continue;
      read |= !row.skips_source || k != 1;
      if (read || is_zero(row.inputs[0], r.given)) continue;
      throw Error(ErrorCode::null_data, "C is null, but the beta that multiplies it is not 0 by value",
                  "Give ptr_C, or a beta of 0 without a pointer.");
    }
  }
  return read;
}

Form Kernel::State::form(const Request& r, const std::vector<Given>& given) {
  if (!declared) declared = build(description, first_form()).slots;
  Form form = first_form();
  form.source = reads_source(r);
  if (!r.bias) form.bias.reset();
  form.uses.assign(declared->size(), Form::as_declared);
  form.identities.assign(declared->size(), 0);
  for (std::size_t i = 0; i < declared->size(); ++i) {
    const Slot& slot = (*declared)[i];
    const Given& g = given.at(i);
    Form::Use& use = form.uses[i];
    if (!g.data && !slot.may_be_null) {
      throw Error(ErrorCode::null_data, quoted(slot.name) + " has no data: its pointer is null",
                  "Give it memory, or let its node take null pointers.");
    }
    if (slot.is_output() && !g.data) {
      use = Form::absent;
    } else if (slot.role == Slot::Role::reduction) {
      form.identities[i] = number(g, slot.compute);
      check_identity(slot, form.identities[i]);
      if (r.batch != 1 && !slot.group && g.strides[2] == 0) use = Form::across_batch;
    } else if (slot.role == Slot::Role::operand) {
      const bool still = (slot.axes == row_axes && g.strides[1] == 0) || (slot.axes == col_axes && g.strides[0] == 0);
      if (!g.data || still) use = Form::one_element;
    }
  }
  return form;
}

std::shared_ptr<const Used> Kernel::State::find(const Request& r, const std::vector<Given>& given) {
  const std::scoped_lock lock(mutex);
  Form wanted = form(r, given);
  auto& entry = uses[key(wanted, r.batch != 1, r.target)];
  if (entry) return entry;
  auto made = std::make_shared<Used>();
  made->form = std::move(wanted);
  Built built = build(description, made->form);
  made->plan = plan_of(
      {.a = types.a, .b = types.b, .a_layout = types.a_layout, .b_layout = types.b_layout, .batched = r.batch != 1},
      built.graph, r.target);
  made->slots = std::move(built.slots);
  const std::vector<Plan::Slot> all = made->plan.slots();
  for (const Slot& slot : made->slots) made->wanted.push_back(find_slot(all, slot.name));
  for (const Plan::Slot& slot : all) {
    if (slot.name == "C") made->c = slot;
    if (slot.name == "D") made->d = slot;
  }
  return entry = std::move(made);
}

std::pair<Plan, std::vector<Binding>> Kernel::State::bind(const Request& r, std::shared_ptr<const Used>& used) {
  check_sizes(r);
  const std::vector<Given> given = expand(description, r.given);
  used = find(r, given);
  std::vector<Binding> bindings;
  bindings.reserve(used->slots.size() + 5);
  const auto add = [&](std::string_view name, const Tensor& tensor) {
    bindings.push_back({name, tensor.on(r.target.device, r.target.device_index)});
  };
  const auto shape = [&](const std::string& name) { return used->plan.shape_of(name, r.m, r.n, r.k); };
  check_shape("A", r.a.shape, r.m, r.k);
  check_shape("B", r.b.shape, r.k, r.n);
  add("A", matrix(r.a, types.a, r.batch, r.m, r.k));
  add("B", matrix(r.b, types.b, r.batch, r.k, r.n));
  if (used->form.bias) add("bias", Tensor(r.bias, *used->form.bias, {r.n}));
  for (const auto& [slot, from] : {std::pair{&used->c, &r.c}, std::pair{&used->d, &r.d}}) {
    if (!*slot) continue;
    const auto extents = shape((*slot)->name);
    add((*slot)->name, matrix(*from, (*slot)->dtype, r.batch, extents[0], extents[1]));
  }
  for (std::size_t i = 0; i < used->slots.size(); ++i) {
    const Slot& slot = used->slots[i];
    const Given& g = given[i];
    if (slot.name.empty()) continue;
    if (!g.data) {
      add(slot.name, by_value(g, slot.dtype));
      continue;
    }
    std::vector<std::int64_t> extents = shape(slot.name), steps;
    check_shape(slot.name, g.shape, slot.axes.has(Axis::m) ? extents.front() : 1,
                slot.axes.has(Axis::n) ? extents.back() : 1);
    const auto strides = slot.group ? partial_strides(slot, g, extents) : g.strides;
    if (slot.axes.has(Axis::m)) steps.push_back(strides[0]);
    if (slot.axes.has(Axis::n)) steps.push_back(strides[1]);
    if (r.batch != 1 && (slot.is_output() ? used->wanted[i].batched : strides[2] != 0)) {
      extents.insert(extents.begin(), r.batch);
      steps.insert(steps.begin(), strides[2]);
    }
    add(slot.name, Tensor(g.data, slot.dtype, extents, steps));
  }
  return {used->plan, std::move(bindings)};
}

Kernel::Kernel(const Description& description, const Types& types) : state_(new State{description, types}) {}
Kernel::~Kernel() = default;

namespace {

template <class Action>
Outcome outcome_of(const Action& action) {
  try {
    action();
    return {};
  } catch (const Error& error) { return {error.code(), error.what()}; } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "out of memory"};
  } catch (const std::exception& error) { return {ErrorCode::internal, error.what()}; }
}

}  // namespace

Outcome Kernel::check(const Request& request) {
  return outcome_of([&] {
    std::shared_ptr<const Used> used;
    const auto [plan, bindings] = state_->bind(request, used);
    plan.check(bindings);
    if (request.target.device == Device::cpu || request.target.isa.empty()) return;
    const Support here = supports(plan.problem(), plan.graph(), Target::cuda(request.target.device_index));
    if (!here) throw Error(ErrorCode::no_device, here.reasons.front());  // it was compiled without a device
  });
}

Outcome Kernel::prepare(const Request& request, void* stream, Call& call) {
  return outcome_of([&] {
    std::shared_ptr<const Used> used;
    const auto [plan, bindings] = state_->bind(request, used);
    call = stream ? plan.bind(bindings, stream) : plan.bind(bindings);
  });
}

Outcome Kernel::run(Call& call, void* stream) {
  return outcome_of([&] { call.run(stream); });
}

}  // namespace postlude::inline v0::evt::detail
