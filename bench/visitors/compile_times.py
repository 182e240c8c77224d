"""What visitor types cost a compiler: compile_times.py [COMPILER...] [--runs N]

Prints a table of the processor time of `COMPILER -O2 -c` for programs with plan.h alone, the headers, and trees beside
them: medians of runs taken in turns. Then what each mistake of tests/evt/mistakes.cpp makes the compiler print.
"""
import argparse
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = "#include <postlude/plan.h>\n"
CUTLASS = HEADERS + """#include <postlude/evt/cutlass.h>
using namespace postlude::evt::cutlass;
constexpr auto R = FloatRoundStyle::round_to_nearest;
template <POSTLUDE_EVT_FUNCTION F, class O = float> using P = Sm90Compute<F, O, float, R>;
using S = Sm90ScalarBroadcast<float>; using A = Sm90AccFetch; using T = Shape<_128, _128, _64>;
template <class E> using Row = Sm90RowBroadcast<0, T, E>; template <class E> using Col = Sm90ColBroadcast<0, T, E>;
"""
CATLASS = HEADERS + """#include <postlude/evt/catlass.h>
using namespace postlude::evt::catlass;
using L = layout::RowMajor; using Acc = VisitorAccLoad<float>; using Store = VisitorAuxStore<float, L>;
template <template <class> class F, class... X> using Q = VisitorCompute<F, float, X...>;
"""
LINEAR = "Sm90EVT<P<homogeneous_multiply_add>, S, Sm90SrcFetch<float>, Sm90EVT<P<multiply_add>, S, A, {}>>"
CUTLASS_TREES = [
    f"Sm90EVT<P<{function}, {output}>, {LINEAR.format(bias)}>"
    for function, output, bias in [("ReLU", "half_t", "Row<float>"), ("SiLu", "float", "Col<half_t>"), ("GELU", "bfloat16_t", "Row<bfloat16_t>"),
                                   ("Tanh", "float", "Col<float>"), ("Sigmoid", "half_t", "Row<half_t>"), ("Clamp", "float", "Row<float>")]
] + [
    "Sm90EVT<Sm90ScalarReduction<plus, atomic_add, float, float, R>, Sm90TopologicalVisitor<float, tuple<seq<>, seq<>, "
    "seq<0, 1>, seq<0>, seq<3>, seq<2, 4>>, Sm90EVT<P<plus>, Col<float>, A>, Sm90EVT<P<minus>, Sm90SrcFetch<float>, S>, "
    "P<multiplies>, P<Sigmoid>, P<Clamp>, P<plus>>>",
    "Sm90EVT<Sm90ColReduction<maximum, maximum, maximum, 0, T, float, float, R>, Sm90EVT<P<multiplies>, S, A>>",
    "Sm90EVT<P<multiplies>, Sm90EVT<P<dGELU>, A, Sm90AuxLoad<0, void, half_t, RowMajor>>, S>",
    "Sm90EVT<P<Identity, half_t>, Sm90EVT<Sm90AuxStore<0, void, float, R, RowMajor>, Sm90EVT<P<plus>, A, Row<float>>>>",
]
CATLASS_TREES = [f"TreeVisitor<Store, TreeVisitor<Q<{f}>, TreeVisitor<Q<Add>, Acc, VisitorAuxLoad<float, L>>>>"
                 for f in ("Exp", "Relu", "Silu", "Sqrt", "RsqrtFast")] + \
                [f"TopologicalVisitor<tuple<seq<>, seq<0>, seq<1>, seq<2>, seq<2>, seq<3, 4>, seq<5>>, Acc, Q<Muls, float>, Q<{f}>, "
                 "Q<Adds, float>, Q<Adds, float>, Q<Div>, Store>" for f in ("Exp", "Relu", "Silu", "Sqrt", "Sigmoid")]


def graphs(trees):
    return "".join(f"const auto& graph{i} = postlude::evt::to_graph<{tree}>();\n" for i, tree in enumerate(trees))


def adapters(trees):
    return "".join(f"using Gemm{i} = GemmUniversal<half_t, RowMajor, half_t, RowMajor, float, RowMajor, float, RowMajor, {tree}>;\n"
                   f"Status run{i}(const Gemm{i}::Arguments& a) {{ Gemm{i} g; return g(a); }}\n" for i, tree in enumerate(trees))


PROGRAMS = {
    "`plan.h`": HEADERS,
    "`evt/cutlass.h` too": CUTLASS,
    "one tree's graph": CUTLASS + graphs(CUTLASS_TREES[:1]),
    "ten trees' graphs": CUTLASS + graphs(CUTLASS_TREES),
    "one tree run by `GemmUniversal`": CUTLASS + adapters(CUTLASS_TREES[:1]),
    "ten trees run by `GemmUniversal`": CUTLASS + adapters(CUTLASS_TREES),
    "`evt/catlass.h` too": CATLASS,
    "one CATLASS graph": CATLASS + graphs(CATLASS_TREES[:1]),
    "ten CATLASS graphs": CATLASS + graphs(CATLASS_TREES),
}


def seconds(compiler, path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([compiler, "-std=c++20", "-O2", f"-I{ROOT / 'include'}", "-c", str(path), "-o", "/dev/null"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def mistakes(compiler, folder):
    """(lines, bytes) that each program with a mistake makes the compiler print."""
    common, *programs = re.split(r"^//\? ", (ROOT / "tests/evt/mistakes.cpp").read_text(), flags=re.MULTILINE)
    printed = []
    for program in programs:
        path = folder / "mistake.cpp"
        path.write_text(common + program.split("\n", 1)[1])
        done = subprocess.run([compiler, "-std=c++20", f"-I{ROOT / 'include'}", "-fsyntax-only", str(path)], capture_output=True, text=True)
        assert done.returncode, program
        printed.append((done.stderr.count("\n"), len(done.stderr)))
    return printed


parser = argparse.ArgumentParser()
parser.add_argument("compilers", nargs="*", default=["g++", "clang++"])
parser.add_argument("--runs", type=int, default=7)
arguments = parser.parse_args()
with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    for i, text in enumerate(PROGRAMS.values()):
        (folder / f"{i}.cpp").write_text(text)
    times = {(c, i): [] for c in arguments.compilers for i in range(len(PROGRAMS))}
    for _ in range(arguments.runs):
        for compiler, i in times:
            times[compiler, i].append(seconds(compiler, folder / f"{i}.cpp"))
    print("| program | " + " | ".join(f"{c}, s | beyond `plan.h`" for c in arguments.compilers) + " |")
    print("|---" * (1 + 2 * len(arguments.compilers)) + "|")
    for i, name in enumerate(PROGRAMS):
        medians = [(statistics.median(times[c, i]), statistics.median(times[c, 0])) for c in arguments.compilers]
        print(f"| {name} | " + " | ".join(f"{mine:.2f} | {mine - plan:.2f}" for mine, plan in medians) + " |")
    for compiler in arguments.compilers:
        lines, size = zip(*mistakes(compiler, folder))
        print(f"\n{compiler}: {len(lines)} mistakes print {statistics.median(lines):.0f} lines and {statistics.median(size):.0f} bytes "
              f"in the median, {max(lines)} lines and {max(size)} bytes at most")
