#include "fuzz/composed.h"

#include <array>
#include <initializer_list>
#include <numeric>

namespace postlude::fuzz {
namespace {

constexpr int widths[] = {16, 32, 32, 64, 64, 128}, heights[] = {16, 32, 64, 128};
constexpr const char* real_types[] = {"bf16", "f16", "f32"};

class Composer {
 public:
  explicit Composer(Choices& pick) : pick_(pick) {}

  Composed compose() {
    gate();
    for (std::int64_t i = pick_.below(4); i > 0; --i) each();
    if (pick_.chance(25)) last();
    if (pick_.chance(20)) longer();
    beside("x", "s");
    std::string y = "x";
    if (pick_.chance(85)) y = statistics();
    if (y == "y" && pick_.chance(20)) beside("y", "u");
    output("D", y);
    return {head() + body_ + "    return " + outputs_ + "\n", columns_, rows_};
  }

 private:
  const char* any(std::initializer_list<const char*> of) {
    return of.begin()[pick_.below(static_cast<std::int64_t>(of.size()))];
  }
  void line(const std::string& text) { body_ += "    " + text + "\n"; }
  void output(const std::string& name, const std::string& value) {
    line(name + ": " + (quantised_ ? any({"s8", "u8", "e4m3", "e5m2"}) : pick_.pick(real_types)) + " = " + value);
    outputs_ += (outputs_.empty() ? "" : ", ") + name;
  }
  // All groups of a text divide what it says of columns and rows.
  std::string group_of(int& all, int group) {
    all = std::lcm(all, group);
    return std::to_string(group);
  }
  std::string group() { return group_of(columns_, pick_.pick(widths)); }

  std::string head() {
    std::string text = "def f(acc, b: row[f32], w: row[bf16], c: col[f32], t: scalar, label: col[i64], r: tile[";
    text += any({"bf16", "bf16", "f16", "f32", "u8"});
    return text + "], z: tile[bf16], g: tile[f32], q: row[f32]):\n";
  }

  void gate() {
    if (pick_.chance(70)) return line("x = acc * 0.5");
    const int parts = pick_.chance(75) ? 2 : 3 + static_cast<int>(pick_.below(2));
    std::string in;
    columns_ = 16 * parts;  // the accumulator's
    if (pick_.chance(40)) in = ", group=" + group_of(columns_, parts * (parts == 3 ? 32 : pick_.pick(widths) / 2));
    else if (pick_.chance(20)) in = ", group=" + std::to_string(parts);
    if (parts == 2) line("l, h = chunk(acc, 2" + in + ")");
    else if (parts == 3) line("l, h, o = chunk(acc, 3" + in + ")");
    else line("l, h, o, v = chunk(acc, 4" + in + ")");
    line(std::string("x = ") + any({"silu(l)", "gelu(l)", "l", "sigmoid(l)"}) + " * h" + (parts > 2 ? " + o" : "") +
         (parts > 3 ? " * v" : ""));
    columns_ *= 4;
  }

  void each() {
    if (pick_.chance(4)) return line("x = x + repeat(q, " + group_of(columns_, 32) + ")");
    line(std::string("x = ") + any({"x + b", "x * w", "x * c", "x * t", "x + r", "x * z + w", "gelu(x + b)", "silu(x)",
                                    "max(x, 0)", "where(random(seed=7) < 0.9, x / 0.9, 0)", "x + cast(r, f32) * g",
                                    "where(n_index() % 3 == m_index() % 3, 0, x)", "where(r > 0, x, 0)",
                                    "cast(x, bf16)", "tanh(x) + z", "cast(x, bf16, round=stochastic(5))",
                                    "x * sigmoid(x)", "where(m_index() > 5, x, -x)", "x + 0.25 * batch_index()"}));
  }
  void last() {
    line(std::string("x = where(") + any({"n_index() <= m_index()", "n_index() != label", "z > -1", "c < 1"}) +
         ", x, " + any({"-inf", "-10000.0", "0"}) + ")");
  }
  void longer() {
    for (std::int64_t terms = 2 + pick_.below(4); terms > 0; --terms)
      line(std::string("x = x") + any({" + mish(erf(acc_))", " + sin(x + b)", " + erf(tanh(x) * b)", " - gelu_erf(x)",
                                       " + cos(x) * abs(tanh(x)) ** 0.3"}));
    for (std::size_t at; (at = body_.find("acc_")) != body_.npos;) body_.replace(at, 4, "x");
  }

  // Outputs that are statistics of `x`, or `x` itself.
  void beside(const std::string& x, const std::string& name) {
    static constexpr std::array values = {"sum(x, axis=0)",
                                          "max(abs(x), axis=1)",
                                          "sum(x, axis=1)",
                                          "argmax(x, axis=1)",
                                          "sum(x * x)",
                                          "max(abs(x))",
                                          "min(x, axis=0)",
                                          "sum(where(n_index() == label, x, 0), axis=1)",
                                          "logsumexp(x, axis=1)",
                                          "sum(x, axis=0, batch=True)",
                                          "mean(abs(x), batch=True)",
                                          "var(x, axis=1)",
                                          "var(x, axis=0)",
                                          "argmin(x, axis=0)",
                                          "any(x > 2, axis=1)",
                                          "sum(x * z, axis=1)",
                                          "sum(x * z, axis=0)"};
    for (int i = 0; pick_.chance(i ? 25 : 40); ++i) {
      const std::string own = name + std::to_string(i);
      std::string value = pick_.pick(values);
      if (pick_.chance(20)) value = "max(abs(x), axis=1, group=" + group() + ")";
      else if (pick_.chance(15)) value = "sum(x, axis=0, group=" + group_of(rows_, pick_.pick(heights)) + ")";
      else if (pick_.chance(25)) value = "x";
      for (std::size_t at = 0; (at = value.find('x', at)) != value.npos; ++at) {
        const auto letter = [&](std::size_t i) { return i < value.size() && value[i] >= 'a' && value[i] <= 'z'; };
        if (!letter(at + 1) && (at == 0 || !letter(at - 1))) value[at] = x[0];
      }
      if (value == x) output(own, x);
      else line(own + " = " + value), outputs_ += (outputs_.empty() ? "" : ", ") + own;
    }
  }

  // What statistics make of x: y.
  std::string statistics() {
    const auto normalise = [&](const std::string& in, bool rows) {  // `in`: behind a reduction's argument
      const auto back = [&](const std::string& s) {
        if (in.find("group") == in.npos) return s;
        return "repeat(" + s + ", " + in.substr(in.rfind('=') + 1) + (rows ? ", axis=0)" : ")");
      };
      constexpr std::int64_t moments = 2;  // of which tiles must tell how many elements they have: more often
      const std::int64_t how = pick_.below(10);
      switch (how < 8 ? how : moments) {
        case 0: return line("m = max(x" + in + ")"), line("y = x - " + back("m"));
        case 1: return line("m = rsqrt(mean(x * x" + in + ") + 1e-5)"), line("y = x * " + back("m"));
        case moments:
          line("m = mean(x" + in + ")"), line("d = x - " + back("m"));
          return line("n = rsqrt(mean(d * d" + in + ") + 1e-5)"), line("y = d * " + back("n") + " * w + b");
        case 3:
          line("m = max(x" + in + ")"), line("e = exp(x - " + back("m") + ")");
          return line("n = sum(e" + in + ")"), line("y = e / " + back("n"));
        case 4: return line("m = logsumexp(x" + in + ")"), line("y = x - " + back("m"));
        case 5: return line("m = max(norm(x" + in + "), 1e-6)"), line("y = x / " + back("m"));
        case 6: return line("m = sum(x * z" + in + ")"), line("y = x * z - x * " + back("m"));
        default:
          line("a = max(max(abs(x)" + in + "), 1e-4) / 127"), line("y = x / " + back("a"));
          quantised_ = pick_.chance(80), outputs_ += (outputs_.empty() ? "" : ", ") + std::string("a");
          return;
      }
    };
    const std::int64_t over = pick_.below(20);
    if (over < 9) normalise(", axis=1", false);
    else if (over < 12) normalise(", axis=1, group=" + group(), false);
    else if (over < 14) normalise(", axis=0, group=" + group_of(rows_, pick_.pick(heights)), true);
    else if (over < 18) normalise(", axis=0", false);
    else if (over < 19) normalise("", false);
    else {
      const std::string along = group(), down = group_of(rows_, pick_.pick(heights));
      line("a = max(max(max(abs(x), axis=1, group=" + along + "), axis=0, group=" + down + "), 1e-4) / 127");
      line("y = x / repeat(repeat(a, " + along + "), " + down + ", axis=0)");
      quantised_ = pick_.chance(80), outputs_ += (outputs_.empty() ? "" : ", ") + std::string("a");
    }
    if (over < 12 && pick_.chance(25) && !quantised_) {  // quantised behind it
      line("v = max(max(abs(y), axis=1), 1e-4) / 127"), line("y = y / v");
      quantised_ = true, outputs_ += (outputs_.empty() ? "" : ", ") + std::string("v");
    } else if (pick_.chance(20)) {
      line(std::string("y = ") + any({"gelu(y)", "y + g", "y * w + b", "where(random(seed=3) < 0.5, y, 0)"}));
    }
    return "y";
  }

  Choices& pick_;
  std::string body_, outputs_;
  int columns_ = 1, rows_ = 1;
  bool quantised_ = false;
};

}  // namespace

Composed compose(Choices& pick) { return Composer(pick).compose(); }

}  // namespace postlude::fuzz
