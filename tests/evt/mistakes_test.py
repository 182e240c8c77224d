"""Programs that must not compile: one error each, whose sentence and type say where, what was found and what was wanted.

mistakes_test.py COMPILER INCLUDE
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

# Of an error (decision 0051). Compilers spell out the type of the tree, so that long programs have long errors.
LINES, BYTES, BYTES_PER_CHARACTER = 40, 6000, 8

compiler, include = sys.argv[1:]
common, *programs = re.split(r"^//\? ", (pathlib.Path(__file__).parent / "mistakes.cpp").read_text(), flags=re.MULTILINE)
flags = [compiler, "-std=c++20", "-Wall", "-Wextra", f"-I{include}"]


def compiled(source, folder, name):
    """The compiler's words on a program that begins as all do."""
    path = folder / f"{name}.cpp"
    path.write_text(source)
    header = ["-include-pch", str(folder / "common.h.pch")] if "clang" in compiler else ["-include", str(folder / "common.h")]
    return subprocess.run([*flags, *header, "-fsyntax-only", str(path)], capture_output=True, text=True)


def wrong(program, folder, name):
    """What is not as it should be; "" if all is."""
    said, source = program.split("\n", 1)
    mistake, at, numbers, sentence = (part.strip() for part in said.split(" | "))
    result = compiled(source, folder, name)
    errors = [line for line in result.stderr.splitlines() if " error: " in line]
    if result.returncode == 0 or len(errors) != 1:
        return f"{len(errors)} errors for '{said}':\n{result.stderr}"
    if not any(words in errors[0] for words in sentence.split(" or ")):
        return f"the error is not '{sentence}':\n{errors[0]}"
    if mistake == "none":
        return "" if "where(condition, a, b)" in result.stderr else f"nothing says what to write:\n{result.stderr}"
    if mistake == "clauses":
        return ""
    shown = re.compile(rf"mistake::{mistake}<[^<]*{re.escape(at)}.*" + ".*".join(re.escape(n) for n in numbers.split(", ")))
    if not shown.search(result.stderr):
        return f"{mistake}<{at}, ..., {numbers}> is not shown:\n{result.stderr}"
    depth = len(re.findall(r"required from|in instantiation of", result.stderr))
    if depth > 8:
        return f"an error {depth} templates deep:\n{result.stderr}"
    lines, size = result.stderr.count("\n"), len(result.stderr)
    return "" if lines <= LINES and size <= BYTES + BYTES_PER_CHARACTER * len(source) else f"an error of {lines} lines and {size} bytes:\n{result.stderr}"


with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    (folder / "common.h").write_text(common)
    output = folder / ("common.h.pch" if "clang" in compiler else "common.h.gch")
    subprocess.run([*flags, "-x", "c++-header", str(folder / "common.h"), "-o", str(output)], check=True)
    # A tree of 20 nodes, one in another: its error is no deeper than that of a small one.
    deep = "cutlass::Sm90EVT<P<cutlass::ReLU>, " * 20 + "cutlass::Sm90EVT<P<cutlass::plus>, A>" + ">" * 20
    programs.append("wrong_number_of_children | " + f"at<{', '.join(['0'] * 20)}> | found<1>, wanted<2> | has found<> children\n"
                    f"const postlude::Graph& graph = to_graph<{deep}>();\n")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda i: wrong(programs[i], folder, f"program{i}"), range(len(programs))))
    sound = compiled("const postlude::Graph& graph = to_graph<cutlass::Sm90EVT<P<cutlass::ReLU>, A>>();\n", folder, "sound")
    if sound.returncode:
        results.append("a sound tree does not compile:\n" + sound.stderr)
failures = [result for result in results if result]
print(*failures, f"{len(results) - len(failures)} of {len(results)} as they should be", sep="\n")
sys.exit(bool(failures))
