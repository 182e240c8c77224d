"""Whether the tests see deliberate bugs: mutate.py [--count N] [--seed S] [--minutes T] [--jobs J]

Draws mutants of the library's sources, links the tests of build/ with all of them (an environment
variable chooses which one is alive), and runs the tests on each until one fails. Results are kept in
build/mutation/results.jsonl, and a run goes on where another stopped. What survives is printed with
its place; the last lines are the score by folder.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/mutation"
BASE, RESULTS = ROOT / "build", WORK / "results.jsonl"
# A folder's share of the mutants, and the tests that judge it after those for all.
FOLDERS = {
    "src/lower": (150, []), "src/graph/ir": (80, []), "src/plan": (70, []), "src/loop": (20, []),
    "src/cpu": (180, [["tests/test_cpu", "--gtest_filter=Gemm*"]]),
}
FOR_ALL = [
    ["tests/fuzz/fuzz_epilogues", "--count", "80"],
    ["tests/test_plan"], ["tests/test_graph"], ["tests/test_lower"],
    ["tests/fuzz/fuzz_epilogues", "--count", "1000", "--seed", "5000"],
    ["tests/fuzz/fuzz_calls", "--count", "20"],
]
TARGETS = ["fuzz_epilogues", "fuzz_calls", "test_plan", "test_graph", "test_lower", "test_cpu"]
BLANKED = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'')
NEVER = re.compile(r"^\s*(#|using|template|static_assert|case |constexpr|inline constexpr|static constexpr|enum|struct|class|friend)")
STATEMENT = re.compile(r"^ +(?!return|throw|break|continue|delete|else|if|for|while|do|case|default)"
                       r"[A-Za-z_][\w.:>\[\]-]*( [-+*/|&]?= .*|\(.*\));$")


def closing(text, at):
    """Where the bracket that opens at `at` closes; -1 where it does not."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def sites(path):
    """Every mutant of a source: (what, line, begin, end, new text with @ for the mutant's number)."""
    source = path.read_text()
    text = BLANKED.sub(lambda m: " " * len(m[0]), source)
    at, previous = 0, ""
    for number, (line, blank) in enumerate(zip(source.splitlines(), text.splitlines()), 1):
        begin, at = at, at + len(line) + 1
        whole = previous.rstrip()[-1:] in (";", "{", "}", ":", "") and blank.rstrip().endswith((";", "{", "}"))
        previous = blank if blank.strip() else previous
        if NEVER.match(line) or not line.startswith("  "):
            continue
        for m in re.finditer(r" (<|<=|>|>=|==|!=) (?=[\w(])", blank):
            yield "off by one", number, begin + m.end(), begin + m.end(), "postlude_mutant::one(@) + "
        for m in re.finditer(r"(?<=[\w)\]]) [+-] (?=[\w(])", blank):
            yield "sign", number, begin + m.end(), begin + m.end(), "postlude_mutant::minus(@) * "
        for m in re.finditer(r"(?<=[\w)\]]) \* (?=[\w(])", blank):
            yield "factor", number, begin + m.end(), begin + m.end(), "postlude_mutant::twice(@) * "
        for m in re.finditer(r"(?<![\w.\"<-])(\d|[1-6]\d)(?![\w.\">])", blank):
            yield "constant", number, begin + m.start(), begin + m.end(), f"({m[0]} + postlude_mutant::one(@))"
        for m in re.finditer(r"\bif \(", blank):
            end = closing(text, begin + m.end() - 1)
            condition = text[begin + m.end():end]
            if end > 0 and ";" not in condition and not re.search(r"[^=!<>]=[^=]", condition):
                yield ("condition", number, begin + m.end(), end,
                       f"postlude_mutant::flip(@, static_cast<bool>({source[begin + m.end():end]}))")
        if m := re.match(r" +return (true|false);", blank):
            yield "result", number, begin + m.start(1), begin + m.end(1), f"postlude_mutant::flip(@, {m[1]})"
        if whole and STATEMENT.match(blank) and blank.count("(") == blank.count(")"):
            first = begin + len(line) - len(line.lstrip())
            yield "dropped", number, first, begin + len(line), "if (!postlude_mutant::on(@)) " + line.strip()


def draw(count, seed):
    """The mutants, by number from 1, the same for the same sources and seed."""
    chooser, drawn = random.Random(seed), []
    shares = sum(share for share, _ in FOLDERS.values())
    for folder, (share, _) in FOLDERS.items():
        found = [(str(path.relative_to(ROOT)), *site) for path in sorted((ROOT / folder).rglob("*.cpp"))
                 for site in sites(path)]
        chooser.shuffle(found)
        taken = []
        for site in found:  # no two in one place
            if all(site[0] != t[0] or site[4] < t[3] or t[4] < site[3] for t in taken):
                taken.append(site)
            if len(taken) >= round(1.2 * count * share / shares):  # some will not compile
                break
        drawn += [dict(folder=folder, file=s[0], what=s[1], line=s[2], begin=s[3], end=s[4], new=s[5]) for s in taken]
    return {i: mutant for i, mutant in enumerate(drawn, 1)}


def mutated(file, mutants):
    """The text of a source with all of its mutants."""
    text = (ROOT / file).read_text()
    for number, mutant in sorted(mutants.items(), key=lambda item: -item[1]["begin"]):
        text = text[:mutant["begin"]] + mutant["new"].replace("@", str(number)) + text[mutant["end"]:]
    return f'#include "{ROOT}/tests/mutation/mutant.h"\n#line 1 "{file}"\n' + text


def compile_file(file, mutants, command):
    """Compiles a source with all of its mutants but those that do not compile. Returns what is left."""
    source, target = WORK / "sources" / file, WORK / "objects" / (file.replace("/", "-") + ".o")
    source.parent.mkdir(parents=True, exist_ok=True)
    while True:
        text = mutated(file, mutants)
        if target.exists() and source.exists() and source.read_text() == text:
            return mutants
        target.unlink(missing_ok=True)
        source.write_text(text)
        words = shlex.split(command)
        words = words[:words.index("-MD")] + ["-w", "-fmax-errors=0", "-o", str(target), "-c", str(source)]
        result = subprocess.run(words, cwd=BASE, capture_output=True, text=True)
        if result.returncode == 0:
            return mutants
        wrong = {int(line) for line in re.findall(re.escape(file) + r":(\d+):\d+: error", result.stderr)}
        wrong |= {int(line) for line in re.findall(re.escape(file) + r":(\d+):\d+:   required from", result.stderr)}
        left = {n: m for n, m in mutants.items()
                if not any(0 <= line - m["line"] <= m["new"].count("\n") for line in wrong)}
        if len(left) == len(mutants):
            print(f"{file} does not compile: {result.stderr[:500]}")
            left = {}
        mutants = left


def build(mutants, jobs):
    """Links the tests with the mutated sources. Returns the mutants that compile."""
    subprocess.run(["ninja", "-C", BASE, *TARGETS], check=True, stdout=subprocess.DEVNULL)
    commands = {os.path.relpath(entry["file"], ROOT): entry["command"] for entry in json.loads(
        subprocess.run(["ninja", "-C", BASE, "-t", "compdb"], check=True, capture_output=True, text=True).stdout)
        if entry["file"].endswith(".cpp") and "-MD" in entry["command"]}
    by_file = collections.defaultdict(dict)
    for number, mutant in mutants.items():
        by_file[mutant["file"]][number] = mutant
    (WORK / "objects").mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        left = list(pool.map(lambda item: compile_file(*item, commands[item[0]]), by_file.items()))
    # The mutated objects come before the library, which then has nothing to add for them.
    objects = [str(WORK / "objects" / (file.replace("/", "-") + ".o")) for file in by_file]
    for target in TARGETS:
        text = subprocess.run(["ninja", "-C", BASE, "-t", "commands", target], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
        words = shlex.split(text.split(" && ")[1])
        at = next(i for i, word in enumerate(words) if word.endswith(".a"))
        output = words.index("-o") + 1
        to = WORK / words[output]
        to.parent.mkdir(parents=True, exist_ok=True)
        words = words[:at] + objects + words[at:]
        words[output] = str(to)
        subprocess.run(words, cwd=BASE, check=True)
    return {number: mutant for part in left for number, mutant in part.items()}


def judge(number, mutant):
    """The test that sees a mutant, or None."""
    environment = {**os.environ, "POSTLUDE_MUTANT": str(number), "OMP_WAIT_POLICY": "passive",
                   "GTEST_BRIEF": "1", "GTEST_FAIL_FAST": "1"}
    folder = WORK / f"run-{number}"
    folder.mkdir(exist_ok=True)
    try:
        for command in FOR_ALL + FOLDERS[mutant["folder"]][1]:
            command = [str(WORK / command[0]), *command[1:]]
            try:
                run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, timeout=120 if number else 1200)
            except subprocess.TimeoutExpired:
                return pathlib.Path(command[0]).name + " (hangs)"
            if run.returncode != 0:
                return pathlib.Path(command[0]).name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def key(mutant):
    return [mutant[name] for name in ("file", "line", "what", "begin", "new")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=450)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    end = time.time() + 60 * arguments.minutes
    WORK.mkdir(parents=True, exist_ok=True)
    drawn = draw(arguments.count, arguments.seed)
    mutants = build(drawn, arguments.jobs)
    none = judge(0, {"folder": "src/cpu"})
    if none:
        sys.exit(f"{none} fails without a mutant")
    known = {}
    if RESULTS.exists():
        known = {json.dumps(r["key"]): r["by"] for r in map(json.loads, RESULTS.read_text().splitlines())}
    left = [(n, m) for n, m in mutants.items() if json.dumps(key(m)) not in known]
    random.Random(arguments.seed).shuffle(left)  # a run that stops has seen some of every folder
    print(f"{len(drawn)} drawn, {len(mutants)} compile, {len(left)} to judge", flush=True)

    def take(item):
        if time.time() > end:
            return
        by = judge(*item)
        known[json.dumps(key(item[1]))] = by
        with RESULTS.open("a") as out:
            out.write(json.dumps({"key": key(item[1]), "by": by}) + "\n")

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(take, left))
    judged = collections.Counter()
    killed = collections.Counter()
    for number, mutant in mutants.items():
        if json.dumps(key(mutant)) not in known:
            continue
        by = known[json.dumps(key(mutant))]
        judged[mutant["folder"]] += 1
        killed[mutant["folder"]] += by is not None
        if by is None:
            line = (ROOT / mutant["file"]).read_text().splitlines()[mutant["line"] - 1].strip()
            print(f"survives: {mutant['file']}:{mutant['line']}: {mutant['what']} `{mutant['new'][:40]}`: {line}")
    print("| folder | mutants | killed | |\n|---|---|---|---|")
    for folder in [*judged, "all"]:
        n, k = (judged[folder], killed[folder]) if folder != "all" else (judged.total(), killed.total())
        if n:
            print(f"| `{folder}` | {n} | {k} | {100 * k / n:.0f} % |")


main()
