// The definitions of rounding and of random numbers, for epilogues that run on plain arrays.
#include "bindings.h"

#include "core/convert.h"
#include "core/philox.h"

#include <nanobind/ndarray.h>

#include <type_traits>

namespace postlude::inline v0::python {
namespace {

template <class T, class... More>
using Dense = nb::ndarray<T, nb::c_contig, nb::device::cpu, More...>;

// To a float type in doubles, to an integer type or bool in 64-bit integers; integers reach a float type by way of f32.
template <class To, class From>
void cast_array(Dense<const From> x, Dense<To> out, DType type, Round round, std::optional<Dense<const float>> u) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const From value = x.data()[i];
    const double noise = u ? static_cast<double>(u->data()[i]) : 0;
    if constexpr (std::is_same_v<To, double>)
      out.data()[i] =
          core::round_to(type, std::is_same_v<From, double> ? value : static_cast<float>(value), round, noise);
    else if constexpr (std::is_same_v<From, double>) out.data()[i] = core::to_integer(type, value, round, noise);
    else out.data()[i] = core::to_integer(type, value);
  }
}

}  // namespace

void bind_numbers(nb::module_& m) {
  const auto define_cast = [&](auto* function) {
    m.def("cast_array", function, nb::arg("x"), nb::arg("out"), nb::arg("dtype"), nb::arg("round"), nb::arg("u").none(),
          "Rounds x into out: doubles or 64-bit integers, of one size.");
  };
  define_cast(&cast_array<double, double>);
  define_cast(&cast_array<std::int64_t, double>);
  define_cast(&cast_array<double, std::int64_t>);
  define_cast(&cast_array<std::int64_t, std::int64_t>);
  m.def(
      "fill_random",
      [](Dense<float, nb::ndim<3>> out, std::uint64_t seed, std::uint32_t stream) {
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
