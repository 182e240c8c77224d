// The lowering of one schedule to its nest. lowering.cpp: its stages, and which part of a tensor each computes where;
// nest.cpp: the loops, and what stands in them.
#pragma once

#include "te/interval.h"
#include "te/nest.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace postlude::inline v0::te {

class Lowering {
 public:
  Lowering(const ScheduleNode& schedule, const std::vector<Tensor>& arguments);
  Nest run();

 private:
  // A stage as it is lowered: its body with inlined stages in it, and, where it is computed within
  // another, the part of the tensor that is.
  struct Lowered {
    StagePtr stage;
    std::vector<Expr> body;
    std::vector<OperationPtr> reads;
    std::vector<Interval> region;  // of data axes; empty: the whole
    LoopValues loops;
    Substitution values;  // of the root axes
    std::vector<BufferPtr> buffers;
    std::vector<BufferPtr> partial;  // of a reduction that threads or blocks share
    std::size_t first_reduce = 0;    // among the leaves
    bool shared_reduction = false;   // its reduce loop is bound
    bool collective = false;         // threads meet in it: no guard around its loops
  };

  void inline_stages();
  void relate();
  bool meets(const Lowered& s);
  void settle(Lowered& s);
  void make_buffers(Lowered& s);
  std::vector<Interval> demand(const Lowered& s, const std::set<const AxisNode*>& fixed);
  Ranges axis_ranges(const Lowered& reader, const std::set<const AxisNode*>& fixed);
  std::vector<Statement> loops(Lowered& s, std::size_t level, bool initialised, std::vector<Statement> before);
  std::vector<Statement> first_values(Lowered& s, std::size_t level);
  void bind(const Lowered& s, const AxisPtr& leaf, Statement& outer);
  void check_known(Lowered& s, std::size_t level, bool initialised);
  Statement store_joined(Lowered& s, const AxisPtr& leaf);
  std::vector<Statement> statements(Lowered& s, bool update);
  std::vector<Statement> initialise(Lowered& s, std::size_t level);
  std::vector<Statement> attached(Lowered& consumer, const AxisPtr& at);
  std::vector<Statement> nest(Lowered& s);
  std::vector<Statement> guarded(Lowered& s, std::vector<Statement> body, std::size_t level, bool reduces,
                                 bool behind = false);
  std::vector<std::pair<Expr, bool>> conditions(Lowered& s);
  Statement loop(Lowered& s, const AxisPtr& leaf);
  Expr placed(const Expr& x) const;
  Expr predicate(Lowered& s, const AxisPtr& joined);
  void check_stores(const Lowered& s, const Expr& condition, const AxisPtr& joined);
  void check(const Lowered& s);
  void check_places();
  void check_arguments() const;
  [[nodiscard]] bool is_shared(const Lowered& s) const;
  [[nodiscard]] std::vector<Expr> indices(const Lowered& s) const;

  Nest nest_;
  std::vector<Lowered> stages_;
  std::unordered_map<const OperationNode*, Lowered*> of_;                             // by what the user names
  std::unordered_map<const OperationNode*, std::vector<Lowered*>> readers_;           // of a tensor
  std::unordered_map<const StageNode*, std::vector<Lowered*>> within_;                // are computed at a stage's loops
  std::unordered_map<const StageNode*, bool> meets_;                                  // whether threads meet within
  std::set<const AxisNode*> thread_loops_;                                            // that threads run
  std::map<std::pair<const Lowered*, std::size_t>, std::vector<Interval>> demanded_;  // at one place; by what is fixed
  std::vector<AxisPtr> around_;                              // the loops that are open, outermost first
  Ranges open_;                                              // and their ranges
  std::vector<Expr> checked_;                                // conditions around, which hold
  std::map<std::string, std::pair<Expr, AxisPtr>> threads_;  // extents of blocks and threads in this kernel
  std::map<std::string, AxisPtr> bound_;                     // which open loop runs over them
};

}  // namespace postlude::inline v0::te
