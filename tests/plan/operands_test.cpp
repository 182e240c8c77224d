// Every refusal of Plan::bind, with its message.
#include "plan/support.h"

#include <cstdint>
#include <limits>

using namespace postlude_test;

namespace {

constexpr std::int64_t M = 6, N = 4, K = 5;

class Bind : public testing::Test {
 protected:
  Plan plan = compile(Gemm{}, parse("def f(acc, bias: row, scale: col, beta: scalar, C: tile):\n"
                                    "    x = acc * scale + bias\n"
                                    "    D = x + beta * C\n"
                                    "    total = sum(x, axis=0)\n"
                                    "    return D, total\n"));
  Array a{{M, K}}, b{{K, N}}, bias{{N}}, scale{{M}}, beta{{}}, c{{M, N}}, d{{M, N}}, total{{N}};

  [[nodiscard]] std::vector<Binding> good() const {
    return {{"A", a.view()},       {"B", b.view()}, {"bias", bias.view()}, {"scale", scale.view()},
            {"beta", beta.view()}, {"C", c.view()}, {"D", d.view()},       {"total", total.view()}};
  }
  [[nodiscard]] std::vector<Binding> with(std::string_view name, const Tensor& tensor) const {
    std::vector<Binding> bindings = good();
    for (Binding& binding : bindings) {
      if (binding.name == name) binding.tensor = tensor;
    }
    return bindings;
  }
  [[nodiscard]] std::vector<Binding> without(std::string_view name) const {
    std::vector<Binding> bindings = good();
    std::erase_if(bindings, [&](const Binding& binding) { return binding.name == name; });
    return bindings;
  }
  static Tensor strided(const Array& array, std::initializer_list<std::int64_t> strides) {
    Tensor tensor = array.view();
    std::copy(strides.begin(), strides.end(), tensor.strides.begin());
    return tensor;
  }
};

TEST_F(Bind, TakesWhatFits) { EXPECT_NO_THROW(plan.bind(good()).run()); }

TEST_F(Bind, Missing) {
  EXPECT_ERROR(ErrorCode::missing_operand, "'bias' is not bound", (void)plan.bind(without("bias")));
  EXPECT_ERROR(ErrorCode::missing_operand, "Bind 'bias' (N, f32).", (void)plan.bind(without("bias")));
  EXPECT_ERROR(ErrorCode::missing_operand, "'D' (M x N, f32, output)", (void)plan.bind(without("D")));
  EXPECT_ERROR(ErrorCode::missing_operand, "'bias', 'scale', 'beta', 'C', 'D' and 'total' are not bound",
               (void)plan.bind({{"A", a.view()}, {"B", b.view()}}));
}

TEST_F(Bind, ForgedTensorsAndTypes) {
  for (const int rank : {-1, Tensor::max_rank + 1, 1'000'000}) {
    Tensor forged = c.view();
    forged.rank = rank;
    (void)forged.elements();
    EXPECT_ERROR(ErrorCode::wrong_rank, "'C' has " + std::to_string(rank) + " axes",
                 (void)plan.bind(with("C", forged)));
  }
  const auto none = static_cast<DType>(200);
  EXPECT_EQ(name(none), "no dtype");
  Tensor forged = c.view();
  forged.dtype = none;
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)plan.bind(with("C", forged)));
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)Tensor::scalar(1, none));
  const Graph graph = parse("def f(acc, bias: row): return acc + bias");
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)compile(Stream{.x = none}, graph));
  EXPECT_ERROR(ErrorCode::unsupported, "A is no dtype", (void)compile(Gemm{.a = none}, graph));
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)compile(Gemm{}, graph, Target::cpu(), {{{"bias", none}}}));
  GraphBuilder g;
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)g.row("r", none));
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", (void)cast(g.accumulator(), none));
  EXPECT_ERROR(ErrorCode::bad_attribute, "Round(9)", (void)cast(g.accumulator(), s8, static_cast<Round>(9)));
  EXPECT_ERROR(ErrorCode::unknown_dtype, "DType(200)", g.output("D", g.accumulator(), none));
}

TEST_F(Bind, Repeated) {
  auto bindings = good();
  bindings.push_back({"bias", bias.view()});
  EXPECT_ERROR(ErrorCode::repeated_operand, "'bias' is bound twice", (void)plan.bind(bindings));
}

TEST_F(Bind, Unknown) {
  auto bindings = good();
  bindings.push_back({"bais", bias.view()});
  EXPECT_ERROR(ErrorCode::unknown_operand, "no operand or output is named 'bais'", (void)plan.bind(bindings));
  EXPECT_ERROR(ErrorCode::unknown_operand, "Did you mean 'bias'?", (void)plan.bind(bindings));
  bindings.back().name = "something\nelse";
  EXPECT_ERROR(ErrorCode::unknown_operand, "'something\\x0aelse'", (void)plan.bind(bindings));
  EXPECT_ERROR(ErrorCode::unknown_operand, "This plan takes 'A', 'B', 'bias'", (void)plan.bind(bindings));
}

// However empty what is bound to it is, and whoever looks.
TEST_F(Bind, UnknownOfAnEmptyTensor) {
  for (const Tensor& nothing : {Tensor(), Tensor(nullptr, f32, {0}), Tensor::scalar(0)}) {
    for (const char* name : {"E", ""}) {
      auto bindings = good();
      bindings.push_back({name, nothing});
      const std::string words = "no operand or output is named '" + std::string(name) + "'";
      EXPECT_ERROR(ErrorCode::unknown_operand, words, (void)plan.bind(bindings));
      EXPECT_ERROR(ErrorCode::unknown_operand, words, plan.check(bindings));
      EXPECT_ERROR(ErrorCode::unknown_operand, words, (void)verify(plan, bindings));
    }
  }
  EXPECT_ERROR(ErrorCode::unknown_operand, "'E'", (void)plan.shape_of("E", M, N, K));
  EXPECT_ERROR(ErrorCode::unknown_operand, "'E'", (void)compile(Gemm{}, plan.graph(), Target::cpu(), {{{"E", f32}}}));
}

// Twelve names are a list that is read; more are not.
TEST(BindMany, ListsTwelveNames) {
  std::string parameters, sum = "acc", tenth = "o9";
  for (int i = 0; i < 10; ++i) parameters += ", o" + std::to_string(i) + ": row", sum += " + o" + std::to_string(i);
  const Plan plan = compile(Gemm{}, parse("def f(acc" + parameters + "):\n    D = " + sum + "\n    return D\n"));
  const Array row({N});
  const Error error = error_of([&] { (void)plan.bind({{"something else", row.view()}}); });
  EXPECT_NE(error.hint().find("'o9'"), std::string::npos) << error.hint();
  EXPECT_EQ(error.hint().find("'D'"), std::string::npos) << error.hint();
}

TEST_F(Bind, WrongRank) {
  EXPECT_ERROR(ErrorCode::wrong_rank, "'bias' has shape (6, 4), but the plan wants N",
               (void)plan.bind(with("bias", c.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'A' has shape (4,), but the plan wants M x K",
               (void)plan.bind(with("A", bias.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'beta' has shape (4,), but the plan wants a scalar",
               (void)plan.bind(with("beta", bias.view())));
  const Array batch({2, M, N});
  EXPECT_ERROR(ErrorCode::wrong_rank, "For a batch, compile a plan that is batched",
               (void)plan.bind(with("C", batch.view())));
  const Array line({1, M, N}), across({N, 1}), along({1, M});
  EXPECT_ERROR(ErrorCode::wrong_rank, "Leave out its axis of one element", (void)plan.bind(with("C", line.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'bias' has shape (4, 1), but the plan wants N",
               (void)plan.bind(with("bias", across.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'scale' has shape (1, 6), but the plan wants M",
               (void)plan.bind(with("scale", along.view())));
  // A hint names the class that an array of this rank may be of.
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'bias' as a tile", (void)plan.bind(with("bias", c.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'bias' as a col.", (void)plan.bind(with("bias", across.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'scale' as a row.", (void)plan.bind(with("scale", along.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'beta' as a row or a col", (void)plan.bind(with("beta", bias.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'beta' as a tile.", (void)plan.bind(with("beta", c.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'beta' as a col.", (void)plan.bind(with("beta", across.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'beta' as a row.", (void)plan.bind(with("beta", along.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'C' as a row or a col.", (void)plan.bind(with("C", bias.view())));
  EXPECT_ERROR(ErrorCode::wrong_rank, "Declare 'bias' as a scalar.", (void)plan.bind(with("bias", Tensor::scalar(1))));
  const Array rows({M}), columns({N}), one_row({1, N}), one_col({M, 1});
  EXPECT_ERROR(ErrorCode::wrong_shape, "Declare 'bias' as a col.", (void)plan.bind(with("bias", rows.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "Declare 'scale' as a row.", (void)plan.bind(with("scale", columns.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "Declare 'C' as a row.", (void)plan.bind(with("C", one_row.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "Declare 'C' as a col.", (void)plan.bind(with("C", one_col.view())));
  const Array one({1});
  EXPECT_NO_THROW((void)plan.bind(with("beta", one.view())));
}

// As torch and numpy write what they broadcast.
TEST_F(Bind, AxesOfOneElement) {
  plan.bind(good()).run();
  const std::vector<float> expected = d.values, expected_total = total.values;
  const auto run_with = [&](const char* name, const Tensor& tensor, const std::vector<std::int64_t>& shape) {
    std::fill(d.values.begin(), d.values.end() - 1, 0.f), std::fill(total.values.begin(), total.values.end() - 1, 0.f);
    const Tensor shaped(tensor.data, tensor.dtype, shape);
    plan.bind(with(name, shaped)).run();
    EXPECT_EQ(d.values, expected) << name;
    EXPECT_EQ(total.values, expected_total) << name;
    for (const Comparison& c : verify(plan, with(name, shaped))) EXPECT_LE(c.error_over_bound, 1) << name;
  };
  run_with("bias", bias.view(), {1, N});
  run_with("scale", scale.view(), {M, 1});
  run_with("beta", beta.view(), {1, 1});
  run_with("beta", beta.view(), {1});
  run_with("total", total.view(), {1, N});
}

TEST(BindBatched, AxesOfOneElement) {
  const Plan plan = compile(Gemm{.batched = true}, parse("def f(acc, bias: row, scale: col, beta: scalar):\n"
                                                         "    return acc * scale + bias * beta\n"));
  const Array a({2, M, K}), b({K, N}), bias({2, N}), scale({2, M}), beta({2}), shared({N});
  const auto run = [&](const Tensor& bias, const Tensor& scale, const Tensor& beta) {
    const Array d({2, M, N});
    plan.bind({{"A", a.view()}, {"B", b.view()}, {"bias", bias}, {"scale", scale}, {"beta", beta}, {"D", d.view()}})
        .run();
    return d.values;
  };
  EXPECT_EQ(run(bias.view(), scale.view(), beta.view()),
            run(Tensor(bias.view().data, f32, {2, 1, N}), Tensor(scale.view().data, f32, {2, M, 1}),
                Tensor(beta.view().data, f32, {2, 1, 1})));
  EXPECT_EQ(run(shared.view(), scale.view(), beta.view()),
            run(Tensor(shared.view().data, f32, {1, N}), scale.view(), beta.view()));
  // A col of one row for each batch is not one of two rows.
  const Array row({2, 1, K}), factors({2, 1}), d({2, 1, N});
  EXPECT_NO_THROW((void)plan.bind({{"A", row.view()},
                                   {"B", b.view()},
                                   {"bias", shared.view()},
                                   {"scale", factors.view()},
                                   {"beta", beta.view()},
                                   {"D", d.view()}}));
}

TEST_F(Bind, WrongDtype) {
  Tensor tensor = bias.view();
  tensor.dtype = i32;
  EXPECT_ERROR(ErrorCode::wrong_dtype, "'bias' is i32, but the plan wants f32", (void)plan.bind(with("bias", tensor)));
  EXPECT_ERROR(ErrorCode::wrong_dtype, "declare the dtype in the epilogue", (void)plan.bind(with("bias", tensor)));
  tensor = a.view();
  tensor.dtype = i32;
  EXPECT_ERROR(ErrorCode::wrong_dtype, "compile a plan for that dtype", (void)plan.bind(with("A", tensor)));
}

TEST_F(Bind, WrongShape) {
  const Array seven({7}), wide({M, N + 1}), k({K + 1, N}), turned({N, M});
  EXPECT_ERROR(ErrorCode::wrong_shape, "'bias' has shape (7,), but the plan wants N = (4,): 'B' (5, 4) fixes N to 4",
               (void)plan.bind(with("bias", seven.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'scale' has shape (7,), but the plan wants M = (6,): 'A' (6, 5) fixes M to 6",
               (void)plan.bind(with("scale", seven.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'D' has shape (6, 5), but the plan wants M x N = (6, 4)",
               (void)plan.bind(with("D", wide.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'B' (6, 4) has K = 6 rows, but 'A' (6, 5) fixes K to 5",
               (void)plan.bind(with("B", k.view())));
  EXPECT_ERROR(ErrorCode::wrong_shape, "It looks transposed", (void)plan.bind(with("C", turned.view())));
  const Array weight({N, K});
  EXPECT_ERROR(ErrorCode::wrong_shape, "It looks transposed: bind B.T", (void)plan.bind(with("B", weight.view())));
}

TEST_F(Bind, WrongStride) {
  EXPECT_ERROR(ErrorCode::wrong_stride, "output 'D' has the stride -4 along axis 0",
               (void)plan.bind(with("D", strided(d, {-4, 1}))));
  EXPECT_ERROR(ErrorCode::wrong_stride, "output 'total' has the stride 0 along axis 0",
               (void)plan.bind(with("total", strided(total, {0}))));
  EXPECT_ERROR(ErrorCode::wrong_stride, "strides (3, 1) for shape (6, 4): its elements overlap",
               (void)plan.bind(with("D", strided(d, {3, 1}))));
  // Inputs may have any.
  Tensor reversed = strided(c, {-4, 1});
  reversed.data = static_cast<float*>(reversed.data) + 4 * (M - 1);
  EXPECT_NO_THROW((void)plan.bind(with("C", reversed)));
  EXPECT_NO_THROW((void)plan.bind(with("bias", strided(bias, {0}))));
}

TEST_F(Bind, OneElementMayHaveAnyStride) {
  const Array a1({1, K}), d1({1, N}), c1({1, N}), s1({1});
  auto bindings = good();
  for (Binding& binding : bindings) {
    if (binding.name == "A") binding.tensor = strided(a1, {0, 1});
    if (binding.name == "D") binding.tensor = strided(d1, {0, 1});
    if (binding.name == "C") binding.tensor = c1.view();
    if (binding.name == "scale") binding.tensor = s1.view();
  }
  EXPECT_NO_THROW(plan.bind(bindings).run());
}

TEST_F(Bind, ScalarByValue) {
  const float factor = 0.375f;
  std::vector<Binding> by_value = with("beta", Tensor::scalar(factor));
  plan.bind(with("beta", Tensor(&factor, f32, {}))).run();
  const std::vector<float> expected = d.values;
  std::fill(d.values.begin(), d.values.end() - 1, 0.f);  // the last is not D's
  Call call = plan.bind(by_value);
  by_value.clear();  // the Call keeps the value, not the Tensor
  call.run();
  EXPECT_EQ(d.values, expected);
  for (const Comparison& c : verify(plan, with("beta", Tensor::scalar(factor)))) EXPECT_LE(c.error_over_bound, 1);

  EXPECT_ERROR(ErrorCode::wrong_dtype, "'beta' is bf16, but the plan wants f32",
               (void)plan.bind(with("beta", Tensor::scalar(factor, bf16))));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'bias' has shape (), but the plan wants N",
               (void)plan.bind(with("bias", Tensor::scalar(factor))));
  const Plan scalars = compile(Gemm{}, parse("def f(acc):\n    return sum(acc)\n"));
  EXPECT_ERROR(ErrorCode::null_data, "'D' has no data",
               (void)scalars.bind({{"A", a.view()}, {"B", b.view()}, {"D", Tensor::scalar(0)}}));
}

TEST_F(Bind, WrongDevice) {
  EXPECT_ERROR(ErrorCode::wrong_device, "'C' is on CUDA device 1, but must be on the CPU",
               (void)plan.bind(with("C", c.view().on(Device::cuda, 1))));
}

TEST_F(Bind, NullAndMisaligned) {
  Tensor tensor = c.view();
  tensor.data = nullptr;
  EXPECT_ERROR(ErrorCode::null_data, "'C' has no data", (void)plan.bind(with("C", tensor)));
  tensor.data = static_cast<char*>(c.view().data) + 2;
  EXPECT_ERROR(ErrorCode::misaligned, "not a multiple of the 4 bytes of f32", (void)plan.bind(with("C", tensor)));
}

TEST_F(Bind, SizeOverflow) {
  EXPECT_ERROR(ErrorCode::size_overflow, "'C' has shape (6, 4) and strides",
               (void)plan.bind(with("C", strided(c, {std::int64_t{1} << 61, 1}))));
  EXPECT_ERROR(ErrorCode::size_overflow, "spans more than can be addressed",
               (void)plan.bind(with("C", strided(c, {std::numeric_limits<std::int64_t>::min(), 1}))));
  Tensor tensor = a.view();
  tensor.shape[0] = -1;
  EXPECT_ERROR(ErrorCode::size_overflow, "M is negative", (void)plan.bind(with("A", tensor)));
  tensor.shape[0] = std::int64_t{1} << 31;
  EXPECT_ERROR(ErrorCode::size_overflow, "M is larger than 2147483647", (void)plan.bind(with("A", tensor)));
}

TEST_F(Bind, Overlap) {
  EXPECT_ERROR(ErrorCode::overlap, "output 'D' overlaps 'A'",
               (void)plan.bind(with("A", Tensor(d.view().data, f32, {M, K}))));
  Tensor shifted = d.view();
  shifted.data = static_cast<float*>(shifted.data) + 1;
  EXPECT_ERROR(ErrorCode::overlap, "output 'D' overlaps 'C'", (void)plan.bind(with("C", shifted)));
  EXPECT_ERROR(ErrorCode::overlap, "or exactly the same: address, dtype, shape and strides",
               (void)plan.bind(with("C", shifted)));
  EXPECT_ERROR(ErrorCode::overlap, "output 'D' overlaps output 'total'",
               (void)plan.bind(with("total", Tensor(static_cast<float*>(d.view().data) + 2, f32, {N}))));
  const Tensor in_bytes(d.view().data, f32, {M, N}, {sizeof(float) * N, sizeof(float)});
  EXPECT_ERROR(ErrorCode::overlap, "Strides count elements, not bytes", (void)plan.bind(with("C", in_bytes)));
  EXPECT_NO_THROW((void)plan.bind(with("C", d.view())));
}

TEST_F(Bind, InterleavedOutputsDoNotOverlap) {
  // D in the even columns of an array, C in the odd ones.
  const Array both({M, 2 * N});
  Tensor even(both.view().data, f32, {M, N}, {2 * N, 2});
  Tensor odd(static_cast<float*>(both.view().data) + 1, f32, {M, N}, {2 * N, 2});
  auto bindings = with("D", even);
  for (Binding& binding : bindings) {
    if (binding.name == "C") binding.tensor = odd;
  }
  EXPECT_NO_THROW(plan.bind(bindings).run());
}

TEST_F(Bind, NothingIsWrittenWhereItRefuses) {
  const std::vector<float> before = d.values;
  EXPECT_ERROR(ErrorCode::missing_operand, "total", (void)plan.bind(without("total")));
  EXPECT_EQ(d.values, before);
}

TEST(BindChunks, SaysWhatDoesNotDivide) {
  const Plan plan = compile(
      Gemm{}, parse("def swiglu(acc):\n    gate, up = chunk(acc, 2)\n    return silu(gate) * up\n", "", "swiglu.py"));
  const Array a({M, K}), b({K, 5}), d({M, 2});
  const auto bind = [&] { (void)plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", d.view()}}); };
  EXPECT_ERROR(ErrorCode::indivisible, "N is 5 (fixed by 'B' (5, 5)), but the epilogue splits it by 2", bind());
  EXPECT_ERROR(ErrorCode::indivisible, "swiglu.py:2:", bind());
  EXPECT_TRUE(error_of(bind).message().starts_with("N is 5 (")) << "and no value has other columns";
}

// What does not divide is N, or what N makes of a value.
TEST(BindChunks, SaysWhoseColumnsDoNotDivide) {
  const Plan plan = compile(
      Gemm{},
      parse("def f(acc):\n    a, b = chunk(acc, 2)\n    c, d = chunk(a * b, 2)\n    D = c + d\n    return D\n"));
  const Array a({M, K}), b({K, 6}), d({M, 1});
  EXPECT_ERROR(ErrorCode::indivisible,
               "a value has 3 columns where N is 6 (fixed by 'B' (5, 6)), but the epilogue splits it by 2",
               (void)plan.bind({{"A", a.view()}, {"B", b.view()}, {"D", d.view()}}));
}

// The halves of a concat may be as wide as their use asks, without a chunk.
TEST(BindChunks, SaysWhatDoesNotJoin) {
  const Array a({M, K}), b({K, 5}), d({M, 5}), x({M, 3});
  const auto bind = [&](const char* text, std::vector<Binding> bindings) {
    bindings.insert(bindings.end(), {{"A", a.view()}, {"B", b.view()}, {"D", d.view()}});
    (void)compile(Gemm{}, parse(text, "", "join.py")).bind(bindings);
  };
  const char* const columns = "def f(acc):\n    v = n_index()\n    D = acc + concat((v, v))\n    return D\n";
  EXPECT_ERROR(ErrorCode::indivisible, "N is 5 (fixed by 'B' (5, 5)), but the epilogue splits it by 2",
               bind(columns, {}));
  EXPECT_ERROR(ErrorCode::indivisible, "join.py:3:", bind(columns, {}));
  const char* const operand = "def f(acc, x: tile):\n    D = acc + concat((x, x))\n    return D\n";
  EXPECT_ERROR(ErrorCode::indivisible, "splits it by 2", bind(operand, {{"x", x.view()}}));
}

TEST(BindChunks, ExtentsFollowTheUse) {
  const Plan plan = compile(
      Gemm{}, parse("def f(acc, residual: tile):\n    gate, up = chunk(acc, 2)\n    return gate * up + residual\n"));
  EXPECT_EQ(plan.shape_of("residual", 6, 8, 5), (std::vector<std::int64_t>{6, 4}));
  const Array a({M, K}), b({K, 8}), narrow({M, 4}), wide({M, 8}), d({M, 4});
  EXPECT_NO_THROW((void)plan.bind({{"A", a.view()}, {"B", b.view()}, {"residual", narrow.view()}, {"D", d.view()}}));
  EXPECT_ERROR(ErrorCode::wrong_shape, "wants M x N/2 = (6, 4): 'B' (5, 8) fixes N to 8",
               (void)plan.bind({{"A", a.view()}, {"B", b.view()}, {"residual", wide.view()}, {"D", d.view()}}));
}

TEST(BindBatch, SharedAndOwn) {
  const Plan plan = compile(Gemm{.batched = true},
                            parse("def f(acc, bias: row, s: scalar):\n    D = acc + bias * s\n    return D\n"));
  const Array a({3, M, K}), shared_a({M, K}), b({K, N}), bias({N}), own_bias({3, N}), s({}), d({3, M, N}), flat({M, N}),
      two({2, M, N});
  const auto bind = [&](const Array& x, const Array& y, const Array& out) {
    plan.bind({{"A", x.view()}, {"B", b.view()}, {"bias", y.view()}, {"s", s.view()}, {"D", out.view()}}).run();
    (void)plan.bind(
        {{"A", x.view()}, {"B", b.view()}, {"bias", y.view()}, {"s", Tensor::scalar(2)}, {"D", out.view()}});
  };
  EXPECT_NO_THROW(bind(a, bias, d));
  EXPECT_NO_THROW(bind(a, own_bias, d));
  EXPECT_NO_THROW(bind(shared_a, bias, d));
  EXPECT_ERROR(ErrorCode::wrong_rank, "'D' has shape (6, 4), but the plan wants M x N with a batch axis in front",
               bind(a, bias, flat));
  EXPECT_ERROR(ErrorCode::wrong_shape, "'D' has shape (2, 6, 4), but 'A' (3, 6, 5) fixes the batch to 3",
               bind(a, bias, two));
  const Array turned({3, N, M}), tall({3, M + 1, N}), wide({3, M, N + 1});
  EXPECT_ERROR(ErrorCode::wrong_shape, "It looks transposed", bind(a, bias, turned));
  EXPECT_ERROR(ErrorCode::wrong_shape, "= (6, 4): 'A' (3, 6, 5) fixes M to 6", bind(a, bias, tall));
  EXPECT_ERROR(ErrorCode::wrong_shape, "= (6, 4): 'B' (5, 4) fixes N to 4", bind(a, bias, wide));
}

}  // namespace
