"""Functions of at most 80 lines and six parameters, files of at most 600 lines: sizes.py SOURCE_FOLDER

`./dev lint` runs it. What is longer is listed here with its reason; what is listed without need is a finding too, so that the
list shrinks. The sources are formatted by clang-format, so a function ends at the first brace in the column where it began.
"""
import pathlib
import re
import sys

MOST_LINES, MOST_PARAMETERS, MOST_FILE_LINES = 80, 6, 600

# Folders whose functions may have more parameters: (most, why).
PARAMETERS = {
    "src/cuda/device": (11, "wrappers of one instruction, whose operands they are; a structure would be taken apart again"),
    "src/cpu/product": (9, "they are called for each row or tile, and what they are given stays in registers"),
}
# "file function": why
FUNCTIONS = {
    "src/cpu/product/gemm.cpp region": "the blocks' loops, each with what stays in its cache",
    "src/cpu/product/microkernel.inc row_of_tiles": "one loop over tiles, and what is fetched meanwhile",
    "src/cpu/strips/reduce.cpp ReductionExecutor::ReductionExecutor": "everything is decided once, before anything runs",
    "src/cpu/strips/reduce.cpp ReductionExecutor::take_rows": "a block's place and its states, for each reduction",
    "src/cpu/strips/reduce.cpp ReductionExecutor::take": "a block's place and its states, for each reduction",
    "src/cuda/choose/rank.cpp rank": "needs, a shape and a GPU; the public form of a pure function",
    "src/cuda/decide/maps.cpp Decider::map_scattered": "a tensor map and where it lies",
    "src/cuda/emit/reduce.cpp emit_reducer": "one case for each reducer",
    "src/reference/product.cpp accumulate": "BLAS's signature, in registers",
    "src/reference/product.cpp portable": "BLAS's signature",
    "src/reference/product.cpp gnu::target": "BLAS's signature",
    "src/reference/product.cpp gather": "a block of an operand and where it goes",
    "src/reference/product.cpp accumulator": "a block of a product and where it goes",
    "src/te/strip.cpp StripNest::StripNest": "one pass over a nest, which decides its strips",
    "src/te/strip_values.cpp StripNest::move": "a strip's ends and strides",
    "python/src/errors.cpp make": "called by Python, with an error's fields",
    "python/src/functions.cpp define_native": "called by Python, with a decorator's keywords",
}
FILES = {
    "src/cpu/strips/phase.cpp": "one class, which lays a phase out",
    "src/cpu/strips/strips.inc": "a row for each operation, compiled for each instruction set",
}

NO_FUNCTION = re.compile(r" *(if|for|while|switch|catch|else|do|return|namespace|struct|class|enum|union|extern|using|public|"
                         r"private|protected|case|default|throw|typedef|constexpr|const auto|static const|auto|nb::|m\.)\b|.*;$")


def without_comment(line):
    return re.sub(r"//.*", "", line).rstrip()


def parameters(text):
    """How many there are in the first parentheses of a head, behind attributes."""
    text = re.sub(r"__attribute__\(\(.*?\)\)|\[\[.*?\]\]", "", text)
    depth, count, anything = 0, 1, False
    for character in text[text.index("("):]:
        depth += {"(": 1, "<": 1, "[": 1, "{": 1, ")": -1, ">": -1, "]": -1, "}": -1}.get(character, 0)
        if depth == 0:
            break
        count += character == "," and depth == 1
        anything = anything or not (character.isspace() or character in "()")
    return count if anything else 0


def functions(lines):
    """(first line, name, lines, parameters) of each function, those inside others aside."""
    at = 0
    while at < len(lines):
        begin, line = at, lines[at]
        at += 1
        indent = re.match(r"( {0,4})[A-Za-z_~\[]", line)
        if not indent or NO_FUNCTION.match(without_comment(line)):
            continue
        end, head = begin, ""
        while end < len(lines):
            head += without_comment(lines[end]) + " "
            if head.rstrip()[-1:] in ("{", ";", "}") or end - begin > 14:
                break
            end += 1
        name = re.search(r"([\w:~]+|operator[^\w\s]+)\(", re.sub(r"__attribute__\(\(.*?\)\)", "", head))
        if not head.rstrip().endswith("{") or not name or "=" in head[:head.index("(")]:
            continue
        last = next((i for i in range(end + 1, len(lines)) if lines[i].startswith(indent[1] + "}")), end)
        yield begin + 1, name[1], last - begin + 1, parameters(head)
        at = last + 1


def main():
    root = pathlib.Path(sys.argv[1])
    found, long_files, checked = {}, {}, 0
    for folder in ("src", "include", "python/src"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".inc", ".cu"):
                continue
            name, lines = str(path.relative_to(root)), path.read_text("utf-8").split("\n")
            if len(lines) - 1 > MOST_FILE_LINES:
                long_files[name] = f"{name} has {len(lines) - 1} lines"
            for line, function, length, count in functions(lines):
                checked += 1
                most = next((most for where, (most, _) in PARAMETERS.items() if name.startswith(where + "/")), MOST_PARAMETERS)
                if length > MOST_LINES or count > most:
                    found[f"{name} {function}"] = f"{name}:{line}: {function} has {length} lines and {count} parameters"
    wrong = [text for key, text in found.items() if key not in FUNCTIONS]
    wrong += [text for key, text in long_files.items() if key not in FILES]
    wrong += [f"{key} is listed and need not be" for key in FUNCTIONS if key not in found]
    wrong += [f"{key} is listed and need not be" for key in FILES if key not in long_files]
    print("\n".join(wrong))
    print(f"{checked} functions, {len(wrong)} findings; at most {MOST_LINES} lines, {MOST_PARAMETERS} parameters and "
          f"{MOST_FILE_LINES} lines a file, or a reason in {pathlib.Path(__file__).name}")
    assert checked > 2000, checked
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
