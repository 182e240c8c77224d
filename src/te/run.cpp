#include "te/run.h"

#include "core/threads.h"
#include "cpu/isa.h"
#include "cpu/strips/ops.h"
#include "te/strip.h"

#include <algorithm>
#include <new>
#include <optional>

namespace postlude::inline v0::te {
// A node of the nest that is not within a strip.
struct CpuNest::Step {
  enum class Kind : std::uint8_t { loop, parallel, guard, allocate, strip };
  Kind kind = Kind::loop;
  int slot = -1;
  Linear extent{};                                           // loop
  std::vector<Linear> bounds{};                              // guard: each at least 0
  Expr condition{};                                          // and the rest of it, if any
  std::vector<std::pair<const AxisNode*, int>> variables{};  // that it has
  BoundBuffer buffer{};                                      // allocate; guard: of what is computed
  std::unique_ptr<StripNest> strip;                          // guard: stores that
  std::vector<Step> body;
};

struct CpuNest::Data {
  Nest nest;
  Sizes sizes;
  Slots slots;
  std::map<const Buffer*, BoundBuffer> buffers;
  std::vector<Step> steps;
  int threads = 1;

  void add(const BufferPtr& buffer);
  std::vector<Step> compile(const std::vector<Statement>& body);
  Step compile(const Statement& statement);
  std::unique_ptr<StripNest> strip(std::vector<const Statement*> around, const Statement& outermost);
  std::optional<Step> pair(std::vector<const Statement*> around, const Statement& first, const Statement& then);
  void run(const std::vector<Step>& body, Frame& frame) const;
  void run(const Step& step, Frame& frame) const;
  void run_parallel(const Step& step, Frame& frame) const;
  void allocate(const Step& step, Frame& frame) const;
};

namespace {

bool is_statement(const Statement& s) { return s.kind == Statement::Kind::store || s.kind == Statement::Kind::update; }

// Blocks are independent, unless they reduce together.
bool is_parallel(const Statement& loop) {
  return loop.mark.kind == Mark::Kind::parallel ||
         (loop.mark.kind == Mark::Kind::bind && loop.mark.thread->tag.starts_with("block") && !loop.joins);
}

bool computes_to_pass(const Statement& s) { return s.kind == Statement::Kind::guard && is_computed(s.condition); }

// Whether loops and guards around one statement, and nothing else. What is computed is a mask of elements, where
// the identity may stand for one that is left out.
bool is_perfect(const Statement& s) {
  if (is_statement(s)) return true;
  const bool is_kind = s.kind == Statement::Kind::guard || (s.kind == Statement::Kind::loop && !is_parallel(s));
  if (!is_kind || s.body.size() != 1 || !is_perfect(s.body[0])) return false;
  const Statement* at = &s;
  while (!is_statement(*at)) at = &at->body[0];
  return !computes_to_pass(s) || (at->kind == Statement::Kind::update && at->reducer->free.is_left_alone);
}

bool mentions(const Expr& x, const std::vector<const AxisNode*>& axes) {
  bool found = false;
  visit(x, [&](const ExprNode& node) {
    found |= node.kind == ExprNode::Kind::axis && std::find(axes.begin(), axes.end(), node.axis.get()) != axes.end();
  });
  return found;
}

// Whether an inner loop's length depends on the outermost one.
bool is_box(const Statement& outermost) {
  const std::vector<const AxisNode*> axis{outermost.axis.get()};
  for (const Statement* s = &outermost; !is_statement(*s); s = &s->body[0])
    if (s != &outermost && s->kind == Statement::Kind::loop && mentions(s->extent, axis)) return false;
  return true;
}

}  // namespace

std::vector<CpuNest::Step> CpuNest::Data::compile(const std::vector<Statement>& body) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind == Statement::Kind::synchronise) continue;
    if (i + 1 < body.size())
      if (auto both = pair({}, body[i], body[i + 1])) {
        steps.push_back(std::move(*both));
        ++i;
        continue;
      }
    steps.push_back(compile(body[i]));
  }
  return steps;
}

// The loops and guards around a statement, and itself, as a strip.
std::unique_ptr<StripNest> CpuNest::Data::strip(std::vector<const Statement*> around, const Statement& outermost) {
  std::vector<StripNest::Loop> loops;
  std::vector<Expr> conditions;
  const Statement* s = &outermost;
  for (; !is_statement(*s); s = &s->body[0]) around.push_back(s);
  for (const Statement* each : around) {
    if (each->kind == Statement::Kind::guard) conditions.push_back(each->condition);
    else
      loops.push_back(
          {slots.of(each->axis.get()), linear(each->extent, sizes, slots), each->axis->kind == AxisNode::Kind::reduce});
  }
  return std::make_unique<StripNest>(Bounding{&nest, &sizes, &slots, &buffers, &cpu::strips(cpu::best_isa())},
                                     std::move(loops), conditions, *s);
}

// Results that are initialised and then reduced. The loops `around` both run over these results, so
// that all may be initialised before the first is reduced: they are loops of both strips then.
std::optional<CpuNest::Step> CpuNest::Data::pair(std::vector<const Statement*> around, const Statement& first,
                                                 const Statement& then) {
  if (!is_perfect(first) || !is_perfect(then)) return {};
  std::vector<Expr> conditions[2];
  std::vector<const AxisNode*> axes;
  std::vector<Expr> extents;
  const auto enter = [&](const Statement& s, std::vector<Expr>& of) {
    if (s.kind == Statement::Kind::guard) return split_and(s.condition, of);
    axes.push_back(s.axis.get());
    extents.push_back(s.extent);
  };
  for (const Statement* s : around)
    if (s->kind == Statement::Kind::loop) enter(*s, conditions[0]);
  const std::size_t count = axes.size();
  const Statement *store = &first, *update = &then;
  for (; !is_statement(*store); store = &store->body[0])
    if (store->kind == Statement::Kind::guard) enter(*store, conditions[0]);
  for (; !is_statement(*update); update = &update->body[0]) enter(*update, conditions[1]);
  const auto equals = [](const Expr& a, const Expr& b) { return equal(*a.node(), *b.node()); };
  if (store->kind != Statement::Kind::store || update->kind != Statement::Kind::update || store->to != update->to ||
      !std::equal(store->index.begin(), store->index.end(), update->index.begin(), update->index.end(), equals) ||
      axes.size() > 16 ||
      std::any_of(extents.begin(), extents.end(), [&](const Expr& extent) { return mentions(extent, axes); }))
    return {};
  for (const Expr& x : store->values)
    if (x->kind != ExprNode::Kind::constant) return {};
  bool reads_itself = false;
  for (const Expr& x : update->values)
    visit(x, [&](const ExprNode& node) {
      if (node.kind == ExprNode::Kind::read)
        reads_itself |= std::find(update->to.begin(), update->to.end(), nest.of(node)) != update->to.end();
    });
  if (reads_itself) return {};
  Step step;
  step.kind = Step::Kind::strip;
  step.strip = strip(around, then);
  if (count > 0 && !step.strip->takes(count)) return {};
  const bool zero = store->values.size() == 1 && store->values[0]->value.value() == 0;
  step.strip->set_initial(strip(std::move(around), first),
                          zero && std::equal(conditions[0].begin(), conditions[0].end(), conditions[1].begin(),
                                             conditions[1].end(), equals));
  return step;
}

CpuNest::Step CpuNest::Data::compile(const Statement& s) {
  Step step;
  if (is_perfect(s) && (s.kind != Statement::Kind::loop || is_box(s))) {
    step.kind = Step::Kind::strip;
    step.strip = strip({}, s);
    return step;
  }
  std::vector<const Statement*> around{&s};
  while (around.back()->body.size() == 1 && !is_statement(around.back()->body[0]) && !is_parallel(*around.back()) &&
         !computes_to_pass(*around.back()))
    around.push_back(&around.back()->body[0]);
  const Statement& last = *around.back();
  if (last.body.size() == 2 &&
      std::none_of(around.begin(), around.end(), [](const auto* x) { return is_parallel(*x) || computes_to_pass(*x); }))
    if (auto both = pair(around, last.body[0], last.body[1])) return std::move(*both);
  switch (s.kind) {
    case Statement::Kind::loop:
      step.kind = is_parallel(s) ? Step::Kind::parallel : Step::Kind::loop;
      step.slot = slots.of(s.axis.get());
      step.extent = linear(s.extent, sizes, slots);
      step.body = compile(s.body);
      break;
    case Statement::Kind::guard: {
      step.kind = Step::Kind::guard;
      const auto [others, computed] = apart(s.condition);
      std::vector<Expr> parts;
      if (!others.empty()) split_and(others, parts);
      for (const Expr& part : parts) {
        const std::vector<Expr> rests = at_least_zero(part);
        for (const Expr& rest : rests) step.bounds.push_back(linear(rest, sizes, slots));
        if (rests.empty()) step.condition = both(step.condition, part);
      }
      if (!computed.empty()) {
        Statement store;
        store.kind = Statement::Kind::store;
        store.to = {std::make_shared<const Buffer>(Buffer{"", DType::boolean, {}, Buffer::Scope::local})};
        store.values = {computed};
        add(store.to[0]);
        step.buffer = buffers.at(store.to[0].get());
        step.strip = strip({}, store);
      }
      if (!step.condition.empty())
        visit(step.condition, [&](const ExprNode& x) {
          if (x.kind == ExprNode::Kind::axis && !sizes.count(x.axis.get()))
            step.variables.emplace_back(x.axis.get(), slots.of(x.axis.get()));
        });
      step.body = compile(s.body);
      break;
    }
    case Statement::Kind::allocate: {
      step.kind = Step::Kind::allocate;
      step.buffer = buffers.at(s.to[0].get());
      break;
    }
    default: break;
  }
  return step;
}

void CpuNest::Data::add(const BufferPtr& buffer) {
  if (buffers.count(buffer.get())) return;
  BoundBuffer bound;
  bound.number = static_cast<int>(buffers.size());
  bound.type = buffer->type;
  bound.name = buffer->name;
  std::int64_t stride = 1;
  for (const Expr& extent : buffer->shape) bound.shape.push_back(linear(extent, sizes, slots));
  for (std::size_t d = buffer->shape.size(); d-- > 0;) {
    const Linear& extent = bound.shape[d];
    bound.strides.insert(bound.strides.begin(), stride);
    if (d > 0 && !(extent.is_affine() && extent.terms.empty()))
      throw Error(ErrorCode::unsupported,
                  "the size of " + quoted(buffer->name) + " varies from loop to loop: " + print(buffer->shape[d]),
                  "Compute it further out.");
    stride *= std::max<std::int64_t>(extent.constant, 1);
  }
  buffers.emplace(buffer.get(), std::move(bound));
}

// Memory begins a cache line: vectors that cross two take as long as two.
void CpuNest::Data::allocate(const Step& step, Frame& frame) const {
  constexpr std::int64_t line = 64;
  std::int64_t bytes = size_of(step.buffer.type);
  for (const Linear& extent : step.buffer.shape) bytes *= std::max<std::int64_t>(extent.at(frame.loops), 0);
  const auto number = static_cast<std::size_t>(step.buffer.number);
  if (frame.owned_bytes[number] < bytes || !frame.owned[number]) {
    frame.owned[number].reset(new (std::nothrow) char[static_cast<std::size_t>(bytes + line)]);
    if (!frame.owned[number])
      throw Error(ErrorCode::out_of_memory,
                  "there is no memory for " + std::to_string(bytes) + " bytes of " + quoted(step.buffer.name),
                  "Compute it at a loop, inline it, or make partial results of fewer parts.");
    frame.owned_bytes[number] = bytes;
  }
  char* const owned = frame.owned[number].get();
  frame.buffers[number] = owned + (line - reinterpret_cast<std::uintptr_t>(owned) % line) % line;
}

void CpuNest::Data::run(const std::vector<Step>& body, Frame& frame) const {
  for (const Step& step : body) run(step, frame);
}

void CpuNest::Data::run(const Step& step, Frame& frame) const {
  switch (step.kind) {
    case Step::Kind::strip: step.strip->run(frame); break;
    case Step::Kind::allocate: allocate(step, frame); break;
    case Step::Kind::guard: {
      for (const Linear& bound : step.bounds)
        if (bound.at(frame.loops) < 0) return;
      if (!step.condition.empty()) {
        Sizes values = sizes;
        for (const auto& [axis, slot] : step.variables) values[axis] = frame.loops[static_cast<std::size_t>(slot)];
        if (!evaluate(step.condition, values)) return;
      }
      if (step.strip) {
        allocate(step, frame);
        step.strip->run(frame);
        if (!*frame.buffers[static_cast<std::size_t>(step.buffer.number)]) return;
      }
      run(step.body, frame);
      break;
    }
    case Step::Kind::loop: {
      const std::int64_t extent = step.extent.at(frame.loops);
      for (std::int64_t i = 0; i < extent; ++i) {
        frame.loops[static_cast<std::size_t>(step.slot)] = i;
        run(step.body, frame);
      }
      break;
    }
    case Step::Kind::parallel: run_parallel(step, frame); break;
  }
}

void CpuNest::Data::run_parallel(const Step& step, Frame& frame) const {
  const std::int64_t extent = step.extent.at(frame.loops);
  const int team = static_cast<int>(std::min<std::int64_t>(threads, extent));
  core::parallel(team, [&](int t) {
    Frame own;
    own.loops = frame.loops;
    own.buffers = frame.buffers;
    own.owned.resize(buffers.size());
    own.owned_bytes.resize(buffers.size());
    for (std::int64_t i = extent * t / team; i < extent * (t + 1) / team; ++i) {
      own.loops[static_cast<std::size_t>(step.slot)] = i;
      run(step.body, own);
    }
  });
}

CpuNest::CpuNest(const Nest& nest, Sizes sizes, std::span<const v0::Tensor> arrays, int threads)
    : data_(std::make_unique<Data>()) {
  data_->nest = nest;
  data_->sizes = std::move(sizes);
  data_->threads = threads > 0 ? threads : core::available_threads();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Buffer* const argument = data_->nest.arguments[i].get();
    data_->add(data_->nest.arguments[i]);
    std::vector<std::int64_t>& strides = data_->buffers.at(argument).strides;
    std::copy_n(arrays[i].strides.begin(), strides.size(), strides.begin());
  }
  const std::function<void(const std::vector<Statement>&)> walk = [&](const std::vector<Statement>& body) {
    for (const Statement& s : body) {
      if (s.kind == Statement::Kind::allocate) data_->add(s.to[0]);
      walk(s.body);
    }
  };
  walk(data_->nest.body);
  data_->steps = data_->compile(data_->nest.body);
}

CpuNest::~CpuNest() = default;
CpuNest::CpuNest(CpuNest&&) noexcept = default;

void CpuNest::run(std::span<const v0::Tensor> arrays) const {
  Frame frame;
  frame.loops.resize(data_->slots.count());
  frame.buffers.resize(data_->buffers.size());
  frame.owned.resize(data_->buffers.size());
  frame.owned_bytes.resize(data_->buffers.size());
  for (std::size_t i = 0; i < arrays.size(); ++i)
    frame.buffers[static_cast<std::size_t>(data_->buffers.at(data_->nest.arguments[i].get()).number)] =
        static_cast<char*>(arrays[i].data);
  data_->run(data_->steps, frame);
}

}  // namespace postlude::inline v0::te
