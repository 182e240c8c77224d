#include "gpu/device_run.h"

#include "cuda/backend.h"
#include "cuda/choose/schedule.h"
#include "cuda/run/driver.h"
#include "fuzz/choices.h"
#include "fuzz/grammar.h"
#include "graph/ir/verify.h"
#include "lower/lower.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

namespace postlude::gpu_tests {
namespace {

constexpr std::size_t zone = 1024;  // bytes on either side of a tensor
constexpr int most_draws = 48;
constexpr int rasters[] = {1, 1, 2, 3, 5, 8, 16};

// What a schedule is drawn for. One form has several draws, as some forms are seldom legal.
enum class Form : std::uint8_t { portable, whole, clusters, meets, parts, in_memory, again, parks, shifted, count };
constexpr int draws_of_form = 8;
static_assert(most_draws / 2 % draws_of_form == 0, "turned ones are followed by a new form");

constexpr const char* by_groups = "by groups ";  // each a problem of its own

// What a refusal tells of the case: a schedule that is legal there, if there is one.
using Known = std::optional<cuda::Schedule>;
Known known(const std::string& hint) {
  const std::size_t at = hint.find("such as \"");
  if (at == hint.npos) return {};
  const std::size_t begin = hint.find('"', at) + 1;
  std::string text = hint.substr(begin, hint.find('"', begin) - begin);
  for (const std::string_view before : {"turned ", by_groups})
    if (text.starts_with(before)) text.erase(0, before.size());
  return cuda::parse_schedule(text);
}

cuda::Schedule draw_portable(fuzz::Choices& pick, bool with_operands) {
  cuda::Schedule s;
  s.mma = true;
  s.bm = 64 << pick.below(3);
  s.bn = 64 << pick.below(3);
  s.stages = static_cast<int>(2 + pick.below(4));
  s.sub_n = pick.chance(50) ? 32 : 64;
  s.d_buffers = 1;
  s.aux_stages = with_operands ? static_cast<int>(1 + pick.below(3)) : 0;
  s.raster = pick.pick(rasters);
  return s;
}

// A tile. `turned`: of a product whose tiles have columns in steps of eight.
cuda::Schedule draw_tile(fuzz::Choices& pick, bool with_operands, bool turned) {
  cuda::Schedule s;
  s.ping_pong = pick.chance(60);
  s.abreast = !s.ping_pong && pick.chance(40);
  s.bm = s.abreast || (s.ping_pong && pick.chance(30)) ? 64 * static_cast<int>(1 + pick.below(3))
                                                       : (s.ping_pong ? 64 : 128) << pick.below(2);
  s.bn = (s.abreast ? 64 : 32) * static_cast<int>(1 + pick.below(s.abreast ? 6 : 8));
  s.stages = static_cast<int>(2 + pick.below(6));
  s.sub_n = pick.chance(50) ? 32 : 64;
  if (turned && pick.chance(50)) {
    s.bn -= 16 * static_cast<int>(s.bn > 32 && pick.chance(50));
    s.sub_n = s.bn % 48 == 0 && pick.chance(70) ? 48 : 16;
    if (pick.chance(40)) s.bn += s.abreast ? 16 : 8, s.sub_n = 16;
  }
  s.d_buffers = static_cast<int>(2 + pick.below(3));
  s.aux_stages = with_operands ? static_cast<int>(1 + pick.below(4)) : 0;
  return s;
}

cuda::Schedule draw_schedule(fuzz::Choices& pick, Form form, const Known& legal, bool turned = false) {
  const bool with_operands = legal && legal->aux_stages > 0;
  if (form == Form::portable && !turned) return draw_portable(pick, with_operands);
  cuda::Schedule s = draw_tile(pick, with_operands, turned);
  if (legal && !legal->mma && pick.chance(30)) {
    s.ping_pong = legal->ping_pong, s.abreast = legal->abreast, s.bm = legal->bm, s.bn = legal->bn;
    s.sub_n = legal->sub_n, s.stages = std::min(s.stages, legal->stages);
  }
  s.raster = pick.pick(rasters);
  s.looped = pick.chance(25);
  if (form == Form::clusters || ((form == Form::in_memory || form == Form::again) && pick.chance(25))) {
    (pick.chance(50) ? s.cluster_m : s.cluster_n) = 2;
    s.raster *= s.cluster_m;
  }
  if (form == Form::meets) s.meets = true, s.cluster_n = static_cast<int>(2 + pick.below(4));
  if (form == Form::parts) s.split = 2 << pick.below(2);
  if (form == Form::in_memory || (form == Form::shifted && pick.chance(30))) {
    s.split = static_cast<int>(2 + pick.below(pick.chance(50) ? 2 : 8)), s.by_memory = true;
    s.in_shares = pick.chance(35), s.at_end = pick.chance(35);
  }
  s.again = form == Form::again;
  if (form == Form::parks) s.parks = s.ping_pong = true, s.abreast = false, s.raster = 1 + s.raster / 8;
  if (form == Form::shifted && !turned) {
    s.shifted = true, s.ping_pong = pick.chance(60), s.abreast = false;
    s.bm = s.ping_pong ? 64 : 128 << pick.below(2);
    s.bn = 64 * static_cast<int>(1 + pick.below(s.ping_pong ? 2 : 3));
    s.shifted_a = s.ping_pong && pick.chance(50);
  } else {
    s.shifted_a = pick.chance(10);
  }
  return s;
}

// Of a depthwise convolution: by lanes, by bands with and without a ring, straight from memory, by whole images.
enum class Stencil : std::uint8_t { lanes, bands, direct, images, count };

cuda::Schedule draw_stencil(fuzz::Choices& pick, Stencil form, bool with_operands, const fuzz::Convolution& conv) {
  const auto pixels = [&](std::size_t from_last) {
    if (conv.axes.size() <= from_last) return 1;
    const fuzz::Convolution::Along& along = conv.axes[conv.axes.size() - 1 - from_last];
    return static_cast<int>(conv.direction == fuzz::Convolution::Direction::forward ? along.pixels() : along.image);
  };
  cuda::Schedule s;
  s.mma = true, s.stages = 2, s.raster = 1, s.d_buffers = 1;
  s.bm = 64 << pick.below(3), s.bn = 32, s.sub_n = pick.chance(50) ? 32 : 16;
  s.aux_stages = with_operands ? static_cast<int>(1 + pick.below(3)) : 0;
  s.strip_x = static_cast<int>(1 + pick.below(14)), s.strip_y = static_cast<int>(1 + pick.below(8));
  switch (form) {
    case Stencil::lanes: s.bn = 32 << pick.below(3); return s;
    case Stencil::bands:
      s.strip_x = 8, s.strip_y = static_cast<int>(1 + pick.below(4)), s.images = static_cast<int>(1 + pick.below(3));
      s.ring = pick.chance(70) ? static_cast<int>(1 + pick.below(24)) : 0;
      s.beside = s.ring > 0 && pick.chance(40);
      return s;
    case Stencil::direct:
      s.bn = static_cast<int>(16 * (2 + pick.below(5))), s.strips = 1 << pick.below(4);
      if (pick.chance(60)) s.strip_x = static_cast<int>(1 + pick.below(4)), s.strip_y = s.strip_x;
      return cuda::direct(s);
    case Stencil::images:
    case Stencil::count: break;
  }
  s.bn = pick.chance(50) ? 16 : 32, s.strip_x = pixels(0), s.strip_y = (pixels(1) + 1) / 2, s.images = 8;
  s.strips = 8 * (pixels(1) > s.strip_y ? 2 : 1);
  return cuda::direct(s);
}

}  // namespace

Call bind_case(const fuzz::Case& c, const std::vector<Binding>& named, std::uint64_t schedule_seed, bool& drawn,
               Target* by) {
  const Graph graph(std::make_shared<const GraphData>(c.graph));
  Target target = Target::cuda();
  fuzz::Choices pick(schedule_seed);
  Known legal;
  fuzz::Choices turns(~schedule_seed);
  const int turned = turns.chance(25) ? most_draws / 2 : 0;  // draws, if the case can be
  bool grouped =
      fuzz::Choices(fuzz::mix(schedule_seed)).chance(50) &&
      std::ranges::any_of(c.graph.nodes, [](const Node& node) { return node.op == Op::reduce && node.group; });
  const bool depthwise = c.conv && c.conv->groups > 1 && c.conv->channels == 1 && c.conv->filters == 1;
  bool by_stencil = false;
  Form form{};
  Stencil stencil{};
  for (int i = 0; schedule_seed && i < most_draws + turned; ++i) {
    const bool is_turned = i < turned;
    fuzz::Choices& from = is_turned ? turns : pick;
    if (i % draws_of_form == 0) {
      // The portable one, which is mostly legal, only if it is drawn first.
      const std::int64_t forms = static_cast<std::int64_t>(Form::count), last = i % (most_draws / 2) ? 1 : 0;
      form = static_cast<Form>(last + from.below(forms - last));
      stencil = static_cast<Stencil>(from.below(static_cast<std::int64_t>(Stencil::count)));
      by_stencil = depthwise && !is_turned && from.chance(75);
    }
    target.schedule = std::string(is_turned ? "turned "
                                  : grouped ? by_groups
                                            : "") +
                      cuda::to_string(by_stencil ? draw_stencil(from, stencil, legal && legal->aux_stages, *c.conv)
                                                 : draw_schedule(from, form, legal, is_turned));
    try {
      Call call = compile(c.problem, graph, target).bind(named);
      drawn = call.describe().find(target.schedule) != std::string::npos;
      if (by != nullptr) *by = target;
      return call;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_schedule) throw;
      grouped = grouped && error.message().find("groups are no problems") == std::string::npos;
      legal = known(error.hint());
    }
  }
  if (by != nullptr) *by = Target::cuda();
  return compile(c.problem, graph, Target::cuda()).bind(named);
}

namespace {

// Which outputs the reference knows to the bit, NaN aside, whose bits are many.
std::vector<bool> exact_outputs(const reference::Evaluation& expected) {
  std::vector<bool> exact;
  for (const reference::Output& o : expected) {
    exact.push_back(std::all_of(o.cells.begin(), o.cells.end(), [&](const reference::Cell& x) {
      return is_float(o.dtype) ? is_point(x.real) && !is_nan(x.real) : is_point(x.whole);
    }));
  }
  return exact;
}

}  // namespace

std::string missing() {
  const std::optional<Error> why = cuda::unusable();
  return why ? why->message() : std::string();
}

DeviceRuns run_on_device(const fuzz::Case& c, fuzz::Tensors& tensors, std::uint64_t schedule_seed,
                         const Steps& begins) {
  const cuda::CurrentDevice current(0);
  const cuda::Driver& d = cuda::driver();
  std::vector<cuda::Buffer> memory;
  std::vector<Binding> named = tensors.named();
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& host = tensors.memory[i];
    memory.emplace_back(0, host.size() + 2 * zone);
    const std::size_t offset = static_cast<std::size_t>(static_cast<std::uint8_t*>(named[i].tensor.data) - host.data());
    named[i].tensor.data = reinterpret_cast<void*>(memory[i].pointer() + zone + offset);
    named[i].tensor.device = Device::cuda;
  }
  DeviceRuns runs;
  begins("compiled");
  Call call = bind_case(c, named, schedule_seed, runs.drawn);
  runs.schedule = call.describe();
  begins("run");
  for (auto* copy : {&runs.first, &runs.second}) {
    tensors.poison_outputs();
    for (std::size_t i = 0; i < named.size(); ++i) {
      cuda::check(d.MemsetD8(memory[i].pointer(), fuzz::poison, memory[i].bytes()), "poisoning");
      if (tensors.memory[i].size())
        cuda::check(d.MemcpyHtoD(memory[i].pointer() + zone, tensors.memory[i].data(), tensors.memory[i].size()),
                    "copying in");
    }
    call.run();
    cuda::check(d.CtxSynchronize(), "running a case");
    for (std::size_t i = 0; i < named.size(); ++i) {
      std::vector<std::uint8_t> whole(memory[i].bytes());
      cuda::check(d.MemcpyDtoH(whole.data(), memory[i].pointer(), whole.size()), "copying out");
      for (std::size_t at = 0; at < whole.size(); ++at) {
        if (at == zone) at += tensors.memory[i].size();
        if (at < whole.size() && whole[at] != fuzz::poison)
          throw std::runtime_error("the red zone around " + std::string(named[i].name) + " was written");
      }
      if (tensors.all[i].output) std::memcpy(tensors.memory[i].data(), whole.data() + zone, tensors.memory[i].size());
    }
    *copy = tensors.copy_outputs();
  }
  return runs;
}

ErrorModel error_model(const fuzz::Case& c, const std::string& described) {
  lower::Options options;
  options.halves = cuda::halves;
  const auto program = std::make_shared<const lower::Program>(lower::lower(c.graph, facts_of(c.problem), options));
  Target target = Target::parse("sm_90a");
  if (described.starts_with("mma") || described.starts_with("accumulator by mma")) target.schedule = "mma";
  return cuda::compile(c.problem, program, target)->error_model({c.shape});
}

// Channels last and of whole 16 bytes for the most part, so that the copy engine may walk the pixels.
static fuzz::Case convolution_on_tensor_cores(fuzz::Case c, DType type, bool walked) {
  fuzz::Convolution conv = *c.conv;
  if (!is_float(conv.first)) return c;
  conv.first = conv.second = type;
  if (walked) {
    c.layout = 0;
    if (conv.groups == 1) {
      conv.channels = (conv.channels + 7) / 8 * 8;
      conv.filters = (conv.filters + 7) / 8 * 8;
    } else if (conv.channels == 1 && conv.filters == 1) {
      conv.groups = (conv.groups + 7) / 8 * 8;
    }
  }
  fuzz::set_convolution(c, conv);
  return c;
}

fuzz::Case on_tensor_cores(fuzz::Case c) {
  if (c.conv) {
    const std::uint64_t choice = fuzz::mix(c.seed ^ 0x7e57);
    return convolution_on_tensor_cores(std::move(c), choice % 3 ? DType::bf16 : DType::f16, choice % 4 != 0);
  }
  const auto* gemm = c.problem.get_if<Gemm>();
  if (!gemm || !is_float(gemm->a)) return c;
  const std::uint64_t choice = fuzz::mix(c.seed ^ 0x7e57);
  const DType type = choice % 3 ? DType::bf16 : DType::f16;
  c.problem = c.problem.loop().over({{type, type}}, gemm->batched);
  if (choice % 2) c.layout = 0;  // contiguous, so that the copy engine may reach it
  return c;
}

// Whether consumers fold something over M, which goes through shared memory.
static bool folds_rows(const fuzz::Case& c) {
  return std::any_of(c.graph.nodes.begin(), c.graph.nodes.end(), [](const Node& node) {
    return node.op == Op::reduce && node.group == 0 && node.axes.has(Axis::m) && !node.axes.has(Axis::b);
  });
}

// Whether it is losses alone, several of all elements: with no tile to store, warps that are ahead of others wait for
// none.
static bool is_losses(const fuzz::Case& c) {
  const auto values = verify(c.graph, accumulator_type(c.problem), default_operand_type(c.problem)).values;
  const auto of_all = [](const Node& node) { return node.op == Op::reduce && (node.axes & tile_axes) == tile_axes; };
  return std::count_if(c.graph.nodes.begin(), c.graph.nodes.end(), of_all) > 1 &&
         std::none_of(c.graph.outputs.begin(), c.graph.outputs.end(), [&](const OutputDecl& o) {
           return (values[static_cast<std::size_t>(o.value)].axes & tile_axes) == tile_axes;
         });
}

fuzz::Case with_many_tiles(std::uint64_t seed, int multiprocessors, bool losses) {
  constexpr std::int64_t elements = 24576;  // of a multiprocessor: one and a half of the larger tiles, six of 64 x 64
  fuzz::Choices pick(fuzz::mix(seed ^ 0x711e5));
  fuzz::Case c;
  const auto wanted = pick.chance(50) || losses ? is_losses : folds_rows;
  for (int tries = 0; tries == 0 || (tries < 200 && !wanted(c)); ++tries)
    c = on_tensor_cores(fuzz::generate(pick.next(), {.most_nodes = 16, .streams = false, .reductions = 40}));
  c.seed = seed;
  Shape& s = c.shape;
  s.batch = std::max<std::int64_t>(s.batch, 1);
  const auto side = static_cast<std::int64_t>(std::sqrt(double(elements) * multiprocessors / double(s.batch)));
  s.m = side / 2 + pick.below(side);
  s.n = (side * side / s.m + 7) / 8 * 8 + (pick.chance(25) ? pick.below(8) : 0);
  s.k = 8 * (1 + pick.below(24));
  for (int tries = 0; tries < 400 && !fuzz::divisible(c); ++tries) ++s.n;
  return c;
}

fuzz::Case draw(std::uint64_t seed) {
  if (seed % 32 == 7) return with_many_tiles(seed, cuda::device(0).multiprocessors);
  fuzz::GrammarOptions options;
  options.most_elements = seed % 4 == 1 ? 120000 : 8192;
  if (seed % 8 == 5) options.convolutions = 100;
  fuzz::Case c = fuzz::generate(seed, options);
  if (seed % 4 == 0) return c;
  c = on_tensor_cores(c);
  if (seed % 4 == 2) {  // extents that the copy engine can address
    c.shape.n = (c.shape.n + 15) / 16 * 16;
    c.shape.k = (c.shape.k + 7) / 8 * 8;
  }
  return c;
}

Verdict check_on_device(const fuzz::Case& c, const Steps& begins) {
  Verdict verdict;
  try {
    fuzz::Tensors tensors = fuzz::materialise(c);
    const DeviceRuns runs = run_on_device(c, tensors, fuzz::mix(c.seed ^ 0x5c4ed) | 1, begins);
    begins("in the reference");
    const reference::Evaluation expected =
        reference::evaluate(c.graph, c.problem, tensors.bindings, {.accumulator = error_model(c, runs.schedule)});
    verdict.schedule = runs.schedule;
    verdict.drawn = runs.drawn;
    const auto wrong = [&](std::string what) {
      verdict.wrong = std::move(what);
      return verdict;
    };
    if (std::string damage = tensors.damage(); !damage.empty()) return wrong(damage);
    if (std::string difference = fuzz::compare(expected, c, tensors, "GPU"); !difference.empty())
      return wrong(difference);
    if (runs.first != runs.second) return wrong("the second run gives other bits");
    const std::vector<bool> exact = exact_outputs(expected);
    if (c.values != fuzz::Values::integers || std::find(exact.begin(), exact.end(), true) == exact.end())
      return verdict;
    const auto same = [&](const fuzz::Runs& other) {
      for (std::size_t i = 0; i < exact.size(); ++i) {
        if (exact[i] && other.first[i] != runs.first[i]) return false;
      }
      return true;
    };
    if (runs.drawn && !same(run_on_device(c, tensors, 0, begins)))
      return wrong("the heuristic's schedule gives other bits");
    begins("on the CPU");
    if (!same(fuzz::run_plan(c, tensors, Target::cpu(1)))) return wrong("the CPU gives other bits");
  } catch (const std::exception& e) { verdict.wrong = std::string("throws ") + e.what(); }
  return verdict;
}

}  // namespace postlude::gpu_tests
