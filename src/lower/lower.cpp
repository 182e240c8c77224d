#include "lower/lower.h"

#include "graph/ir/functions.h"
#include "lower/algebra.h"
#include "lower/check.h"
#include "lower/cut.h"
#include "lower/drop.h"
#include "lower/eliminate.h"
#include "lower/emit.h"
#include "lower/expand.h"
#include "lower/exponentials.h"
#include "lower/extremes.h"
#include "lower/fold.h"
#include "lower/fuse.h"
#include "lower/infer.h"
#include "lower/multiply_add.h"
#include "lower/phases.h"
#include "lower/reductions.h"
#include "lower/subexpressions.h"

namespace postlude::inline v0::lower {

Program lower(const GraphData& graph, const Facts& facts, const Options& options) {
  Inferred inferred = infer(graph, facts, options);
  Work& work = inferred.work;
  note_unneeded(work);

  const auto report = [&](std::string_view pass, bool changed) {
    if (options.verify_each) check(work, pass);
    if (options.watch) options.watch(pass, changed ? work.print() : std::string());
  };
  report("infer", true);
  report("drop", drop(work));
  report("fold", fold(work));
  report("subexpressions", subexpressions(work));
  report("algebra", algebra(work));
  report("multiply_add", multiply_add(work));
  report("reductions", reductions(work));
  report("subexpressions", subexpressions(work));
  report("extremes", extremes(work));
  if (options.joint) report("exponentials", exponentials(work));
  report("fuse", fuse(work));
  report("eliminate", eliminate(work));
  report("subexpressions", subexpressions(work));
  report("drop", drop(work));

  Phases phases = assign_phases(work, options);
  const Cut crossing = cut(work, phases, inferred.operand_types, facts.source, options);
  Program program = emit(inferred, phases, crossing, facts);
  // Backends take a call for a function of its arguments, but stochastic rounding depends on the
  // element: such functions are expanded.
  if (const auto stochastic = stochastic_functions(graph.nodes); !stochastic.empty()) {
    const auto native = [&](const Instruction& call) { return !stochastic.contains(call.function.get()); };
    for (Phase& phase : program.phases) phase = expand_calls(phase, native);
  }
  if (const std::string conflict = in_place_conflict(program, options.in_place); !conflict.empty())
    throw Error(ErrorCode::overlap, conflict, "Bind other memory to the output.");
  if (options.verify_each) check(program, facts.source.has_value());
  if (options.watch) options.watch("phases", program.print());
  return program;
}

}  // namespace postlude::inline v0::lower
