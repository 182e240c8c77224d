// Names that no variable of emitted code has, whatever a loop or a tensor is called.
#include "te/emitter.h"

#include <cctype>
#include <iterator>
#include <sstream>

namespace postlude::inline v0::te {
namespace {

// C++'s words, CUDA's variables, macros of compilers and of our sources, and what the emitter itself declares.
constexpr const char* words =
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export extern "
    "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public register reinterpret_cast requires return short signed "
    "sizeof static static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq "
    "threadIdx blockIdx blockDim gridDim warpSize linux unix NULL NAN INFINITY INF QNAN DEVICE "
    "DEVICE_STATIC METHOD CONSTANT Words Params p given thread threads active other blocks left half "
    "from counter is_last full end step u e thread_x thread_y thread_z threads_x threads_y threads_z";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

// Those, and the functions that `source` has.
std::set<std::string> reserved_names(const std::string& source) {
  std::istringstream apart(words);
  std::set<std::string> names{std::istream_iterator<std::string>(apart), {}};
  for (std::size_t open = source.find('('); open != source.npos; open = source.find('(', open + 1)) {
    std::size_t first = open;
    while (first > 0 && is_word(source[first - 1])) --first;
    // One letter is a template's type there.
    if (open - first > 1) names.insert(source.substr(first, open - first));
  }
  return names;
}

}  // namespace postlude::inline v0::te
