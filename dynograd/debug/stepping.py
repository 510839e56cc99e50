"""Backward one node at a time: the debugger stops at each, on the line of the user's program that made it."""

from __future__ import annotations

import ast
import bdb
import functools
import linecache
import os
import pdb
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, TextIO

import numpy

from dynograd import arrays
from dynograd.autograd import engine
from dynograd.autograd.nodes import OutputNode, frame_at, line_text, place_of, traces
from dynograd.debug.explaining import explain
from dynograd.debug.explanations import Explanation
from dynograd.debug.gradients import of_gradient_at
from dynograd.debug.recording import current, provenance
from dynograd.debug.texts import described
from dynograd.errors import ShapeError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Stop", "step_backward", "stepping"]

_HELP = """n                      the next node of backward
until (norm > 10)      on to the first node where this holds; until (module="encoder.1"), until (op="relu")
c                      on to the end of this backward pass
s                      into the code of this node's rule, under pdb
q                      quit: backward raises bdb.BdbQuit
g, norm                the gradient that comes, which may be written or set; its norm
node, op, module       the node, the name of its op, the module that it ran in
saved                  what the op had kept, by name; each name is a variable, too
explain(g)             and all of pdb: p, pp, l, up, down, where, ..."""


class Stop:
    """What is known where backward stops.

    Attributes:
        number: of the node in this pass, from 1.
        node, op, module: the node; its op's name; the module that it ran in, as `encoder.1`, or "".
        grad: the gradient that comes: a tensor; None for one of several parts.
        norm: its 2-norm.
        line: `file:line in function` of the user's program.
        saved: what the op had kept for this, by name: tensors, numbers.
    """

    def __init__(self, number: int, node: Any, g: Any, call: Any) -> None:
        self.number, self.node, self.op = number, node, node.op_name()
        self.place = None if call is None else call.place
        path = "" if call is None else call.path
        self.module = path.partition(".")[2]
        self.line = traces.get(node) if call is None else line_text(call.place)
        self.grad: Any = g if isinstance(g, Tensor) else (wrap(arrays.copy(g)) if arrays.is_array(g) else None)
        self.saved = {name: _shown(getattr(node, name, None)) for name in node.saved_names}
        self._names = {} if call is None else {name: value for name, value in call.operands if name.isidentifier()}

    @property
    def norm(self) -> float:
        if self.grad is None:
            return float("nan")
        numbers = numpy.asarray(arrays.to_numpy(self.grad.array))
        return float(numpy.sqrt(numpy.sum(numpy.square(numpy.abs(numbers), dtype=numpy.float64))))

    def variables(self) -> dict[str, Any]:
        """The names that expressions may use."""
        inputs = {name: value.tensor() for name, value in self._names.items()}
        return {
            **{name: tensor for name, tensor in inputs.items() if tensor is not None},
            **self.saved,
            "saved": self.saved,
            "g": self.grad,
            "norm": self.norm,
            "node": self.node,
            "op": self.op,
            "module": self.module,
        }

    def __str__(self) -> str:
        module = f", in module {self.module}" if self.module else ""
        grad = "several gradients"
        if self.grad is not None:
            shape = f"{str(self.grad.dtype).rpartition('.')[2]}({', '.join(map(str, self.grad.shape))})"
            grad = f"gradient {shape} {described(numpy.asarray(arrays.to_numpy(self.grad.array)))}"
        return f"backward, node {self.number}: {self.node.name()}{module}; {grad}, norm {self.norm:.4g}"


def _shown(value: Any) -> object:
    return wrap(value) if arrays.is_array(value) else value


class _Debugger(pdb.Pdb):
    """pdb, whose commands go from node to node. It looks at a frame and traces nothing, so backward runs at its speed."""

    def __init__(self, stdin: TextIO | None, stdout: TextIO | None) -> None:
        super().__init__(stdin=stdin, stdout=stdout, nosigint=True, readrc=stdin is None)
        if stdin is not None:
            self.use_rawinput = False
        self.prompt = "(backward) "
        self.then = "next"
        self.condition: Callable[[Stop], bool] | None = None

    def stop_in(self, frame: types.FrameType) -> None:
        self.reset()
        self.then = "next"
        self.interaction(frame, None)

    def do_next(self, arg: str) -> bool:
        """The next node of backward."""
        self.then = "next"
        return True

    do_n = do_next

    def do_continue(self, arg: str) -> bool:
        """On to the end of this backward pass."""
        self.then, self.condition = "continue", None
        return True

    do_c = do_cont = do_continue

    def do_until(self, arg: str) -> bool:
        """On to the first node where a condition holds: until (norm > 10), until (module="encoder.1")."""
        try:
            self.condition = condition_of(arg)
        except ValueError as error:
            self.error(str(error))
            return False
        self.then = "continue"
        return True

    do_unt = do_until

    def do_step(self, arg: str) -> bool:
        """Into the code of this node's rule."""
        self.then = "step"
        return True

    do_s = do_step

    def do_quit(self, arg: str) -> bool:
        """Quit: backward raises bdb.BdbQuit."""
        self.then = "quit"
        return True

    do_q = do_exit = do_quit

    def do_help(self, arg: str) -> bool | None:
        """What can be done here."""
        if arg:
            return super().do_help(arg)
        self.message(_HELP)
        return None

    do_h = do_help


def condition_of(text: str | Callable[[Stop], bool]) -> Callable[[Stop], bool]:
    """`norm > 10`, `(norm > 10)`, `module="encoder.1"`, or a function of a `Stop`, as a function of a `Stop`.

    Raises:
        ValueError: the text is no expression.
    """
    if callable(text):
        return text
    text = text.strip()
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    try:
        call = ast.parse(f"until({inner})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) == 0:
        raise ValueError(f'until: expected a condition such as (norm > 10) or (module="encoder.1"), got {text!r}.')
    codes = [compile(ast.Expression(argument), "<until>", "eval") for argument in call.args]
    expected = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}

    def holds(stop: Stop) -> bool:
        variables = stop.variables()
        return all([bool(eval(code, {}, variables)) for code in codes]) and all(
            [_matches(variables.get(name or ""), value) for name, value in expected.items()]
        )

    return holds


def _matches(value: Any, expected: Any) -> bool:
    """Whether a value is the expected one, or a module within it."""
    return value == expected or (
        isinstance(value, str) and isinstance(expected, str) and value.startswith(f"{expected}.")
    )


class stepping:
    """Backward passes within stop at each node, on the line of your program that made it, under pdb.

    Lines are noted within, so the forward pass belongs inside as well. At the prompt `n` goes to the next node, `until (norm > 10)` or
    `until (module="encoder.1")` to one where that holds, `c` to the end of the pass, `s` into the node's rule; `g` is the gradient that comes, and
    may be changed; `h` lists the rest. Where another debugger is set (`sys.breakpointhook`, an editor's), that one stops.

    Args:
        until: stop first where this holds: a text as after `until`, or a function of a `Stop`.
        stdin, stdout: where commands come from and answers go.
    Raises:
        ValueError: `until` is no condition.

    >>> import io
    >>> commands = io.StringIO("p op\\nn\\np op, g.shape\\nc\\n")
    >>> with dynograd.debug.stepping(stdin=commands, stdout=(answers := io.StringIO())):
    ...     w = tensor([1.0, 2.0], requires_grad=True)
    ...     w.exp().sum().backward()
    >>> [line for line in answers.getvalue().splitlines() if line.startswith("(backward)")][0]
    "(backward) 'sum'"
    """

    def __init__(
        self,
        *,
        until: str | Callable[[Stop], bool] | None = None,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        self._debugger = _Debugger(stdin, stdout)
        self._until = None if until is None else condition_of(until)
        self._notes: provenance | None = None
        self._below: Any = None
        self._thread = 0
        self._pass: Any = None
        self._number = self._depth = 0
        self._runs_on = False

    def __enter__(self) -> stepping:
        self._begin(provenance())
        return self

    def _begin(self, notes: provenance | None) -> None:
        self._notes = notes
        if notes is not None:
            notes.__enter__()
        self._thread, self._debugger.condition = threading.get_ident(), self._until
        self._below = engine.observers[-1] if engine.observers else None
        engine.observers.append(self._observe)

    def __exit__(self, *error: Any) -> None:
        engine.observers.remove(self._observe)
        if self._notes is not None:
            self._notes.__exit__(*error)

    # --- at each node ---------------------------------------------------------------------------------------------------------

    def _observe(self, node: Any, g: Any, rule: Callable[[Any], Any]) -> tuple:
        below = self._below
        go_on = rule if below is None else (lambda g: below(node, g, rule))
        if threading.get_ident() != self._thread or type(node) is OutputNode:
            return go_on(g)
        task = engine.MODES.task
        if task is not self._pass and not self._depth:  # another pass begins, not one within a node of this pass
            self._pass, self._number, self._runs_on = task, 0, self._debugger.condition is not None
        self._number += 1
        self._depth += 1
        try:
            return self._at_node(node, g, go_on)
        finally:
            self._depth -= 1

    def _at_node(self, node: Any, g: Any, go_on: Callable[[Any], Any]) -> tuple:
        scope = self._notes or current()
        call = None if scope is None else scope.calls_of_nodes.get(node)
        stop = Stop(self._number, node, g, call)
        debugger = self._debugger
        if self._runs_on and (debugger.condition is None or not debugger.condition(stop)):
            return go_on(g)
        self._runs_on = False
        before, version = stop.grad, 0 if stop.grad is None else stop.grad._version
        after = self._stop(stop)
        if before is not None and (after is not before or after._version != version):
            g = _replacement(after, g)
        if debugger.then == "quit":
            raise bdb.BdbQuit(f"backward was quit at {node.name()}")
        if debugger.then == "step":
            inner = pdb.Pdb(
                stdin=None if debugger.use_rawinput else debugger.stdin, stdout=debugger.stdout, nosigint=True
            )
            return inner.runcall(go_on, g) or ()
        self._runs_on = debugger.then == "continue"
        return go_on(g)

    def _stop(self, stop: Stop) -> Tensor | None:
        """Lets the debugger look; gives the gradient that is to go on."""
        place = stop.place or place_of(frame_at(2))
        code, reached = place if isinstance(place, tuple) else (None, 0)
        file, line = "<backward>", 1
        name = "backward"
        if code is not None:
            file, name = code.co_filename, code.co_name
            line = next(
                (line for start, end, line in code.co_lines() if start <= reached < end and line is not None),
                code.co_firstlineno,
            )
        variables = stop.variables() | {"explain": functools.partial(_explain, stop)}
        debugger = self._debugger
        if _other_debugger():
            # They stop where the next line begins in the frame that has called them: the loop begins it anew, but debugpy does not see that in
            # Python 3.13. So for it the call stands above the user's line; others show the line of the call.
            call = "for __again__ in (True, False): __again__ and __import__('sys').breakpointhook()"
            if _is_debugpy():
                call = "__import__('sys').breakpointhook()\nstop = stop"
            variables["stop"] = stop
        else:
            debugger.message(str(stop))
            if stop.line is None:
                debugger.message(
                    "(its line was not noted: run the forward pass inside `with dynograd.debug.stepping():`; this is the line of backward)"
                )
            call = "__stop__()"
            variables["__stop__"] = lambda: debugger.stop_in(frame_at(2))
        # A frame on the user's line, which pdb and editors show as any other.
        text = compile(call, file, "exec").replace(co_name=name, co_firstlineno=line - call.count("\n"))
        linecache.checkcache(file)
        eval(text, _globals_of(file) | variables, variables)
        return variables.get("g")


def _replacement(g: Any, before: Any) -> Tensor | arrays.Array:
    """A gradient that was set at the prompt, as the engine takes it.

    Raises:
        ShapeError: it is no tensor of that shape.
    """
    if not isinstance(g, Tensor) or tuple(g.shape) != tuple(before.shape):
        kind = f"one of shape {tuple(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
        raise ShapeError(f"stepping: expected g to stay a tensor of shape {tuple(before.shape)}, got {kind}.")
    return g if isinstance(before, Tensor) else g.array


def _explain(stop: Stop, tensor: Tensor, **options: Any) -> Explanation:
    """`explain` at the prompt, which knows the gradient that comes as well."""
    if tensor is not stop.grad:
        return explain(tensor, **options)
    scope = current()
    return of_gradient_at(stop.node, tensor, [] if scope is None else list(scope.passages))


def _globals_of(file: str) -> dict[str, Any]:
    """The names of the module that a file is, as far as it is one."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            return dict(vars(module))
    return dict(vars(sys.modules["__main__"]))


def _other_debugger() -> bool:
    """Whether `breakpoint()` means another debugger than pdb: one that is set, or an editor's that listens.

    A Jupyter kernel loads debugpy, whose `breakpoint()` does nothing until somebody has turned on the notebook's debugger.
    """
    if _is_debugpy():
        return bool(sys.modules["debugpy"].is_client_connected())
    hook = sys.breakpointhook
    return hook is not sys.__breakpointhook__ or bool(os.environ.get("PYTHONBREAKPOINT"))


def step_backward(tensor: Tensor, *arguments: Any) -> None:
    """`tensor.backward(*arguments)` under the debugger: `tensor.backward(step=True)`."""
    debugger = stepping()
    debugger._begin(None)
    try:
        tensor.backward(*arguments)
    finally:
        debugger.__exit__()


def _is_debugpy() -> bool:
    return (getattr(sys.breakpointhook, "__module__", None) or "").partition(".")[0] == "debugpy"
