#include "cuda/decide/product.h"

#include "core/divide.h"
#include "cuda/choose/cost.h"
#include "cuda/choose/spills.h"
#include "cuda/emit/code.h"
#include "cuda/emit/fragment.h"

#include <postlude/error.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace postlude::inline v0::cuda {
namespace {

// Whether an epilogue is done long before the other consumer's main loop is. What is held has a second phase.
bool hides(const EpilogueNeeds& needs, std::int64_t k) {
  return k >= (needs.holds || needs.in_groups() ? 96 : 48) * std::int64_t{needs.operations};
}

// Whether the epilogue's fragments are computed one after another. Left alone, the compiler begins all elements of a
// subtile, runs out of registers, and then computes one after another, each waiting for itself. Where nothing hides an
// epilogue, only a long one gains; beside 192 accumulators a long one is in the products' way (decision 0019).
bool apart(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  if (schedule.mma) return is_long(needs);
  if (!is_long(needs)) return schedule.ping_pong && hides(needs, k);
  return !hides(needs, k) || (schedule.ping_pong && schedule.bm * schedule.bn <= 128 * 128);
}

// Whether they also wait for one another, for three quarters of the main loop that hides them: an epilogue that
// computes or moves much and is done early is in the products' way (decision 0020).
bool paced(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  const int work = needs.operations + 4 * (needs.aux_bytes_column + needs.d_bytes_column);
  return schedule.ping_pong && !schedule.mma && !needs.holds && !needs.in_groups() && work >= 30 && k >= 3072 &&
         hides(needs, k) && apart(needs, schedule, k);
}

// Whether K has so few bytes that what comes behind it is much of the time; what was not measured has not.
bool is_short(const EpilogueNeeds& needs, std::int64_t k, std::int64_t bytes) {
  return k * needs.element_bytes <= bytes && !needs.windows && !needs.counts_pixels && !needs.promoted && !needs.turned;
}

int accumulators(const Schedule& schedule) {  // a thread's
  return consumer_rows(schedule) * consumer_columns(schedule) / 128;
}

constexpr int few_accumulators = 128;

// How many bytes a thread may spill, once a tile: a main loop of so many blocks of K makes little of them (decision
// 0237).
int bytes_to_spill(const Schedule& s, const EpilogueNeeds& needs, std::int64_t k) {
  constexpr std::int64_t a_block = 4, most = 1024;
  if (s.mma || needs.promoted) return 0;  // in the main loop
  return static_cast<int>(std::min(most, a_block * ceil_div(k * needs.element_bytes, 128) / s.split));
}

// Whether a long main loop hides that a loop over subtiles is slower. In 16 columns there are many rounds, which only a
// consumer that multiplies meanwhile hides.
bool hides_rounds(const Schedule& schedule) { return schedule.ping_pong || schedule.sub_n >= 32; }

// Whether the code of what is short or held stands once beside many accumulators, where a long main loop hides that a
// loop is slower: in subtiles of 32, of which there are few, or behind a longer one also of 16, of 64 and in groups;
// with tile operands behind a still longer one. It has to make little of what spills then (decisions 0292, 0294 and
// 0308).
bool loops_beside_many(const FusedEpilogue& epilogue, const Schedule& schedule, std::int64_t k) {
  constexpr int least_instructions = 8, usual = 32;
  constexpr std::int64_t hides_loops = 3072, hides_more = 5120, hides_operands = 7168;
  const EpilogueNeeds& needs = epilogue.needs;
  const FusedEpilogue::Pressure& first = epilogue.pressure[0];
  const int may = bytes_to_spill(schedule, needs, k);
  const bool narrow = schedule.sub_n <= usual, operands = needs.aux_bytes_column != 0;
  if (needs.in_groups()) return k >= hides_more && may >= 128;
  if (needs.holds) return narrow ? k >= hides_loops : k >= hides_more && !operands;
  if (!hides_rounds(schedule)) return false;
  if (!narrow) {
    const bool keeps = operands || first.by_threads || first.ahead || first.rows || first.draws;
    return needs.reduces && !keeps && k >= hides_more && may >= 480;
  }
  if (needs.reduces && schedule.sub_n < usual) return k >= hides_more;  // of so few columns little is kept
  const bool little = needs.operations < least_instructions;
  if (operands) {
    const bool spills = foretold_bytes(epilogue, schedule, {.once = true, .apart = apart(needs, schedule, k)}) != 0;
    if (first.row_states && (spills || little)) return false;  // 1.01 of the time behind any K
    return k >= hides_operands && may >= (spills ? 352 : 128);
  }
  if (!little && schedule.sub_n == usual) return k >= hides_loops;
  return needs.reduces && k >= hides_more && may >= 160;
}

// Whether what reduces and is nearly long (looped()) stands once beside no more accumulators (decision 0308).
bool loops_beside_few(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  constexpr int least_instructions = 17, least_accumulators = 96;
  constexpr std::int64_t hides = 4096;
  return needs.reduces && !needs.holds && needs.operations >= least_instructions &&
         accumulators(schedule) >= least_accumulators && k >= hides && hides_rounds(schedule);
}

// Whether code that stands once for each element would be longer than the 32 KB that instructions come from at full
// speed, and a loop over wide subtiles would not, where no long main loop hides it, sooner what reduces (decisions 0306
// and 0293).
bool fits_in_a_loop(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  constexpr int least_instructions = 9, wide = 64;
  const std::int64_t hides = needs.reduces ? 1024 : 2048;                     // bytes
  if (needs.aux_bytes_column && needs.parts * needs.below > 1) return false;  // a gate's code is half as long
  return !needs.holds && needs.operations >= least_instructions && schedule.sub_n == wide &&
         accumulators(schedule) == few_accumulators && is_short(needs, k, hides);
}

// Likewise of groups that a subtile has whole, so that accumulators move on once. Behind the shortest K the moves take
// longer (decision 0287).
bool fits_groups_in_a_loop(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  constexpr int least_instructions = 40;
  constexpr std::int64_t shows_moves = 384;
  return k >= shows_moves && needs.group && needs.group <= schedule.sub_n && !needs.aux_bytes_column &&
         needs.operations >= least_instructions && accumulators(schedule) == few_accumulators;
}

// Whether its code stands once for the fragments of a subtile, in a loop over subtiles (decision 0110): from so many
// instructions on less code is faster too. What is held for its rows compiles in three quarters of the time, and takes
// 1 % longer (decision 0116). Beside many accumulators there are seconds of code otherwise. Random numbers beside 192
// would spill less, but another tile is faster (decision 0292), except with tile operands behind a long main loop
// (decision 0305).
bool looped(const FusedEpilogue& epilogue, const Schedule& schedule, std::int64_t k) {
  constexpr int least_instructions = 23, least_held = 30, most_drawn = 176, usual = 32;
  constexpr std::int64_t hides_draws = 4096;
  const EpilogueNeeds& needs = epilogue.needs;
  if (schedule.looped || schedule.mma) return schedule.looped;
  const bool many = accumulators(schedule) > few_accumulators;
  if (needs.in_groups())
    return many ? loops_beside_many(epilogue, schedule, k) : fits_groups_in_a_loop(needs, schedule, k);
  const bool draws = epilogue.pressure[0].draws && accumulators(schedule) > most_drawn &&
                     (needs.aux_bytes_column == 0 || k < hides_draws);
  const bool enough = needs.operations >= (needs.holds ? least_held : least_instructions);
  if (!many) return enough || fits_in_a_loop(needs, schedule, k) || loops_beside_few(needs, schedule, k);
  if (enough && needs.holds) return true;
  return enough && schedule.sub_n <= usual ? !draws : loops_beside_many(epilogue, schedule, k);
}

// How many groups of columns a round of that loop has: of one that is for 64 rows so many that less is moved on, if the
// code stays short (decision 0293).
int groups_at_once(const EpilogueNeeds& needs, const Schedule& schedule, std::int64_t k) {
  constexpr int most_instructions = 30;
  const bool half = consumer_rows(schedule) == 64 && consumer_columns(schedule) / needs.parts == 4 * schedule.sub_n;
  return half && !needs.in_groups() && needs.operations < most_instructions && fits_in_a_loop(needs, schedule, k) ? 2
                                                                                                                  : 1;
}

bool divides_columns(const Schedule& schedule, const EpilogueNeeds& needs, std::int64_t columns) {
  return columns % (schedule.bn / needs.parts) == 0 && cut_columns(schedule) == 0;
}

// The source of a site's product by one schedule.
std::string source_of(KernelVariant variant, const Shape& shape, std::int64_t columns, const FusedEpilogue& epilogue,
                      const Schedule& schedule, int multiprocessors) {
  if (schedule.mma) variant.promoted = 0;
  variant.a_rows = a_rows(schedule, epilogue.needs);
  variant.whole_m = shape.m % (schedule.bm / epilogue.needs.below) == 0 && !variant.scattered && !schedule.strip_x;
  variant.whole_n = divides_columns(schedule, epilogue.needs, columns);
  variant.even_n = columns % 2 == 0;
  variant.lone_columns = !variant.scattered && lone_columns(schedule, epilogue.needs, shape.m);
  variant.lone_rows = lone_rows(schedule, epilogue.needs, columns);
  variant.tags =
      !variant.scattered && folds_tagged(schedule, epilogue.needs, shape.batch, shape.m, columns, multiprocessors);
  variant.rolled = is_rolled(epilogue.needs) ? 2 : looped(epilogue, schedule, shape.k) ? 1 : 0;
  if (variant.rolled == 1) variant.at_once = groups_at_once(epilogue.needs, schedule, shape.k);
  variant.apart = !variant.rolled && apart(epilogue.needs, schedule, shape.k);
  variant.paced = paced(epilogue.needs, schedule, shape.k);
  return gemm_source(variant, schedule, epilogue);
}

// Why there is no schedule for these needs.
std::string nothing_fits(EpilogueNeeds needs, bool mma) {
  const int group = std::exchange(needs.group, 0), rows = std::exchange(needs.row_group, 0);
  return (group || rows) && !candidates(needs, mma).empty()
             ? "no tile holds groups of " + (group ? std::to_string(group) + " columns" : "") +
                   (group && rows ? " and " : "") + (rows ? std::to_string(rows) + " rows" : "")
             : "no tile fits in shared memory with the operands and outputs of this epilogue";
}

constexpr std::int64_t most_units = 1 << 20;  // parts of tiles

// The schedules to try, best first, or the one that was asked for, and the epilogue that all of them run.
struct Choice {
  FusedEpilogue epilogue;
  std::vector<Schedule> order;
};

Extents extents(const Site& site) { return {site.shape.batch, site.shape.m, site.columns, site.shape.k}; }

// Why a schedule is not legal at this site; empty: it is.
std::string not_here(const Schedule& s, const EpilogueNeeds& needs, const Site& site) {
  if (std::string why = illegal(s, needs); !why.empty()) return why;
  const std::int64_t k_blocks = ceil_div(site.shape.k * needs.element_bytes, k_bytes(s));
  if (k_blocks < s.split) return std::to_string(s.split) + " blocks cannot share a K of " + std::to_string(k_blocks);
  const Tiles tiles = tiles_of(s, needs, site.shape.batch, site.shape.m, site.columns);
  if (s.meets && tiles.beside != s.cluster_n)
    return "a cluster that meets has all tiles of its rows, which are " + std::to_string(tiles.beside);
  if (s.again && tiles.beside == 1) return "a tile has all columns of its rows, and needs to be multiplied once";
  if (tiles.all * s.split > most_units) return "it has more than " + std::to_string(most_units) + " parts of tiles";
  if (blocks(s, needs, tiles, site.multiprocessors)) return {};
  if (const std::int64_t whole = whole_tiles(s, needs, tiles, site.multiprocessors);
      s.at_end && (whole == 0 || whole == tiles.all))
    return "of " + std::to_string(tiles.all) + " tiles there are none behind whole waves of " +
           std::string(needs.holds ? "whole groups of the raster" : std::to_string(site.multiprocessors));
  return "the epilogue needs blocks at once that may not run so, for " + std::to_string(tiles.all) + " tiles";
}

double microseconds(const Choice& choice, const Site& site) {
  return microseconds(choice.order.front(), choice.epilogue.needs, extents(site), site.multiprocessors);
}

Choice choose(const Site& site, Hold hold);

// Leaves the held schedules that take less, by the model, than the same in two launches, or where there are none these:
// what crosses is written and read then, and tiles are larger or more.
void compare_with_two_launches(const Site& site, Choice& held) {
  Choice apart = choose(site, Hold::nothing);
  if (apart.order.empty()) return;
  const EpilogueNeeds& needs = held.epilogue.needs;
  const double pass = pass_behind(site.shape, site.columns, site.variant.turned,
                                  apart.epilogue.needs.d_bytes_column + needs.d_bytes_column, site.multiprocessors);
  const double most = microseconds(apart, site) + pass;
  std::erase_if(held.order,
                [&](const Schedule& s) { return microseconds(s, needs, extents(site), site.multiprocessors) > most; });
  if (held.order.empty()) held = std::move(apart);
}

// Tiles are held for what `hold` allows, and for their rows' statistics only where that pays.
Choice choose(const Site& site, Hold hold) {
  Choice choice;
  FusedEpilogue& e = choice.epilogue;
  e = emit_fragment(site.program, site.phase, site.places,
                    std::min(hold, site.in_order ? Hold::in_order
                                   : site.mma    ? Hold::groups
                                                 : Hold::rows));
  e.needs.element_bytes = static_cast<int>(size_of(site.variant.a));
  e.needs.b_mn_major = site.variant.b_mn_major;
  e.needs.a_lines = site.a_lines, e.needs.b_lines = site.b_lines, e.needs.shares_a = site.shares_a;
  (site.variant.b_form ? e.needs.b_taps : e.needs.a_taps) = site.variant.taps;
  e.needs.turned = site.variant.turned, e.needs.shifted = site.variant.shifted != 0;
  e.needs.shifted_a = site.variant.shifted_a;
  e.needs.windows = site.variant.a_form != 0;
  e.needs.whole_k = site.variant.scattered, e.needs.counts_pixels = site.variant.b_form == 2;
  e.needs.block_columns = site.variant.block_columns, e.needs.block_rows = site.variant.block_rows;
  if (const int columns = site.variant.group_columns)
    e.needs.b_box = site.variant.b_mn_major ? std::min(64, site.variant.group_k) : columns;
  e.needs.stencil = site.variant.stencil, e.needs.boxes = site.variant.boxes;
  e.needs.a_rows =
      site.mma || site.variant.a_mn_major || site.variant.a_form || e.needs.below > 1 ? 0 : few_rows(site.shape.m);
  e.needs.promoted = !site.mma && site.variant.promoted != 0;
  if (site.variant.padded_taps && !e.needs.any_columns) return choice;
  if (e.needs.holds && site.shape.k <= 2048) e.needs.most_stages = 5;
  if (const std::int64_t bytes = site.shape.k * e.needs.element_bytes; e.needs.holds && e.needs.aux_bytes_column)
    e.needs.full_stages = bytes <= 384 ? 2 : bytes <= 512 ? 4 : 0;
  e.needs.short_k = is_short(e.needs, site.shape.k, 1024);
  if (e.needs.operations <= most_instructions || site.request.schedule) {
    choice.order =
        rank(e.needs, site.shape.batch, site.shape.m, site.columns, site.shape.k, site.multiprocessors, site.mma);
  }
  const std::string why = site.request.schedule ? not_here(*site.request.schedule, e.needs, site) : std::string();
  // Of what is for held rows alone the reason without them would say less.
  const bool asks_to_hold =
      site.request.schedule &&
      (site.request.schedule->meets || site.request.schedule->again || site.request.schedule->parks) && e.needs.holds;
  const bool not_held = (!why.empty() && !asks_to_hold) || (is_rolled(e.needs) && !e.needs.holds);
  if (e.held >= 0 && not_held) return choose(site, Hold::nothing);
  if (e.needs.holds && choice.order.empty()) return choose(site, Hold::nothing);
  if (!site.request.schedule && e.needs.holds) compare_with_two_launches(site, choice);
  if (!site.request.schedule) return choice;
  if (!why.empty()) {
    if (choice.order.empty()) throw not_legal(site.request, why);
    throw not_legal(site.request, why,
                    "Write one such as \"" + site.request.words() + to_string(choice.order.front()) + "\".");
  }
  choice.order = {*site.request.schedule};
  return choice;
}

// "pingpong 128x128x6".
std::string first_words(const Schedule& s) {
  const std::string text = to_string(s);
  return text.substr(0, text.find(" sub"));
}

// Whether what spilled is tried again with its code once: of what is held, which lives as long in any case, and of
// statistics of rows and random numbers beside few accumulators that mostly does not spill, and compiles sooner than
// another tile (decisions 0116 and 0292).
bool may_loop(const FusedEpilogue& epilogue, const Schedule& schedule, std::int64_t k) {
  const FusedEpilogue::Pressure& first = epilogue.pressure[0];
  const bool few = accumulators(schedule) <= few_accumulators && (first.row_states || first.draws);
  return (epilogue.held >= 0 || few) && !schedule.mma && !looped(epilogue, schedule, k) && !is_rolled(epilogue.needs);
}

constexpr std::string_view spills = "it spills";  // bytes

// Bytes that a judge says are spilled; 0: it says something else.
int spilled(const std::string& reason) {
  return reason.starts_with(spills) ? std::atoi(reason.c_str() + spills.size()) : 0;
}

constexpr int much_to_spill = 200;  // of what is foretold to spill, some kernels spill less
constexpr int far_too_much = 600;   // bytes: narrower subtiles of the same tile spill too (5 of 5 that were recorded)
constexpr const char* would_spill_much = "it would spill hundreds of bytes";

// Why a schedule is not compiled, as it is foretold to spill more than the bytes it may.
std::string foretold(const FusedEpilogue& epilogue, const Schedule& schedule, const Site& site, int may) {
  const EpilogueNeeds& needs = epilogue.needs;
  const CodeForm form{looped(epilogue, schedule, site.shape.k), apart(needs, schedule, site.shape.k),
                      divides_columns(schedule, needs, site.columns)};
  int bytes = foretold_bytes(epilogue, schedule, form);
  if (may >= much_to_spill) bytes = std::max(bytes, bytes_beside_statistics(epilogue, schedule, form));
  if (bytes == 0 || (bytes <= may && may >= much_to_spill)) return {};
  return bytes < far_too_much ? "it would spill" : would_spill_much;
}

// Why a schedule is not compiled to see whether it spills: one did with no more accumulators and subtiles no wider, or
// so much that narrower ones would too.
std::string would_spill(const Schedule& s, const std::vector<Considered>& before, const std::string& held_for) {
  const auto registers = [](const Schedule& x) { return consumer_rows(x) * consumer_columns(x); };
  for (const Considered& one : before) {
    const bool narrower_too = spilled(one.reason) >= far_too_much || one.reason == would_spill_much;
    if (!s.mma && one.held_for == held_for && one.verdict == Considered::Verdict::rejected &&
        one.schedule.looped == s.looped && registers(one.schedule) <= registers(s) &&
        (!s.shifted || s.by_memory || !one.schedule.by_memory) && (one.schedule.sub_n <= s.sub_n || narrower_too))
      return first_words(one.schedule) + (one.reason.starts_with(spills)             ? " spilt"
                                          : one.reason.starts_with("it would spill") ? " would spill"
                                                                                     : " compiled no better");
  }
  return {};
}

}  // namespace

double pass_behind(const Shape& shape, std::int64_t columns, bool turned, int bytes_column, int multiprocessors) {
  std::int64_t rows = shape.m;
  if (turned) std::swap(rows, columns);
  return pass_microseconds(shape.batch * rows, columns, bytes_column, multiprocessors);
}

Chosen choose_product(const Site& site, const Judge& judge) {
  Chosen chosen;
  for (Hold hold = Hold::rows;; hold = Hold::nothing) {
    Choice choice = choose(site, hold);
    for (std::size_t i = 0; i < choice.order.size(); ++i) {
      const Schedule schedule = choice.order[i];
      Considered& one = chosen.considered.emplace_back();
      one.schedule = schedule, one.shared = shared_bytes(schedule, choice.epilogue.needs);
      one.microseconds = microseconds(schedule, choice.epilogue.needs, extents(site), site.multiprocessors);
      one.may_spill = may_spill(choice.epilogue, schedule);
      if (choice.epilogue.held >= 0) one.held_for = choice.epilogue.held_for();
      if (chosen.product) continue;
      auto source = std::make_shared<const std::string>(
          source_of(site.variant, site.shape, site.columns, choice.epilogue, schedule, site.multiprocessors));
      if (!site.request.schedule) one.reason = would_spill(schedule, chosen.considered, one.held_for);
      if (!site.request.schedule && one.reason.empty()) {
        const EpilogueNeeds& needs = choice.epilogue.needs;
        const int may = bytes_to_spill(schedule, needs, site.shape.k);
        one.reason = foretold(choice.epilogue, schedule, site, may);
        if (one.reason.empty()) one.reason = judge(source);
        if (const int bytes = spilled(one.reason); bytes && bytes <= may) one.reason.clear();
        if (!one.reason.empty() && may_loop(choice.epilogue, schedule, site.shape.k)) {
          choice.order.insert(choice.order.begin() + static_cast<std::ptrdiff_t>(i) + 1, schedule);
          choice.order[i + 1].looped = true;
        }
      }
      one.verdict = one.reason.empty() ? Considered::Verdict::chosen : Considered::Verdict::rejected;
      if (one.reason.empty()) chosen.product = Product{schedule, choice.epilogue, std::move(source)};
    }
    if (chosen.product) return chosen;
    if (choice.epilogue.held >= 0) continue;
    const int operations = choice.epilogue.needs.operations;
    chosen.why = operations > most_instructions
                     ? "it takes about " + std::to_string(operations) + " instructions an element, and from " +
                           std::to_string(most_instructions) + " on memory is faster"
                 : choice.order.empty() ? nothing_fits(choice.epilogue.needs, site.mma)
                                        : "no schedule of the product with it compiles well";
    return chosen;
  }
}

int promotes(DType type) {
  constexpr int stages = 4;
  return type == DType::e4m3 || type == DType::e5m2 ? stages : 0;
}

bool on_tensor_cores(DType a, DType b, const std::string& arch) {
  const auto fp8 = [](DType t) { return t == DType::e4m3 || t == DType::e5m2; };
  const auto int8 = [](DType t) { return t == DType::s8 || t == DType::u8; };
  return (a == b && (a == DType::bf16 || a == DType::f16)) || (fp8(a) && fp8(b) && std::atoi(arch.c_str() + 3) >= 89) ||
         (int8(a) && int8(b));
}

}  // namespace postlude::inline v0::cuda
