// Trains a classifier of handwritten digits on the CPU. Every product of the forward and the backward pass is one
// Postlude call with its epilogue (network.py) fused; then the same training with one pass for each operation
// (unfused.py), for comparison.
//
//   digits FOLDER   reads the .npy files of export.py from FOLDER, writes FOLDER/result.json
#include "cli/npy.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace postlude;

constexpr std::int64_t pixels = 64, hidden = 512, classes = 10, batch = 128;
constexpr int epochs = 30;

// A row-major f32 (or i64) matrix that lives as long as the network; a vector has one row.
template <class T>
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<T> data;

  Matrix() = default;
  Matrix(std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns), data(rows * columns) {}
  static constexpr DType type = sizeof(T) == 8 ? i64 : f32;
  Tensor tile() const { return Tensor(data.data(), type, {rows, columns}); }
  Tensor transposed() const { return Tensor(data.data(), type, {columns, rows}, {1, columns}); }
  Tensor vector() const { return Tensor(data.data(), type, {rows * columns}); }
};
using Floats = Matrix<float>;
using Labels = Matrix<std::int64_t>;

struct Scalar {
  float value;
  Tensor tensor() const { return Tensor(&value, f32, {}); }
};

// What both networks hold: a batch, the parameters with their velocities, and what a step leaves.
struct State {
  Floats x{batch, pixels};
  Labels label{batch, 1};
  Floats w1{pixels, hidden}, b1{1, hidden}, w2{hidden, classes}, b2{1, classes};
  Floats v1{pixels, hidden}, u1{1, hidden}, v2{hidden, classes}, u2{1, classes};
  Floats h{batch, hidden}, z{batch, hidden}, dz{batch, hidden}, dlogits{batch, classes};
  Floats db1{1, hidden}, db2{1, classes}, loss{batch, 1};
  Labels predicted{batch, 1};
  Scalar rate{0.1f}, momentum{0.9f}, share{1.0f / batch};

  State() {
    std::mt19937 generator(1);
    const auto fill = [&](Floats& w) {
      std::normal_distribution<float> draw(0.0f, std::sqrt(2.0f / static_cast<float>(w.rows)));
      for (float& x : w.data) x = draw(generator);
    };
    fill(w1);
    fill(w2);
  }
};

// The plans of a file, by the name of the epilogue; compiled when first asked for.
class Plans {
 public:
  explicit Plans(std::string file) : file_(std::move(file)) {}
  const Plan& product(const std::string& name) { return get(name, Gemm{}, ""); }
  const Plan& pass(const std::string& name) { return get(name, Stream{}, " over a tensor"); }

 private:
  const Plan& get(const std::string& name, const Problem& problem, const char* kind) {
    Plan& plan = plans_[name + kind];
    if (!plan) plan = compile(problem, parse_file(file_ + ":" + name), Target::cpu());
    return plan;
  }
  std::string file_;
  std::map<std::string, Plan> plans_;
};

// One training step, bound once: run() does it on whatever the batch holds. `forward` calls stand first.
struct Network {
  std::vector<Call> calls;
  std::size_t forward = 0;

  void step() { run(calls.size()); }
  void predict() { run(forward); }

 private:
  void run(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) calls[i].run();
  }
};

Network fused(State& s) {
  Plans plans(POSTLUDE_SOURCE_DIR "/examples/digits/network.py");
  Network net;
  net.calls.push_back(plans.product("hidden").bind(
      {{"A", s.x.tile()}, {"B", s.w1.tile()}, {"b1", s.b1.vector()}, {"h", s.h.tile()}, {"z", s.z.tile()}}));
  net.calls.push_back(plans.product("output").bind({{"A", s.h.tile()},
                                                    {"B", s.w2.tile()},
                                                    {"b2", s.b2.vector()},
                                                    {"label", s.label.vector()},
                                                    {"share", s.share.tensor()},
                                                    {"dlogits", s.dlogits.tile()},
                                                    {"db2", s.db2.vector()},
                                                    {"loss", s.loss.vector()},
                                                    {"predicted", s.predicted.vector()}}));
  net.forward = net.calls.size();
  net.calls.push_back(plans.product("hidden_gradient")
                          .bind({{"A", s.dlogits.tile()},
                                 {"B", s.w2.transposed()},
                                 {"z", s.z.tile()},
                                 {"dz", s.dz.tile()},
                                 {"db1", s.db1.vector()}}));
  // The gradient of a weight is never stored: the optimiser is the epilogue of the product that makes it.
  const auto step = [&](const Plan& plan, std::vector<Binding> gradient, Floats& w, Floats& v) {
    gradient.insert(gradient.end(), {{"w", w.tile()},
                                     {"v", v.tile()},
                                     {"rate", s.rate.tensor()},
                                     {"momentum", s.momentum.tensor()},
                                     {"w_next", w.tile()},
                                     {"v_next", v.tile()}});
    net.calls.push_back(plan.bind(gradient));
  };
  step(plans.product("step"), {{"A", s.h.transposed()}, {"B", s.dlogits.tile()}}, s.w2, s.v2);
  step(plans.product("step"), {{"A", s.x.transposed()}, {"B", s.dz.tile()}}, s.w1, s.v1);
  step(plans.pass("step"), {{"X", s.db2.tile()}}, s.b2, s.u2);
  step(plans.pass("step"), {{"X", s.db1.tile()}}, s.b1, s.u1);
  return net;
}

// The logits, their logsumexp and the weights' gradients: what only the unfused network must store.
struct Unfused {
  Floats logits{batch, classes}, total{batch, 1}, dh{batch, hidden}, dw1{pixels, hidden}, dw2{hidden, classes};
};

Network unfused(State& s, Unfused& t) {
  Plans plans(POSTLUDE_SOURCE_DIR "/examples/digits/unfused.py");
  Network net;
  const auto product = [&](const Tensor& a, const Tensor& b, const Floats& out) {
    net.calls.push_back(plans.product("plain").bind({{"A", a}, {"B", b}, {"D", out.tile()}}));
  };
  const auto pass = [&](const char* name, const Floats& x, std::vector<Binding> rest) {
    rest.push_back({"X", x.tile()});
    net.calls.push_back(plans.pass(name).bind(rest));
  };
  product(s.x.tile(), s.w1.tile(), s.z);
  pass("add_row", s.z, {{"bias", s.b1.vector()}, {"D", s.dz.tile()}});
  pass("gelu", s.dz, {{"D", s.h.tile()}});
  product(s.h.tile(), s.w2.tile(), s.dlogits);
  pass("add_row", s.dlogits, {{"bias", s.b2.vector()}, {"D", t.logits.tile()}});
  pass("logsumexp", t.logits, {{"total", t.total.vector()}});
  pass("cross_entropy", t.logits,
       {{"total", t.total.vector()}, {"label", s.label.vector()}, {"loss", s.loss.vector()}});
  pass("argmax", t.logits, {{"predicted", s.predicted.vector()}});
  net.forward = net.calls.size();
  pass(
      "cross_entropy_gradient", t.logits,
      {{"total", t.total.vector()}, {"label", s.label.vector()}, {"share", s.share.tensor()}, {"D", s.dlogits.tile()}});
  pass("column_sum", s.dlogits, {{"total", s.db2.vector()}});
  product(s.dlogits.tile(), s.w2.transposed(), t.dh);
  pass("gelu_gradient", t.dh, {{"z", s.dz.tile()}, {"D", s.z.tile()}});
  pass("column_sum", s.z, {{"total", s.db1.vector()}});
  product(s.h.transposed(), s.dlogits.tile(), t.dw2);
  product(s.x.transposed(), s.z.tile(), t.dw1);
  const auto step = [&](const Floats& gradient, Floats& w, Floats& v) {
    pass("accumulate", gradient, {{"v", v.tile()}, {"momentum", s.momentum.tensor()}, {"D", v.tile()}});
    // X and D are the same memory: each element is read before it is written.
    pass("descend", w, {{"v", v.tile()}, {"rate", s.rate.tensor()}, {"D", w.tile()}});
  };
  step(t.dw2, s.w2, s.v2);
  step(t.dw1, s.w1, s.v1);
  step(s.db2, s.b2, s.u2);
  step(s.db1, s.b1, s.u1);
  return net;
}

struct Digits {
  Floats images;
  Labels labels;
};

Digits read_digits(const std::string& folder, const std::string& part) {
  const cli::Array images = cli::read_npy(folder + "/" + part + "_images.npy", f32);
  const cli::Array labels = cli::read_npy(folder + "/" + part + "_labels.npy", i64);
  Digits digits{Floats(images.shape.at(0), pixels), Labels(labels.shape.at(0), 1)};
  if (images.bytes.size() != digits.images.data.size() * sizeof(float) ||
      labels.bytes.size() != digits.labels.data.size() * sizeof(std::int64_t) || images.shape[0] != labels.shape[0]) {
    throw std::runtime_error("images are not 8 x 8, or do not have one label each");
  }
  std::memcpy(digits.images.data.data(), images.bytes.data(), images.bytes.size());
  std::memcpy(digits.labels.data.data(), labels.bytes.data(), labels.bytes.size());
  return digits;
}

// Copies samples order[first, first + batch) into the batch, wrapping round; returns how many are new.
std::int64_t load_batch(State& s, const Digits& digits, const std::vector<std::int64_t>& order, std::int64_t first) {
  const auto count = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t sample = order[(first + i) % count];
    std::copy_n(&digits.images.data[sample * pixels], pixels, &s.x.data[i * pixels]);
    s.label.data[i] = digits.labels.data[sample];
  }
  return std::min(batch, count - first);
}

std::vector<std::int64_t> in_order(std::int64_t count) {
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void progress(int epoch, double loss) {
  if (!isatty(STDERR_FILENO)) return;
  constexpr int width = 40;
  const int done = width * epoch / epochs;
  std::fprintf(stderr, "\rtraining [%s%s] epoch %2d of %d, loss %.4f", std::string(done, '#').c_str(),
               std::string(width - done, ' ').c_str(), epoch, epochs, loss);
  if (epoch == epochs) std::fputc('\n', stderr);
}

struct Trained {
  State& state;
  Network& network;
  std::vector<double> loss;          // mean of each epoch
  std::vector<double> milliseconds;  // of each step
};

// Trains both on the same batches in the same order, step by step in turns, so that their times compare.
void train(Trained& first, Trained& second, const Digits& digits) {
  std::vector<std::int64_t> order = in_order(digits.labels.rows);
  std::mt19937 generator(2);
  const auto steps = (digits.labels.rows + batch - 1) / batch;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), generator);
    const float rate = 0.1f * 0.5f * (1.0f + std::cos(3.14159265f * static_cast<float>(epoch - 1) / epochs));
    for (Trained* t : {&first, &second}) t->loss.push_back(0);
    for (std::int64_t at = 0; at < digits.labels.rows; at += batch) {
      for (Trained* t : {&first, &second}) {
        t->state.rate.value = rate;
        load_batch(t->state, digits, order, at);
        const auto begin = std::chrono::steady_clock::now();
        t->network.step();
        const auto end = std::chrono::steady_clock::now();
        t->milliseconds.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
        const auto& losses = t->state.loss.data;
        t->loss.back() += std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(batch * steps);
      }
    }
    progress(epoch, first.loss.back());
  }
}

std::vector<std::int64_t> predict(State& s, Network& net, const Digits& digits) {
  std::vector<std::int64_t> predicted;
  const std::vector<std::int64_t> order = in_order(digits.labels.rows);
  for (std::int64_t first = 0; first < digits.labels.rows; first += batch) {
    const std::int64_t fresh = load_batch(s, digits, order, first);
    net.predict();
    predicted.insert(predicted.end(), s.predicted.data.begin(), s.predicted.data.begin() + fresh);
  }
  return predicted;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double accuracy(const std::vector<std::int64_t>& predicted, const Digits& digits) {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == digits.labels.data[i];
  return static_cast<double>(right) / static_cast<double>(predicted.size());
}

int run(const std::string& folder) {
  const Digits training = read_digits(folder, "train"), held_out = read_digits(folder, "test");

  State s, s2;
  Unfused extra;
  Network net = fused(s), net2 = unfused(s2, extra);
  Trained trained{s, net, {}, {}}, trained2{s2, net2, {}, {}};
  train(trained, trained2, training);
  const std::vector<std::int64_t> predicted = predict(s, net, held_out);
  const double accuracy2 = accuracy(predict(s2, net2, held_out), held_out);

  const double right = accuracy(predicted, held_out);
  std::printf("%.1f %% of %zu held-out digits right (unfused: %.1f %%)\n", 100 * right, predicted.size(),
              100 * accuracy2);
  std::printf("a training step: %zu calls, %.3f ms fused; %zu calls, %.3f ms unfused (medians)\n", net.calls.size(),
              median(trained.milliseconds), net2.calls.size(), median(trained2.milliseconds));
  std::ofstream(folder + "/result.json") << nlohmann::json{{"accuracy", right},
                                                           {"predicted", predicted},
                                                           {"loss", trained.loss},
                                                           {"fused_ms", median(trained.milliseconds)},
                                                           {"unfused_ms", median(trained2.milliseconds)}}
                                         << '\n';
  constexpr double wanted = 0.95;
  return right >= wanted && accuracy2 >= wanted ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
