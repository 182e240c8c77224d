"""@post.epilogue: a Python function becomes a graph by running once on symbolic values."""
from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import os
import types
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np

from . import _core, numeric
from ._compile import compile_logged
from ._where import Place, place_of, shown
from .dtypes import DType, as_dtype
from .errors import error, utf8
from .values import Annotated, Trace, Value, _Class, classes, tracing

# What post.matmul, post.plan and plan.bind take by keyword, beside the operands.
_RESERVED = {"epilogue", "out", "target", "batched", "dtypes"}
_alive: weakref.WeakValueDictionary[int, Epilogue] = weakref.WeakValueDictionary()  # by id: a dataclass has no hash
_CLASS_OF_AXES = {6: "tile", 4: "row", 2: "col", 0: "scalar"}


@dataclass(frozen=True)
class Operand:
    name: str
    axes: int | None         # a sum of 2 (over M) and 4 (over N); None: from the rank at the call
    dtype: DType | None
    default: Any             # a number, or None
    place: Place


class Epilogue:
    """What @post.epilogue makes of a function. Called with arrays it is that function, its own reference."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        if not inspect.isfunction(function.__func__ if inspect.ismethod(function) else function):
            raise error("usage", f"what is decorated is no function but of the type {type(function).__name__}", "Decorate a def or a lambda; it may call anything.")
        functools.update_wrapper(self, function)
        self.function: Any = function
        name = name or function.__name__
        self.name = name if name.isidentifier() else "epilogue"
        self._code: CodeType = self.function.__code__
        if self._code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise error("unsupported_syntax", f"{self.name!r} is a generator or a coroutine", "An epilogue returns its outputs.")
        self.accumulator, self.operands = self._read_parameters()
        self._graphs: dict[tuple[int, ...], tuple[_core.Graph, bool]] = {}
        self._launchers: dict[Any, _core.Launcher] = {}
        _alive[id(self)] = self

    # Parameters ------------------------------------------------------------------------------------------------------

    def _read_parameters(self) -> tuple[str, tuple[Operand, ...]]:
        definition = self._definition
        places: dict[str, Place] = {}
        if definition is not None:
            for argument in [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]:
                end = argument.end_col_offset if argument.end_lineno == argument.lineno else None
                places[argument.arg] = self._place(argument.lineno, argument.col_offset, end)
        accumulator, operands = "", []
        parameters = list(inspect.signature(self.function).parameters.values())
        named = next((p.name for p in parameters if p.name in ("acc", "accum", "accumulator")), None)
        for parameter in parameters:
            place = places.get(parameter.name, self._place(self._code.co_firstlineno, 0, None))
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise error("unsupported_syntax", f"the parameter *{parameter.name} has no operand of its own",
                            "Name every operand.", place)
            if not accumulator and (named is None or parameter.name == named):
                accumulator = parameter.name
                continue
            _check_free(parameter.name, place)
            default = None if parameter.default is parameter.empty else parameter.default
            if default is not None and not isinstance(default, (bool, int, float)):
                raise error("bad_call", f"the default of {parameter.name!r} is no number", "Pass the array at the call.", place)
            axes, dtype = self._read_annotation(parameter, place)
            operands.append(Operand(parameter.name, axes, dtype, default, place))
        if not accumulator:
            raise error("bad_call", f"{self.name!r} has no parameter", "The first one is the accumulator: def f(acc): ...",
                        self._place(self._code.co_firstlineno, 0, None))
        return accumulator, tuple(operands)

    def _read_annotation(self, parameter: inspect.Parameter, place: Place) -> tuple[int | None, DType | None]:
        if parameter.annotation is parameter.empty:
            return None, None
        declared = self._declaration(parameter.annotation, {})
        if declared is None:
            raise error("unknown_dtype", f"the annotation of {parameter.name!r} is no class of operand",
                        "Write post.row, post.col, post.tile or post.scalar, with a dtype if it is fixed: post.row[post.bf16].", place)
        axes, dtype = declared
        return 0 if axes is None and dtype is not None else axes, dtype

    def _declaration(self, annotation: Any, variables: Mapping[str, Any]) -> tuple[int | None, DType | None] | None:
        """The (axes, dtype) that an annotation declares; None where it is neither a class nor a dtype. Text, such as "row" or
        any annotation under `from __future__ import annotations`, means what its names are to the function, else the
        language's own words."""
        for _ in range(2):  # "'row'" is text within text
            if isinstance(annotation, str):
                cells = zip(self._code.co_freevars, self.function.__closure__ or ())
                closure = {name: cell.cell_contents for name, cell in cells if cell != _empty_cell}
                try:
                    annotation = eval(annotation, {**_words, **self.function.__globals__, **closure, **variables})  # noqa: S307 -- the user's own
                except Exception:
                    annotation = _core.parse_dtype(annotation.strip("'\""))  # "float16"
        if annotation is Value:
            return None, None
        if isinstance(annotation, Annotated):
            return annotation.kind.axes, annotation.dtype  # type: ignore[attr-defined]
        if isinstance(annotation, type) and issubclass(annotation, _Class):
            return annotation.axes, None
        dtype = None if isinstance(annotation, str) else as_dtype(annotation)
        return None if dtype is None else (None, dtype)

    # The source, where there is one -----------------------------------------------------------------------------------

    @functools.cached_property
    def _definition(self) -> ast.FunctionDef | ast.Lambda | None:
        for node in ast.walk(_parsed(self._code.co_filename)):
            if isinstance(node, ast.FunctionDef) and node.name == self._code.co_name:
                first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                if first == self._code.co_firstlineno:
                    return node
            elif isinstance(node, ast.Lambda) and self._code.co_name == "<lambda>" and node.lineno == self._code.co_firstlineno:
                return node
        return None

    def _place(self, line: int, column: int, end: int | None) -> Place:
        text = linecache.getline(self._code.co_filename, line).rstrip("\n")
        length = (len(text.encode()) if end is None else end) - column
        return Place(shown(self._code.co_filename), line, column + 1, max(length, 1), text)

    def _declared(self, name: str, frame: FrameType) -> tuple[int | None, DType | None]:
        """The (axes, dtype) of `D: post.bf16 = d`, which Python itself does not keep. As in the language the last assignment
        before the return decides, and one that declares nothing takes the declaration back."""
        if not isinstance(self._definition, ast.FunctionDef):
            if _may_declare(self._code, name):
                raise error("unsupported_syntax", f"the source of {self.name!r} cannot be read, and {name!r} may declare a dtype there, as in `{name}: post.bf16 = ...`",
                            f"Keep the function in a file; or write `{name} = ...`, and give post.plan the dtype: dtypes={{{name!r}: post.bf16}}.",
                            place_of(frame))
            return None, None
        meanings: set[tuple[int | None, DType | None]] = set()
        for word in self._last_declarations(self._definition.body, name, frame.f_lineno):
            if word is None:
                meanings.add((None, None))
            elif (declared := self._declaration(ast.unparse(word), frame.f_locals)) is not None:
                meanings.add(declared)
            else:
                raise error("unknown_dtype", f"{ast.unparse(word)!r} is not a dtype", "Write one of postlude's, such as post.bf16.",
                            self._place(word.lineno, word.col_offset, word.end_col_offset))
        if len(meanings) > 1:
            raise error("unsupported_syntax", f"what {name!r} declares depends on a branch", f"Declare it once, behind the branch: {name}: post.bf16 = {name}",
                        place_of(frame))
        return meanings.pop() if meanings else (None, None)

    def _last_declarations(self, body: list[ast.stmt], name: str, line: int) -> list[ast.expr | None]:
        """What the assignments to `name` declare that may be the last before `line`: one in straight lines, more behind a branch."""
        last: list[ast.expr | None] = []
        for statement in body:
            if statement.lineno > line or isinstance(statement, ast.Return):
                break
            nodes = list(_own_nodes(statement))
            declarations = {node.target: node for node in nodes if isinstance(node, ast.AnnAssign)}
            found = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)]
            for node in found:
                if node in declarations and declarations[node].value is None:
                    raise error("unsupported_syntax", f"{name!r} is declared without a value", f"Write {name}: post.bf16 = ...",
                                self._place(node.lineno, node.col_offset, node.end_col_offset))
            if found and isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                last = []
            last += [declarations[node].annotation if node in declarations else None for node in found]
        return last

    def _returned(self, frame: FrameType) -> ast.expr | None:
        """The expression of the return statement that a frame stands at; None where it cannot be found."""
        if isinstance(self._definition, ast.Lambda):
            return self._definition.body
        if self._definition is not None:
            for node in _own_nodes(*self._definition.body):
                if isinstance(node, ast.Return) and node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno):
                    return node.value
        return None

    # Tracing -----------------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> _core.Graph:
        """The graph; the classes of all operands must be annotated."""
        for operand in self.operands:
            if operand.axes is None:
                raise error("bad_call", f"the class of the operand {operand.name!r} is known at the call only",
                            f"Annotate it: {operand.name}: post.row, or post.col, post.tile, post.scalar.", operand.place)
        return self.graph_of(tuple(operand.axes or 0 for operand in self.operands))

    def graph_of(self, axes: tuple[int, ...]) -> _core.Graph:
        """The graph for operands of these axes, one a parameter."""
        return self._traced(axes)[0]

    def _traced(self, axes: tuple[int, ...]) -> tuple[_core.Graph, bool]:
        """The graph, and whether the result is a record of outputs (a tuple or dict was returned)."""
        if axes not in self._graphs:
            self._graphs[axes] = self._trace(axes)
        return self._graphs[axes]

    def _trace(self, axes: tuple[int, ...]) -> tuple[_core.Graph, bool]:
        trace = Trace(self.name)
        arguments = {self.accumulator: Value(trace.builder.accumulator(), trace)}
        for operand, bits in zip(self.operands, axes):
            trace.builder.at(*operand.place)
            arguments[operand.name] = Value(trace.builder.operand(operand.name, bits, operand.dtype), trace)
        bound = inspect.signature(self.function).bind_partial()
        bound.arguments.update(arguments)
        with tracing(trace):
            try:
                result, frame = _core.call_and_frame(functools.partial(self.function, *bound.args, **bound.kwargs), self._code)
            except RecursionError:
                raise error("recursion", f"{self.name!r} calls itself without end", "An epilogue is one straight line of operations.") from None
        for name, value in frame.f_locals.items():
            if isinstance(value, Value) and value._trace is trace and name not in arguments:
                trace.builder.name(value._node, name)
        place = place_of(frame)
        trace.builder.at(*place)
        outputs, record = self._outputs(result, frame, place)
        for name, value, source in outputs:
            if not isinstance(value, (Value, bool, int, float, np.generic)):
                raise error("no_output", f"the output {name!r} is a {type(value).__name__}, not a value of the epilogue",
                            "Return what is computed from the accumulator and the operands.", place)
            if not isinstance(value, Value):
                raise error("constant_output", f"the output {name!r} is a constant", "Return what depends on the accumulator or an operand.", place)
            declared, dtype = self._declared(source, frame) if source else (None, None)
            trace.builder.output(name, value._node, dtype, declared)
        graph = trace.builder.finish()
        if unused := graph.unused_operands():
            operand = next(operand for operand in self.operands if operand.name == unused[0])
            raise error("unused_operand", f"the operand {operand.name!r} is not used", "Use it, or take the parameter away.", operand.place)
        return graph, record

    def _outputs(self, result: Any, frame: FrameType, place: Place) -> tuple[list[tuple[str, Any, str]], bool]:
        """(name, value, the variable it was returned by) of each output, and whether the result is a record of them."""
        expression = self._returned(frame)
        parameters = {self.accumulator, *(operand.name for operand in self.operands)}

        def variable(value: Any, node: ast.expr | None) -> str:
            if expression is not None:
                return node.id if isinstance(node, ast.Name) and node.id not in parameters else ""
            names = [name for name, local in frame.f_locals.items() if local is value and name not in parameters]
            if len(names) > 1:
                raise error("no_output", f"an output of {self.name!r} may be called {' or '.join(names)}: the source of its return cannot be read",
                            'Return names for them: {"D": d, "amax": amax}.', place)
            return names[0] if names else ""

        if result is None or (isinstance(result, (tuple, list, dict)) and not result):
            raise error("no_output", f"{self.name!r} returns nothing", "End it with `return d`, or with names: `return D, amax`.", place)
        if isinstance(result, dict):
            nodes = expression.values if isinstance(expression, ast.Dict) and len(expression.values) == len(result) else [None] * len(result)
            for name in result:
                if not isinstance(name, str):
                    raise error("bad_name", f"the output name {name!r} is no string", 'Return {"D": d, "amax": amax}.', place)
            return [(utf8(name), value, variable(value, node)) for (name, value), node in zip(result.items(), nodes)], True
        if isinstance(result, (tuple, list)):
            elements = expression.elts if isinstance(expression, (ast.Tuple, ast.List)) and len(expression.elts) == len(result) else [None] * len(result)
            if hasattr(result, "_fields"):
                return [(name, value, "") for name, value in zip(result._fields, result)], True
            outputs = []
            for i, (value, node) in enumerate(zip(result, elements)):
                name = variable(value, node)
                if not name:
                    raise error("no_output", f"output {i + 1} of {self.name!r} has no name",
                                'Write D = ... on a line before and return D, or return {"D": ..., "amax": ...}.', place)
                outputs.append((name, value, name))
            return outputs, True
        name = variable(result, expression)
        return [(name or "D", result, name)], False

    # Plans ---------------------------------------------------------------------------------------------------------------

    def _record(self, graph: _core.Graph, record: bool) -> Any:
        """What makes the result of the outputs: a named tuple, or None for the one output itself."""
        if not record:
            return None
        return namedtuple(self.name + "_result", [name for name, _, _ in graph.outputs])

    def axes_at(self, ranks: Sequence[int | None], batched: bool) -> tuple[int, ...]:
        """The axes of the operands: as annotated, else from these ranks (None: a number)."""
        axes = []
        for operand, rank in zip(self.operands, ranks):
            if operand.axes is not None:
                axes.append(operand.axes)
                continue
            bare = (rank or 0) - batched if rank != 1 else 1  # one axis is a row in a batch too, shared by all of it
            if bare > 2:
                raise error("wrong_rank", f"operand {operand.name!r} has {rank} axes",
                            "A row has one axis, a tile two, one more in front for a batch.")
            axes.append({1: 4, 2: 6}.get(bare, 0))
        return tuple(axes)

    def _compile(self, problem: _core.Problem, ranks: Sequence[int | None],
                 dtypes: Sequence[DType | None], outs: Sequence[tuple[str, DType | None]], target: _core.Target,
                 more: dict[str, DType]) -> _core.Plan:
        graph, record = self._traced(self.axes_at(ranks, problem.batched))
        options = [(operand.name, dtype) for operand, rank, dtype in zip(self.operands, ranks, dtypes)
                   if operand.dtype is None and dtype is not None and rank is not None]
        outputs = graph.outputs
        for i, (name, dtype) in enumerate(outs):
            place = next((j for j, output in enumerate(outputs) if output[0] == name), None) if name else i
            if dtype is not None and place is not None and place < len(outputs) and outputs[place][2] is None:
                options.append((outputs[place][0], dtype))
        options += more.items()
        defaults = {operand.name: operand.default for operand in self.operands if operand.default is not None}
        return compile_logged(problem, graph, target, options, self._record(graph, record), defaults)

    def _launcher(self, loop: _core.Problem, target: _core.Target | None) -> _core.Launcher:
        """Calls `loop`, over inputs of whatever dtypes are given, with this epilogue."""
        key = (loop._key, None if target is None else target._key())
        launcher = self._launchers.get(key)
        if launcher is None:
            def resolve(problem: _core.Problem, device: _core.Device, index: int, operands: list[tuple[str, int, bool, DType]],
                        outs: list[tuple[str, DType | None]]) -> _core.Plan:
                where = target or (_core.Target.cuda(index) if device == _core.Device.cuda else _core.Target.cpu())
                return self._compile(problem, [None if number else rank for _, rank, number, _ in operands],
                                     [dtype for _, _, _, dtype in operands], outs, where, {})

            launcher = self._launchers[key] = _core.Launcher(
                loop, [o.name for o in self.operands], [o.default for o in self.operands],
                [o.dtype for o in self.operands], resolve)
        return launcher

    # On plain arrays ---------------------------------------------------------------------------------------------------

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function itself: on values of another epilogue, or on arrays (float64 for more digits than a plan has)."""
        bound = inspect.signature(self.function).bind(*arguments, **keywords)
        bound.apply_defaults()
        if numeric.running() or any(isinstance(value, Value) for value in bound.arguments.values()):
            return self.function(*bound.args, **bound.kwargs)
        acc = numeric.widen(bound.arguments[self.accumulator])
        if len(getattr(acc, "shape", ())) not in (2, 3):
            raise error("wrong_rank", f"the accumulator {self.accumulator!r} has no 2 axes (or 3 in a batch)", "Pass an array of M x N.")
        batched = len(acc.shape) == 3
        values = {self.accumulator: numeric.pure(acc)}
        given = [bound.arguments[operand.name] for operand in self.operands]
        axes = self.axes_at([len(getattr(value, "shape", ())) for value in given], batched)
        for operand, bits, value in zip(self.operands, axes, given):
            values[operand.name] = _spread(numeric.pure(numeric.widen(value)), bits, batched)
        graph, record = self._traced(axes)  # which refuses what no epilogue may do, before arrays are there to do it to
        grid = numeric.Grid(acc.shape[0] if batched else 1, acc.shape[-2], acc.shape[-1], acc)
        with numeric.on_grid(grid), np.errstate(all="ignore"):
            result = self.function(*[values.get(name, value) for name, value in bound.arguments.items()])
        if isinstance(result, dict):
            items = list(result.values())
        else:
            items = list(result) if record else [result]
        natural = [numeric.impure(_natural(item, bits)) for item, bits in zip(items, graph.output_axes())]
        return self._record(graph, record)(*natural) if record else natural[0]

    def __reduce__(self) -> str:
        return str(self.function.__qualname__)  # pickled as functions are, by module and name

    def __str__(self) -> str:
        return str(self.graph)

    def __repr__(self) -> str:
        operands = ", ".join(o.name + ("" if o.axes is None else f": {_CLASS_OF_AXES[o.axes]}") +
                             ("" if o.dtype is None else f"[{o.dtype.name}]") for o in self.operands)
        return f"<postlude epilogue {self.name}({self.accumulator}{', ' if operands else ''}{operands})>"


class TextEpilogue(Epilogue):
    """An epilogue that was read from text: it has a graph, and no Python function behind it."""

    def __init__(self, graph: _core.Graph) -> None:
        self.name = self.__name__ = graph.name
        self.accumulator = "acc"
        self.operands = tuple(Operand(name, axes, dtype, None, Place()) for name, axes, dtype in graph.operands)
        for operand in self.operands:
            _check_free(operand.name)
        self._graph = graph
        self._launchers = {}

    def __reduce__(self) -> Any:
        return parse, (str(self._graph), self.name)

    def _traced(self, axes: tuple[int, ...]) -> tuple[_core.Graph, bool]:
        return self._graph, len(self._graph.outputs) > 1

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise error("usage", f"{self.name!r} was read from text, and only Python functions run on plain arrays",
                    "Import the file as a module, or use post.matmul and post.stream.")


def epilogue(function: Callable[..., Any]) -> Epilogue:
    """A decorator: the function says what happens to the accumulator, its first parameter.

    Operands are the other parameters, annotated post.row, post.col, post.tile or post.scalar (with a dtype if it is to be
    fixed: post.row[post.bf16]), or taken by their rank at the call. Return a value, named values, or a dict of them.
    """
    return Epilogue(function)


def forget_graphs() -> None:
    """Has every epilogue of Python traced anew at its next call: a function that they may call means something else."""
    for made in list(_alive.values()):
        made._graphs.clear()
        made._launchers.clear()


def parse(text: str, name: str = "") -> Epilogue:
    """The epilogue `name` of a text in the epilogue language, or its last one. The text is data: nothing of it is run."""
    if not isinstance(text, str) or not isinstance(name, str):
        raise error("usage", f"parse takes a text and a name, not {type(text).__name__} and {type(name).__name__}", "Pass str.")
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        raise error("syntax", f"the text has half of a surrogate pair at character {bad.start}, which is not UTF-8",
                    "Decode the file that it came from as UTF-8.") from None
    return TextEpilogue(_core.parse(text, utf8(name)))


def load(path: str | os.PathLike[str]) -> Epilogue:
    """As parse(), of "FILE.py" or "FILE.py:NAME"."""
    try:
        return TextEpilogue(_core.parse_file(os.fsencode(path)))
    except UnicodeEncodeError:
        raise error("cannot_read", f"cannot read {ascii(path)}: no file can be called so", "Check the path.") from None


def _check_free(name: str, place: Place | None = None) -> None:
    if name in _RESERVED:
        raise error("bad_name", f"an operand cannot be called {name!r}, which is a keyword of post.matmul or post.plan", "Choose another name.", place)


_empty_cell = types.CellType()
_words = {**classes, **{dtype.name: dtype for dtype in DType}}


def _own_nodes(*statements: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's statements, without those of scopes within it."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for statement in statements:
        yield statement
        if not isinstance(statement, inner):
            yield from _own_nodes(*ast.iter_child_nodes(statement))


def _may_declare(code: CodeType, name: str) -> bool:
    """Whether an assignment to `name` may declare a dtype. What the compiler keeps is where the name and the value stand: up to
    three columns between them are ` = `."""
    value = None
    for instruction in dis.get_instructions(code):
        stored = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if instruction.opname.startswith("STORE_") and name in stored:
            start, end = value and value.col_offset, instruction.positions and instruction.positions.end_col_offset
            if start is None or end is None or value.lineno != instruction.positions.end_lineno or start > end + 3:
                return True
        value = instruction.positions
    return False


@functools.lru_cache(maxsize=64)
def _parsed_lines(lines: tuple[str, ...]) -> ast.Module:
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _parsed(file: str) -> ast.Module:
    return _parsed_lines(tuple(linecache.getlines(file)))


def _spread(x: Any, axes: int, batched: bool) -> Any:
    """An operand with all its axes, so that numpy's broadcasting is the language's: a col becomes (M, 1), or is that already."""
    if not hasattr(x, "shape"):
        return x
    if len(x.shape) == 2 + batched and (axes & 2 or x.shape[-2] == 1) and (axes & 4 or x.shape[-1] == 1):
        return x
    if axes == 2:
        return x[..., :, None]
    if axes == 4:
        return x[..., None, :]
    if axes == 0 and len(x.shape) > 0:
        return x[..., None, None]
    return x


def _natural(x: Any, axes: int) -> Any:
    """An output without the axes that it does not have."""
    if not hasattr(x, "shape"):
        return x
    lead = tuple(x.shape[:1]) if axes & 1 and len(x.shape) == 3 else ()
    shape = lead + ((x.shape[-2],) if axes & 2 else ()) + ((x.shape[-1],) if axes & 4 else ())
    return x.reshape(shape) if len(x.shape) >= 2 else x
