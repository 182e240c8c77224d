"""Random sequences of calls of the Python interface, mistakes among them, against sums that are written out.

check(seed) gives "" or what is wrong. What fits gives the exact result; what does not raises one of Postlude's errors and
writes nothing; whatever an exporter of DLPack does, its memory is given back once.
"""
from __future__ import annotations

import gc
import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import postlude as post
from postlude import te

from exporters import FAIR, WRONG, Exporter, Injected

NUMBERS = ("float32", "float32", "float32", "float16", "int8", "uint8")
FOREIGN = ("float64", "int16", "complex64", "object", ">f4", "U3")


@post.epilogue
def plain(acc):
    return acc


@post.epilogue
def biased(acc, bias: post.row, residual: post.tile):
    D: post.f32 = post.relu(acc + bias) - residual
    return D


@post.epilogue
def counted(acc, label: post.col[post.i64], scale: post.scalar = 2):
    D: post.f32 = post.where(post.n_index() == label, acc, acc * scale)
    top: post.i64 = post.argmax(D, axis=1)
    return D, top


@post.epilogue
def summed(acc, x: post.tile[post.f32]):
    total: post.f32 = post.sum(acc * x, axis=1)
    most: post.f32 = post.max(abs(acc), axis=0)
    return {"total": total, "most": most}


@post.epilogue
def by_rank(acc, x):
    D: post.f32 = acc + x
    return D


@post.epilogue
def halves(acc):
    a, b = post.chunk(acc, 2)
    D: post.f32 = a * b
    return D


@post.epilogue
def chosen(acc, mask: post.tile[post.bool]):
    D: post.f32 = post.where(mask, acc, 0)
    count: post.f32 = post.sum(D)
    return D, count


EPILOGUES = (plain, biased, counted, summed, by_rank, halves, chosen)


@dataclass
class Given:
    """An argument: `value` is what is passed, `array` what it holds. `sure`: it must be taken; `bad`: it must be refused."""
    value: Any
    array: np.ndarray
    sure: bool = True
    bad: bool = False


@dataclass
class Case:
    choose: random.Random
    exporters: list[Exporter] = field(default_factory=list)
    guards: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)

    def chance(self, percent: float) -> bool:
        return self.choose.random() * 100 < percent

    def numbers(self, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
        low, high = {"bool": (0, 1), "uint8": (0, 2)}.get(dtype, (-2, 2))
        count = int(np.prod(shape))
        return np.array(self.choose.choices(range(low, high + 1), k=count), dtype=dtype).reshape(shape)

    def extent(self) -> int:
        return self.choose.choice((0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 33))

    # Arrays in the forms that a caller may have them in ---------------------------------------------------------------

    def laid_out(self, array: np.ndarray) -> np.ndarray:
        """The same elements in other places, between elements that are nobody's."""
        kind = self.choose.randrange(5)
        if kind == 0 or array.ndim == 0:
            return array.copy()
        if kind == 1:
            return np.asfortranarray(array)
        steps = [self.choose.choice((1, 1, 2, 3) if kind < 4 else (1, -1, -2)) for _ in array.shape]
        whole = np.full([extent * abs(step) + 2 for extent, step in zip(array.shape, steps)], 1, array.dtype)
        cut = []
        for extent, step in zip(array.shape, steps):
            first, last = 1, 1 + extent * abs(step)
            cut.append(slice(first, last, step) if step > 0 else slice(last - 1, first - 1, step))
        view = whole[tuple(cut)]
        view[...] = array
        return view

    def dressed(self, array: np.ndarray, output: bool = False) -> Given:
        laid = self.laid_out(array)
        negative = any(stride < 0 for stride in laid.strides)
        if self.chance(65):
            if output:
                self.guard(laid)
            return Given(laid, laid, sure=not (output and negative))
        kind = self.choose.randrange(10)
        if kind < 4:
            form = self.choose.choice(FAIR)
            self.exporters.append(Exporter(laid, form))
            whole = output and form in ("no strides", "temporary")  # a copy is written
            return Given(self.exporters[-1], laid, sure=not output and not negative,
                         bad=output and form == "versioned read-only" and laid.size > 0) if not whole else Given(laid, laid, sure=not negative)
        if kind < 6:
            form = self.choose.choice(WRONG)
            self.exporters.append(Exporter(laid, form))
            shapeless = form in ("negative extent", "huge", "another the second time") or form == "no data" and laid.size == 0
            return Given(self.exporters[-1], laid, sure=False, bad=not shapeless)
        if kind == 6:
            laid = laid.view()
            laid.flags.writeable = False
            return Given(laid, laid, sure=not output, bad=output)
        if kind == 7:
            wide = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape) if array.itemsize > 1 and array.size else laid
            wide[...] = array
            return Given(wide, wide, sure=False)
        if kind == 8:
            dtype = self.choose.choice(FOREIGN)
            return Given(array.astype(dtype), array, sure=False, bad=True)
        others = [memoryview(array), array.tolist(), np.ma.array(array), None, "x", array.view(np.matrix) if array.ndim == 2 else array]
        return Given(self.choose.choice(others), array, sure=False)

    def guard(self, view: np.ndarray) -> None:
        """What lies in the same memory as `view` and is none of its elements stays as it is."""
        base = view
        while isinstance(base.base, np.ndarray):
            base = base.base
        outside = np.ones(base.shape, bool)
        if base is not view:
            offset = (view.ctypes.data - base.ctypes.data) // base.itemsize
            places = np.full(view.shape, offset)
            for axis, stride in enumerate(view.strides):
                places += (np.arange(view.shape[axis]) * (stride // base.itemsize)).reshape([-1 if a == axis else 1 for a in range(view.ndim)])
            order = np.arange(base.size).reshape(base.shape)  # bases are contiguous, in C's order or Fortran's
            if not base.flags.c_contiguous:
                order = np.arange(base.size).reshape(base.shape[::-1]).T
            outside = ~np.isin(order, places)
            self.guards.append((base, outside, base.copy()))

    def damage(self) -> str:
        for base, outside, before in self.guards:
            if not np.array_equal(base[outside], before[outside]):
                return "an element beside an output was written"
        return ""

    # Operands and outputs ---------------------------------------------------------------------------------------------

    def shape_of(self, axes: int, sizes: tuple[int, ...], batched: bool) -> tuple[int, ...]:
        b, m, n = sizes
        shape = {0: (), 2: (m,), 4: (n,), 6: (m, n)}[axes]
        return (b, *shape) if batched and self.chance(60) else shape

    def operands(self, f: Any, sizes: tuple[int, ...], batched: bool) -> dict[str, Given]:
        given: dict[str, Given] = {}
        for operand in f.operands:
            if operand.default is not None and self.chance(50):
                continue
            axes = operand.axes if operand.axes is not None else self.choose.choice((0, 4, 6))
            shape = self.shape_of(axes, sizes, batched and operand.axes is not None)
            fixed = {None: None, "i64": "int64", "f32": "float32", "boolean": "bool", "bool": "bool"}[str(operand.dtype).rpartition(".")[2] if operand.dtype is not None else None]
            bad = False
            if self.chance(4) and shape:
                shape, bad = (*shape[:-1], shape[-1] + 2), True
            elif self.chance(3):
                shape, bad = (2, 2, 2, *shape), True
            array = self.numbers(shape, fixed or self.choose.choice(NUMBERS[:4]))
            if operand.name == "label":
                array = np.abs(array)
            if not shape and self.chance(50):
                given[operand.name] = Given(self.choose.choice((int(array), float(array), np.float32(array))), array)
                continue
            one = self.dressed(array)
            one.bad |= bad
            given[operand.name] = one
        if self.chance(3):
            given[self.choose.choice(("D", "acc", "nothing", "A"))] = Given(np.ones(3, np.float32), np.ones(3), sure=False, bad=True)
        if given and self.chance(3):
            name = self.choose.choice(list(given))
            operand = next((o for o in f.operands if o.name == name), None)
            del given[name]
            if operand is not None and operand.default is None:
                given["nothing"] = Given(1.0, np.ones(()), bad=True)
        return given

    # Checks -----------------------------------------------------------------------------------------------------------

    def expected(self, f: Any, acc: np.ndarray, operands: dict[str, Given]) -> list[np.ndarray]:
        """The outputs on plain arrays of float64, a batch at a time."""
        def real(array: np.ndarray) -> np.ndarray:
            return array if array.dtype.kind in "bi" and array.itemsize != 1 or array.dtype.kind == "b" else array.astype(np.float64)

        def at(batch: int) -> list[np.ndarray]:
            arguments = {}
            for operand in f.operands:
                if operand.name in operands:
                    array = real(operands[operand.name].array)
                    axes = 9 if operand.axes is None else bin(operand.axes).count("1")
                    arguments[operand.name] = array[batch] if array.ndim > axes else array
            result = f(acc[batch] if acc.ndim == 3 else acc, **arguments)
            return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]

        return at(0) if acc.ndim == 2 else [np.stack(each) for each in zip(*map(at, range(acc.shape[0])))]

    def call(self, what: str, make: Any, arguments: list[Given], expected: Any, outs: list[Given] | None = None) -> str:
        """Runs `make`, which returns arrays; says what is wrong with that, "" if nothing."""
        bad, sure = any(one.bad for one in arguments), all(one.sure for one in arguments)
        before = [None if one.array is None else one.array.copy() for one in outs or []]
        try:
            results = make()
        except post.InternalError as error:
            return f"{what}: {error}"
        except post.Error as error:
            if sure and not bad:
                return f"{what} refuses what fits: {error}"
            for one, kept in zip(outs or [], before):
                if not np.array_equal(one.array, kept):
                    return f"{what} refuses, and has written: {error}"
            return ""
        except (Injected, KeyboardInterrupt):
            return "" if bad else f"{what} raises what nobody raised"
        except BaseException as error:  # noqa: BLE001 -- that is the question
            return f"{what} raises {type(error).__name__}: {error}"
        if bad:
            return f"{what} takes what does not fit"
        for got, wanted in zip(results, expected(), strict=True) if expected else ():
            got = got.array if isinstance(got, Exporter) else np.asarray(got)
            wanted = wanted.astype(got.dtype) if got.dtype.kind not in "iu" else wanted
            if got.shape != wanted.shape or not np.array_equal(got.astype(np.float64), wanted.astype(np.float64), equal_nan=True):
                return f"{what} gives\n{got}\nfor\n{wanted}"
        return self.damage()

    def outs(self, f: Any, want: Any, dtype: str) -> tuple[Any, list[Given]]:
        """out= for outputs like those that are expected, or nothing."""
        if want is None or self.chance(60):
            return None, []
        names = ["D"] if f in (plain, biased, by_rank, halves) else {counted: ["D", "top"], summed: ["total", "most"], chosen: ["D", "count"]}[f]
        made: list[Given] = []
        for name, array in zip(names, want):
            kind = "int64" if name == "top" else "float16" if f is plain and dtype == "float16" else "float32"
            shape, bad = array.shape, False
            if self.chance(4) and shape:
                shape, bad = (*shape[:-1], shape[-1] + 1), True
            one = self.dressed(np.full(shape, 77, kind), output=True)
            one.bad |= bad and one.value is not None  # which asks for a new output
            made.append(one)
        if self.chance(3) and len(made) == 2 and made[0].array.shape == made[1].array.shape:
            made[1] = Given(made[0].value, made[0].array, sure=False)
        values = [one.value for one in made]
        form = self.choose.randrange(4)
        if form == 0 or len(values) == 1 and form == 1:
            return (values[0] if len(values) == 1 else tuple(values)), made
        if form == 1:
            return values, made
        out = dict(zip(names, values))
        if self.chance(5):
            out[self.choose.choice(("nothing", "acc", 1))] = values[0]
            made.append(Given(None, None, bad=True))
        return out, made

    def product(self) -> str:
        """matmul or stream, at once or by a plan that is bound and run again."""
        f, streamed, batched = self.choose.choice(EPILOGUES), self.chance(30), self.chance(20)
        b, m, n, k = self.choose.choice((1, 2, 3)), *(self.extent() for _ in range(3))
        dtype = self.choose.choice(NUMBERS)
        left, right = ((m, n), None) if streamed else ((m, k), (k, n))
        inputs = [self.numbers((b, *s) if batched and (i == 0 or self.chance(70)) else s, dtype) for i, s in enumerate((left, right)) if s]
        acc = inputs[0].astype(np.float64) if streamed else inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
        given = [self.dressed(x) for x in inputs]
        if right and self.chance(4):
            wrong = self.numbers((*inputs[1].shape[:-2], k + 1, n), dtype)
            given[1] = Given(wrong, wrong, bad=True)
        if f is by_rank and batched:
            f = plain
        operands = self.operands(f, (b, m, n), batched)
        want = None
        if 0 not in (m, n) and not any(one.bad for one in operands.values()) and not (f is halves and n % 2):
            want = self.expected(f, acc, operands)
        arguments = [*given, *operands.values(), Given(None, None, sure=want is not None)]
        out, made = self.outs(f, want, dtype)
        values, keywords = [one.value for one in given], {name: one.value for name, one in operands.items()}
        target = self.choose.choice((None, None, "cpu", "portable", "avx2", post.Target.cpu(threads=2)))
        what = f"{'stream' if streamed else 'matmul'} of {[x.shape for x in inputs]} {dtype} behind {f!r} on {target!r}"

        def results(result: Any) -> list[Any]:
            return list(result) if isinstance(result, tuple) else [result]

        def at_once() -> list[Any]:
            entry = post.stream if streamed else post.matmul
            return results(entry(*values, epilogue=f, out=out, target=target, **keywords))

        def by_plan() -> list[Any]:
            plan = post.plan(*values, epilogue=f, target=target, **keywords)
            bound = list(values)
            if not streamed and not batched and self.chance(30):
                bound[1] = plan.pack(values[1])
            call = plan.bind(*bound, out=out, **keywords)
            first = [np.array(np.asarray(x.array if isinstance(x, Exporter) else x)) for x in results(call())]
            again = results(call())
            for x, y in zip(first, again):
                y = y.array if isinstance(y, Exporter) else np.asarray(y)
                assert x.tobytes() == np.ascontiguousarray(y).tobytes(), "two runs give other bits"
            self.calls.append((call, what, first))
            if self.chance(20):
                for comparison in plan.verify(*values, **keywords):
                    assert comparison.error_over_bound <= 1, repr(comparison)
            return again

        planned = self.chance(40)
        if planned and self.chance(50):
            try:
                post.supports(*values, epilogue=f, target=target, **keywords)
            except (post.Error, Injected, KeyboardInterrupt):
                pass
        return self.call(what + (" by a plan" if planned else ""), by_plan if planned else at_once, [*arguments, *made],
                         (lambda: want) if want is not None else None, made)

    def convolution(self) -> str:
        """A convolution or one of its gradients, of one to three axes."""
        rank, groups = self.choose.choice((1, 2, 2, 2, 3)), self.choose.choice((1, 1, 1, 2, 3))
        draw = lambda low, high: tuple(self.choose.randint(low, high) for _ in range(rank))
        stride, padding, dilation, taps = draw(1, 3), draw(0, 2), draw(1, 2), draw(1, 3)
        n, c, k = self.choose.choice((1, 2)), groups * self.choose.choice((1, 2, 5, 16)), groups * self.choose.choice((1, 3, 8))
        image = tuple(max(size, far * (tap - 1) + 1 - 2 * around) for size, around, far, tap in zip(draw(1, 7), padding, dilation, taps))
        pixels = tuple((size + 2 * around - far * (tap - 1) - 1) // step + 1
                       for size, around, far, tap, step in zip(image, padding, dilation, taps, stride))
        kind, dtype, last = self.choose.choice(("", "", "dgrad", "wgrad")), self.choose.choice(NUMBERS[:4]), self.chance(30)
        x, w, dy = (self.numbers(shape, dtype) for shape in ((n, c, *image), (k, c // groups, *taps), (n, k, *pixels)))

        def summed() -> list[np.ndarray]:
            padded = np.zeros((n, c, *(size + 2 * around for size, around in zip(image, padding))))
            inner = (slice(None), slice(None), *(slice(around, around + size) for size, around in zip(image, padding)))
            if kind != "dgrad":
                padded[inner] = x
            y, dw = np.zeros(dy.shape), np.zeros(w.shape)
            for g, at in itertools.product(range(groups), np.ndindex(*taps)):
                cs, ks = (slice(g * whole // groups, (g + 1) * whole // groups) for whole in (c, k))
                seen = padded[(slice(None), cs, *(slice(i * far, i * far + (p - 1) * step + 1, step)
                                                  for i, far, p, step in zip(at, dilation, pixels, stride)))]
                tap = w[(ks, slice(None), *at)].astype(np.float64)
                if kind == "dgrad":
                    seen += np.einsum("nk...,kc->nc...", dy[:, ks].astype(np.float64), tap)
                elif kind == "wgrad":
                    dw[(ks, slice(None), *at)] = np.einsum("ncp,nkp->kc", *(a.reshape(*a.shape[:2], -1) for a in (seen, dy[:, ks].astype(np.float64))))
                else:
                    y[:, ks] += np.einsum("nc...,kc->nk...", seen, tap)
            return [padded[inner] if kind == "dgrad" else dw if kind == "wgrad" else y]

        def turned(array: np.ndarray) -> np.ndarray:
            return np.moveaxis(array, 1, -1) if last else array

        options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, layout="nhwc" if last else "nchw")
        wrong = self.chance(5)
        if wrong:
            options.update(self.choose.choice((dict(stride=0), dict(stride=(1,) * (rank + 1)), dict(padding="x"), dict(dilation=1 << 40),
                                               dict(groups=7), dict(groups=-1), dict(layout="chwn"), dict(stride=None))))
        one, two = {"": (x, w), "dgrad": (dy, w), "wgrad": (x, dy)}[kind]
        given = [self.laid_out(one) if kind == "" else one, two]
        result = {"": dy, "dgrad": x, "wgrad": w}[kind]
        out = self.chance(30) and turned(np.full(result.shape, 77, np.float32)).copy()
        if kind == "wgrad" and out is not False and not last:  # its n counts channels last
            out = np.moveaxis(np.moveaxis(out, 1, -1).copy(), -1, 1)
        where = self.choose.choice((None, "cpu", "portable", post.Target.cpu(threads=2)))

        def run() -> list[np.ndarray]:
            loop = post.Conv(**options) if kind == "" else post.ConvDgrad(image, **options) if kind == "dgrad" else post.ConvWgrad(taps, **options)
            keywords = {} if out is False else {"out": out}
            if planned:
                made = loop.plan(*map(turned, given), target=where, dtypes={} if out is False else {"D": post.f32})
                y = made.bind(*map(turned, given), **keywords)()
            else:
                y = loop(*map(turned, given), target=where, **keywords)
            assert out is False or np.shares_memory(y, out), "out= is another array"
            return [np.moveaxis(y, -1, 1) if last else y]

        planned = self.chance(30)
        what = f"conv {kind} of {x.shape} by {w.shape} {dtype}, {options}, out: {out is not False}, on {where!r}" + " by a plan" * planned
        return self.call(what, run, [Given(given, one, sure=not wrong)], summed)

    def loops(self) -> str:
        """A sum of products written as loops, under a drawn schedule."""
        m, n, k = (self.extent() for _ in range(3))
        M, N, K = te.var("M"), te.var("N"), te.var("K")
        A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
        axis = te.reduce_axis((0, K), "k")
        C = te.compute((M, N), lambda i, j: te.sum(A[i, axis] * B[axis, j], axis=axis), name="C")
        s = te.create_schedule(C.op)
        for _ in range(self.choose.randrange(4)):
            try:
                loop = self.choose.choice([*s[C].op.axis, *s[C].op.reduce_axis])
                outer, inner = s[C].split(loop, factor=self.choose.choice((1, 2, 3, 8, 0)))
                kind = self.choose.randrange(5)
                if kind == 0:
                    s[C].unroll(inner)
                elif kind == 1:
                    s[C].vectorize(inner)
                elif kind == 2:
                    s[C].parallel(outer)
                elif kind == 3:
                    s[C].reorder(inner, outer)
                else:
                    s.rfactor(C, inner)
                    break
            except post.InternalError as error:
                return f"a schedule: {error}"
            except post.Error:
                pass
        a, b = self.numbers((m, k)), self.numbers((k, n))
        given = [self.dressed(a), self.dressed(b)]
        c = self.dressed(np.full((m, n), 77, np.float32), output=True)
        for one in (*given, c):
            one.sure &= one.value is one.array and one.value.flags.c_contiguous
        try:
            built = te.build(s, [A, B, C])
        except post.InternalError as error:
            return f"a nest: {error}\n{s}"
        except post.Error:
            return ""
        return self.call(f"loops of {m} x {n} x {k}:\n{built.source}",
                         lambda: [built(*(one.value for one in (*given, c))), c.array][1:],
                         [*given, c], lambda: [a.astype(np.float64) @ b.astype(np.float64)], [c])

    def again(self) -> str:
        """A call of an earlier step: what it was bound to is still there."""
        if not self.calls:
            return ""
        call, what, first = self.choose.choice(self.calls)
        result = call()
        for x, y in zip(first, result if isinstance(result, tuple) else (result,)):
            y = y.array if isinstance(y, Exporter) else np.asarray(y)
            if x.tobytes() != np.ascontiguousarray(y).tobytes():
                return f"{what}, run again later, gives\n{y}\nfor\n{x}"
        return ""


def check(seed: int) -> str:
    case = Case(random.Random(seed))
    for _ in range(6):
        step = case.choose.choices((case.product, case.convolution, case.loops, case.again), (7, 1, 1, 1))[0]
        if wrong := step():
            return wrong
    exporters = case.exporters
    del case, step
    gc.collect()
    return next(filter(None, (exporter.complaint() for exporter in exporters)), "")
