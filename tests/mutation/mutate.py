"""Whether the tests see deliberate bugs: mutate.py [--count N] [--seed S] [--minutes T] [--jobs J]

Draws mutants of the library's sources, links the tests of build/ with all of them (an environment
variable chooses which one is alive), and runs the tests on each until one fails: the fastest program
on all mutants, then the next on those that are left. A test that does not come by a mutant's place is
not run on it; those of one program that do come by run the cheapest first, as many as --seconds of
processor time hold. Results are kept in build/mutation/results.jsonl, and a run goes on where
another stopped; a survivor meets what tests are new since. What survives is printed with its place;
the last lines are the score by folder.

--generated: mutants of what makes kernels alone, in a drawn order, each judged by one minute of a fuzzer on two cores: of emitted
kernels on the host for src/cuda/emit, of epilogues on CPUs for the rest. --bugs tests/mutation/bugs.txt: those of decision 0149;
with --check nothing runs.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/mutation"
BASE, RESULTS = ROOT / "build", WORK / "results.jsonl"
MOST, MOST_OF_A_FILE = 4096, 18  # mutants; mutant.h has the first too
# A folder's share of the mutants.
SHARES = {"src/lower": 85, "src/graph/ir": 45, "src/graph/text": 50, "src/reference": 45, "src/plan": 45, "src/core": 25,
          "src/loop": 15, "src/cpu": 85, "src/cuda/decide": 25, "src/cuda/choose": 30, "src/cuda/emit": 50, "src/cuda/run": 30,
          "src/te": 30}
# What judges, the fastest first, and for which folders (all, where none is named). Of a program with a filter each test that
# comes by a mutant's place judges; of the others the whole.
JUDGES = [
    (["tests/fuzz/fuzz_epilogues", "--count", "80"], ()),
    (["tests/test_plan", "--gtest_filter=-*TimeIs*:*ThreadsShare*"], ()),
    (["tests/test_graph", "--gtest_filter=*"], ()),
    (["tests/test_errors", "--gtest_filter=*"], ("src/graph",)),
    (["tests/test_reference", "--gtest_filter=*"], ("src/reference", "src/core")),
    (["tests/test_lower", "--gtest_filter=*"], ("src/lower", "src/graph", "src/plan", "src/core")),
    (["tests/loop/test_loop", "--gtest_filter=*"], ("src/loop", "src/plan", "src/cpu", "src/core")),
    (["tests/te/test_te", "--gtest_filter=*"], ("src/te", "src/core")),
    (["tests/test_core", "--gtest_filter=*"], ("src/core",)),
    (["tests/fuzz/fuzz_inputs", "--count", "400"], ("src/graph", "src/core", "src/cuda/run")),
    (["tests/cuda/test_cuda", "--gtest_filter=*"], ("src/cuda", "src/plan", "src/core")),
    (["tests/test_cpu", "--gtest_filter=*"], ("src/cpu", "src/plan")),
    (["tests/fuzz/fuzz_calls", "--count", "20"], ()),
    (["tests/fuzz/fuzz_epilogues", "--count", "1000", "--seed", "5000"], ()),
    (["tests/cuda/test_emission", "--gtest_filter=*"], ("src/cuda",)),
    (["tests/te/test_te_emission", "--gtest_filter=*"], ("src/te", "src/cuda")),
]
# --generated: folders of equal shares, and what has a minute for each mutant.
GENERATED = {"src/lower": 1, "src/cpu/strips": 1, "src/cuda/emit": 1}
FUZZERS = [(["tests/fuzz/fuzz_epilogues"], ("src/lower", "src/cpu")), (["tests/cuda/fuzz_emission"], ("src/cuda",))]
MINUTE, CORES = 60, 2  # seconds of the processor time of each of two cores: a minute of a small machine
KEPT = {"POSTLUDE_EMISSION_KEPT": str(WORK / "emission")}
BLANKED = re.compile(r'//[^\n]*|R"\((?s:.*?)\)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'')
NEVER = re.compile(r"^\s*(#|using|template|static_assert|case |constexpr|inline constexpr|static constexpr|enum|struct|class|friend)")
EMITTED = {"off by one": r" (?:<|>|==) (?=[\w(])", "sign": r"(?<=[\w)\]]) [+-] (?=[\w(])", "factor": r"(?<=[\w)\]]) \* (?=[\w(])",
           "constant": r"(?<![\w.<$-])(?:\d|[1-6]\d)(?![\w.>%])"}
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
    text = BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    if "cuda/emit" in str(path):
        yield from emitted_sites(source)
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


def emitted_sites(source):
    """Mutants of the kernels' own text, which string literals hold."""
    for literal in BLANKED.finditer(source):
        if literal[0].startswith(("//", "'")) or source[:literal.start()].endswith("#include "):
            continue
        close, open_ = (')"', 'R"(') if literal[0].startswith("R") else ('"', '"')
        for what, pattern in EMITTED.items():
            for m in re.finditer(pattern, literal[0][len(open_):-len(close)]):
                begin = literal.start() + len(open_) + m.start()
                old = m[0]
                new = {"off by one": {" < ": " <= ", " > ": " >= ", " == ": " != "}, "sign": {" + ": " - ", " - ": " + "},
                       "factor": {" * ": " * 2 * "}}.get(what, {}).get(old) or str(int(old) + 1)
                yield (what + ", emitted", source.count("\n", 0, begin) + 1, begin, begin + len(old),
                       f'{close} + postlude_mutant::text(@, "{old}", "{new}") + {open_}')


def draw(count, seed, shares, most_of_a_file):
    """The mutants, by number from 1, the same for the same sources and seed: of files that are drawn, so many of each that a
    build compiles a part of the library."""
    chooser, drawn = random.Random(seed), []
    for folder, share in shares.items():
        files = sorted((ROOT / folder).rglob("*.cpp"))
        chooser.shuffle(files)
        taken = []
        wanted = round(1.2 * count * share / sum(shares.values()))  # some will not compile
        for path in files:
            found = [(str(path.relative_to(ROOT)), *site) for site in sites(path)]
            chooser.shuffle(found)
            here = []
            for site in found:  # no two in one place
                if len(here) < min(most_of_a_file, wanted - len(taken)) and all(site[4] < t[3] or t[4] < site[3] for t in here):
                    here.append(site)
            taken += here
        drawn += [dict(folder=folder, file=s[0], what=s[1], line=s[2], begin=s[3], end=s[4], new=s[5]) for s in taken]
    return {i: mutant for i, mutant in enumerate(drawn, 1)}


def listed(path):
    """The mutants of a list. Each line has a source, what is wrong there, which of several such places of a line is meant, and the
    line, with the end of the one before it where other lines read the same: one place of the source ends like this."""
    mutants, stale = {}, []
    sources = {}  # by file: where it may be mutated, each with its text up to the end of its line
    for number, text in enumerate(filter(lambda line: line.strip() and line[0] != "#", path.read_text().splitlines()), 1):
        file, what, which, ending = re.fullmatch(r"([^:]+): (.*) (\d+): (.*)", text).groups()
        if file not in sources:
            lines = (ROOT / file).read_text().splitlines() if (ROOT / file).exists() else []
            sources[file] = [(site, " ".join(line.strip() for line in lines[max(site[1] - 3, 0):site[1]]))
                             for site in (sites(ROOT / file) if lines else ())]
        found = [site for site, until in sources[file] if site[0] == what and until.endswith(ending)]
        places = len({site[1] for site in found})
        here = found[int(which) - 1:int(which)]
        if places == 1 and here:
            mutants[number] = dict(folder=file.rpartition("/")[0], file=file, what=what, line=here[0][1], begin=here[0][2], end=here[0][3],
                                   new=here[0][4])
        else:
            stale.append(f"  is in {places} places: {text}")
    if stale:
        sys.exit("\n".join([f"{path} lists bugs that are not in one place of the sources. Where a line was edited, write it as it is now,",
                            "or the line that does its work now, and judge the bug again by --only; where several read the same, put the end",
                            "of the line before in front.", *stale]))
    return mutants


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
    # What a run before found to compile.
    if source.exists() and target.exists():
        text = source.read_text()
        here = {n: m for n, m in mutants.items() if re.search(rf"\((?:{n})[,)]", text)}
        if text == mutated(file, here):
            return here
    while True:
        text = mutated(file, mutants)
        target.unlink(missing_ok=True)
        source.write_text(text)
        words = shlex.split(command)
        words = words[:words.index("-MD")] + ["-g0", *([] if file.startswith("src/cpu") else ["-O0"]), "-w", "-fmax-errors=0", "-o", str(target), "-c", str(source)]
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


def build(mutants, judges, jobs):
    """Links the tests with the mutated sources. Returns the mutants that compile."""
    targets = sorted({command[0].split("/")[-1] for command, _ in judges})
    subprocess.run(["ninja", "-C", BASE, *targets], check=True, stdout=subprocess.DEVNULL)
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

    def link(target):
        text = subprocess.run(["ninja", "-C", BASE, "-t", "commands", target], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
        words = shlex.split(text.split(" && ")[1])
        at = next(i for i, word in enumerate(words) if word.endswith(".a"))
        output = words.index("-o") + 1
        to = WORK / words[output]
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.exists() and all(to.stat().st_mtime > os.stat(made).st_mtime for made in (*objects, BASE / words[output])):
            return
        words = words[:at] + objects + words[at:]
        words[output] = str(to)
        subprocess.run(words, cwd=BASE, check=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(link, targets))
    return {number: mutant for part in left for number, mutant in part.items()}


def run(command, number, seconds, reached=None, kept=True):
    """What sees a mutant, the program or its test ("" if all pass), and the seconds of processor time that it took. After `seconds`
    of them it hangs; it has sixty times as many of the clock's. `reached`: a file for what it comes by. `kept`: emitted
    kernels that were compiled before are not compiled again."""
    name = pathlib.Path(command[0]).name
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # noqa: E731
    with tempfile.TemporaryDirectory(dir=WORK) as folder, open(pathlib.Path(folder) / "output", "w+") as output:
        environment = {**os.environ, "POSTLUDE_MUTANT": str(number), "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2",
                       "TMPDIR": folder, "POSTLUDE_EMISSION_FOLDER": folder, "POSTLUDE_EMISSION_EVERY": "30", "POSTLUDE_EMISSION_RUNS": "1", "POSTLUDE_TE_RUNS": "20", "GTEST_FAIL_FAST": "1"}
        environment |= KEPT if kept else {}
        environment |= {"POSTLUDE_MUTANTS_REACHED": str(reached)} if reached else {}
        # A session of its own, so that what it started ends with it.
        process = subprocess.Popen([str(WORK / command[0]), *command[1:]], cwd=folder, env=environment, preexec_fn=limit,
                                   stdout=output, stderr=subprocess.DEVNULL, start_new_session=True)
        late = threading.Timer(60 * seconds, process.kill)
        late.start()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        took = usage.ru_utime + usage.ru_stime
        if process.returncode == 0:
            return "", took
        output.seek(0)
        text = output.read()
        seen = re.findall(r"^\[  FAILED  \] (\S+?),? ", text, re.MULTILINE) or \
            re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)[-1:]  # it ended the process
    hangs = " (hangs)" if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else ""
    return (f"{name} {seen[0]}{hangs}" if seen else name + hangs), took


def tests_of(command):
    """The tests of a program, each as a command; the program itself, where it has none."""
    if not command[-1].startswith("--gtest_filter"):
        return [command]
    listed = subprocess.run([str(WORK / command[0]), "--gtest_list_tests", command[-1]], check=True, capture_output=True, text=True)
    found = []
    for line in listed.stdout.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            found.append([command[0], "--gtest_filter=" + suite + line.strip()])
        else:
            suite = line
    return found


def reach(command):
    """The mutants whose places a test comes by, and the seconds of processor time that it takes without any."""
    file = WORK / "reached" / re.sub(r"[^\w.]+", "-", " ".join([pathlib.Path(command[0]).name, *command[1:]]).replace("--", ""))[:200]
    file.parent.mkdir(exist_ok=True)
    took = file.with_name(file.name + "-seconds")
    if not took.exists():
        new = file.with_name(file.name + "-new")
        new.write_bytes(bytes(MOST))
        wrong, spent = run(command, 0, 600, new)
        if wrong:
            print(f"{wrong} fails without a mutant", flush=True)
            new.write_bytes(bytes(MOST))  # it judges nothing
        new.rename(file)
        took.write_text(str(spent))
    return {number for number, reached in enumerate(file.read_bytes()) if reached}, float(took.read_text())


def cases_of_a_minute(command, seed):
    """How many cases the fuzzer has done after a minute without a mutant, as it is released."""
    file = WORK / ("minute-" + pathlib.Path(command[0]).name + f"-{seed}")
    if not file.exists():
        words = [str(BASE / command[0]), *command[1:], "--seed", str(seed), "--seconds", str(MINUTE), "--jobs", str(CORES)]
        done = subprocess.run(words, env={**os.environ, **KEPT}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"it fails without a mutant:\n{done.stdout}")
        file.write_text(re.search(r": (\d+) cases from seed", done.stdout)[1])
    return int(file.read_text())


def fuzz_generated(mutants, known, seed, jobs):
    """A minute's cases of a fuzzer for each mutant, in a drawn order. Prints how each ended."""
    def judge(number):
        mutant = mutants[number]
        command = next(c for c, folders in FUZZERS if mutant["folder"].startswith(folders))
        command = [*command, "--seed", str(seed), "--count", str(cases_of_a_minute(command, seed)), "--jobs", str(CORES)]
        name, done = " ".join(command), known[json.dumps(key(mutant))]
        if name not in done:
            # What a mutant of emitted code emits as the library does, runs as it did.
            done[name], took = run(command, number, 10 * MINUTE, kept=mutant["folder"] == "src/cuda/emit")
            with RESULTS.open("a") as out:
                out.write(json.dumps({"key": key(mutant), "judge": name, "by": done[name], "seconds": took}) + "\n")
        line = (ROOT / mutant["file"]).read_text().splitlines()[mutant["line"] - 1].strip()
        print(f"{done[name] or 'NOT CAUGHT'}: {number} {mutant['file']}:{mutant['line']}: {mutant['what']} "
              f"`{mutant['new'][:40]}`: {line}", flush=True)
        return bool(done[name])

    for command, folders in FUZZERS:
        if any(mutant["folder"].startswith(folders) for mutant in mutants.values()):
            print(f"{command[0]}: a minute has {cases_of_a_minute(command, seed)} cases", flush=True)
    order = sorted(mutants, key=lambda number: random.Random(f"{seed} {number}").random())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        caught = list(pool.map(judge, order))
    print(f"{sum(caught)} of {len(caught)} caught")


def key(mutant):
    return [mutant[name] for name in ("file", "line", "what", "begin", "new")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=450)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--bugs", type=pathlib.Path, help="of --generated: a list of mutants, instead of drawn ones (bugs.txt)")
    parser.add_argument("--check", action="store_true", help="only look whether each of --bugs is in one place of the sources")
    parser.add_argument("--only", default="", help="of --generated: numbers of mutants, as 3,14")
    parser.add_argument("--equal", default="", help="numbers of mutants, as 3,14: they were read, and change nothing that is computed")
    arguments = parser.parse_args()
    if arguments.check:
        print(f"{len(listed(arguments.bugs))} bugs, each in one place")
        return
    end = time.time() + 60 * arguments.minutes
    WORK.mkdir(parents=True, exist_ok=True)
    shares, judges, most = (GENERATED, FUZZERS, 4) if arguments.generated else (SHARES, JUDGES, MOST_OF_A_FILE)
    drawn = listed(arguments.bugs) if arguments.bugs else draw(arguments.count, arguments.seed, shares, most)
    assert len(drawn) < MOST
    mutants = build(drawn, judges, arguments.jobs)
    known = collections.defaultdict(dict)  # by mutant: how each test ended
    if RESULTS.exists():
        for r in map(json.loads, RESULTS.read_text().splitlines()):
            known[json.dumps(r["key"])] |= {r["judge"]: r["by"], **dict.fromkeys(r.get("passed", ()), "")}
    print(f"{len(drawn)} drawn, {len(mutants)} compile", flush=True)
    if arguments.generated:
        only, equal = ({int(number) for number in filter(None, which.split(","))} for which in (arguments.only, arguments.equal))
        bugs = {number: mutant for number, mutant in mutants.items() if number not in equal and (number in only or not only)}
        fuzz_generated(bugs, known, arguments.seed * 1_000_000, arguments.jobs)
        return

    def ended(number):
        return known[json.dumps(key(mutants[number]))]

    def take(number, judge, tests):
        """`tests`: commands and their seconds."""
        if time.time() > end:
            return
        command = [tests[0][0][0]] + (tests[0][0][1:] if len(tests) == 1 else
                                      ["--gtest_filter=" + ":".join(test[1].split("=")[1] for test, _ in tests)])
        by, _ = run(command, number, 10 + round(8 * sum(seconds for _, seconds in tests)))
        passed = [] if by else [" ".join(test) for test, _ in tests]
        ended(number).update({judge: by, **dict.fromkeys(passed, "")})
        with RESULTS.open("a") as out:
            out.write(json.dumps({"key": key(mutants[number]), "judge": judge, "by": by, "passed": passed}) + "\n")

    open_judges = collections.defaultdict(set)  # by mutant: those that have not ended yet
    unreached = set(mutants)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for command, folders in JUDGES:
            judge = " ".join(command)
            tests = tests_of(command) if time.time() < end else []
            if not tests:
                for number, mutant in mutants.items():
                    if not folders or mutant["folder"].startswith(folders):
                        open_judges[number].add(judge)
                continue
            reached = sorted(zip(tests, pool.map(reach, tests)), key=lambda test: test[1][1])
            left = []  # mutants, and the tests that are run on them
            for number, mutant in mutants.items():
                if folders and not mutant["folder"].startswith(folders):
                    continue
                concerned = [(test, seconds) for test, (numbers, seconds) in reached if number in numbers]
                unreached -= {number} if concerned else set()
                if any(ended(number).values()):
                    continue
                total = itertools.accumulate(seconds for _, seconds in concerned)
                taken = [test for test, spent in zip(concerned, total) if spent < arguments.seconds or test is concerned[0]]
                new = [(test, seconds) for test, seconds in taken if " ".join(test) not in ended(number)]
                left += [(number, new)] if new else []
            print(f"{judge}: {len(left)} mutants, {sum(seconds for _, new in left for _, seconds in new):.0f} s at most", flush=True)
            random.Random(arguments.seed).shuffle(left)  # a run that stops has seen some of every folder
            list(pool.map(lambda item: take(item[0], judge, item[1]), left))
            for number, new in left:
                if not any(ended(number).values()) and any(" ".join(test) not in ended(number) for test, _ in new):
                    open_judges[number].add(judge)
    judged = collections.Counter()
    killed = collections.Counter()
    first = collections.Counter()
    for number, mutant in mutants.items():
        by = next(filter(None, ended(number).values()), "")
        if not by and open_judges[number]:
            continue
        judged[mutant["folder"]] += 1
        killed[mutant["folder"]] += bool(by)
        first[by.split(" ")[0]] += 1
        if not by:
            line = (ROOT / mutant["file"]).read_text().splitlines()[mutant["line"] - 1].strip()
            never = " (never reached)" if number in unreached else ""
            print(f"survives{never}: {mutant['file']}:{mutant['line']}: {mutant['what']} `{mutant['new'][:40]}`: {line}")
    print(*(f"{count} by {by or 'none'}" for by, count in first.most_common()), sep=", ")
    print("| folder | mutants | killed | |\n|---|---|---|---|")
    for folder in [*judged, "all"]:
        n, k = (judged[folder], killed[folder]) if folder != "all" else (judged.total(), killed.total())
        if n:
            print(f"| `{folder}` | {n} | {k} | {100 * k / n:.0f} % |")


main()
