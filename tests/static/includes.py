"""Every file has the standard headers that it uses from us, and a source includes none that it does not; a folder includes
no other that stands above it or beside it: includes.py ROOT

A header may come by another of the project's; not by one of the standard library's, whose insides
differ from version to version. The names are those that this project uses.
"""
import pathlib
import re
import sys

NAMES = {
    "algorithm": "all_of any_of none_of find find_if find_if_not count_if sort stable_sort min_element max_element copy copy_n "
                 "fill fill_n reverse unique erase_if_ lower_bound upper_bound equal_range binary_search transform replace "
                 "rotate clamp min max minmax is_sorted is_permutation nth_element partition generate search mismatch_ "
                 "includes set_union merge iter_swap remove_if max_element for_each equal adjacent_find shuffle",
    "array": "array to_array", "atomic": "atomic atomic_flag atomic_thread_fence memory_order_relaxed",
    "bit": "bit_cast bit_ceil bit_floor bit_width countr_zero countl_zero popcount has_single_bit",
    "bitset": "bitset", "charconv": "from_chars to_chars", "chrono": "chrono", "concepts": "same_as integral floating_point convertible_to derived_from invocable",
    "condition_variable": "condition_variable", "deque": "deque", "exception": "exception_ptr current_exception rethrow_exception exception uncaught_exceptions",
    "filesystem": "filesystem", "fstream": "ifstream ofstream fstream", "functional": "function less greater plus hash invoke reference_wrapper",
    "initializer_list": "initializer_list", "iomanip": "setw setprecision setfill quoted", "iostream": "cout cerr cin",
    "limits": "numeric_limits", "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this assume_aligned destroy_at construct_at",
    "mutex": "mutex lock_guard unique_lock scoped_lock once_flag call_once", "new": "bad_alloc align_val_t nothrow",
    "numeric": "iota accumulate lcm gcd inner_product partial_sum midpoint", "optional": "optional nullopt nullopt_t make_optional",
    "random": "mt19937 mt19937_64 uniform_int_distribution normal_distribution", "regex": "regex sregex_iterator regex_replace regex_search smatch",
    "set": "set multiset", "shared_mutex": "shared_mutex shared_lock", "span": "span as_bytes", "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "runtime_error logic_error invalid_argument out_of_range length_error domain_error",
    "string": "string to_string stoi stoll stoull stod getline", "string_view": "string_view", "thread": "thread jthread this_thread",
    "tuple": "tuple tie make_tuple apply tuple_size_v", "unordered_map": "unordered_map unordered_multimap", "unordered_set": "unordered_set",
    "typeinfo": "type_info", "utility": "pair make_pair exchange index_sequence make_index_sequence in_place to_underlying",
    "variant": "variant visit holds_alternative get_if monostate variant_size_v", "vector": "vector",
    "cmath": "tanhf expf sqrtf fabsf erff logf powf floorf fmaf HUGE_VAL INFINITY NAN M_PI sqrt exp exp2 log log2 log1p expm1 pow abs fabs floor ceil round nearbyint isnan isinf isfinite signbit copysign fma tanh sin cos erf erfc ldexp frexp "
             "nextafter scalbn rint trunc fmod cbrt hypot lround fmin fmax tan sinh cosh atan asin acos log10 nexttoward remainder lgamma tgamma ilogb llrint",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "cstdio": "printf fprintf snprintf fflush fputs puts FILE fopen fclose fputc rename remove",
    "cstdlib": "setenv unsetenv mkdtemp rand srand getenv strtol strtoull strtod abort exit malloc free aligned_alloc system strtoll atoi _Exit atexit",
    "cstring": "memcpy memset memcmp strlen strcmp strncmp memmove strerror strstr strchr memchr strrchr",
    "type_traits": "is_same_v conditional_t remove_cvref_t enable_if_t decay_t is_integral_v is_floating_point_v is_void_v is_base_of_v "
                   "invoke_result_t is_invocable_v underlying_type_t true_type false_type integral_constant is_convertible_v is_signed_v make_unsigned_t remove_const_t is_const_v is_pointer_v is_enum_v is_unsigned_v remove_reference_t add_const_t make_signed_t is_arithmetic_v is_empty_v is_trivially_copyable_v is_class_v is_constructible_v remove_pointer_t void_t bool_constant negation is_reference_v",
    "cctype": "isalnum isalpha isdigit isspace tolower toupper isprint", "cerrno": "", "csignal": "signal raise kill SIGKILL SIGTERM SIGINT", "ctime": "time_t timespec clock_gettime clock time",
}
OWNER = {name: header for header, names in NAMES.items() for name in names.split()}
# Headers whose use the names above do not show, and what others give by rule: <string> has string_view's, abs is <cstdlib>'s too.
FREE = {"cerrno", "new", "cstddef", "compare", "version", "iterator", "ios", "istream", "ostream", "iosfwd", "ranges", "utility", "cfenv", "cassert", "climits", "cfloat", "type_traits", "concepts"}
ALSO = {"string_view": {"string"}, "abs": {"cstdlib"}, "min": set(), "find": set(), "remove": {"filesystem", "algorithm"},
        "get_if": {"memory"}, "exception": {"stdexcept"}, "FILE": set(), "string": set(), "getline": {"istream"}, "iota": {"ranges"}}
# docs/architecture.md. Backends implement the one header that they include from above, and count bytes as the other does.
LAYERS = {"core": 0, "loop": 1, "graph": 2, "lower": 3, "reference": 4, "cpu": 4, "cuda": 4, "plan": 5, "te": 6, "evt": 6, "cli": 7}
FROM_BELOW = {"plan/backend.h", "plan/traffic.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
BLANKED = re.compile(r'//[^\n]*|R"([^(]*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.S)


def read(path):
    whole = path.read_text()
    standard = {name for bracket, name in INCLUDE.findall(whole) if bracket == "<"}
    own = {name for bracket, name in INCLUDE.findall(whole) if bracket == '"'}
    text = BLANKED.sub(" ", INCLUDE.sub("", whole))
    return standard, own, text


def given(path, root, seen):
    """The standard headers that a file has by itself or by the project's headers."""
    if path in seen:
        return set()
    seen.add(path)
    standard, own, _ = read(path)
    for name, bracket in [*((name, '"') for name in own), *((name, "<") for name in standard if name.startswith("postlude/"))]:
        for folder in (path.parent, *(root / folder for folder in ("include", "src", "tests", "tests/gpu", "tests/te"))):
            if (folder / name).exists():
                standard |= given(folder / name, root, seen)
                break
    return standard


def upwards(path, root, own):
    """The project's headers of folders that a file's own does not stand upon."""
    folder = path.relative_to(root).parts[1] if path.is_relative_to(root / "src") else None
    for name in sorted(own - FROM_BELOW if folder in LAYERS else ()):
        other = name.split("/")[0]
        if other != folder and LAYERS.get(other, -1) >= LAYERS[folder]:
            yield f'includes "{name}" of a folder that stands above or beside its own'


def findings(path, root):
    standard, own, text = read(path)
    yield from upwards(path, root, own)
    have, used = given(path, root, set()), set()
    for name in re.findall(r"\bstd::(?:ranges::)?(\w+)", text):
        if name in OWNER:
            used |= {OWNER[name]} | ALSO.get(name, set())
            if not ({OWNER[name]} | ALSO.get(name, set())) & have:
                yield f"uses std::{name} without <{OWNER[name]}>"
    for header in sorted(standard - used - FREE if path.suffix == ".cpp" else ()):  # a header's are its users' too
        bare = NAMES.get(header, "").split()  # C's names are used without std:: too
        if header in NAMES and not any(re.search(rf"\b{name}\b", text) for name in bare):
            yield f"includes <{header}> and uses nothing of it"


root = pathlib.Path(sys.argv[1])
files = [path for folder in ("include", "src", "tests", "python/src", "examples", "bench") for path in sorted((root / folder).rglob("*"))
         if path.suffix in (".h", ".cpp")]
bad = 0
for path in files:
    for finding in dict.fromkeys(findings(path, root)):
        print(f"{path.relative_to(root)}: {finding}")
        bad += 1
print(f"{bad} findings in {len(files)} files")
sys.exit(bool(bad))
