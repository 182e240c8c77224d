// The definitions of rounding and of random numbers, for epilogues that run on plain arrays.
#include "bindings.h"

#include "core/convert.h"
#include "core/philox.h"

#include <nanobind/ndarray.h>

namespace postlude::inline v0::python {
namespace {

using Doubles = nb::ndarray<nb::numpy, double, nb::c_contig, nb::device::cpu>;
using Floats3 = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

double cast_number(double x, DType type, Round round, double u) {
  if (is_float(type)) return core::decode(type, core::encode(type, x, round, u));
  if (type == DType::boolean) return x != 0;
  return static_cast<double>(core::to_integer(type, x, round, u));
}

}  // namespace

void bind_numbers(nb::module_& m) {
  m.def(
      "cast_array",
      [](Doubles x, DType type, Round round, std::optional<Doubles> u) {
        double* values = x.data();
        for (std::size_t i = 0; i < x.size(); ++i)
          values[i] = cast_number(values[i], type, round, u ? u->data()[i] : 0);
        return x;
      },
      nb::arg("x"), nb::arg("dtype"), nb::arg("round"), nb::arg("u").none(), "Rounds in place, and returns x.");
  m.def(
      "fill_random",
      [](Floats3 out, std::uint64_t seed, std::uint32_t stream) {
        float* next = out.data();
        for (std::size_t b = 0; b < out.shape(0); ++b)
          for (std::size_t row = 0; row < out.shape(1); ++row)
            for (std::size_t column = 0; column < out.shape(2); ++column)
              *next++ = core::random_uniform(seed, stream, static_cast<std::int64_t>(b), static_cast<std::int64_t>(row),
                                             static_cast<std::int64_t>(column));
      },
      nb::arg("out"), nb::arg("seed"), nb::arg("stream"));
}

}  // namespace postlude::inline v0::python
