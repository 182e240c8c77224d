#include "bindings.h"

#include "prepared.h"

#include "core/fast.h"
#include "lower/lower.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <type_traits>
#include <utility>

namespace postlude::inline v0::python {
namespace {

std::string describe(const Target& target) {
  if (target.device == Device::cuda)
    return target.isa.empty() ? "cuda:" + std::to_string(target.device_index) : target.isa;
  return target.isa.empty() ? "cpu" : "cpu " + target.isa;
}

CompileOptions options_of(const std::vector<std::pair<std::string, DType>>& dtypes) { return {.dtypes = dtypes}; }

std::shared_ptr<Prepared> prepare(const Problem& problem, const Graph& graph, const Target& target,
                                  const std::vector<std::pair<std::string, DType>>& dtypes, nb::object record,
                                  const nb::dict& defaults) {
  auto prepared = std::make_shared<Prepared>();
  {
    Unlocked release;
    prepared->plan = compile(problem, graph, target, options_of(dtypes));
  }
  prepared->inputs = problem.loop().inputs();
  prepared->record = std::move(record);
  std::vector<Plan::Slot> slots = prepared->plan.slots();
  for (std::size_t i = prepared->inputs.size(); i < slots.size(); ++i) {
    Plan::Slot& slot = slots[i];
    if (slot.output) {
      prepared->outputs.push_back(std::move(slot));
    } else {
      const nb::object key = nb::steal(PyUnicode_InternFromString(slot.name.c_str()));
      prepared->operand_keys.push_back(key);
      prepared->defaults.push_back(defaults.contains(key) ? nb::object(defaults[key]) : nb::object());
      prepared->operands.push_back(std::move(slot));
    }
  }
  return prepared;
}

// What conv() takes, all of one length.
struct ConvArguments {
  int direction = 0;
  const std::vector<Size>& stride;
  const std::vector<std::array<Size, 2>>& padding;
  const std::vector<Size>& dilation;
  Size groups;
  const std::vector<Size>& extra;
};

std::int32_t small(Size n, const char* what) {
  if (!std::in_range<std::int32_t>(std::int64_t{n}))
    throw Error(ErrorCode::usage,
                "a convolution's " + std::string(what) + " is " + std::to_string(n) + ", beyond 32 bits");
  return static_cast<std::int32_t>(n);
}

template <std::size_t Rank>
Problem conv_of(const ConvArguments& given) {
  const auto fill = [&](auto conv, auto member) -> Problem {
    for (std::size_t i = 0; i < Rank; ++i) {
      conv.stride[i] = small(given.stride.at(i), "stride");
      conv.padding[i] = {small(given.padding.at(i)[0], "padding"), small(given.padding.at(i)[1], "padding")};
      conv.dilation[i] = small(given.dilation.at(i), "dilation");
      if constexpr (!std::is_null_pointer_v<decltype(member)>)
        (conv.*member)[i] = small(given.extra.at(i), given.direction == 1 ? "output padding" : "filter size");
    }
    conv.groups = small(given.groups, "number of groups");
    return conv;
  };
  switch (given.direction) {
    case 0: return fill(Conv<Rank>{}, nullptr);
    case 1: return fill(ConvDgrad<Rank>{}, &ConvDgrad<Rank>::output_padding);
    default: return fill(ConvWgrad<Rank>{}, &ConvWgrad<Rank>::filter);
  }
}

std::string signature(const Prepared& p) {
  std::string text(p.plan.problem().loop().name());
  if (is_batched(p.plan.problem())) text += " batched";
  std::string arrays, outputs;
  for (const Plan::Slot& slot : p.plan.slots()) {
    std::string& list = slot.output ? outputs : arrays;
    list += (list.empty() ? "" : ", ") + slot.name + " " + std::string(name(slot.dtype));
  }
  return text + " (" + arrays + ") -> (" + outputs + ") on " + describe(p.plan.target());
}

// "A and B", "a, b"
std::string list(const std::vector<Input>& inputs, bool small) {
  std::string text;
  for (const Input& input : inputs) {
    std::string name(input.name);
    if (small)
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    text += (text.empty() ? "" : small ? ", " : " and ") + name;
  }
  return text;
}

// The inputs of bind() and verify(): the main loop's by position, so that operands may have any name, one of them
// perhaps as pack() made it; out= and the operands by name.
Inputs read_inputs(const Prepared& p, const nb::args& arrays, nb::kwargs& keywords) {
  if (arrays.size() < 1 || arrays.size() > p.inputs.size())
    throw Error(
        ErrorCode::usage,
        "bind takes " + list(p.inputs, false) + " by position, not " + std::to_string(arrays.size()) + " arrays",
        "bind(" + list(p.inputs, true) + ", ...): pass the operands by name.");
  nb::object out = nb::none();
  if (keywords.contains("out")) {
    out = keywords["out"];
    nb::del(keywords["out"]);
  }
  Inputs inputs;
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const Input& input = p.inputs[i];
    const nb::object given = i < arrays.size() ? nb::object(arrays[i]) : nb::object(nb::none());
    if (given.is_none())
      throw Error(ErrorCode::missing_operand, "operand " + postlude::quoted(input.name) + " is missing",
                  "bind(" + list(p.inputs, true) + ", ...)");
    Array& array = inputs.main.emplace_back();
    if (input.packable && nb::isinstance<PackedOperand>(given)) {
      inputs.packed = nb::cast<const PackedOperand*>(given);
      array.owner = given;
    } else {
      array = read_array(given, input.name);
    }
  }
  std::vector<std::optional<DType>> types;
  for (const Plan::Slot& slot : p.operands) types.emplace_back(slot.dtype);
  inputs.operands = read_operands(p.operand_keys, p.defaults, types, keywords);
  inputs.out = read_destinations(out);
  return inputs;
}

ExplainPart part_of(const std::string& text) {
  constexpr std::pair<const char*, ExplainPart> parts[] = {
      {"summary", ExplainPart::summary},   {"passes", ExplainPart::passes}, {"program", ExplainPart::program},
      {"schedule", ExplainPart::schedule}, {"loops", ExplainPart::loops},   {"source", ExplainPart::source}};
  for (const auto& [name, part] : parts)
    if (text == name) return part;
  throw Error(ErrorCode::usage, "explain has no part " + postlude::quoted(text),
              "The parts are: summary, passes, program, schedule, loops, source.");
}

struct PhaseView {
  std::string domain;
  bool accumulator;
  std::vector<std::string> loads, operations, stores, reductions;
};

// "<phase over {m, n}: reads the product, bias; 3 operations; sum over {n}; writes D>"
std::string text_of(const PhaseView& phase) {
  std::string text = "<phase over " + phase.domain + ": reads";
  const auto add = [&](const auto& words, const char* before) {
    for (const std::string& word : words) text += std::exchange(before, ", ") + word;
  };
  add(phase.accumulator ? std::vector<std::string>{"the product"} : std::vector<std::string>{}, " ");
  add(phase.loads, phase.accumulator ? ", " : " ");
  text +=
      "; " + std::to_string(phase.operations.size()) + (phase.operations.size() == 1 ? " operation" : " operations");
  add(phase.reductions, "; ");
  add(phase.stores, "; writes ");
  return text + ">";
}

std::string axes_text(Axes axes) {
  std::string text;
  if (axes.has(Axis::m)) text += "m";
  if (axes.has(Axis::n)) text += text.empty() ? "n" : ", n";
  return "{" + text + "}";
}

std::vector<PhaseView> phases_of(const Prepared& p) {
  using namespace lower;
  const Program& program = program_of(p.plan);
  std::vector<PhaseView> views;
  const auto buffer = [&](BufferId id) { return program.buffers[static_cast<std::size_t>(id)].name; };
  for (const Phase& phase : program.phases) {
    PhaseView view{axes_text(phase.domain), phase.reads_accumulator(), {}, {}, {}, {}};
    for (const Instruction& instruction : phase.code) {
      if (instruction.op == Op::operand) view.loads.push_back(buffer(instruction.access.buffer));
      else if (instruction.op == Op::call) view.operations.push_back(instruction.function->name);
      else if (is_elementwise(instruction.op)) view.operations.emplace_back(info(instruction.op).spelling);
    }
    for (const Store& store : phase.stores) view.stores.push_back(buffer(store.access.buffer));
    for (const Reduction& reduction : phase.reductions) {
      constexpr const char* names[] = {
          "sum",   "prod", "min", "max", "any", "all", "argmax", "argmin", "online softmax", "mean and variance",
          "custom"};
      view.reductions.push_back(std::string(names[static_cast<int>(reduction.reducer)]) + " over " +
                                axes_text(reduction.axes));
    }
    views.push_back(std::move(view));
  }
  return views;
}

// Tuples (m, n, k), without k where nothing is multiplied, with the batch in front in a batched problem.
std::vector<Sizes> sizes_of(const Prepared& self, const nb::args& given) {
  const bool batched = is_batched(self.plan.problem()),
             multiplies = self.plan.problem().loop().contraction().has_value();
  std::vector<Sizes> all;
  for (const nb::handle one : given) {
    std::vector<Size> numbers;
    if (!nb::try_cast(one, numbers) || numbers.size() != 2u + batched + multiplies) {
      const std::string form = std::string(batched ? "(b, " : "(") + "m, n" + (multiplies ? ", k)" : ")");
      throw Error(ErrorCode::usage, "a size of this plan is " + form, "Write plan.prepare(" + form + ", ...).");
    }
    const auto m = numbers.begin() + batched;
    all.push_back({m[0], m[1], multiplies ? std::int64_t{m[2]} : 0, batched ? std::int64_t{numbers[0]} : 1});
  }
  return all;
}

// The main loop's inputs as arrays, which say how they lie, or as shapes.
std::vector<Tensor> inputs_like(const Prepared& self, const nb::sequence& given) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (nb::try_cast(given, shapes)) return self.plan.inputs_of(shapes);
  std::vector<Tensor> tensors;
  for (const nb::handle one : given) {
    const std::size_t at = std::min(tensors.size(), self.inputs.size() - 1);
    tensors.push_back(read_array(one, self.inputs[at].name).tensor);
  }
  return tensors;
}

void bind_targets(nb::module_& m) {
  nb::enum_<Device>(m, "Device").value("cpu", Device::cpu).value("cuda", Device::cuda);

  nb::class_<Target>(m, "Target",
                     "Where a plan runs: Target.cpu(threads), Target.cuda(index), Target.best(), Target(text).")
      .def(
          "__init__", [](Target* target, std::string_view text) { new (target) Target(Target::parse(text)); },
          nb::arg("text"), "As parse() reads it.")
      .def_static(
          "cpu",
          [](int threads, std::string isa) {
            Target target = Target::cpu(threads);
            target.isa = std::move(isa);
            return target;
          },
          nb::arg("threads") = 0, nb::arg("isa") = "",
          "threads 0: as many as OpenMP has. isa: '', 'portable', 'avx2', 'avx512' or 'amx'.")
      .def_static(
          "cuda",
          [](int index, std::string isa) {
            Target target = Target::cuda(index);
            target.isa = std::move(isa);
            return target;
          },
          nb::arg("index") = 0, nb::arg("isa") = "", "isa ('sm_90a') compiles without a device.")
      .def_static("best", &Target::best, "A GPU if a usable one is there, else the CPU.")
      .def_static("parse", &Target::parse, nb::arg("text"),
                  "'cpu', 'cuda', 'cuda:1', 'best', an instruction set ('avx2') or a GPU's architecture ('sm_90a'), "
                  "compiled without a device.")
      .def_ro("device", &Target::device)
      .def_ro("index", &Target::device_index)
      .def_ro("threads", &Target::threads)
      .def_ro("isa", &Target::isa)
      .def_prop_rw(
          "accumulate", [](const Target& t) { return core::is_fast(t.schedule) ? "fast" : ""; },
          [](Target& t, const std::string& how) {
            if (how != "fast" && !how.empty())
              throw Error(ErrorCode::usage, "accumulate = \"" + how + "\"", "It is \"fast\" or \"\".");
            t.schedule = how.empty() ? std::string(core::without_fast(t.schedule)) : core::with_fast(t.schedule);
          },
          "'fast' leaves sums of fp8 products to Hopper's tensor cores, which keep 14 bits; '' adds them up in f32 "
          "every "
          "512 of K. It is the first word of `schedule`.")
      .def_rw("schedule", &Target::schedule, "'' lets the heuristic choose; else the text form that explain() prints.")
      .def("_key",
           [](const Target& t) {
             return nb::make_tuple(static_cast<int>(t.device), t.threads, t.isa, t.device_index, t.schedule);
           })
      .def("__repr__", [](const Target& t) { return "<postlude target " + describe(t) + ">"; });
}

void bind_problems(nb::module_& m) {
  nb::class_<Problem>(m, "Problem", "What fills the accumulator: a main loop over inputs of certain dtypes.")
      .def_prop_ro(
          "inputs",
          [](const Problem& problem) {
            std::vector<std::pair<std::string, std::size_t>> inputs;
            for (const Input& input : problem.loop().inputs()) inputs.emplace_back(input.name, input.axes.size());
            return inputs;
          },
          "(name, axes without a batch) of each input.")
      .def_prop_ro("batched", [](const Problem& problem) { return is_batched(problem); })
      .def(
          "over",
          [](const Problem& problem, const std::vector<DType>& dtypes, bool batched) {
            return problem.loop().over(dtypes, batched);
          },
          nb::arg("dtypes"), nb::arg("batched"), "The same main loop over inputs of other dtypes.")
      .def_prop_ro("_key", [](const Problem& problem) { return problem.loop().describe(); })
      .def("__repr__", [](const Problem& problem) { return "<postlude problem " + problem.loop().describe() + ">"; });
  m.attr("gemm") = Problem(Gemm{});
  m.attr("stream") = Problem(Stream{});
  m.def(
      "conv",
      [](int direction, const std::vector<Size>& stride, const std::vector<std::array<Size, 2>>& padding,
         const std::vector<Size>& dilation, Size groups, const std::vector<Size>& extra) {
        const ConvArguments given{direction, stride, padding, dilation, groups, extra};
        switch (stride.size()) {
          case 1: return conv_of<1>(given);
          case 2: return conv_of<2>(given);
          default: return conv_of<3>(given);
        }
      },
      nb::arg("direction"), nb::arg("stride"), nb::arg("padding"), nb::arg("dilation"), nb::arg("groups"),
      nb::arg("extra"),
      "A convolution (0), its data gradient (1; extra: the output padding) or its weight gradient (2; extra: the "
      "filter's size), each with a number an axis.");
}

void bind_results(nb::module_& m) {
  nb::class_<PackedOperand>(m, "PackedOperand",
                            "B, or a convolution's w, in the layout that a plan's kernels read; bind it in its place.")
      .def_prop_ro(
          "shape", [](const PackedOperand& packed) { return nb::tuple(nb::cast(packed.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"),
          "Of the array that it was made of; a convolution's filters in torch's order.")
      .def_prop_ro("ndim", [](const PackedOperand& packed) { return packed.shape().size(); });

  nb::class_<Comparison>(m, "Comparison",
                         "How far an output is from the float64 reference: right is error_over_bound <= 1.")
      .def_ro("output", &Comparison::output)
      .def_ro("error_over_bound", &Comparison::error_over_bound)
      .def_ro("elements", &Comparison::elements)
      .def_prop_ro("worst", [](const Comparison& c) { return std::tuple(c.worst[0], c.worst[1], c.worst[2]); })
      .def_ro("value", &Comparison::value)
      .def_ro("expected", &Comparison::expected)
      .def_ro("bound", &Comparison::bound)
      .def("__repr__", [](const Comparison& c) {
        return "<" + c.output + ": error " + std::to_string(c.error_over_bound) + " of its bound over " +
               std::to_string(c.elements) + " elements>";
      });

  nb::class_<PhaseView>(m, "Phase", "One pass over the output's tiles, for drawing.")
      .def_ro("domain", &PhaseView::domain)
      .def_ro("accumulator", &PhaseView::accumulator)
      .def_ro("loads", &PhaseView::loads)
      .def_ro("operations", &PhaseView::operations)
      .def_ro("stores", &PhaseView::stores)
      .def_ro("reductions", &PhaseView::reductions)
      .def("__repr__", &text_of);
}

void prepare_for(const Prepared& self, const nb::args& given, int threads) {
  std::vector<std::vector<Tensor>> all;
  for (const nb::handle one : given) all.push_back(inputs_like(self, nb::cast<nb::sequence>(one)));
  Unlocked release;
  self.plan.prepare_for(all, threads);
}

std::string explain(const Prepared& self, const std::string& part, Size rows, Size columns, Size depth,
                    const std::optional<nb::sequence>& inputs) {
  return inputs ? self.plan.explain_for(part_of(part), inputs_like(self, *inputs))
                : self.plan.explain(part_of(part), rows, columns, depth);
}

void bind_calls(nb::module_& m) {
  nb::class_<ArrayCall>(m, "Call",
                        "A plan bound to arrays, with its workspace. Calling it computes on what they hold then.")
      .def(
          "__call__",
          [](ArrayCall& self, std::optional<std::uintptr_t> stream) {
            if (self.running->test_and_set())
              throw Error(ErrorCode::usage, "this call is running in another thread",
                          "bind() once per thread: a call owns its workspace.");
            struct Clear {
              std::atomic_flag& flag;
              ~Clear() { flag.clear(); }
            } clear{*self.running};
            self.run(stream);
            return self.result();
          },
          nb::arg("stream").none() = nb::none(),
          "Runs, and returns the outputs. stream: a CUstream as an integer; the framework's current one if None.")
      .def(
          "_loop",
          [](ArrayCall& self, int times) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < times; ++i) self.call.run();
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          },
          nb::arg("times"), "Seconds that C++ takes to run this often; for bench/python/overhead.py, CPU only.")
      .def_prop_ro("workspace_bytes", [](const ArrayCall& self) { return self.call.workspace_bytes(); })
      .def(
          "describe", [](const ArrayCall& self) { return self.call.describe(); },
          "The schedule chosen for these shapes.")
      .def("__repr__", [](const ArrayCall& self) {
        return "<postlude call " + self.prepared->plan.graph().name() + ": " + self.call.describe() + ">";
      });
}

std::vector<Comparison> compared(const std::shared_ptr<Prepared>& self, const nb::args& arrays, nb::kwargs operands) {
  Inputs inputs = read_inputs(*self, arrays, operands);
  if (inputs.packed)
    throw Error(ErrorCode::usage, "a packed operand is bound, and the reference reads the array itself",
                "Pass verify() what was packed.");
  ArrayCall bound = python::bind(self, std::move(inputs));
  bound.run({});
  Unlocked release;
  return postlude::verify(self->plan, bound.bindings);
}

void bind_plans(nb::module_& m) {
  nb::class_<Prepared>(m, "Plan", "(Types, epilogue, target), compiled for any shapes.")
      .def(
          "bind",
          [](std::shared_ptr<Prepared> self, nb::args arrays, nb::kwargs operands) {
            Inputs inputs = read_inputs(*self, arrays, operands);
            ArrayCall bound = python::bind(std::move(self), std::move(inputs));
            bound.running = std::make_shared<std::atomic_flag>();
            return bound;
          },
          nb::sig("def bind(self, a: object, b: object | None = None, /, *, out: object | None = None, **operands: "
                  "object) -> Call"),
          "A Call on these arrays. Outputs that out= does not name are made once, here.")
      .def("verify", &compared,
           nb::sig("def verify(self, a: object, b: object | None = None, /, *, out: object | None = None, **operands: "
                   "object) -> list[Comparison]"),
           "Runs, and compares every output with the float64 reference. Slow.")
      .def(
          "pack",
          [](const Prepared& self, nb::handle b) {
            const auto packable = std::ranges::find_if(self.inputs, &Input::packable);
            const Array array = read_array(b, (packable == self.inputs.end() ? self.inputs.begin() : packable)->name);
            Unlocked release;
            return pack(self.plan, array.tensor);
          },
          nb::arg("b").none(),
          "B, or a convolution's W, in the kernels' own layout, made once; bind() takes it in its place.")
      .def(
          "prepare",
          [](const Prepared& self, const nb::args& given, int threads) {
            const std::vector<Sizes> sizes = sizes_of(self, given);
            Unlocked release;
            self.plan.prepare(sizes, threads);
          },
          nb::arg("sizes"), nb::arg("threads") = 0,
          nb::sig("def prepare(self, *sizes: tuple[int, ...], threads: int = 0) -> None"),
          "Compiles what bind() takes at sizes (m, n, k), several at once, without memory. On a CPU it checks them.")
      .def("_prepare_for", &prepare_for, nb::arg("inputs"), nb::arg("threads") = 0,
           nb::sig("def _prepare_for(self, *inputs: object, threads: int = 0) -> None"),
           "As prepare(), for the main loop's inputs: arrays, which say how they lie, or shapes.")
      .def("explain", explain, nb::arg("part") = "summary", nb::arg("m") = 0, nb::arg("n") = 0, nb::arg("k") = 0,
           nb::arg("inputs").none() = nb::none(),
           "Everything lowering and the backend decided. part: summary, passes, program, schedule, loops or source. "
           "inputs: instead of sizes, the shapes of the main loop's inputs, or arrays, which say how these lie.")
      .def(
          "source",
          [](const Prepared& self, Size rows, Size columns, Size depth) {
            return self.plan.explain(ExplainPart::source, rows, columns, depth);
          },
          nb::arg("m") = 0, nb::arg("n") = 0, nb::arg("k") = 0,
          "The generated source; the loop nest on a CPU, which generates none.")
      .def_prop_ro("graph", [](const Prepared& self) { return self.plan.graph(); })
      .def_prop_ro("target", [](const Prepared& self) { return self.plan.target(); })
      .def_prop_ro(
          "slots",
          [](const Prepared& self) {
            std::vector<std::tuple<std::string, int, DType, bool>> rows;
            for (const Plan::Slot& slot : self.plan.slots())
              rows.emplace_back(slot.name, slot.axes.bits, slot.dtype, slot.output);
            return rows;
          },
          "(name, axes, dtype, is output) of all that bind() wants; axes is a sum of 2 (over M) and 4 (over N).")
      .def(
          "shape_of",
          [](const Prepared& self, const std::string& slot, Size rows, Size columns, Size depth) {
            return self.plan.shape_of(slot, rows, columns, depth);
          },
          nb::arg("name"), nb::arg("m"), nb::arg("n"), nb::arg("k") = 0,
          "The shape that a slot must have at a problem's size, without batch.")
      .def("phases", &phases_of, "What each pass over the output reads, computes and writes.")
      .def("__repr__", [](const Prepared& self) {
        return "<postlude plan " + self.plan.graph().name() + ": " + signature(self) + ">";
      });
}

void bind_compile(nb::module_& m) {
  m.def("compile", &prepare, nb::arg("problem"), nb::arg("graph"), nb::arg("target"), nb::arg("dtypes"),
        nb::arg("record").none(), nb::arg("defaults"));
  m.def(
      "supports",
      [](const Problem& problem, const Graph& graph, const Target& target,
         const std::vector<std::pair<std::string, DType>>& dtypes) {
        const Support support = supports(problem, graph, target, options_of(dtypes));
        return std::pair(support.ok, support.reasons);
      },
      nb::arg("problem"), nb::arg("graph"), nb::arg("target"), nb::arg("dtypes"));
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_targets(m);
  bind_problems(m);
  bind_results(m);
  bind_calls(m);
  bind_plans(m);
  bind_compile(m);
}

}  // namespace postlude::inline v0::python
