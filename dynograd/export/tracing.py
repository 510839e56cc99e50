"""Tracing: which public functions a program calls on tensors, in order, with their arguments. Each call is one node, as the program says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

from dynograd.amp import is_autocast_enabled
from dynograd.arrays import ndarray
from dynograd.autograd.nodes import user_line
from dynograd.base.random_streams import apart, default_generator
from dynograd.base.shapes import Size
from dynograd.errors import ProgramError
from dynograd.export.encoding import Json, Packed, Ref, Tree, tensors_in
from dynograd.export.ragged_parts import part_of, reported
from dynograd.export.structures import STRUCTURES, difference_of
from dynograd.export.vocabulary import name_of, others_in, writes
from dynograd.interpreter import TENSORS
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.nn.utils import rnn
from dynograd.nn.utils.rnn import PackedSequence
from dynograd.ops.op import Op
from dynograd.ops.recurrent.recurrences import projected_lstm
from dynograd.overrides import TorchFunctionMode
from dynograd.overrides.guards import modes
from dynograd.ragged import RaggedTensor
from dynograd.tensor import top_level
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.trees import map_tree

__all__ = ["Call", "Trace", "is_size", "refusal", "tracing"]

_SIZES = "size numel nelement __len__ stride".split()
# What tells of a tensor, and not of its values.
_TOLD = frozenset(
    """dim ndimension sparse_dim dense_dim element_size storage_offset data_ptr is_contiguous is_floating_point is_complex is_signed get_device
    is_inference is_pinned is_same_size is_set_to dim_order __repr__ __format__ result_type can_cast promote_types typename is_tensor is_storage
    broadcast_shapes has_names is_distributed is_ragged is_shared untyped_storage storage storage_type""".split()
)

_PACKING = [vars(rnn)[name] for name in sorted(others_in("packed"))]
_IDLE = ("requires_grad_", "retain_grad")  # they give the tensor itself, and change nothing that is computed


def refusal(what: str, line: str, way_out: str) -> ProgramError:
    """The error with the line of the program and a way out."""
    return ProgramError(f"export: {what}{', at ' * bool(line)}{line}. {way_out}")


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Args:
        name: of the function; see `vocabulary`.
        args, kwargs: a `Ref` for a tensor, and all else as it is.
        result: a number for each tensor, in lists; None for all else.
        line: of the program.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    line: str


@contextmanager
def tracing() -> Iterator[None]:
    """Functions look for modes until the end, so that each `Trace` inside is entered at once."""
    modes.report([*reported(), *[(function, function) for function in (projected_lstm, *STRUCTURES, *_PACKING)]])
    modes.turn_on()
    try:
        yield
    finally:
        modes.turn_off()


@dataclasses.dataclass(frozen=True, slots=True)
class TracedBody:
    """A function among the arguments of a call.

    Args:
        inputs: how many tensors it is called with; they have the first numbers.
        captured: tensors that it takes from around it, with their numbers there; within they are -1, -2, ...
        calls: what it calls.
        result: what it gives.
    """

    inputs: int
    captured: list[Ref]
    calls: list[Call]
    result: Tree


class Trace(TorchFunctionMode):
    """The calls of one run, while it is entered, within `tracing`.

    Args:
        inputs: tensors that differ from run to run; they have the first numbers.
        weights: names of tensors by id, for messages.
        may_draw: whether calls may draw random numbers.
        known: tensors from outside that an earlier run has met.

    Tensors from outside have the numbers -1, -2, ..., results those behind the inputs'.
    """

    def __init__(
        self, inputs: list[Tensor], weights: dict[int, str], may_draw: bool, known: Sequence[Tensor] = ()
    ) -> None:
        self.weights, self.may_draw, self.draws = weights, may_draw, False
        self.calls: list[Call] = []
        self.kept: list[Any] = list(inputs)  # so that ids stay theirs
        self.numbers = {id(tensor): number for number, tensor in enumerate(inputs)}
        self.count = len(inputs)
        self.outside: list[Tensor] = []
        self.versions = {id(tensor): tensor._version for tensor in known}
        self.dependent = {id(tensor) for tensor in inputs}  # ids of tensors whose values follow from the inputs' values
        self.unsized: set[int] = set()  # ids of tensors whose sizes follow from values
        self.invariant = batch_invariant()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if func in STRUCTURES:
            return self._structure(func, args, kwargs)
        name = name_of(func, kwargs)
        if getattr(func, "__name__", "") == "__iter__":
            return iter(self.__torch_function__(Tensor.unbind, types, args))
        state = default_generator.state()
        described = self._described((args, kwargs)) if name is not None and writes(name, kwargs) else None
        result = func(*args, **kwargs)
        if name is not None and (described is not None or _has_tensors(result)):
            draws = default_generator.state() != state
            self._check_call(name, draws)
            self._note_dependent(described is not None, draws, result, (args, kwargs))
            self._note(name, described or self._described((args, kwargs)), func, result, (args, kwargs))
        elif _has_tensors(result):
            if getattr(func, "__name__", "") not in _IDLE:
                called = getattr(func, "__qualname__", str(func))
                raise refusal(
                    f"{called} is no function that a program may call", user_line(), "Say it with ops of dynograd."
                )
        else:
            self._check_told(func, (*args, *kwargs.values()))
        return result

    # --- functions of functions -------------------------------------------------------------------------------------------------

    def _structure(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """A call of `cond` or its like: what it calls are bodies, each traced once."""
        bound = signature(func).bind(*args, **kwargs)
        arguments = bound.arguments
        if func is top_level.cond and not isinstance(arguments["pred"], Tensor):
            with self:
                return arguments["true_fn" if arguments["pred"] else "false_fn"](*arguments.get("operands", ()))
        line, name = user_line(), str(name_of(func))
        bodies = {key: self._body(arguments[key], *each) for key, each in STRUCTURES[func](arguments).items()}
        results = {key: result for key, (_, _, result) in bodies.items()}
        difference = difference_of(func, arguments, results)
        if difference:
            raise refusal(f"{name}: {difference}", line, "Give both the same dtypes and shapes, as tensors.")
        state = default_generator.state()
        result = map_tree(self._own, func(*args, **kwargs))
        draws = default_generator.state() != state
        self._check_call(name, draws or any([inner.draws for inner, _, _ in bodies.values()]))
        read = [*tensors_in((args, kwargs)), *[tensor for inner, _, _ in bodies.values() for tensor in inner.captured]]
        arguments.update({key: body for key, (_, body, _) in bodies.items()})
        positional, named = self._described((bound.args, bound.kwargs))
        self.calls.append(Call(name, positional, named, self._numbered(result), line))
        self.dependent |= {id(tensor) for tensor in tensors_in(result)}
        shapes = {str([tensor.shape for tensor in tensors_in(each)]) for each in results.values()}
        if any([id(tensor) in self.unsized for tensor in read]) or (func is top_level.cond and len(shapes) > 1):
            self.unsized |= {id(tensor) for tensor in tensors_in(result) if tensor.ndim}
        return result

    def _own(self, leaf: Any) -> object:
        """What a structure hands on is another value than what it was given."""
        return leaf.clone() if isinstance(leaf, Tensor) and self._knows(leaf) else leaf

    def _knows(self, tensor: Tensor) -> bool:
        return id(tensor) in self.numbers

    def _body(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_BodyTrace, TracedBody, Tree]:
        """The trace of a function of the tensors among these arguments, what it is in a program, and what it gave."""
        operands = list(tensors_in((args, kwargs)))
        copies = iter([operand.detach().clone() for operand in operands])
        args, kwargs = map_tree(lambda leaf: next(copies) if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        inner = _BodyTrace(self, list(tensors_in((args, kwargs))), operands)
        with apart(default_generator.state()), inner:
            result = function(*args, **kwargs)
        inner.check_end()
        return inner, TracedBody(len(operands), inner.references, inner.calls, inner._described(result)), result

    # --- arguments --------------------------------------------------------------------------------------------------------------

    def _described(self, value: Tree) -> Tree:
        if isinstance(value, Tensor):
            return Ref(self.number_of(value))
        if isinstance(value, PackedSequence):
            return Packed(tuple([self._described(part) for part in value]))
        if type(value) is not Size and isinstance(value, (list, tuple)):
            parts = [self._described(part) for part in value]
            return parts if isinstance(value, list) else tuple(parts)
        return {key: self._described(part) for key, part in value.items()} if isinstance(value, dict) else value

    def number_of(self, tensor: Tensor) -> int:
        """The number of a tensor."""
        number = self.numbers.get(id(tensor))
        if number is not None:
            return number
        for other in self.kept:
            part = part_of(other, tensor) if isinstance(other, RaggedTensor) and id(other) in self.numbers else None
            if part is not None:
                operands = (Ref(self.numbers[id(other)]), *part[1])
                self.calls.append(Call(part[0], operands, {}, self._new(tensor), user_line()))
                self.dependent.add(id(tensor))
                return self.numbers[id(tensor)]
        if type(tensor) not in TENSORS or type(tensor.array) is not ndarray:
            if type(tensor) in TENSORS:
                raise refusal(
                    f"it reaches a tensor on {tensor.device}", user_line(), "Programs run on the CPU: model.cpu()."
                )
            raise refusal(
                f"it reaches a tensor of type {type(tensor).__name__}, which no call of the program has made",
                user_line(),
                "Say it with ops on plain tensors; what vmap, sparse tensors and packed sequences do within is not recorded.",
            )
        if tensor.node is not None and tensor.requires_grad:
            raise refusal("it reaches a tensor with a history of gradients", user_line(), "detach() it before.")
        return self._take_from_outside(tensor)

    def _take_from_outside(self, tensor: Tensor) -> int:
        self.outside.append(tensor)
        self.versions.setdefault(id(tensor), tensor._version)
        self.kept.append(tensor)
        self.numbers[id(tensor)] = -len(self.outside)
        return -len(self.outside)

    # --- results ----------------------------------------------------------------------------------------------------------------

    def _note(self, name: str, described: tuple[Any, Any], func: Any, result: Any, arguments: Any) -> None:
        operands = list(tensors_in(arguments))
        unsized = _depends_on_values(func, operands) or any([id(tensor) in self.unsized for tensor in operands])
        call = Call(name, *described, self._numbered(result), user_line())
        self.unsized |= {id(tensor) for tensor in _unsized_in(name, result, arguments, unsized) if tensor.ndim}
        self.calls.append(call)

    def _note_dependent(self, is_write: bool, draws: bool, result: Any, arguments: Any) -> None:
        """What is made of sizes alone, as a causal mask, is the same in each call of these sizes, and may be read."""
        if draws or any([id(tensor) in self.dependent for tensor in tensors_in(arguments)]):
            self.dependent |= {id(tensor) for tensor in tensors_in(result)}
            if is_write:  # what shares memory with it depends on them, too
                self.dependent |= {id(tensor) for tensor in (*self.kept, *tensors_in(arguments))}

    def _numbered(self, result: Tree) -> Json:
        if isinstance(result, Tensor):
            return self._new(result)
        parts = result.values() if isinstance(result, dict) else result
        return [self._numbered(part) for part in parts] if isinstance(result, (list, tuple, dict)) else None

    def _new(self, tensor: Tensor) -> int:
        if self.numbers.get(id(tensor), 0) >= 0:  # a weight that a call hands on stays what it is
            self.numbers[id(tensor)] = self.count
        self.kept.append(tensor)
        self.count += 1
        return self.count - 1

    # --- checks -----------------------------------------------------------------------------------------------------------------

    def _check_call(self, name: str, draws: bool) -> None:
        self.draws = self.draws or draws
        if draws and not self.may_draw:
            raise refusal(
                f"{name} draws random numbers",
                user_line(),
                "Call model.eval() before, give the numbers as an input, or export with draws=True: the program then draws as this one does.",
            )
        if is_autocast_enabled("cpu"):
            raise refusal(
                f"{name} is called under autocast", user_line(), "Convert the model instead: model.bfloat16()."
            )
        if batch_invariant() != self.invariant:
            raise refusal(
                f"{name} is called in another batch-invariant mode",
                user_line(),
                "Set the mode around calls of the program.",
            )

    def _check_told(self, func: Any, values: tuple[Any, ...]) -> None:
        """Raises where a call has told the program of values of its inputs, or of sizes that follow from them."""
        own = [tensor for tensor in tensors_in(values) if self.numbers.get(id(tensor), -1) >= 0]
        is_property = isinstance(getattr(func, "__self__", None), property)
        name = getattr(func, "__name__", "")
        if is_property or name in _SIZES:
            if any([id(tensor) in self.unsized for tensor in own]) and is_size(func):
                raise refusal(
                    "it reads a size that depends on values of its inputs",
                    user_line(),
                    "Keep the shape: multiply by the mask or use dynograd.where, and pick afterwards; give pad_packed_sequence a total_length.",
                )
        elif name not in _TOLD and any([id(tensor) in self.dependent for tensor in own]):
            raise refusal(
                f"it reads values that depend on its inputs ({name}), and one way through it would stand for all",
                user_line(),
                "Say it with tensors: dynograd.where(condition, a, b) instead of `if`, or give the number as an argument.",
            )

    def let_go(self) -> None:
        """The calls are all that is kept of it, and the tensors from outside."""
        self.kept, self.numbers, self.unsized, self.dependent = [], {}, set(), set()

    def check_end(self) -> None:
        """Raises where the run has written into a tensor from outside."""
        for number, tensor in enumerate(self.outside):
            if tensor._version != self.versions[id(tensor)]:
                name = self.weights.get(id(tensor), f"constant_{number}")
                raise refusal(
                    f"it writes into {name}, which is no input",
                    "",
                    "Call model.eval() before, or give that tensor as an input and return it.",
                )


class _BodyTrace(Trace):
    """The calls of a function that a call of the trace around it calls.

    Args:
        around: the trace around it.
        inputs: what it is called with.
        operands: the tensors around it that these are copies of.
    """

    def __init__(self, around: Trace, inputs: list[Tensor], operands: list[Tensor]) -> None:
        super().__init__(inputs, around.weights, around.may_draw)
        self.around = around
        self.captured: list[Tensor] = []
        self.references: list[Ref] = []
        self.unsized = {id(own) for own, operand in zip(inputs, operands) if id(operand) in around.unsized}

    def number_of(self, tensor: Tensor) -> int:
        number = self.numbers.get(id(tensor))
        return self._capture(tensor) if number is None and self.around._knows(tensor) else super().number_of(tensor)

    def _knows(self, tensor: Tensor) -> bool:
        return super()._knows(tensor) or self.around._knows(tensor)

    def _take_from_outside(self, tensor: Tensor) -> int:
        return self._capture(tensor)

    def _capture(self, tensor: Tensor) -> int:
        self.captured.append(tensor)
        self.references.append(Ref(self.around.number_of(tensor)))
        for own, its in ((self.dependent, self.around.dependent), (self.unsized, self.around.unsized)):
            own |= {id(tensor)} & its
        return super()._take_from_outside(tensor)

    def _check_told(self, func: Any, values: tuple[Any, ...]) -> None:
        for tensor in tensors_in(values):
            if self.around._knows(tensor):
                self.number_of(tensor)
        super()._check_told(func, values)


def is_size(func: Any) -> bool:
    """Whether a function of tensors, or what reads an attribute of them, tells a size."""
    owner, own = getattr(func, "__self__", None), vars(Tensor)
    return getattr(func, "__name__", "") in _SIZES or owner in [own[name] for name in ("shape", "nbytes")]


def _unsized_in(name: str, result: Any, arguments: Any, unsized: bool) -> Iterator[Tensor]:
    """Results whose sizes follow from values: `unsized` if those of some operand do. Of packed sequences there are as many as operands have rows."""
    args, kwargs = arguments
    match name:
        case "packed.pack_padded_sequence":
            lengths = kwargs.get("lengths", args[1] if len(args) > 1 else None)
            return tensors_in(result[:2] if isinstance(lengths, Tensor) else ())
        case "packed.pad_packed_sequence":
            total = kwargs.get("total_length", args[3] if len(args) > 3 else None)
            return tensors_in(result[0] if total is None else ())
        case "packed.lengths_of":
            return iter(())
        case "lstm_layer" | "gru_layer" | "rnn_layer" | "recurrent.projected_lstm":
            return tensors_in(result[:1] if unsized else ())  # last states are as large as the first ones
    return tensors_in(result if unsized else ())


def _has_tensors(value: Any) -> bool:
    return next(tensors_in(value), None) is not None


def _depends_on_values(func: Callable[..., Any], operands: list[Tensor]) -> bool:
    """Whether the shape of the result depends on values of the operands."""
    op = getattr(func, "op", None)
    if not isinstance(op, Op):
        return False
    reason = op.row["at_once"] or op.row["partly_at_once"] or ""
    masks = [tensor for tensor in operands[len(operands) > 1 :] if tensor.dtype.name == "bool"]
    return "depends on values" in reason and (bool(op.row["at_once"]) or bool(masks))
