#include "core/convert.h"

#include <postlude/error.h>
#include <postlude/problem.h>

namespace postlude::inline v0 {
namespace {

bool is_byte_integer(DType type) { return type == DType::s8 || type == DType::u8; }

// A's dtype, or X's.
DType leading_type(const Problem& problem) {
  if (const auto* gemm = std::get_if<Gemm>(&problem)) return gemm->a;
  return std::get<Stream>(problem).x;
}

}  // namespace

DType accumulator_type(const Problem& problem) {
  if (const auto* gemm = std::get_if<Gemm>(&problem)) {
    if (is_byte_integer(gemm->a) && is_byte_integer(gemm->b)) return DType::i32;
    if (is_float(gemm->a) && is_float(gemm->b)) return DType::f32;
    const auto usable = [](DType type) { return is_float(type) || is_byte_integer(type); };
    throw Error(ErrorCode::unsupported,
                "A is " + std::string(name(gemm->a)) + " and B is " + std::string(name(gemm->b)) +
                    ": a product needs two float types, or two of s8 and u8",
                usable(gemm->a) || usable(gemm->b) ? "Convert one of them first." : "Convert both first.");
  }
  const DType x = core::checked(std::get<Stream>(problem).x);
  if (x == DType::i64) {
    throw Error(ErrorCode::unsupported, "X is i64: a stream's accumulator is f32 or i32", "Bind X as i32 or f32.");
  }
  return is_float(x) ? DType::f32 : DType::i32;
}

DType default_operand_type(const Problem& problem) {
  const DType type = leading_type(problem);
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 ? type : DType::f32;
}

DType default_output_type(const Problem& problem) {
  const DType type = leading_type(problem);
  return is_float(type) ? type : DType::f32;
}

bool is_batched(const Problem& problem) {
  return std::visit([](const auto& main_loop) { return main_loop.batched; }, problem);
}

}  // namespace postlude::inline v0
