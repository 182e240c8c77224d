"""Runs the program `postlude` as a person or a script would: program_test.py PROGRAM WRONG [GROUP ...].

WRONG is the same program with the functions of wrong_functions.cpp.

Only the standard library: .npy files are made and read here byte by byte.
"""
import ast
import json
import math
import os
import pathlib
import pty
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, WRONG = map(os.path.abspath, sys.argv[1:3])
SANITIZED = b"__tsan_init" in pathlib.Path(PROGRAM).read_bytes() or b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()

BIAS = """
def bias_relu(acc, bias: row):
    D = relu(acc + bias)
    amax = max(abs(acc + bias), axis=1)
    return D, amax
"""


def write_npy(path, descr, shape, values, fortran=False):
    codes = {"f4": "f", "f8": "d", "i8": "q", "i4": "i", "u1": "B", "i1": "b"}
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    order = ">" if descr[0] == ">" else "<"
    data = struct.pack(f"{order}{len(values)}{codes[descr[1:]]}", *values)
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def read_npy(path):
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", path
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode())
    code = {"f4": "f", "f2": "e", "i8": "q", "i4": "i", "b1": "?", "i1": "b", "u1": "B"}[header["descr"][1:]]
    count = math.prod(header["shape"])
    return header["descr"], header["shape"], struct.unpack(f"<{count}{code}", data[10 + length:])


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.epilogue = self.file("bias.py", BIAS)

    def file(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def path(self, name):
        return str(self.folder / name)

    def run_program(self, *arguments, code=0, program=PROGRAM, limits=(), **environment):
        """limits: (resource.RLIMIT_..., value) of the program."""
        environment = {**os.environ, **environment}

        def limit():
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
        result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment,
                                cwd=self.folder, timeout=120, preexec_fn=limit if limits else None)
        if code is not None:
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        if code == 0:
            self.assertEqual(result.stderr, "")
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        return result

    def run_json(self, *arguments, code=0, program=PROGRAM):
        return json.loads(self.run_program(*arguments, "--json", code=code, program=program).stdout)


class Run(Case):
    def test_verified(self):
        for dtype in ["f32", "bf16", "f16", "e4m3", "e5m2"]:
            got = self.run_json("run", self.epilogue, "--gemm", "33x20x17", "--in", dtype, "--verify")
            self.assertGreaterEqual(got["median_ms"], 0)
            self.assertLessEqual(got["error_over_bound"], 1)
            self.assertEqual(set(got["outputs"]), {"D", "amax"})
            self.assertEqual(got["outputs"]["D"]["shape"], [33, 20])
            self.assertEqual(got["outputs"]["D"]["dtype"], dtype)
            self.assertEqual(got["outputs"]["amax"]["dtype"], "f32")
            self.assertTrue(got["ok"])
        self.assertIn("3 x 2 x 1, bf16, cpu", self.run_program("run", self.epilogue, "--gemm", "3x2x1", "--in", "bfloat16").stdout)

    @unittest.skipIf(SANITIZED, "a sanitizer's frames are larger")
    def test_a_stack_of_128_kilobytes(self):  # a thread's, with musl
        self.run_program("run", self.epilogue, "--gemm", "70x300x150", "--verify", limits=[(resource.RLIMIT_STACK, 128 << 10)])

    def test_integers(self):
        epilogue = self.file("s8.py", "def f(acc, s: col[f32]):\n    D: s8 = cast(acc * s * 0.001, s8)\n    return D\n")
        got = self.run_json("run", epilogue, "--gemm", "9x8x40", "--in", "s8", "--verify")
        self.assertLessEqual(got["error_over_bound"], 1)

    def test_text(self):
        text = self.run_program("run", self.epilogue, "--gemm", "33x20x17", "--verify").stdout
        for part in ["bias_relu  gemm 33 x 20 x 17, f32, cpu", "schedule", "time", "D       f32    (33, 20)", "amax    f32    (33,)", "verified"]:
            self.assertIn(part, text)

    def test_last_def_or_name(self):
        epilogue = self.file("two.py", "def first(acc):\n    return acc + 1\n\ndef second(acc):\n    return acc + 2\n")
        self.assertEqual(self.run_json("run", epilogue, "--gemm", "2x3x4")["epilogue"], "second")
        self.assertEqual(self.run_json("run", epilogue + ":first", "--gemm", "2x3x4")["epilogue"], "first")

    def test_repeat_seed_threads(self):
        got = self.run_json("run", self.epilogue, "--gemm", "8x8x8", "--repeat", 5, "--threads", 2, "--seed", 7)
        self.assertEqual((got["repeat"], got["seed"]), (5, 7))
        self.assertEqual(self.run_json("run", self.epilogue, "--gemm", "8x8x8", "--repeat", 1)["repeat"], 1)
        self.assertGreater(self.run_json("run", self.epilogue, "--gemm", "8x8x8")["repeat"], 1)  # a moment's worth
        self.assertLessEqual(got["min_ms"], got["median_ms"])
        for threads in (1, 2):
            self.run_program("run", self.epilogue, "--gemm", "130x70x33", "--threads", threads, "--out", f"t{threads}")
        for name in ("D", "amax"):
            self.assertEqual((self.folder / f"t1/{name}.npy").read_bytes(), (self.folder / f"t2/{name}.npy").read_bytes())
        self.run_program("run", self.epilogue, "--gemm", "130x70x33", "--seed", 1, "--out", "other")
        self.assertNotEqual((self.folder / "t1/D.npy").read_bytes(), (self.folder / "other/D.npy").read_bytes())

    @unittest.skipIf(SANITIZED, "a sanitizer's memory has no limit")
    def test_threads_that_cannot_be_made(self):
        gigabyte = 1 << 30
        self.run_program("run", self.epilogue, "--gemm", "130x70x33", "--threads", 8, "--out", "whole")
        for most in (2, 5):  # threads, whose stacks are a gigabyte
            self.run_program("run", self.epilogue, "--gemm", "130x70x33", "--threads", 8, "--verify", "--out", "few",
                             limits=[(resource.RLIMIT_STACK, gigabyte), (resource.RLIMIT_AS, most * gigabyte)])
            self.assertEqual((self.folder / "few/D.npy").read_bytes(), (self.folder / "whole/D.npy").read_bytes())
        for most in range(20, 100, 4):  # megabytes, of which the outputs take 36 and the program 14
            ended = self.run_program("run", self.epilogue, "--gemm", "3000x3000x300", code=None, limits=[(resource.RLIMIT_AS, most << 20)])
            self.assertIn((ended.returncode, "PL0504" in ended.stderr), [(0, False), (4, True)], ended.stderr)
        self.assertEqual(ended.returncode, 0)
        for most in range(560, 680, 4):  # where 63 stacks just fit
            self.run_program("run", self.epilogue, "--gemm", "3000x3000x300", "--repeat", 1, OMP_NUM_THREADS="64",
                             limits=[(resource.RLIMIT_STACK, 8 << 20), (resource.RLIMIT_AS, most << 20)])

    def test_batch(self):
        got = self.run_json("run", self.epilogue, "--gemm", "6x5x4", "--batch", 3, "--verify")
        self.assertEqual(got["outputs"]["D"]["shape"], [3, 6, 5])
        self.assertLessEqual(got["error_over_bound"], 1)
        for main_loop, shape in (("--gemm", "6x5x4"), ("--stream", "6x5")):
            told = self.run_program("explain", self.epilogue, main_loop, shape, "--batch", 3).stdout
            self.assertIn(", batch = 3\n", told)

    def test_convolution(self):
        epilogue = self.file("f.py", "def f(acc, bias: row):\n    D: f32 = acc + bias\n    pooled: f32 = mean(D, axis=0)\n    return D, pooled\n")
        for conv, gradient, shapes in [("2x9x8x6:10x3x2:s2x1,p1", [], ([2, 45, 10], [2, 10])), ("2x20x6:10x3:d2", [], ([2, 16, 10], [2, 10])),
                                       ("1x4x5x6x4:6x2x2x2:g2", [], ([1, 60, 6], [1, 6])), ("2x9x8x6:10x3x2:s2x1,p1", ["data"], ([2, 72, 6], [2, 6])),
                                       ("2x9x8x6:10x3x2:s2x1,p1", ["weight"], ([10, 36], [36]))]:
            got = self.run_json("run", epilogue, "--conv", conv, *(["--gradient", *gradient] if gradient else []), "--verify")
            self.assertLessEqual(got["error_over_bound"], 1)
            self.assertEqual((got["outputs"]["D"]["shape"], got["outputs"]["pooled"]["shape"]), shapes)
            self.assertEqual(got["problem"]["conv"], conv)
        none = self.run_program("run", epilogue, "--conv", "0x9x8x6:10x3x2", "--verify").stdout
        self.assertIn(", batch 0, ", none)
        self.assertNotIn("Gop/s", none)
        text = self.run_program("explain", epilogue, "--conv", "2x9x8x6:10x3x2:s2x1,p1", "--gradient", "weight", "--loops").stdout
        self.assertIn("B  N·P·Q x R·S·C  of X (N, C, H, W): h = p * 2 + r - 1, w = q + s - 1; 0 outside", text)

    def test_stream(self):
        epilogue = self.file("softmax.py", "def softmax(acc):\n    e = exp(acc - max(acc, axis=1))\n    return e / sum(e, axis=1)\n")
        self.assertLessEqual(self.run_json("run", epilogue, "--stream", "7x9", "--verify")["error_over_bound"], 1)
        write_npy(self.path("x.npy"), "<f4", (2, 2), [0, 0, 5, 5])
        self.run_program("run", epilogue, "--stream", "2x2", "X=x.npy", "--out", ".")
        self.assertEqual(read_npy(self.path("D.npy"))[2], (0.5, 0.5, 0.5, 0.5))

    def test_indices_are_drawn_in_range(self):
        epilogue = self.file("xent.py", "def xent(acc, label: col[i64]):\n"
                                        "    hit = sum(where(n_index() == label, 1.0, 0.0), axis=1)\n"
                                        "    return hit\n")
        self.run_program("run", epilogue, "--gemm", "50x6x4", "--out", ".")
        self.assertEqual(set(read_npy(self.path("hit.npy"))[2]), {1.0})

    def test_empty(self):
        self.assertEqual(self.run_json("run", self.epilogue, "--gemm", "0x5x4", "--verify")["outputs"]["D"]["shape"], [0, 5])
        self.run_json("run", self.epilogue, "--gemm", "5x4x0", "--verify")


class Files(Case):
    def setUp(self):
        super().setUp()
        write_npy(self.path("a.npy"), "<f4", (2, 3), [1, 2, 3, 4, 5, 6])
        write_npy(self.path("b.npy"), "<f4", (3, 2), [1, -1, 2, -2, 3, -3])
        write_npy(self.path("bias.npy"), "<f4", (2,), [1, 1])

    def result(self, *arguments, code=0):
        return self.run_program("run", self.epilogue, *arguments, "--out", "out", code=code)

    def expect_right(self):
        self.assertEqual(read_npy(self.path("out/D.npy")), ("<f4", (2, 2), (15, 0, 33, 0)))
        self.assertEqual(read_npy(self.path("out/amax.npy")), ("<f4", (2,), (15, 33)))

    def test_all_given(self):
        self.result("--gemm", "2x2x3", "A=a.npy", "B=b.npy", "bias=bias.npy")
        self.expect_right()

    def test_sizes_from_the_files(self):
        self.result("A=a.npy", "B=b.npy", "bias=bias.npy")
        self.expect_right()

    def test_fortran_big_endian_and_wide(self):
        write_npy(self.path("a.npy"), ">f8", (2, 3), [1, 4, 2, 5, 3, 6], fortran=True)
        write_npy(self.path("b.npy"), "<i8", (3, 2), [1, -1, 2, -2, 3, -3])
        write_npy(self.path("bias.npy"), "<f8", (1, 2), [1, 1])
        self.result("--gemm", "2x2x3", "A=a.npy", "B=b.npy", "bias=bias.npy")
        self.expect_right()
        text = self.run_program("run", self.epilogue, "A=a.npy", "B=b.npy", "bias=bias.npy").stdout
        for part in ("converted  A from float64 to f32", "converted  B from int64 to f32", "converted  bias from float64 to f32"):
            self.assertIn(part, text)
        operands = self.run_json("run", self.epilogue, "A=a.npy", "--gemm", "2x2x3")["operands"]
        self.assertEqual(operands["A"]["converted_from"], "float64")
        self.assertNotIn("converted_from", operands["bias"])

    def test_bf16_is_widened(self):
        self.run_program("run", self.epilogue, "A=a.npy", "B=b.npy", "bias=bias.npy", "--in", "bf16", "--out", "out")
        self.assertEqual(read_npy(self.path("out/D.npy")), ("<f4", (2, 2), (15, 0, 33, 0)))

    def test_f16_stays(self):
        self.run_program("run", self.epilogue, "A=a.npy", "B=b.npy", "bias=bias.npy", "--in", "f16", "--out", "out")
        self.assertEqual(read_npy(self.path("out/D.npy")), ("<f2", (2, 2), (15, 0, 33, 0)))

    def test_scalars(self):
        epilogue = self.file("scale.py", "def f(acc, alpha: scalar):\n    total = sum(acc, axis=(0, 1))\n    D = acc * alpha\n    return D, total\n")
        self.run_program("run", epilogue, "A=a.npy", "B=b.npy", "alpha=-0.5", "--out", "out")
        self.assertEqual(read_npy(self.path("out/D.npy"))[2], (-7, 7, -16, 16))
        self.assertEqual(read_npy(self.path("out/total.npy"))[1:], ((), (0,)))
        write_npy(self.path("alpha.npy"), "<f4", (), [2])
        self.run_program("run", epilogue, "A=a.npy", "B=b.npy", "alpha=alpha.npy", "--out", "out")
        self.assertEqual(read_npy(self.path("out/D.npy"))[2], (28, -28, 64, -64))

    def test_indices(self):
        epilogue = self.file("argmax.py", "def f(acc):\n    index = argmax(acc, axis=1)\n    return index\n")
        self.run_program("run", epilogue, "A=a.npy", "B=b.npy", "--out", "out")
        self.assertEqual(read_npy(self.path("out/index.npy")), ("<i8", (2,), (0, 0)))

    def test_no_half_written_output(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "D.npy").mkdir()  # a folder stands where the file should go
        error = self.result("A=a.npy", "B=b.npy", "bias=bias.npy", code=4).stderr
        self.assertIn("PL0602", error)
        self.assertEqual(sorted(os.listdir(self.folder / "out")), ["D.npy"])

    def test_a_limit_of_file_sizes(self):
        error = self.run_program("run", self.epilogue, "--gemm", "300x300x30", "--out", "out", code=4,
                                 limits=[(resource.RLIMIT_FSIZE, 8192)]).stderr
        self.assertIn("PL0602", error)
        self.assertIn("File too large", error)
        self.assertEqual(os.listdir(self.folder / "out"), [])


class Errors(Case):
    def expect(self, code, text, *arguments):
        result = self.run_program("run", self.epilogue, *arguments, code=code)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stdout, "")
        got = self.run_json("run", self.epilogue, *arguments, code=code)["error"]
        self.assertRegex(got["code"], r"^PL\d{4}$")
        self.assertEqual(set(got) - {"code", "message", "name", "hint", "file", "line", "column"}, set())
        return got

    def test_text(self):
        self.epilogue = self.file("bad.py", "def bias_gelu(acc, bias: row):\n    d = gelu(acc + bais)\n    return d\n")
        error = self.expect(2, "Did you mean 'bias'?", "--gemm", "2x2x2")
        self.assertEqual((error["code"], error["line"], error["column"]), ("PL0103", 2, 20))

    def test_missing_file(self):
        self.epilogue = self.path("nowhere.py")
        self.assertEqual(self.expect(4, "nowhere.py': No such file or directory", "--gemm", "2x2x2")["code"], "PL0601")
        self.epilogue = str(self.folder)
        self.assertEqual(self.expect(4, "': Is a directory", "--gemm", "2x2x2")["code"], "PL0601")

    def test_operands(self):
        write_npy(self.path("x.npy"), "<f4", (3,), [1, 2, 3])
        self.assertEqual(self.expect(2, "'bias' has shape (3,), but the plan wants N = (2,)", "--gemm", "2x2x2", "bias=x.npy")["code"], "PL0306")
        self.assertEqual(self.expect(2, "Did you mean 'bias'?", "--gemm", "2x2x2", "bais=x.npy")["code"], "PL0303")
        self.assertEqual(self.expect(2, "X is that of --stream", "--gemm", "2x2x2", "X=x.npy")["code"], "PL0303")
        self.assertEqual(self.expect(2, "'D' is an output", "--gemm", "2x2x2", "D=x.npy")["code"], "PL0303")
        self.assertEqual(self.expect(2, "given twice", "--gemm", "2x2x2", "bias=x.npy", "bias=x.npy")["code"], "PL0302")
        self.assertEqual(self.expect(2, "is not a scalar", "--gemm", "2x2x2", "bias=0.5")["code"], "PL0701")
        self.assertEqual(self.expect(2, "'bias' is no operand", "--gemm", "2x2x2", "bias")["code"], "PL0701")
        write_npy(self.path("a.npy"), "<f4", (3, 2), [1, 2, 3, 4, 5, 6])
        self.expect(2, "A is M x K = (2, 3)", "--gemm", "2x2x3", "A=a.npy")
        self.expect(2, "It looks transposed", "--gemm", "2x2x3", "A=a.npy")

    def test_pipes_are_not_waited_for(self):
        os.mkfifo(self.path("pipe"))
        self.assertIn("not a regular file", self.expect(4, "'pipe'", "--gemm", "2x2x2", "bias=pipe")["message"])
        self.epilogue = self.path("pipe")
        self.assertEqual(self.expect(4, "named pipe", "--gemm", "2x2x2")["code"], "PL0601")
        result = subprocess.run(["bash", "-c", f"{PROGRAM} run <(cat bias.py) --gemm 2x2x2"], cwd=self.folder, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_is_no_array_is_not_read(self):
        with open(self.path("x.npy"), "wb") as file:
            file.truncate(3 << 30)
        if not SANITIZED:  # which reserve terabytes
            self.run_program("run", self.epilogue, "--gemm", "2x2x2", "bias=x.npy", code=2, limits=[(resource.RLIMIT_AS, 1 << 30)])
        self.expect(2, "is not a .npy file", "--gemm", "2x2x2", "bias=x.npy")
        write_npy(self.path("y.npy"), "<f4", (2,), [1, 2])
        with open(self.path("y.npy"), "ab") as file:
            file.truncate(3 << 30)
        self.expect(2, "its shape asks for 8", "--gemm", "2x2x2", "bias=y.npy")

    def test_bad_npy(self):
        write_npy(self.path("x.npy"), "<f4", (2,), [1, 2])
        whole = pathlib.Path(self.path("x.npy")).read_bytes()
        pathlib.Path(self.path("cut.npy")).write_bytes(whole[:-3])
        self.assertEqual(self.expect(2, "It may be cut off", "--gemm", "2x2x2", "bias=cut.npy")["code"], "PL0603")
        pathlib.Path(self.path("o.npy")).write_bytes(whole.replace(b"'<f4'", b"'|O8'"))
        self.assertEqual(self.expect(2, "Python objects", "--gemm", "2x2x2", "bias=o.npy")["code"], "PL0603")
        self.assertEqual(self.expect(4, "'none.npy' cannot be read", "--gemm", "2x2x2", "bias=none.npy")["code"], "PL0601")

    def test_unsupported(self):
        self.assertEqual(self.expect(3, "X is i64", "--stream", "2x2", "--in", "i64")["code"], "PL0401")

    def test_no_device(self):
        if json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True).stdout)["cuda"]:
            self.skipTest("there is a GPU here")
        got = self.expect(4, "PL05", "--gemm", "2x2x2", "--target", "cuda")
        self.assertIn("hint", got)

    def test_too_large(self):
        self.assertEqual(self.expect(4, "take 1.6e+10 GB", "--gemm", "2000000000x2000000000x1")["code"], "PL0504")
        self.expect(2, "is larger than 2147483647", "--gemm", "0x3000000000x0")
        self.expect(2, "is larger than 2147483647", "--gemm", "0x300000000000000000000000x0")

    def test_nothing_is_written(self):
        self.run_program("run", self.epilogue, "--gemm", "2x2x2", "bias=none.npy", "--out", "out", code=4)
        self.assertFalse((self.folder / "out").exists())


class ExitCodes(Case):
    def run_function(self, name, code, *arguments):
        epilogue = self.file(f"{name}.py", f"def f(acc):\n    D = {name}(acc)\n    E = acc + 1\n    return D, E\n")
        return [call("run", epilogue, "--gemm", "5x4x3", *arguments, code=code, program=WRONG)
                for call in (self.run_program, self.run_json)]

    def test_a_check_failed(self):
        text, got = self.run_function("wrong", 1, "--verify")
        self.assertIn("check failed", text.stdout)
        self.assertIn("D is wrong: at batch 0, row", text.stdout)
        self.assertFalse(got["ok"])
        self.assertGreater(got["error_over_bound"], 1)
        self.assertGreater(got["outputs"]["D"]["error_over_bound"], 1)
        self.assertAlmostEqual(got["outputs"]["D"]["worst"]["value"] - got["outputs"]["D"]["worst"]["expected"], 0.5, 5)
        self.assertLessEqual(got["outputs"]["E"]["error_over_bound"], 1)
        self.run_function("wrong", 0)  # nothing was checked

    def test_a_bug(self):
        text, got = self.run_function("throwing", 5, "--verify")
        self.assertIn("thrown by a test", text.stderr)
        self.assertEqual(got["error"]["code"], "PL0901")

    def test_the_others(self):
        self.run_program("run", self.epilogue, "--gemm", "5x4x3")
        self.run_program("run", self.epilogue, "--gemm", "5x4", code=2)
        self.run_program("run", self.file("text.py", "def f(acc):\n    return bcc\n"), "--gemm", "5x4x3", code=2)
        self.run_program("run", self.epilogue, "--stream", "5x4", "--in", "i64", code=3)
        self.run_program("run", "nowhere.py", "--gemm", "5x4x3", code=4)


class Usage(Case):
    def expect(self, text, *arguments):
        self.assertIn(text, self.run_program(*arguments, code=2).stderr)

    def test_usage(self):
        self.expect("no command is given")
        self.expect("Name its file: postlude run FILE.py", "run")
        self.expect("not a number: --seed = x", "run", self.epilogue, "--gemm", "2x2x2", "--seed", "x")
        self.expect("`postlude run --help` lists", "run", self.epilogue, "--gemm", "2x2x2", "--repeat", "0")
        self.expect("is not a size for --gemm", "run", self.epilogue, "--gemm", "64x48")
        self.expect("is not a size for --gemm", "run", self.epilogue, "--gemm", "64x48x-1")
        self.expect("is not a size for --stream", "run", self.epilogue, "--stream", "64xA")
        self.expect("two of --gemm, --stream and --conv", "run", self.epilogue, "--stream", "6x4", "--gemm", "2x2x2")
        self.expect("is no convolution", "run", self.epilogue, "--conv", "2x8x8:4x3x3")
        self.expect("each once", "run", self.epilogue, "--conv", "2x8x8x64:64x3x3:g64,g2")
        self.expect("--gradient is given without --conv", "run", self.epilogue, "--gemm", "4x4x4", "--gradient", "data")
        self.expect("none of --gemm, --stream and --conv", "run", self.epilogue)
        self.expect("is no dtype", "run", self.epilogue, "--gemm", "2x2x2", "--in", "f31")
        self.expect("is no target", "run", self.epilogue, "--gemm", "2x2x2", "--target", "tpu")
        self.expect("--repeat", "run", self.epilogue, "--gemm", "2x2x2", "--repeat", "0")
        self.expect("--batch", "run", self.epilogue, "--gemm", "2x2x2", "--batch", "0")
        self.expect("there is no option '--frobnicate'", "run", self.epilogue, "--gemm", "2x2x2", "--frobnicate")
        self.expect("Did you mean '--verify'?", "run", self.epilogue, "--gemm=2x2x2", "--verfy")
        self.expect("Did you mean '--version'?", "--verson")
        self.expect("there is no command 'rnu'\n    Did you mean 'run'?", "rnu", self.epilogue)
        self.expect("epilogue", "run")
        error = json.loads(self.run_program("run", "--json", code=2).stdout)["error"]
        self.assertEqual(error["code"], "PL0701")

    def test_help_and_version(self):
        for command in ("run", "explain", "ops", "doctor", "cache"):
            self.assertIn(command, self.run_program("--help").stdout)
            self.assertIn("--json", self.run_program(command, "--help").stdout)
        self.assertRegex(self.run_program("--version").stdout, r"^postlude \d+\.\d+\.\d+\n$")

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here")
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 4)
        self.assertIn("PL0602", result.stderr)

    def test_colours_only_on_a_terminal(self):
        def on_terminal(**environment):
            try:
                main, worker = pty.openpty()
            except OSError as error:
                self.skipTest(f"no terminal can be opened here: {error}")
            process = subprocess.Popen([PROGRAM, "ops", "exp"], stdout=worker, env={**os.environ, "TERM": "xterm", **environment})
            os.close(worker)
            process.wait()
            output = os.read(main, 10000).decode()
            os.close(main)
            return output
        plain = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        os.environ.clear()
        os.environ.update(plain)
        self.assertIn("\x1b[", on_terminal())
        self.assertNotIn("\x1b[", on_terminal(NO_COLOR="1"))
        self.assertNotIn("\x1b[", on_terminal(TERM="dumb"))


class Explain(Case):
    def test_parts(self):
        summary = self.run_program("explain", self.epilogue).stdout
        for part in ["graph", "phase 0 over {m, n}, behind the main loop", "schedule", "floor"]:
            self.assertIn(part, summary)
        self.assertIn("at M = 64, N = 48, K = 32\n", self.run_program("explain", self.epilogue, "--gemm", "64x48x32").stdout)
        for part in ["passes", "program", "schedule", "loops", "source"]:
            self.assertEqual(set(self.run_json("explain", self.epilogue, f"--{part}")), {"epilogue", part})
        both = self.run_json("explain", self.epilogue, "--program", "--schedule")
        self.assertEqual(set(both), {"epilogue", "program", "schedule"})
        self.assertIn("amax", both["program"])

    def test_gpu_without_one(self):
        shape = ["--gemm", "256x256x64", "--in", "bf16", "--target", "sm_90a"]
        self.assertIn("__global__", self.run_program("explain", self.epilogue, *shape, "--source").stdout)
        best = self.run_program("explain", self.epilogue, *shape, "--schedule").stdout.splitlines()
        wanted = best[1].split("  ")[0]
        chosen = self.run_program("explain", self.epilogue, *shape, f"--schedule={wanted}").stdout
        self.assertRegex(chosen, f"(?m)^  {wanted} .*(chosen|rejected)")
        self.assertNotIn(best[0].split("  ")[0], chosen)
        self.assertIn("PL0402", self.run_program("explain", self.epilogue, *shape, "--schedule=sideways", code=3).stderr)

    def test_stream(self):
        self.assertIn("stream f32", self.run_program("explain", self.epilogue, "--stream", "64x48").stdout)

    def test_error(self):
        self.assertIn("PL0601", self.run_program("explain", "nowhere.py", code=4).stderr)


class Ops(Case):
    def test_page(self):
        page = self.run_program("ops").stdout
        for part in ["ARITHMETIC", "a + b", "LEAVES", "REDUCTIONS", "logsumexp(x, axis=None)", "FUNCTIONS", "gelu(x)"]:
            self.assertIn(part, page)
        self.assertLessEqual(max(map(len, page.splitlines())), 120)

    def test_one(self):
        self.assertIn("hyperbolic tangent", self.run_program("ops", "tanh").stdout)
        self.assertIn("Did you mean 'tanh'?", self.run_program("ops", "tahn", code=2).stderr)

    def test_json(self):
        table = self.run_json("ops")
        self.assertIn("exp", [op["name"] for op in table["operations"]])
        self.assertIn("argmax", [op["name"] for op in table["reductions"]])
        self.assertIn("gelu", [op["name"] for op in table["functions"]])


class Doctor(Case):
    def test_doctor(self):
        report = self.run_json("doctor")
        self.assertTrue(report["ok"])
        self.assertIn("instructions", [finding["what"] for finding in report["findings"]])
        self.assertIn("ok", self.run_program("doctor").stdout)


class Cache(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def cache_json(self, *arguments, **environment):
        result = self.run_program("cache", "--json", *arguments, POSTLUDE_CACHE_DIR=str(self.cache), **environment)
        return json.loads(result.stdout)

    def test_missing_empty_and_full(self):
        self.assertEqual((self.cache_json()["exists"], self.cache_json()["files"]), (False, 0))
        self.cache.mkdir(mode=0o700)
        (self.cache / "entry").write_bytes(b"12345")
        got = self.cache_json()
        self.assertEqual((got["folder"], got["files"], got["bytes"]), (str(self.cache), 1, 5))
        self.assertEqual(self.cache_json("--clear")["files"], 1)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_folder_of_others(self):
        self.cache.mkdir()
        self.cache.chmod(0o777)
        self.assertIn("can be written by others", self.cache_json()["reason"])
        (self.cache / "entry").write_bytes(b"12345")
        self.run_program("cache", "--clear", code=4, POSTLUDE_CACHE_DIR=str(self.cache))
        self.assertTrue((self.cache / "entry").exists())

    def test_link(self):
        (self.folder / "real").mkdir(mode=0o700)
        self.cache.symlink_to(self.folder / "real")
        for end in ("", "/", "/.", "//./"):
            result = self.run_program("cache", "--json", POSTLUDE_CACHE_DIR=str(self.cache) + end)
            self.assertIn("is a symbolic link", json.loads(result.stdout)["reason"], end)

    def test_no_home(self):
        result = self.run_program("cache", HOME="", XDG_CACHE_HOME="", POSTLUDE_CACHE_DIR="")
        self.assertIn("not used", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
