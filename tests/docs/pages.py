"""Checks the project's pages: pages.py PROGRAM [--write].

  console   what follows a `$ command` in a block marked `console` is what the command prints, with `postlude` the
            program given, from the repository's root
  written   docs/errors.md is made of errors.def, and docs/operations.txt is what `postlude ops` prints
  index     docs/decisions/README.md lists every decision, by its subject, title and first line
  examples  what docs/from-*.md show of C++ is in examples/visitors, line by line, which is compiled and run
  links     every relative link leads to a file, and to a heading in it; `decision NNNN` in a source names one
  files     a file that a page names between backticks is there, at the end of some path
  kernels   docs/kernels.md names every file of src/cuda/device
  width     lines of prose have at most 100 columns (tables, code and what bench/draw.py writes apart)

--write puts right what can be: it writes what the commands print, these files and the index (`./dev docs`).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECISIONS = ROOT / "docs/decisions"
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
PAGES = [ROOT / name for name in subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True,
    check=True).stdout.split() if (ROOT / name).exists()]
INDEX = re.compile(r"(?<=<!-- index -->\n\n).*?(?=\n\n<!-- end -->)", re.S)


def run(command):
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(PROGRAM, pathlib.Path(folder) / "postlude")
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "NO_COLOR": "1"}
        result = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True,
                                timeout=120)
    return result.stdout + result.stderr


def replayed(page):
    """The page with the output of every command as it is now."""
    def block(match):
        lines, out = match[1].splitlines(), []
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                continue  # what an earlier run printed
            out.append(line)
            command = line[2:]
            while command.endswith("\\"):
                out.append(lines.pop(0))
                command = command[:-1] + out[-1]
            printed = run(command).rstrip("\n")
            assert printed, f"{command}\nprints nothing: what it looks for has changed"
            out += printed.split("\n")
        return "```console\n" + "\n".join(out) + "\n```"
    return re.sub(r"^```console\n(.*?)^```", block, page, flags=re.S | re.M)


def written():
    """Files that are written whole, by name."""
    rows = re.findall(r'^POSTLUDE_ERROR\((\d+), (\w+), "(.*)"\)$', (ROOT / "include/postlude/errors.def").read_text(), re.M)
    table = "".join(f"| PL{int(code):04} | `{name}` | {title} |\n" for code, name, title in rows)
    return {ROOT / "docs/errors.md": "# Errors\n\nEvery way in which Postlude refuses. Made from `include/postlude/errors.def` by "
                                     "`./dev docs`.\n\n| code | name | when |\n|---|---|---|\n" + table,
            ROOT / "docs/operations.txt": run("COLUMNS=100 postlude ops")}


SUBJECTS = ("the language and its meaning", "lowering", "how the parts fit", "products on a GPU", "schedules on a GPU",
            "epilogues on a GPU", "compiling for a GPU", "convolutions on a GPU", "products on a CPU", "epilogues on a CPU",
            "convolutions on a CPU", "loops by hand", "visitor types", "measuring", "testing", "robustness")


def index():
    """The decisions of each subject; those that name none of these come last."""
    rows = {subject: [] for subject in (*SUBJECTS, "other")}
    for path in sorted(DECISIONS.glob("0*.md")):
        title, _, facts = path.read_text().partition("\n\n")
        facts = " ".join(facts.partition("\n\n")[0].split())
        number, words = title.removeprefix("# ").split(" ", 1)
        date = re.search(r"\d{4}-\d\d-\d\d(?=[,.])|\d{4}-\d\d-\d\d", facts)
        status = re.search(r"Status: ([^.;,(]*)", facts)
        about = re.search(r"About: ([^.]*)\.", facts)
        rows[about[1] if about and about[1] in rows else "other"].append(
            f"| {number} | [{words}]({path.name}) | {date[0]} | {status[1].split(' by ')[0].strip()} |")
    return "\n\n".join("\n".join((f"### {subject[0].upper()}{subject[1:]}", "", "| | decision | date | status |", "|---|---|---|---|", *lines))
                       for subject, lines in rows.items() if lines)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", h).lower()).replace(" ", "-") for h in headings}


class Pages(unittest.TestCase):
    maxDiff = None

    def test_console(self):
        for path in PAGES:
            page = path.read_text()
            if "```console" in page:
                self.assertEqual(replayed(page), page, f"{path.relative_to(ROOT)} is out of date: ./dev docs writes it")

    def test_written(self):
        for path, text in written().items():
            self.assertEqual(text, path.read_text(), f"{path.relative_to(ROOT)} is out of date: ./dev docs writes it")

    def test_examples(self):
        def lines(text):
            return "\n".join(line.strip() for line in text.splitlines() if line.strip())
        programs = [lines(path.read_text()) for path in sorted((ROOT / "examples/visitors").glob("*.cpp"))]
        for path in sorted((ROOT / "docs").glob("from-*.md")):
            blocks = re.findall(r"^```cpp\n(.*?)^```", path.read_text(), re.S | re.M)
            self.assertTrue(blocks, f"{path.name} shows no code")
            for block in blocks:
                self.assertTrue(any(lines(block) in program for program in programs),
                                f"no program in examples/visitors has these lines of {path.name}:\n{block}")

    def test_index(self):
        listed = INDEX.search((DECISIONS / "README.md").read_text())[0]
        self.assertEqual(index(), listed, "docs/decisions/README.md is out of date: ./dev docs writes it")

    def test_links(self):
        for path in PAGES:
            text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"\w+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = path.parent / name if name else path
                self.assertTrue(target.exists(), f"{path.relative_to(ROOT)} links to {link}, which is not there")
                if anchor and target.suffix == ".md":
                    self.assertIn(anchor, anchors(target.read_text()), f"{path.relative_to(ROOT)} links to {link}")

    def test_numbers(self):
        known = {path.name[:4] for path in DECISIONS.glob("0*.md")}
        found = subprocess.run(["git", "grep", "-nE", r"decisions?[ /][0-9]{4}", "--", "src", "include", "python", "tests",
                                "bench", "epilogues", "cmake", "dev", "CMakeLists.txt"],
                               cwd=ROOT, capture_output=True, text=True).stdout
        for line in found.splitlines():
            for number in re.findall(r"\b0\d{3}\b", line.split(":", 2)[2]):
                self.assertIn(number, known, line)

    def test_files(self):
        files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.split()
        ends = {file[at:] for file in files for at in [0] + [i + 1 for i, c in enumerate(file) if c == "/"]}
        name = re.compile(r"`((?:[\w.-]+/)*[A-Za-z0-9][\w.-]*\.(?:h|cpp|cu|inc|def|py|md|txt|json|sh|toml|golden))"
                          r"(?:::?[\w.:]+)?`")
        found = 0
        for path in PAGES:
            for file in name.findall(re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)):
                if "NAME" in file or "NNNN" in file:
                    continue
                found += 1
                self.assertIn(file, ends, f"{path.relative_to(ROOT)} names {file}, which is not there")
        self.assertGreater(found, 100)

    def test_kernels(self):
        page = (ROOT / "docs/kernels.md").read_text()
        for path in (ROOT / "src/cuda/device").iterdir():
            self.assertIn(f"`{path.name}`", page, "docs/kernels.md lists the kernels' files")

    def test_width(self):
        for path in PAGES:
            if path.is_relative_to(ROOT / "bench/results"):
                continue  # a program writes them
            made = r"^```.*?^```|<!-- \w+: .*?<!-- end -->"  # and what a program writes
            text = re.sub(made, lambda m: "\n" * m[0].count("\n"), path.read_text(), flags=re.S | re.M)
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > 100 and not line.startswith(("|", "<", "!")) and " " in line.strip()[:100]:
                    self.fail(f"{path.relative_to(ROOT)}:{number} has {len(line)} columns: wrap it at 100")


if __name__ == "__main__":
    if "--write" in sys.argv:
        for path in PAGES:
            page = path.read_text()
            path.write_text(replayed(page))
        for path, text in written().items():
            path.write_text(text)
        readme = DECISIONS / "README.md"
        readme.write_text(INDEX.sub(lambda _: index(), readme.read_text()))
    else:
        unittest.main()
