"""`torch.utils.flop_counter`: floating-point operations of products, convolutions, attention and recurrent layers, by module.

A multiplication and an addition are two operations. Counted is what the kernels are asked for, forward and backward; elementwise work is not.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import prod
from typing import Any

from dynograd import ops
from dynograd.nn import hooks
from dynograd.nn.module import Module
from dynograd.ops.op import registry
from dynograd.profiler.ranges import listen, stop_listening

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

flop_registry: dict[Any, Callable[..., int]] = {}
"""Formulas that a program has registered, by operator (`torch.ops.aten.mm`)."""

_SUFFIXES = ("", "K", "M", "B", "T")


def register_flop_formula(targets: object, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator: the function says how many operations a call of these operators takes.

    Args:
        targets: an operator of `torch.ops`, or several.
        get_raw: the function gets the tensors and `out_val`, rather than their shapes and `out_shape`.

    Returns:
        The decorator, which gives the function back.

    Raises:
        ValueError: a target is no operator.

    >>> import dynograd.utils.flop_counter as flop_counter
    >>> @flop_counter.register_flop_formula(dynograd.ops.aten.cumsum)
    ... def additions(shape, *others, out_shape=None, **options):
    ...     return shape.numel()
    >>> with flop_counter.FlopCounterMode(display=False) as counter:
    ...     _ = dynograd.ones(5).cumsum(0)
    >>> counter.get_total_flops()
    5
    >>> del flop_counter.flop_registry[dynograd.ops.aten.cumsum]
    """
    operators = list(targets) if isinstance(targets, Iterable) else [targets]
    for operator in operators:
        if not hasattr(operator, "overloads"):
            raise ValueError(
                f"register_flop_formula: expected operators such as torch.ops.aten.mm, got {operator!r}. Name the operator, without an overload."
            )

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for operator in operators:
            flop_registry[operator] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


class FlopCounterMode:
    """A context manager that counts floating-point operations, of the whole and of each module.

    Args:
        mods: not needed; PyTorch's older programs give the module.
        depth: levels of modules that the table shows.
        display: print the table at the end.
        custom_mapping: formulas of operators, of shapes and `out_shape`, beside those registered.

    >>> from dynograd.utils.flop_counter import FlopCounterMode
    >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> with FlopCounterMode(display=False) as counter:
    ...     model(dynograd.ones(3, 8)).sum().backward()
    >>> counter.get_total_flops()
    528
    >>> [*counter.get_flop_counts()["Sequential.0"].values()]  # forward 2 * 3 * 8 * 4, and as many for the weights' gradient
    [192, 192]
    """

    def __init__(
        self,
        mods: object = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        own = {key: _of_shapes(formula) for key, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}
        self._counting: _Counting | None = None

    def get_total_flops(self) -> int:
        """The number of operations in all."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """For "Global" and the path of each module ("Net.encoder"): operations of each operator (`torch.ops.aten.mm`)."""
        return {path: dict(counts) for path, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text.

        Args:
            depth: levels of modules; as the mode's own by default.
        Returns:
            A text.
        """
        levels = self.depth if depth is None else depth
        total = self.get_total_flops()
        suffix = min(len(_SUFFIXES) - 1, max(0, (len(str(total)) - 1) // 3))
        rows = [("Module", "FLOP", "% Total")]
        for path in ["Global", *sorted(set(self.flop_counts) - {"Global"})]:
            level = path.count(".") + (path != "Global")
            if level > levels:
                continue
            counts = self.flop_counts[path]
            for name, count in [(path, sum(counts.values())), *((f" - {key}", value) for key, value in counts.items())]:
                share = f"{count / total:.2%}" if total else "0%"
                rows.append((" " * level + name, f"{count / 1000**suffix:.3f}{_SUFFIXES[suffix]}", share))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [f"{name:{widths[0]}}  {count:>{widths[1]}}  {share:>{widths[2]}}" for name, count, share in rows]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._counting = _Counting(self)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._counting is not None:
            self._counting.stop()
            self._counting = None
        if self.display:
            print(self.get_table())


class _Counting:
    """Hears ops and nodes, and knows in which modules they are; nodes belong to the modules that their ops were called in."""

    def __init__(self, mode: FlopCounterMode) -> None:
        self.mode = mode
        self.thread = threading.get_ident()
        self.counted = 0
        self.paths: list[frozenset[str]] = [frozenset({"Global"})]
        self.names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self.origins: weakref.WeakKeyDictionary[Any, tuple[frozenset[str], tuple[Any, int] | None]] = (
            weakref.WeakKeyDictionary()
        )
        self.handles = [
            hooks.register_module_forward_pre_hook(self.enter),
            hooks.register_module_forward_hook(self.leave, always_call=True),
        ]
        listen(self)

    def stop(self) -> None:
        stop_listening(self)
        for handle in self.handles:
            handle.remove()

    def enter(self, module: Module, inputs: Any) -> None:
        if threading.get_ident() != self.thread:
            return
        if module not in self.names:
            self._name(module, type(module).__name__)
        self.paths.append(self.paths[-1] | {self.names[module]})

    def leave(self, module: Module, inputs: Any, output: Any) -> None:
        if threading.get_ident() == self.thread and len(self.paths) > 1:
            self.paths.pop()

    def _name(self, module: Module, path: str) -> None:
        self.names[module] = path
        for name, child in module.named_children():
            if child not in self.names:
                self._name(child, f"{path}.{name}")

    def begin(self, kind: str, name: str, args: tuple) -> tuple | None:
        if threading.get_ident() != self.thread or kind not in ("op", "backward"):
            return None
        if kind == "op":
            return kind, name, args
        paths, inside = self.origins.pop(args[0], (self.paths[0], None))
        self.paths.append(paths)
        return kind, inside, self.counted

    def end(self, mark: Any, result: Any) -> None:
        if mark is None:
            return
        kind, name, args = mark
        if kind == "backward":
            if name is not None and args == self.counted:  # its products are in one kernel, and not ops of their own
                self._add(*name)
            self.paths.pop()
            return
        key, count, in_backward = _operations(name, args, result, self.mode.flop_registry)
        if count:
            self._add(key, count)
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        node = next((output.grad_fn for output in outputs if getattr(output, "grad_fn", None) is not None), None)
        if node is not None and (in_backward or node not in self.origins):
            self.origins[node] = self.paths[-1], (key, in_backward) if in_backward else None

    def _add(self, key: Any, count: int) -> None:
        self.counted += 1
        for path in self.paths[-1]:
            self.mode.flop_counts[path][key] += count


def _operations(name: str, args: tuple, result: Any, registered: dict[Any, Any]) -> tuple[Any, int, int]:
    """(operator, operations of this call, operations of its backward where no further op shows them)."""
    op = registry.get(name)
    formula = _FORMULAS.get(op.row["work"] or "") if op is not None and op.kind != "composed" else None
    if formula is not None:
        aten, arguments, count, in_backward = formula(op, args, result)
        key = _operator(aten)
        own = registered.get(key)
        return key, count if own is None else own(*arguments, out_val=result), in_backward
    for key, own in registered.items():
        if getattr(key, "__name__", None) == name:
            return key, own(*args, out_val=result), 0
    return None, 0, 0


def _operator(name: str) -> Callable[..., Any]:
    return getattr(ops.aten, name)


def _shape(value: Any) -> tuple[int, ...]:
    return getattr(value, "shape", value)


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        options = {name: _shape(value) for name, value in kwargs.items()}
        return formula(*map(_shape, args), out_shape=_shape(out_val), **options)

    return of_values


# --- a call: (operator's name, its arguments there, operations, operations of the backward where its kernel does all at once) ---


def _product(op: Any, args: tuple, result: Any) -> tuple:
    a, b = args[0].shape, args[1].shape
    count = 2 * prod(_shape(result)) * a[-1]
    in_backward = count * sum([bool(getattr(argument, "requires_grad", False)) for argument in args[:2]])
    if "bias" in op.array_names:
        bias = args[2] if len(args) > 2 else None
        name, arguments = ("mm", args[:2]) if bias is None else ("addmm", (bias, *args[:2]))
        return name, arguments, count, in_backward
    name = ("dot" if len(a) == len(b) else "mv") if len(a) < 2 or len(b) < 2 else "bmm" if len(b) > 2 else "mm"
    return name, args[:2], count, in_backward


def _convolution(op: Any, args: tuple, result: Any) -> tuple:
    shape = _shape(result)
    return "convolution", args, 2 * shape[0] * prod(shape[2:]) * prod(args[1].shape), 0


def _input_gradient(op: Any, args: tuple, result: Any) -> tuple:
    g = args[0].shape
    return "convolution_backward", args, 2 * g[0] * prod(g[2:]) * prod(args[1].shape), 0


def _weight_gradient(op: Any, args: tuple, result: Any) -> tuple:
    g = args[1].shape
    return "convolution_backward", args, 2 * g[0] * prod(g[2:]) * prod(_shape(result)), 0


def _attention(op: Any, args: tuple, result: Any) -> tuple:
    query, key, value = [argument.shape for argument in args[:3]]
    count = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    return "_scaled_dot_product_flash_attention", args[:3], count, count * 5 // 2


def _ragged_attention(op: Any, args: tuple, result: Any) -> tuple:
    query, value = args[0].shape, args[2].shape
    lengths = [[int(end) - int(begin) for begin, end in pairwise(offsets)] for offsets in args[3:5]]
    pairs = sum([rows * columns for rows, columns in zip(*lengths)])
    count = 2 * pairs * query[-2] * (query[-1] + value[-1])
    return "_flash_attention_forward", args[:3], count, count * 5 // 2


def _recurrence(op: Any, args: tuple, result: Any) -> tuple:
    first = op.array_names.index("weight_ih")
    weights = args[first : first + 2]
    count = 2 * prod(args[0].shape[:-1]) * sum([prod(weight.shape) for weight in weights])
    return "mm", (args[0], *weights), count, 2 * count


_FORMULAS: dict[str, Callable[[Any, tuple, Any], tuple]] = {
    "product": _product,
    "convolution": _convolution,
    "input gradient": _input_gradient,
    "weight gradient": _weight_gradient,
    "attention": _attention,
    "ragged attention": _ragged_attention,
    "recurrence": _recurrence,
}
