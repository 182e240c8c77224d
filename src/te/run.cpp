#include "te/run.h"

#include "core/threads.h"
#include "cpu/isa.h"
#include "cpu/strips/ops.h"
#include "te/strip.h"

#include <algorithm>

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
  BoundBuffer buffer{};                                      // allocate
  std::unique_ptr<StripNest> strip;
  std::vector<Step> body;
};

struct CpuNest::Data {
  Nest nest;
  Sizes sizes;
  Slots slots;
  std::map<const Buffer*, BoundBuffer> buffers;
  std::vector<Step> steps;
  int threads = 1;

  std::vector<Step> compile(const std::vector<Statement>& body);
  Step compile(const Statement& statement);
  Step strip(const Statement& outermost);
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

// Whether loops and guards around one statement, and nothing else.
bool is_perfect(const Statement& s) {
  if (is_statement(s)) return true;
  if (s.kind == Statement::Kind::loop && is_parallel(s)) return false;
  return (s.kind == Statement::Kind::loop || s.kind == Statement::Kind::guard) && s.body.size() == 1 &&
         is_perfect(s.body[0]);
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
  for (const Statement& s : body)
    if (s.kind != Statement::Kind::synchronise) steps.push_back(compile(s));
  return steps;
}

CpuNest::Step CpuNest::Data::strip(const Statement& outermost) {
  std::vector<StripNest::Loop> loops;
  std::vector<Expr> conditions;
  const Statement* s = &outermost;
  for (; !is_statement(*s); s = &s->body[0]) {
    if (s->kind == Statement::Kind::guard) conditions.push_back(s->condition);
    else
      loops.push_back(
          {slots.of(s->axis.get()), linear(s->extent, sizes, slots), s->axis->kind == AxisNode::Kind::reduce});
  }
  Step step;
  step.kind = Step::Kind::strip;
  step.strip = std::make_unique<StripNest>(Bounding{&nest, &sizes, &slots, &buffers, &cpu::strips(cpu::best_isa())},
                                           std::move(loops), conditions, *s);
  return step;
}

CpuNest::Step CpuNest::Data::compile(const Statement& s) {
  if (is_perfect(s) && (s.kind != Statement::Kind::loop || is_box(s))) return strip(s);
  Step step;
  switch (s.kind) {
    case Statement::Kind::loop:
      step.kind = is_parallel(s) ? Step::Kind::parallel : Step::Kind::loop;
      step.slot = slots.of(s.axis.get());
      step.extent = linear(s.extent, sizes, slots);
      step.body = compile(s.body);
      break;
    case Statement::Kind::guard:
      step.kind = Step::Kind::guard;
      if (reads(s.condition))
        throw Error(ErrorCode::unsupported, "a condition around loops reads a tensor: " + print(s.condition));
      {
        std::vector<Expr> parts;
        split_and(s.condition, parts);
        for (const Expr& part : parts) {
          const std::vector<Expr> rests = at_least_zero(part);
          for (const Expr& rest : rests) step.bounds.push_back(linear(rest, sizes, slots));
          if (rests.empty()) step.condition = both(step.condition, part);
        }
      }
      if (!step.condition.empty())
        visit(step.condition, [&](const ExprNode& x) {
          if (x.kind == ExprNode::Kind::axis && !sizes.count(x.axis.get()))
            step.variables.emplace_back(x.axis.get(), slots.of(x.axis.get()));
        });
      step.body = compile(s.body);
      break;
    case Statement::Kind::allocate: {
      step.kind = Step::Kind::allocate;
      step.buffer = buffers.at(s.to[0].get());
      break;
    }
    default: break;
  }
  return step;
}

void CpuNest::Data::allocate(const Step& step, Frame& frame) const {
  std::int64_t bytes = size_of(step.buffer.type);
  for (const Linear& extent : step.buffer.shape) bytes *= std::max<std::int64_t>(extent.at(frame.loops), 0);
  const auto number = static_cast<std::size_t>(step.buffer.number);
  if (frame.owned_bytes[number] < bytes || !frame.owned[number]) {
    frame.owned[number] =
        std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 64)));
    frame.owned_bytes[number] = bytes;
  }
  frame.buffers[number] = frame.owned[number].get();
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
      if (step.condition.empty()) return run(step.body, frame);
      Sizes values = sizes;
      for (const auto& [axis, slot] : step.variables) values[axis] = frame.loops[static_cast<std::size_t>(slot)];
      if (evaluate(step.condition, values)) run(step.body, frame);
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
  const auto add = [&](const BufferPtr& buffer) {
    if (data_->buffers.count(buffer.get())) return;
    BoundBuffer bound;
    bound.number = static_cast<int>(data_->buffers.size());
    bound.type = buffer->type;
    bound.name = buffer->name;
    std::int64_t stride = 1;
    for (const Expr& extent : buffer->shape) bound.shape.push_back(linear(extent, data_->sizes, data_->slots));
    for (std::size_t d = buffer->shape.size(); d-- > 0;) {
      const Linear& extent = bound.shape[d];
      bound.strides.insert(bound.strides.begin(), stride);
      if (d > 0 && !(extent.is_affine() && extent.terms.empty()))
        throw Error(ErrorCode::unsupported,
                    "the size of " + quoted(buffer->name) + " varies from loop to loop: " + print(buffer->shape[d]),
                    "Compute it further out.");
      stride *= std::max<std::int64_t>(extent.constant, 1);
    }
    if (buffer->argument >= 0) {
      const v0::Tensor& array = arrays[static_cast<std::size_t>(buffer->argument)];
      for (std::size_t d = 0; d < bound.strides.size(); ++d) bound.strides[d] = array.strides[d];
    }
    data_->buffers.emplace(buffer.get(), std::move(bound));
  };
  for (const BufferPtr& argument : data_->nest.arguments) add(argument);
  const std::function<void(const std::vector<Statement>&)> walk = [&](const std::vector<Statement>& body) {
    for (const Statement& s : body) {
      if (s.kind == Statement::Kind::allocate) add(s.to[0]);
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
