// The code of a phase on the fragments of a tile: values, and what moves them (fragment.cpp); the states of its
// reductions (fragment_states.cpp).
#pragma once

#include "cuda/emit/finish.h"

#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

// The code of one phase: that behind the main loop, or the one that is held.
class FragmentWriter {
 public:
  FragmentWriter(EpilogueCode& code, const FragmentCode& of, bool held)
      : c_(code), e_(code.host()), code_(of), phase_(*of.phase), held_(held) {}

  std::string emit();

 private:
  // Whether element e of a fragment lies in a column, in a row, in both.
  static constexpr const char *in_column = "in_columns[e / 4 * 2 + e % 2]", *in_row = "in_rows[e / 2 % 2]",
                              *in_both = "in_columns[e / 4 * 2 + e % 2] && in_rows[e / 2 % 2]";
  [[nodiscard]] const FragmentCode::Value& value(lower::ValueId id) const { return code_.values[id]; }
  [[nodiscard]] std::size_t keeps() const { return held_ ? 0 : c_.plan.kept.size(); }
  [[nodiscard]] std::string uniform() const { return held_ ? "HeldUniform" : "Uniform"; }
  // The instructions of a level that something needs.
  [[nodiscard]] std::vector<lower::ValueId> values_of(Level level) const;
  // How a value is written where code runs over the rows (r), the columns (c) or the elements (e) of a fragment.
  [[nodiscard]] std::string name(lower::ValueId id, Level where) const {
    const std::string v = "v" + str(id);
    const bool elements = where == Level::element;
    switch (value(id).level) {
      case Level::uniform: return "u." + v;
      case Level::row: return v + (elements ? "[2 * i + e / 2 % 2]" : "[r]");
      case Level::column: return v + (elements ? "[e / 4 * 2 + e % 2]" : "[c]");
      case Level::element: return v + "[e]";
    }
    return v;
  }
  // The column (or row) of a map's tensor where a subtile at `from` begins. A half of all has a map of its own.
  static std::string map_place(const lower::ColumnMap& map, const char* from) {
    return map.steps.empty() || map.steps[0].group == 0 ? from : column_expression(map, from, "0");
  }
  std::string uniforms();
  std::string row_values();
  std::string met_values(const std::vector<std::string>& statistics);
  std::string row_values(bool met, const Place& place, const Place& inside, const std::vector<std::string>& statistics);
  [[nodiscard]] std::string row_group_statistic(lower::BufferId buffer) const;
  std::string prefetch();
  std::string column_values();
  [[nodiscard]] std::string drawn(lower::ValueId id, bool words) const;
  std::string element(lower::ValueId id, const Place& each, const Resolve& resolve);
  [[nodiscard]] bool divides_rows(const lower::Instruction& i) const;
  [[nodiscard]] std::string divisors(lower::ValueId by) const;
  std::string fragment();
  [[nodiscard]] std::size_t map_of(std::size_t k) const;
  std::string stage(std::size_t k, const Resolve& resolve);
  std::string reduce(std::size_t r);
  [[nodiscard]] std::string column_steps(std::size_t r, const lower::Reduction::Piece& piece) const;
  std::string subtile_of_softmax(std::size_t r, int piece, const std::string& x);
  [[nodiscard]] std::string pick(std::size_t r, lower::ValueId of) const;
  // Whether 64 rows are the first of a column's state.
  [[nodiscard]] std::string first_rows(Across across) const {
    return across == Across::row_groups ? "begins_group(i)" : "i == 0";
  }
  [[nodiscard]] std::string write_columns(std::size_t r, const std::string& first) const;
  std::string group_end();
  std::string row_group_end();
  std::string rows_end();
  [[nodiscard]] std::string constants() const;
  std::string end();
  std::string load_issue();
  std::string store_issue();
  std::string copy();
  void states();
  Resolve resolve(Level where, const Place& place, const Place& inside);
  [[nodiscard]] int bytes(lower::BufferId buffer) const { return static_cast<int>(size_of(c_.dtype(buffer))); }

  EpilogueCode& c_;
  FusedEpilogue& e_;
  const FragmentCode& code_;
  const lower::Phase& phase_;
  bool held_;
  // Members of the struct, and what its functions do with them.
  std::string members_ = "  " + uniform() + " u;\n", reset_, fragment_reset_, advance_, load_, told_ahead_;
};

}  // namespace postlude::inline v0::cuda
