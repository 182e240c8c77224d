// Every fault around a GPU arrives as a typed error, leaves nothing behind, and the CPU backend
// goes on working. A driver and a compiler made for this (tests/cuda/fake) stand in for the
// machine's, in a process of their own for each case.
#include "cuda/backend.h"
#include "cuda/run/cache.h"
#include "cuda/run/driver.h"
#include "cuda/run/nvrtc.h"
#include "cuda/run/workspace.h"

#include <postlude/parse.h>
#include <postlude/plan.h>

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace postlude::inline v0::cuda {
namespace {

namespace fs = std::filesystem;

// ---- what runs in a process of its own ----------------------------------------------------------

void cpu_works() {
  std::vector<float> a(16, 1), b(16, 2), d(16, 0);
  compile(Gemm{}, parse("def f(acc):\n    return acc\n"), Target::cpu(1))
      .bind({{"A", Tensor(a.data(), DType::f32, {4, 4})},
             {"B", Tensor(b.data(), DType::f32, {4, 4})},
             {"D", Tensor(d.data(), DType::f32, {4, 4})}})
      .run();
  EXPECT_EQ(d[5], 8);
}

constexpr const char* two_launches =
    "def f(acc, bias: row):\n    D = acc + bias\n    s: f32 = sum(D)\n    t = D * s\n    return D, s, t\n";
constexpr const char* one_launch = "def f(acc, bias: row):\n    return acc + bias\n";

struct Product {
  Plan plan;
  std::vector<Binding> bindings;
  std::vector<Buffer> memory;

  explicit Product(const char* epilogue = two_launches, const Target& target = Target::cuda())
      : plan(compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(epilogue), target)) {
    for (const Plan::Slot& slot : plan.slots()) {
      Tensor tensor;
      tensor.dtype = slot.dtype;
      std::int64_t elements = 1;
      const auto extents = plan.shape_of(slot.name, 256, 128, 64);
      tensor.rank = static_cast<int>(extents.size());
      for (int axis = tensor.rank - 1; axis >= 0; --axis) {
        tensor.shape[static_cast<std::size_t>(axis)] = extents[static_cast<std::size_t>(axis)];
        tensor.strides[static_cast<std::size_t>(axis)] = elements;
        elements *= extents[static_cast<std::size_t>(axis)];
      }
      memory.emplace_back(0, static_cast<std::size_t>(elements * size_of(slot.dtype)));
      tensor.data = reinterpret_cast<void*>(memory.back().pointer());
      tensor.device = Device::cuda;
      names.push_back(std::make_unique<std::string>(slot.name));
      bindings.push_back({*names.back(), tensor});
    }
  }
  std::vector<std::unique_ptr<std::string>> names;
};

std::optional<Error> thrown(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) { return error; }
  return {};
}

void expect(const std::optional<Error>& error, ErrorCode code, const std::string& says) {
  ASSERT_TRUE(error) << "no error; " << to_string(code) << " was expected";
  EXPECT_EQ(error->code(), code) << error->what();
  EXPECT_NE(error->message().find(says), std::string::npos) << error->what();
  EXPECT_FALSE(error->message().empty());
}

long held() {
  release_workspaces();
  return *static_cast<long*>(dlsym(RTLD_DEFAULT, "fake_cuda_held"));
}
int calls(const char* name) {
  return reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "fake_cuda_calls"))(name);
}
void capture(bool on) { *static_cast<int*>(dlsym(RTLD_DEFAULT, "fake_cuda_capturing")) = on; }

// The first call of a step fails, what it was part of can be done again, and nothing is left behind
// at the end.
void fails_once(ErrorCode code, const std::string& says, const char* epilogue = two_launches) {
  {
    std::optional<Product> product;
    std::optional<Call> call;
    std::optional<Error> error = thrown([&] { product.emplace(epilogue); });
    if (error) product.emplace(epilogue);
    if (!error) error = thrown([&] { call = product->plan.bind(product->bindings); });
    if (!call) call = product->plan.bind(product->bindings);
    if (!error) error = thrown([&] { call->run(); });
    expect(error, code, says);
    call->run();
    cpu_works();
  }
  EXPECT_EQ(held(), 0) << "buffers or modules were left behind";
}

void compile_fails(ErrorCode code, const std::string& says) {
  const auto attempt = [] {
    (void)compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse("def f(acc):\n    return acc\n"), Target::cuda());
  };
  expect(thrown(attempt), code, says);
  expect(thrown(attempt), code, says);  // not only the first time
  EXPECT_FALSE(supports(Gemm{}, parse("def f(acc):\n    return acc\n"), Target::cuda()));
  EXPECT_EQ(Target::best().device, Device::cpu);
  cpu_works();
}

const std::map<std::string, std::function<void()>>& cases() {
  static const std::map<std::string, std::function<void()>> all = {
      {"works", [] { Product().plan.bind(Product().bindings).run(); }},
      {"no_device", [] { compile_fails(ErrorCode::no_device, "no usable GPU"); }},
      {"too_old", [] { compile_fails(ErrorCode::driver_too_old, "version 11.8"); }},
      {"lacks_a_symbol", [] { compile_fails(ErrorCode::driver_too_old, "lacks cuTensorMapEncodeTiled"); }},
      {"no_compiler",
       [] { compile_fails(ErrorCode::no_compiler, "'/nowhere/libnvrtc.so.13', which POSTLUDE_NVRTC names"); }},
      {"no_builtins",
       [] {
         Product product;
         expect(thrown([&] { (void)product.plan.bind(product.bindings); }), ErrorCode::compile_failed,
                "libnvrtc-builtins");
         cpu_works();
       }},
      {"memory", [] { fails_once(ErrorCode::out_of_memory, "bytes left"); }},
      {"module_memory", [] { fails_once(ErrorCode::out_of_memory, "loading a module"); }},
      {"bad_image", [] { fails_once(ErrorCode::device_failed, "CUDA_ERROR_INVALID_IMAGE"); }},
      {"function", [] { fails_once(ErrorCode::device_failed, "finding a kernel"); }},
      {"shared_memory", [] { fails_once(ErrorCode::device_failed, "asking for shared memory"); }},
      {"tensor_map", [] { fails_once(ErrorCode::device_failed, "copy engine"); }},
      {"launch", [] { fails_once(ErrorCode::device_failed, "CUDA_ERROR_ILLEGAL_ADDRESS", one_launch); }},
      {"launches", [] { fails_once(ErrorCode::device_failed, "CUDA_ERROR_ILLEGAL_ADDRESS"); }},
      {"no_cache_folder", [] { Product().plan.bind(Product().bindings).run(); }},
      {"forked",
       [] {
         auto product = std::make_unique<Product>();
         auto call = std::make_unique<Call>(product->plan.bind(product->bindings));
         const pid_t child = ::fork();
         if (child == 0) {
           const std::optional<Error> error = thrown([&] { call->run(); });
           int status = error && error->code() == ErrorCode::forked ? 0 : 1;
           if (const auto made = thrown([] { (void)Product(); }); !made || made->code() != ErrorCode::forked)
             status = 2;
           if (Target::best().device != Device::cpu) status = 3;
           cpu_works();
           call.reset();
           product.reset();  // another process's memory: not freed here
           ::_exit(testing::Test::HasFailure() ? 4 : status);
         }
         int status = -1;
         ::waitpid(child, &status, 0);
         EXPECT_EQ(status, 0) << "exit status of the child, times 256";
         call->run();
       }},
      {"threads",
       [] {
         std::vector<std::thread> threads;
         for (int i = 0; i < 8; ++i) {
           threads.emplace_back([] {
             for (int turn = 0; turn < 4; ++turn) {
               const Product product;
               Call call = product.plan.bind(product.bindings), other = product.plan.bind(product.bindings);
               call.run();
               other.run();
             }
           });
         }
         for (std::thread& thread : threads) thread.join();
         EXPECT_EQ(held(), 0);
       }},
      {"small_phases_in_place",
       [] {
         const auto described = [](const char* text, bool in_place) {
           Target target = Target::cuda();
           target.schedule = "pingpong 64x64x4 sub 32x2 aux 0 raster 1";  // held where that may be
           Product product(text, target);
           const auto find = [&](const char* name) {
             return std::find_if(product.bindings.begin(), product.bindings.end(),
                                 [&](const Binding& b) { return b.name == name; });
           };
           if (in_place) find("T")->tensor.data = find("t")->tensor.data;
           return product.plan.bind(product.bindings).describe();
         };
         // Both read t for D, and then store T.
         for (const char* text : {"def f(acc, t: col[f32]):\n    s = max(acc, axis=1)\n    D: bf16 = acc - s * t\n    "
                                  "T: f32 = max(s, t)\n    "
                                  "return D, T\n",
                                  "def f(acc, t: tile[f32]):\n    s = max(acc, axis=1, group=64)\n    D: bf16 = acc - "
                                  "repeat(s * t, 64)\n    T: "
                                  "f32 = max(s, t)\n    return D, T\n"}) {
           EXPECT_EQ(described(text, false).find("passes over memory"), std::string::npos) << described(text, false);
           EXPECT_NE(described(text, true).find("passes over memory"), std::string::npos) << described(text, true);
         }
       }},
      {"illegal_schedule",
       [] {
         Target target = Target::cuda();
         for (const auto& [schedule, why] : {std::pair{"pingpong 128x128x4 sub 32x2 aux 0 raster 0", "raster 0"},
                                             {"pingpong 128x0x4 sub 32x2 aux 0 raster 8", "128x0x4"},
                                             {"pingpong 64x64x4 sub 32x2 aux 0 raster 8 cluster 1x7 meets",
                                              "has all tiles of its rows, which are"}}) {
           target.schedule = schedule;
           const Product product("def f(acc):\n    return acc - max(acc, axis=1)\n", target);  // its tiles are held
           expect(thrown([&] { (void)product.plan.bind(product.bindings); }), ErrorCode::bad_schedule, why);
         }
         target.schedule = "pingpong 4294967424x128x4 sub 32x2 aux 0 raster 2";  // 2^32 + 128
         expect(thrown([&] { const Product product("def f(acc):\n    return acc\n", target); }),
                ErrorCode::bad_schedule, target.schedule);
       }},
      {"rebinds",
       [] {
         const Product product;
         product.plan.bind(product.bindings).run();
         const int allocations = calls("cuMemAlloc_v2");
         for (int step = 0; step < 1000; ++step) product.plan.bind(product.bindings).run();
         EXPECT_LE(calls("cuMemAlloc_v2") - allocations, 32);
         EXPECT_LE(calls("cuCtxSynchronize"), 1000 / 32);
         EXPECT_GE(calls("cuCtxSynchronize"), 1) << "a buffer is lent again once nothing uses it";
         EXPECT_EQ(calls("cuMemFree_v2"), 0);
       }},
      {"rebinds_on_a_stream",
       [] {
         const Product product;
         void *const one = &const_cast<Product&>(product), *const other = nullptr;
         product.plan.bind(product.bindings, one).run(one);
         const int allocations = calls("cuMemAlloc_v2");
         for (int step = 0; step < 1000; ++step) product.plan.bind(product.bindings, one).run(one);
         EXPECT_EQ(calls("cuMemAlloc_v2"), allocations);
         EXPECT_EQ(calls("cuCtxSynchronize"), 0);
         product.plan.bind(product.bindings, other).run(other);  // the first stream may still use what was left
         EXPECT_EQ(calls("cuMemAlloc_v2"), allocations + 1);
         product.plan.bind(product.bindings, one).run(other);  // a promise that is not kept
         EXPECT_EQ(calls("cuCtxSynchronize"), 1);
         EXPECT_EQ(calls("cuMemFree_v2"), 0);
       }},
      {"lends",  // a buffer of the size that is asked for, wherever it lies among those that are left
       [] {
         { const Workspace small(0, 4096, {}), large(0, 65536, {}), larger(0, 131072, {}); }
         const int allocations = calls("cuMemAlloc_v2");
         const Workspace large(0, 65536, {}), larger(0, 131072, {}), small(0, 4096, {});
         EXPECT_EQ(calls("cuMemAlloc_v2"), allocations);
         const Workspace another(0, 4096, {});
         EXPECT_EQ(calls("cuMemAlloc_v2"), allocations + 1);
       }},
      {"lends_again",  // what is left makes room where the device has none
       [] {
         { const Workspace small(0, 4096, {}); }
         const Workspace large(0, std::size_t{1} << 20, {});
         EXPECT_NE(large.pointer(), 0u);
         EXPECT_EQ(calls("cuMemFree_v2"), 1);
       }},
      {"graphs",  // replay what a captured run used: it is lent to nobody, nor is a capture lent what a stream left
       [] {
         const Product product;
         product.plan.bind(product.bindings, nullptr).run();
         const int allocations = calls("cuMemAlloc_v2");
         capture(true);
         for (int layer = 1; layer <= 3; ++layer) {
           product.plan.bind(product.bindings, nullptr).run();
           EXPECT_EQ(calls("cuMemAlloc_v2"), allocations + layer);
         }
         capture(false);
         release_workspaces();
         EXPECT_EQ(calls("cuMemFree_v2"), 1) << "of what was left before";
       }},
      {"captured",
       [] {
         const Product product;
         Call call = product.plan.bind(product.bindings);
         for (const bool captured : {true, true, false, true, false}) {
           capture(captured);
           call.run();
         }
         EXPECT_EQ(calls("cuMemsetD8Async"), 3) << "with each run until one has taken place";
       }},
      {"prepares",
       [] {
         const auto compiler = [](const char* what) {
           return reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, what))();
         };
         {
           const Product product;
           const int allocations = calls("cuMemAlloc_v2");
           const std::vector<Sizes> sizes = {{256, 128, 64}, {4096, 4096, 4096}, {64, 1024, 8192},
                                             {0, 128, 64},   {256, 128, 64},     {100, 50, 30}};
           product.plan.prepare(sizes, 4);
           EXPECT_EQ(calls("cuMemAlloc_v2"), allocations) << "memory was taken";
           const auto launches = [] { return calls("cuLaunchKernel") + calls("cuLaunchKernelEx"); };
           EXPECT_EQ(launches(), 0);
           const int compiled = compiler("fake_nvrtc_compilations");
           EXPECT_EQ(compiled, compiler("fake_nvrtc_sources")) << "each is compiled once";
           EXPECT_GT(compiled, 2);
           EXPECT_GT(compiler("fake_nvrtc_at_once"), 1);
           product.plan.prepare(sizes);
           const int modules = calls("cuModuleLoadData");
           product.plan.bind(product.bindings).run();
           EXPECT_EQ(compiler("fake_nvrtc_compilations"), compiled) << "bind finds the kernels";
           EXPECT_EQ(calls("cuModuleLoadData"), modules);
           EXPECT_GT(launches(), 0);
           // A plan of its own finds them on disk.
           const Product again;
           again.plan.prepare({{256, 128, 64}});
           EXPECT_EQ(compiler("fake_nvrtc_compilations"), compiled);

           const Plan& plan = product.plan;
           expect(thrown([&] { plan.prepare({{256, 128, 64}, {-1, 128, 64}}); }), ErrorCode::size_overflow, "negative");
           expect(thrown([&] {
                    plan.prepare({{256, 128, std::int64_t{1} << 40}});
                  }),
                  ErrorCode::size_overflow, "addressed");
           expect(thrown([&] { plan.prepare({{256, 128, 64, 2}}); }), ErrorCode::usage, "a batch of 2");
           expect(thrown([&] { plan.prepare({}, -1); }), ErrorCode::usage, "-1 threads");
           Target target = Target::cuda();
           target.schedule = "pingpong 128x0x4 sub 32x2 aux 0 raster 8";
           const Product illegal(one_launch, target);
           expect(thrown([&] {
                    illegal.plan.prepare({{256, 128, 64}, {512, 128, 64}});
                  }),
                  ErrorCode::bad_schedule, "128x0x4");
         }
         EXPECT_EQ(held(), 0);
       }},
      {"prepares_images",
       [] {
         // What a convolution's kernels depend on is how its inputs lie, of which M, N and K say nothing.
         const auto compiled = [] {
           return reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "fake_nvrtc_compilations"))();
         };
         {
           constexpr std::int64_t n = 2, c = 64, h = 14, w = 14, k = 64;
           const Plan plan = compile(Conv2d{.x = DType::bf16, .w = DType::bf16, .padding = {{{1, 1}, {1, 1}}}},
                                     parse("def f(acc):\n    D: bf16 = acc\n    return D\n"), Target::cuda());
           const Buffer x(0, n * c * h * w * 2), filters(0, k * c * 9 * 2), d(0, n * h * w * k * 2);
           const auto tensor = [](const Buffer& buffer, std::initializer_list<std::int64_t> shape,
                                  std::initializer_list<std::int64_t> strides) {
             return Tensor(reinterpret_cast<void*>(buffer.pointer()), DType::bf16, shape, strides).on(Device::cuda);
           };
           const Tensor last = tensor(x, {n, c, h, w}, {c * h * w, 1, w * c, c}),
                        planes = tensor(x, {n, c, h, w}, {c * h * w, h * w, w, 1}),
                        of = tensor(filters, {k, c, 3, 3}, {c * 9, 1, 3 * c, c}),
                        out = tensor(d, {n, h * w, k}, {h * w * k, k, 1});
           for (const Tensor& image : {last, planes}) {
             const int before = compiled();
             plan.prepare_for({{image, of}});
             const int made = compiled();
             EXPECT_GT(made, before);
             (void)plan.bind({{"X", image}, {"W", of}, {"D", out}});
             EXPECT_EQ(compiled(), made) << "bind finds the kernels";
             plan.prepare_for({plan.inputs_of({{n, c, h, w}, {k, c, 3, 3}}), {image, of}});
             EXPECT_EQ(compiled(), made) << "shapes alone are channels_last";
           }
           expect(thrown([&] { plan.prepare_for({{last}}); }), ErrorCode::usage, "1 shapes are given");
           expect(thrown([&] { plan.prepare_for({{planes, out}}); }), ErrorCode::wrong_rank, "'W' has 4 axes");
         }
         EXPECT_EQ(held(), 0);
       }},
      {"prepares_without_a_device",
       [] {
         const auto plan = [] {
           return compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(one_launch), Target::parse("sm_90a"));
         };
         const auto compiled = [] { return cache_counts().compiled; };
         plan().prepare({{256, 128, 64}});
         const long once = compiled();
         EXPECT_GT(once, 0);
         plan().prepare({{256, 128, 64}});
         EXPECT_EQ(compiled(), once) << "the disk has them";
       }},
      {"compiles_beside",
       [] {
         const auto compiler = [](const char* what) {
           return reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, what))();
         };
         // The first schedule spills, as all of its tile do, and the next is there when that is known.
         const Plan plan =
             compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(one_launch), Target::parse("sm_90a"));
         plan.prepare({{8192, 8192, 8192}});
         EXPECT_EQ(compiler("fake_nvrtc_at_once"), compile_threads() >= 4 ? 2 : 1);
         EXPECT_EQ(compiler("fake_nvrtc_compilations"), compiler("fake_nvrtc_sources"));
         const int compiled = compiler("fake_nvrtc_compilations");
         EXPECT_GT(compiled, 1);
         const std::string text = plan.explain(ExplainPart::schedule, 8192, 8192, 8192);
         EXPECT_NE(text.find("x192x5 sub 32x2 aux 0 raster 12  222288 bytes shared"), text.npos) << text;
         EXPECT_NE(text.find("rejected: it spills 520 bytes"), text.npos) << text;
         EXPECT_EQ(compiler("fake_nvrtc_compilations"), compiled) << "both explain what was decided";
         compile(Gemm{.a = DType::bf16, .b = DType::bf16}, parse(one_launch), Target::parse("sm_90a"))
             .prepare({{8192, 8192, 8192}});
         EXPECT_EQ(compiler("fake_nvrtc_compilations"), compiled) << "the disk has them";
       }},
      {"prepares_with_errors",
       [] {
         const Product product;
         expect(thrown([&] {
                  product.plan.prepare({{256, 128, 64}, {512, 512, 512}});
                }),
                ErrorCode::compile_failed, "libnvrtc-builtins");
       }},
      {"destroyed_at_exit",
       [] {
         static const Product product;
         static Call call;
         static const Plan kept = product.plan;
         call = product.plan.bind(product.bindings);
       }},
  };
  return all;
}

TEST(FaultCase, Runs) {
  const char* name = std::getenv("POSTLUDE_FAULT_CASE");
  if (!name) GTEST_SKIP() << "tests of Faults run this in processes of their own";
  for (const char* library : {std::getenv("POSTLUDE_FAULT_DRIVER"), std::getenv("POSTLUDE_FAULT_COMPILER")}) {
    // The backend finds it again by its soname.
    if (library) { ASSERT_NE(dlopen(library, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror(); }
  }
  cases().at(name)();
}

// ---- and what starts it -------------------------------------------------------------------------

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "postlude-faults-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Two that should meet have long enough on a busy machine too.
  void compiles_beside(const char* threads, const char* milliseconds) {
    run("compiles_beside", {{"FAKE_NVRTC_SPILLS", "#define BN 192"},
                            {"FAKE_NVRTC_MILLISECONDS", milliseconds},
                            {"OMP_NUM_THREADS", "1"},
                            {"POSTLUDE_COMPILE_THREADS", threads},
                            {"POSTLUDE_FAULT_COMPILER", (fs::path(POSTLUDE_FAKES) / "fake_nvrtc.so").string()}});
  }

  // `environment`: what is set beside the usual; an empty value unsets.
  void run(const std::string& name, std::map<std::string, std::string> environment = {},
           const char* driver = "fake_cuda") {
    const fs::path fakes = POSTLUDE_FAKES;
    environment.insert({"POSTLUDE_CACHE_DIR", folder_.string()});
    environment.insert({"POSTLUDE_NVRTC", (fakes / "fake_nvrtc.so").string()});
    environment.insert({"POSTLUDE_FAULT_DRIVER", (fakes / (std::string(driver) + ".so")).string()});
    environment["POSTLUDE_FAULT_CASE"] = name;
    int output[2];
    ASSERT_EQ(::pipe(output), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::dup2(output[1], 1);
      ::dup2(output[1], 2);
      ::close(output[0]);
      for (const auto& [key, value] : environment)
        value.empty() ? ::unsetenv(key.c_str()) : ::setenv(key.c_str(), value.c_str(), 1);
      ::execl("/proc/self/exe", "test_cuda", "--gtest_filter=FaultCase.Runs", "--gtest_brief=1",
              static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(output[1]);
    char buffer[4096];
    for (ssize_t got; (got = ::read(output[0], buffer, sizeof buffer)) > 0;)
      said_.append(buffer, static_cast<std::size_t>(got));
    ::close(output[0]);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << name << ":\n" << said_;
  }
  std::size_t warnings() const {
    std::size_t count = 0;
    for (std::size_t at = said_.find("kernels are not kept"); at != std::string::npos;
         at = said_.find("kernels are not kept", at + 1))
      ++count;
    return count;
  }

  fs::path folder_;
  std::string said_;
};

TEST_F(Faults, NoneIsNoError) {
  run("works");
  EXPECT_EQ(warnings(), 0u) << said_;
}
TEST_F(Faults, NoDevice) { run("no_device", {{"FAKE_CUDA_FAIL", "cuInit:0:100"}}); }
TEST_F(Faults, DriverTooOld) { run("too_old", {{"FAKE_CUDA_VERSION", "11080"}}); }
TEST_F(Faults, DriverLacksASymbol) { run("lacks_a_symbol", {}, "fake_cuda_without_tensor_maps"); }
TEST_F(Faults, NoCompiler) { run("no_compiler", {{"POSTLUDE_NVRTC", "/nowhere/libnvrtc.so.13"}}); }
TEST_F(Faults, CompilerWithoutBuiltins) { run("no_builtins", {{"FAKE_NVRTC_FAIL", "1"}}); }

TEST_F(Faults, OutOfMemoryInAnyBuffer) {
  for (int call = 1; call <= 7; ++call) {  // five tensors or six, then the workspace
    run("memory", {{"FAKE_CUDA_FAIL", "cuMemAlloc_v2:" + std::to_string(call) + ":2"}});
  }
}
TEST_F(Faults, OutOfMemoryInAModule) { run("module_memory", {{"FAKE_CUDA_FAIL", "cuModuleLoadData:1:2"}}); }
TEST_F(Faults, ModuleThatTheDriverRefuses) { run("bad_image", {{"FAKE_CUDA_FAIL", "cuModuleLoadData:1:200"}}); }
TEST_F(Faults, MissingKernel) { run("function", {{"FAKE_CUDA_FAIL", "cuModuleGetFunction:1:500"}}); }
TEST_F(Faults, SharedMemoryRefused) { run("shared_memory", {{"FAKE_CUDA_FAIL", "cuFuncSetAttribute:1:1"}}); }
TEST_F(Faults, TensorMapRefused) { run("tensor_map", {{"FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled:1:1"}}); }
TEST_F(Faults, LaunchFails) { run("launch", {{"FAKE_CUDA_FAIL", "cuLaunchKernel:1:700"}}); }
TEST_F(Faults, LaunchThatFollowsOrWaitsFails) { run("launches", {{"FAKE_CUDA_FAIL", "cuLaunchKernelEx:1:700"}}); }

TEST_F(Faults, NoCacheFolderCostsOneWarning) {
  run("no_cache_folder", {{"POSTLUDE_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", ""}});
  EXPECT_EQ(warnings(), 1u) << said_;
}
TEST_F(Faults, ACacheThatCannotBeWrittenCostsOneWarning) {
  run("no_cache_folder", {{"POSTLUDE_CACHE_DIR", "/proc/postlude"}});
  EXPECT_EQ(warnings(), 1u) << said_;
}
TEST_F(Faults, HomeThatIsNoFolderCostsOneWarning) {
  run("no_cache_folder", {{"POSTLUDE_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", "/dev/null"}});
  EXPECT_EQ(warnings(), 1u) << said_;
}

TEST_F(Faults, SmallPhasesInPlaceKeepTheirOrder) { run("small_phases_in_place"); }
TEST_F(Faults, IllegalScheduleIsAnError) { run("illegal_schedule"); }
TEST_F(Faults, BindingAtEveryStepWaitsSeldom) { run("rebinds"); }
TEST_F(Faults, BindingOnAStreamWaitsForNothing) { run("rebinds_on_a_stream"); }
TEST_F(Faults, WorkspacesHaveTheSizeThatIsAskedFor) { run("lends"); }
TEST_F(Faults, WorkspacesThatAreLeftMakeRoom) { run("lends_again", {{"FAKE_CUDA_FAIL", "cuMemAlloc_v2:2:2"}}); }
TEST_F(Faults, GraphsKeepTheirWorkspaces) { run("graphs"); }
TEST_F(Faults, CountersAreClearedByARunThatTakesPlace) { run("captured"); }
TEST_F(Faults, PreparingTakesNoMemoryAndBindFindsIt) {
  run("prepares", {{"FAKE_NVRTC_MILLISECONDS", "100"},
                   {"OMP_THREAD_LIMIT", "8"},
                   {"POSTLUDE_FAULT_COMPILER", (fs::path(POSTLUDE_FAKES) / "fake_nvrtc.so").string()}});
}
TEST_F(Faults, ImagesArePreparedAsTheyLie) {
  run("prepares_images", {{"POSTLUDE_FAULT_COMPILER", (fs::path(POSTLUDE_FAKES) / "fake_nvrtc.so").string()}});
}
TEST_F(Faults, PreparingNeedsNoDevice) { run("prepares_without_a_device", {{"FAKE_CUDA_FAIL", "cuInit:0:100"}}); }
TEST_F(Faults, WhatMayBeNextIsCompiledBeside) { compiles_beside("4", "10000"); }
TEST_F(Faults, OneThreadCompilesOneAfterAnother) { compiles_beside("1", "200"); }
TEST_F(Faults, PreparingTellsWhatTheCompilerSays) { run("prepares_with_errors", {{"FAKE_NVRTC_FAIL", "1"}}); }
TEST_F(Faults, Forked) { run("forked"); }
TEST_F(Faults, ManyThreads) { run("threads"); }
TEST_F(Faults, DestroyedAtExit) { run("destroyed_at_exit"); }

}  // namespace
}  // namespace postlude::inline v0::cuda
