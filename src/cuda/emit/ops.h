// CUDA C++ for single instructions of a Program, and for the bodies of functions and combiners.
#pragma once

#include "graph/ir/typing.h"
#include "lower/program.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace postlude::inline v0::cuda {

[[nodiscard]] inline std::string str(std::int64_t value) { return std::to_string(value); }
// A value's type in device code: float, int, i64, bool.
[[nodiscard]] std::string device_type(DType type);
// A literal of `type`; floats are exact (hexadecimal).
[[nodiscard]] std::string device_literal(const Literal& literal, DType type);
[[nodiscard]] std::string device_literal(double value, DType type);

// Whether vector.cu reads and writes neighbours of this type in memory together.
[[nodiscard]] inline bool vector_type(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}
// A value of type `from` as one of type `to`; both are types that values are computed in.
[[nodiscard]] std::string converted(const std::string& value, DType from, DType to);
// A value rounded to nearest even to what memory of `dtype` holds, as compute_type(dtype).
[[nodiscard]] std::string rounded(const std::string& value, DType from, DType dtype);

// j -> n as an expression. `width` is the phase's columns.
[[nodiscard]] std::string column_expression(const lower::ColumnMap& map, const std::string& j,
                                            const std::string& width);

// x / c where that is one product with 1 / c in two parts; empty: it is not. Of tanh, which may make 0 of what is below
// 2^-126, or not to the bit below 2^-97.
enum class Small : std::uint8_t { exact, about };
[[nodiscard]] std::string quotient(const std::string& x, double c, Small small = Small::exact);

// The functions of the prelude of which math.cu has forms of their own, and how many parameters they have there.
[[nodiscard]] const std::map<std::string, std::size_t>& native_forms();
[[nodiscard]] bool has_native_form(const Function& function);

// Where an element is, as expressions of type int: batch, row, column, the phase's columns. `memory`: where the row of
// a batch lies in memory; empty: it is the row. `random`: the number that the one instruction in question draws there,
// where it has been drawn already.
struct Place {
  std::string b, i, j, width, memory{}, random{};
};
// The row of an access at a place. Pieces of rows are tile_rows() apart: only a product's kernel has any.
[[nodiscard]] std::string row_expression(const lower::Access& access, const std::string& i);

// Device functions made for function calls and combiners on the way; their text goes before the code that calls them.
class Functions {
 public:
  // The name of the device function for a call with these argument types. Result: f32, or what the body gives. Throws
  // Error unsupported where it lacks code, or expands to more than a kernel can hold.
  std::string call(const Function& function, std::span<const DType> args);
  // A combiner: writes its k results through references: name(a..., b..., r...).
  std::string combiner(const Lambda& body, std::span<const DType> types);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void define(const std::string& result, const std::string& name, const std::string& parameters,
              const std::string& body);
  std::string body(const Lambda& lambda, std::span<const DType> parameters, const std::vector<std::string>& names,
                   std::vector<DType>& results, std::vector<std::string>& values, std::size_t& operations);
  struct Call {
    const Function* function;
    std::vector<DType> args;
    int depth;  // of the calls that it is within
  };
  struct Made {
    std::string name;
    std::size_t operations;  // with those of what it calls
  };
  Made made(const Function& function, std::span<const DType> args);
  [[nodiscard]] std::vector<Call> missing_callees(const Call& call);
  void make(const Call& call);
  Typing typing_;
  std::map<std::string, Made> made_;
  std::size_t operations_ = 0;  // of all calls but those within functions
  std::string text_;
};

// What an instruction that rounds stochastically or is random() has before its coordinates: "<seed>, <stream>".
[[nodiscard]] std::string random_key(const lower::Instruction& instruction);

// The expression of an elementwise instruction or a coordinate (not acc, not a load, not a count), from its arguments.
[[nodiscard]] std::string expression(const lower::Instruction& instruction, const std::vector<std::string>& args,
                                     std::span<const DType> types, const Place& place, Functions& functions);

}  // namespace postlude::inline v0::cuda
