"""The table of ops. `op`, `elementwise` and `composed` put a function in it; interpreters read it.

An op's public function starts as a stub. On its first call the installed interpreter (eager autograd, see
`dynograd/interpreter/`) writes the function's real code from the table, specialised for this op's parameters. The function
object never changes, so `from dynograd.ops.reduce.reductions import sum` is always the fast one. This is the one place where a lower
layer is handed something by a higher one.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

from dynograd.arrays import Array
from dynograd.base.generated_sources import passing_on, run_written, written_later
from dynograd.base.signatures import SignatureLater, annotations_of, plain_annotations, shown_signature, signature_of
from dynograd.ops.argument_kinds import UNSEEN
from dynograd.ops.readers import join
from dynograd.ops.row import Row, complete

__all__ = ["Gradients", "Op", "composed", "elementwise", "op", "registry", "rows_with"]

Function = Callable[..., Any]
Gradients: TypeAlias = tuple[Array | None, ...]
"""What a backward rule returns: for each operand its gradient (for a list of operands a list of them), or None where it has none."""

_WRAPPER_NAMES = {"adapt", "forward", "kind", "mode", "ndim", "node", "op", "out", "result", "wants"}


class Op:
    """One row of the table. Fields are written by the decorators below and read by interpreters and tests."""

    __slots__ = (
        "array_names",
        "backward_rule",
        "decomposition",
        "derivative",
        "differentiable",
        "extras",
        "fast_backward_rule",
        "few",
        "few_dtypes",
        "formula",
        "forward",
        "function",
        "has_inplace_argument",
        "has_shortcut",
        "inplace",
        "is_of_the_library",
        "jvp_rule",
        "kind",
        "linear",
        "list_name",
        "list_of_indices",
        "method",
        "name",
        "optional_names",
        "outputs",
        "parameter_names",
        "promote",
        "public_signature",
        "reflected",
        "row",
        "saves",
        "signature",
        "static_names",
        "view",
        "written",
    )

    name: str
    kind: str  # "op", "elementwise" or "composed"
    forward: Function
    function: Function
    backward_rule: Function | None
    fast_backward_rule: Function | None
    jvp_rule: Function | None
    decomposition: Function | None
    formula: str | None
    derivative: tuple[str | None, ...] | None
    promote: str | None  # of an elementwise op, as `formula` and `derivative`
    few: str | None
    method: bool | str
    inplace: bool | str
    reflected: (
        str | None
    )  # the method of the other operand that Python asks where it is no tensor: of `mul`, `__rmul__`
    view: bool | str
    linear: bool
    differentiable: bool | str  # "refused": its backward says that it has no derivative
    signature: (
        inspect.Signature
    )  # what forward, rules and readers see; this and the next are read when they are asked for
    public_signature: inspect.Signature  # that of the function
    parameter_names: tuple[str, ...]  # of the function
    has_inplace_argument: bool
    has_shortcut: bool  # a function computes its result itself in the usual case, see `shortcut`
    array_names: tuple[str, ...]
    optional_names: frozenset[str]
    list_name: str | None
    list_of_indices: bool  # the arrays of the list have no gradient
    static_names: tuple[str, ...]
    saves: tuple[str, ...]
    outputs: tuple[str, ...] | str | None
    extras: tuple[str, ...]
    written: Callable[[], None] | None  # writes the public function's code, until it is written
    is_of_the_library: bool  # one of dynograd's own, and not of a program
    row: Row

    def __init__(
        self, name: str, kind: str, forward: Function, row: Row | None = None, covered: Op | None = None, **fields: Any
    ) -> None:
        self.name, self.kind, self.forward = name, kind, forward
        self.backward_rule = self.fast_backward_rule = self.jvp_rule = self.decomposition = None
        self.formula = self.derivative = self.promote = self.outputs = self.few = self.reflected = None
        self.saves = self.extras = ()
        self.written = None
        self.few_dtypes = ""
        self.method = self.inplace = self.linear = self.view = self.has_shortcut = False
        self.differentiable = True
        for field, value in fields.items():
            setattr(self, field, value)
        self.is_of_the_library = forward.__module__.startswith("dynograd.")
        self.row = complete(
            row or Row(), forward, self.is_of_the_library, self.view, None if covered is None else covered.row
        )
        self._read_signature()

    def _read_signature(self) -> None:
        self.has_inplace_argument, self.list_name, self.list_of_indices = False, None, False
        arrays, optional, static = [], set(), []
        annotations = annotations_of(self.forward)
        for name, annotation in annotations.items():
            kind = str(annotation).replace(" ", "")
            if kind in UNSEEN:
                self.has_inplace_argument |= kind == "Inplace"
            elif kind in ("Array", "Arrays", "IndexArrays", "Array|None"):
                arrays.append(name)
                if kind in ("Arrays", "IndexArrays"):
                    self.list_name, self.list_of_indices = name, kind == "IndexArrays"
                if kind == "Array|None":
                    optional.add(name)
            else:
                static.append(name)
        taken = _WRAPPER_NAMES.intersection((*arrays, *static)) if self.kind != "composed" else ()
        if taken:
            raise AssertionError(
                f"op {self.name}: the name {sorted(taken)} of a parameter is used by the generated function"
            )
        self.array_names, self.optional_names, self.static_names = tuple(arrays), frozenset(optional), tuple(static)
        self.parameter_names = tuple(annotations)

    def __getattr__(self, name: str) -> inspect.Signature:
        if name not in ("signature", "public_signature"):
            raise AttributeError(f"{self!r} has no field {name!r}")
        public = signature_of(self.forward)
        seen = [parameter for parameter in public.parameters.values() if parameter.annotation not in UNSEEN]
        self.signature = public if len(seen) == len(public.parameters) else public.replace(parameters=seen)
        self.public_signature = public
        return public if name == "public_signature" else self.signature

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple:
        return registry.__getitem__, (self.name,)


registry: dict[str, Op] = {}
# What gives the texts that stand in one file (that of the function comes first), and the names that the function uses.
Writing = tuple[dict[str, Callable[[], str]], dict[str, Any]]
_interpreter: list[Callable[[Op], Writing]] = []
_write_shortcut: list[Callable[..., Writing]] = []


def rows_with(field: str, value: Any = True) -> tuple[str, ...]:
    """The keys of all ops whose row says `value` for `field`."""
    return tuple([key for key, entry in registry.items() if dict(entry.row)[field] == value])


def install(
    write_function: Callable[[Op], Writing],
    write_shortcut: Callable[..., Writing],
) -> None:
    """Installs the interpreter: for an op, what gives the text of its public function, and the names that the text uses."""
    _interpreter[:] = [write_function]
    _write_shortcut[:] = [write_shortcut]


def op(
    *,
    name: str | None = None,
    method: bool | str = False,
    inplace: bool | str = False,
    saves: str = "",
    outputs: str | None = None,
    extras: str = "",
    differentiable: bool | str = True,
    linear: bool = False,
    view: bool | str = False,
    few: str | None = None,
    few_dtypes: str = "",
    **row: Unpack[Row],
) -> Callable[[Function], Any]:
    """Registers a function on arrays as an op; see CONTRIBUTING.md for what each option declares, and `Row` for the others.

    `few` ("family.name") is a kernel of the CPU that is asked first, with the same arguments: it raises, or gives None, where the
    function itself is to compute. `few_dtypes` are the letters of the dtypes that it knows, if it does not see to that itself.
    """

    def register(forward: Function) -> Function:
        op = Op(
            name or forward.__name__,
            "op",
            forward,
            row,
            method=method,
            inplace=inplace,
            saves=tuple(saves.split()),
            outputs=outputs if outputs in (None, "list") else tuple(outputs.split()),
            extras=tuple(extras.split()),
            differentiable=differentiable,
            linear=linear,
            view=view,
            few=few,
            few_dtypes=few_dtypes,
        )
        return _publish(op)

    return register


def elementwise(
    *,
    formula: str,
    derivative: str | tuple[str | None, ...] | None,
    promote: str = "arithmetic",
    name: str | None = None,
    method: bool | str = False,
    inplace: bool | str = False,
    **row: Unpack[Row],
) -> Callable[[Function], Any]:
    """Registers an op given by a scalar formula and, for each array argument, the text of its derivative times `g`.

    The texts name the parameters, `output`, `g` and other ops. Saves, backward, second order and jvp follow from them;
    the kernel is the function of the same name in `kernels/elementwise/elementwise_cpu.py`. `promote` is `arithmetic`, `float`
    (integers become the default dtype), `compare` (result bool), `logical` (operands as truth values), `integer`, or `select`
    (the first operand is a condition, the others are promoted).
    """

    def register(forward: Function) -> Function:
        texts = (derivative,) if isinstance(derivative, str) else derivative
        op = Op(
            name or forward.__name__,
            "elementwise",
            forward,
            row,
            formula=formula,
            derivative=texts,
            promote=promote,
            method=method,
            inplace=inplace,
            differentiable=texts is not None,
        )
        if not op.array_names:
            raise TypeError(
                f"elementwise: expected a parameter of {op.name} with the annotation 'Array' as text, got {annotations_of(forward)}. "
                f'Write it in quotes (input: "Array"), or begin the file with `from __future__ import annotations`.'
            )
        return _publish(op)

    return register


def composed(
    *, method: bool | str = False, inplace: bool | str = False, covers: str | None = None, **row: Unpack[Row]
) -> Callable[[Function], Any]:
    """Registers a function made of other ops. `covers` names the op of which it is the public face (PyTorch's arguments)."""

    def register(function: Function) -> Function:
        covered = None if covers is None else registry[covers]
        op = Op(covers or function.__name__, "composed", function, row, covered, method=method, inplace=inplace)
        op.function = function
        key = op.name if covers is None else f"{op.name}.public"
        _check_new(key, function)
        registry[key] = op
        function.op = op  # type: ignore[attr-defined]
        plain = inspect.unwrap(function)
        if isinstance(plain, types.FunctionType):
            join(plain_annotations(plain), key, op)
        return function

    return register


@dataclass(frozen=True)
class Shortcut:
    """How a function computes its result itself: the arguments of `shortcut`."""

    op: Op | None
    way: Function
    misses: tuple[type[Exception], ...]
    beside: str
    compute: str | None
    at_once: str
    at_once_when: str
    raw: bool
    renamed: dict[str, str]


def shortcut(
    op_function: Any,
    way: Function,
    *,
    misses: tuple[type[Exception], ...] = (),
    beside: str = "",
    compute: str | None = None,
    at_once: str = "",
    at_once_when: str = "True",
    raw: bool = False,
    **renamed: str,
) -> Callable[[Function], Any]:
    """Lets a function that ends in the op `op_function` compute its result itself, in the usual case.

    With None for the op, where nothing is recorded; `beside` then names the tensors, and the result may be a list of arrays. `raw`: what
    comes back is no tensor but the result itself.

    Args:
        way: a function on arrays that bear the inputs' names, with any other of the function's parameters that it needs, and `compute`
            first if it calls that kernel of the CPU ("family.name"). It gives the result and the op's other arguments, and, if the op
            has operands that the function has not, a dict of those; or the result alone, without an op. None: this is not its case. Its
            lines become lines of the function that is written, so a `return` stands where the function ends.
        misses: the errors that say the same; another one is a fault and surfaces.
        beside: parameters that are tensors too.
        at_once: for an op of a list, a call that makes the result of the tensors in it themselves, at the addresses `fields`, or None,
            as where one requires grad; `at_once_when` says when it is asked.
        renamed: `values="source"` says that the function calls `source` what is `values` in `way`.

    Where the result of a view op is no view, or an input is no plain tensor on the CPU, the next shortcut is tried, if the function has
    several, and then the function itself is called.
    """
    op = None if op_function is None else op_function.op
    if op is not None:
        op.has_shortcut = True
    cut = Shortcut(op, way, misses, beside, compute, at_once, at_once_when, raw, renamed)

    def shorten(function: Any) -> Function:
        owner, general, others = getattr(function, "shortcuts", (None, function, ()))
        if owner is not function:  # copied from what it wraps
            general, others = function, ()
        cuts = (cut, *others)
        names = (general.__name__, *[shortcut.op.name for shortcut in cuts if shortcut.op is not None])
        result = standing(general, lambda: _write_shortcut[0](general, cuts), names=names)
        result.shortcuts = result, general, cuts
        return result

    return shorten


def standing(
    general: Function,
    write: Callable[[], Writing],
    always: bool = False,
    names: tuple[str, ...] | None = None,
    title: str = "",
) -> Any:
    """A function that stands before `general` and gets the code that `write` gives when it is first called.

    While shortcuts of one of its `names` (by default its own) are set aside it is `general`, unless it is to stand `always`.
    """
    name = general.__name__
    names = names or (name,)
    taken = annotations_of(general)
    space: dict[str, Any] = {"__name__": general.__module__, "general": general, "passed_on": general}

    title = title or f"quick/{general.__module__.removeprefix('dynograd.')}.{name}"
    kept = general.__module__.startswith("dynograd.")

    def write_code() -> None:
        if not _write_shortcut or entry.written:
            return
        source, used = write()
        space.update(used)
        (written,) = run_written(title, source, "function", space, {}, kept).values()
        if not used.get("complete"):  # the source has no defaults of its own
            parameters = signature_of(general).parameters.values()
            own = [parameter for parameter in parameters if parameter.default is not parameter.empty]
            written.__defaults__ = tuple(
                [parameter.default for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
            )
            named = {parameter.name: parameter.default for parameter in own if parameter.kind is parameter.KEYWORD_ONLY}
            written.__kwdefaults__ = (written.__kwdefaults__ or {}) | named
        if always:
            entry.give(written)
        else:
            entry.give_ways(written, names, passing_on(name, title, "dim" in taken and "axis" not in taken))

    def choose(kwargs: dict[str, Any]) -> Function:
        # Written, and yet here: its quick way is set aside, or another thread is about to put it back.
        if not _write_shortcut or (entry.written and not always):
            if "axis" in kwargs and "axis" not in taken and "dim" in taken:  # as the written code takes it
                kwargs["dim"] = kwargs.pop("axis")
            return general
        write_code()
        return public

    public = written_later(name, title, space, write_code, choose)
    functools.update_wrapper(public, general)
    entry = join(public, f"{general.__module__}.{name}", written=False)
    return public


def keep(table: dict, key: Any, value: Any, most: int = 1000) -> None:
    """Puts into a table what a shortcut looks up there; a full table begins anew. A key that has no hash is left out."""
    if len(table) >= most:
        table.clear()
    try:  # noqa: SIM105 - twice as fast as `contextlib.suppress`
        table[key] = value
    except TypeError:
        pass


def _check_new(key: str, function: Function) -> None:
    """One name, one op. The same file imported again (after an error in a later one) may register its ops again."""
    existing = registry.get(key)
    if existing is not None and existing.forward.__module__ != function.__module__:
        raise AssertionError(
            f"op {key!r} is registered twice: in {existing.forward.__module__} and {function.__module__}"
        )


def _publish(result: Op) -> Function:
    """Makes the public function of an op: a stub that turns into the interpreter's code when it is first called."""
    _check_new(result.name, result.forward)
    registry[result.name] = result

    def write() -> None:
        if not _interpreter or entry.written:
            return
        source, names = _interpreter[0](result)
        space.update(names)
        result.written = None
        (written,) = run_written(title, source, "function", space, {}, result.is_of_the_library).values()
        entry.give(written)

    def choose(kwargs: dict[str, Any]) -> Function:
        if not _interpreter:
            return result.forward
        write()
        return function

    space: dict[str, Any] = {"__name__": result.forward.__module__}
    title = f"op/{result.name}"
    function = written_later(result.name, title, space, write, choose)
    function.__doc__ = result.forward.__doc__
    function.__module__ = result.forward.__module__
    function.__qualname__ = result.forward.__qualname__
    function.__signature__ = SignatureLater(lambda: shown_signature(result.public_signature))
    function.op = result
    result.function = function
    result.written = write
    entry = join(function, result.name, result, written=False)
    _add_decorators(function, result)
    return function


def prepare(result: Op) -> None:
    """The op's public function has the interpreter's code from now on, called or not."""
    if result.written is not None:
        result.written()


def _add_decorators(function: Any, result: Op) -> None:
    function.backward = functools.partial(_set_rule, result, "backward_rule")
    function.fast_backward = functools.partial(_set_rule, result, "fast_backward_rule")
    function.jvp = functools.partial(_set_rule, result, "jvp_rule")
    function.decomposition = functools.partial(_set_rule, result, "decomposition")


def _set_rule(result: Op, field: str, rule: Function) -> Function:
    setattr(result, field, rule)
    return rule
