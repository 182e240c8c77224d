// Launching: streams, graphs, and what a process may do beside it.
#include "gpu/device_run.h"
#include "gpu/problem.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

namespace postlude::gpu_tests {
namespace {

using cuda::check;
using cuda::driver;

struct Stream3 {
  cuda::CuStream handle = nullptr;
  Stream3() {
    check(driver().StreamCreate(&handle, 1), "making a stream");
  }  // 1: it does not wait for the default stream
  ~Stream3() { driver().StreamDestroy(handle); }
  Stream3(const Stream3&) = delete;
  Stream3& operator=(const Stream3&) = delete;
};

template <class F>
F entry(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

class Launch : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

// What a piece of work launches on a stream, as a graph.
class Captured {
 public:
  template <class F>
  Captured(const Stream3& stream, F work) : stream_(stream.handle) {
    constexpr int relaxed = 2;
    check(entry<int (*)(cuda::CuStream, int)>("cuStreamBeginCapture_v2")(stream_, relaxed), "beginning a capture");
    work();
    check(entry<int (*)(cuda::CuStream, void**)>("cuStreamEndCapture")(stream_, &graph_), "ending a capture");
    check(entry<int (*)(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(&executable_, graph_, 0),
          "making a graph");
  }
  ~Captured() {
    entry<int (*)(void*)>("cuGraphExecDestroy")(executable_);
    entry<int (*)(void*)>("cuGraphDestroy")(graph_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  void replay() const {
    check(entry<int (*)(void*, cuda::CuStream)>("cuGraphLaunch")(executable_, stream_), "replaying");
    check(driver().StreamSynchronize(stream_), "replaying");
  }

 private:
  cuda::CuStream stream_;
  void *graph_ = nullptr, *executable_ = nullptr;
};

TEST_P(Launch, IsCapturedInAGraph) {
  const cuda::CurrentDevice current(0);
  DeviceProblem problem(GetParam(), Shape{1, 512, 528, 192});
  problem.run();
  const auto expected = problem.outputs();
  const Stream3 stream;
  const auto poison = [&] {
    problem.poison();
    check(driver().CtxSynchronize(), "poisoning");
  };
  const Captured run(stream, [&] { problem.run(stream.handle); });
  for (int replay = 0; replay < 3; ++replay) {
    poison();
    run.replay();
    EXPECT_EQ(problem.outputs(), expected) << "replay " << replay;
  }
  // A call whose first run is captured, and whose second takes place before it.
  Call fresh = problem.compile("").bind(problem.bindings());
  const Captured first(stream, [&] { fresh.run(stream.handle); });
  for (int turn = 0; turn < 2; ++turn) {
    poison();
    fresh.run();
    EXPECT_EQ(problem.outputs(), expected) << "run " << turn;
    poison();
    first.replay();
    EXPECT_EQ(problem.outputs(), expected) << "replay " << turn << " of a first run";
  }
}

// Calls of one plan own their workspaces: they may run at once, issued by threads of their own.
TEST_P(Launch, CallsOfOnePlanRunOnStreamsAtOnce) {
  const cuda::CurrentDevice current(0);
  const Shape shape{1, 1024, 768, 256};
  const Gemm gemm{.a = DType::bf16, .b = DType::bf16, .b_layout = Layout::k_major};
  std::vector<std::unique_ptr<DeviceProblem>> problems;
  std::vector<std::vector<std::vector<std::uint8_t>>> expected;
  std::vector<Call> calls;
  for (int i = 0; i < 4; ++i) {
    problems.push_back(std::make_unique<DeviceProblem>(gemm, suite_graph(GetParam()), shape));
    problems.back()->run();
    expected.push_back(problems.back()->outputs());
    problems.back()->poison();
  }
  const Plan plan = problems[0]->compile("");
  for (const auto& problem : problems) calls.push_back(plan.bind(problem->bindings()));
  const std::vector<Stream3> streams(problems.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 50; ++run) calls[i].run(streams[i].handle);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(problems[i]->outputs(), expected[i]) << "stream " << i;
}

INSTANTIATE_TEST_SUITE_P(Epilogues, Launch,
                         testing::Values("bias_gelu", "dgelu_dbias", "softmax", "rmsnorm", "bce", "argmax"),
                         [](const auto& i) { return std::string(i.param); });

// tests/cuda/fault_test.cpp has every place where memory runs out; here the driver's own answer, without taking the
// memory of whoever else uses this GPU.
TEST(Memory, RunningOutIsATypedErrorAndTheNextCallWorks) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const cuda::CurrentDevice current(0);
  const Graph sum = parse("def f(acc):\n    s: f32 = sum(acc)\n    return s\n");
  DeviceProblem small(Gemm{.a = DType::f32, .b = DType::f32}, sum, Shape{1, 64, 64, 1}, {.elements = Elements::whole});
  small.run();
  std::vector<Binding> large = small.bindings();
  for (Binding& b : large) {  // every row of A and every column of B is the first: a product of 256 GiB
    if (b.name == "A") b.tensor.shape[0] = 1 << 18, b.tensor.strides[0] = 0;
    if (b.name == "B") b.tensor.shape[1] = 1 << 18, b.tensor.strides[1] = 0;
  }
  const Plan plan = small.compile("");
  try {
    (void)plan.bind(large);
    FAIL() << "256 GiB were found";
  } catch (const Error& error) { EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what(); }
  const auto expected = small.outputs();
  small.poison();
  plan.bind(small.bindings()).run();
  EXPECT_EQ(small.outputs(), expected);
}

TEST(Fork, TheChildGetsATypedErrorAndTheCpu) {
  if (const std::string why = missing(); !why.empty()) GTEST_SKIP() << why;
  const cuda::CurrentDevice current(0);
  DeviceProblem problem("plain", Shape{1, 64, 64, 64});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      problem.run();
      status = 2;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::forked) status = 0;
    }
    // No OpenMP team of the parent's is left in a child: one thread.
    float a[16] = {1}, b[16] = {2}, d[16] = {};
    const Tensor ta(a, DType::f32, {4, 4}), tb(b, DType::f32, {4, 4}), td(d, DType::f32, {4, 4});
    if (status == 0) {
      compile(Gemm{}, suite_graph("plain"), Target::cpu(1)).bind({{"A", ta}, {"B", tb}, {"D", td}}).run();
      if (d[0] != 2) status = 3;
    }
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: another error, 2: none, 3: the CPU was wrong";
  problem.run();
  EXPECT_EQ(problem.outputs().size(), 1u);
}

}  // namespace
}  // namespace postlude::gpu_tests
