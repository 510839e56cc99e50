"""The calls of a recorded step, to be made again by the functions that eager mode calls, on other memory."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import SCALARS, as_result
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import OutputNode, Partial
from dynograd.kernels import kernel
from dynograd.plans.calls import Call
from dynograd.plans.gpu.places import Bindings, Place, Regions, new_array
from dynograd.plans.passes import saved_of
from dynograd.plans.python_forms import CopyForm, Forward, RuleForm, SumForm, call_with, results_of
from dynograd.plans.writes.stores import StoreForm
from dynograd.tensor.tensor import Tensor

__all__ = ["GpuCall", "Unknown", "stamped"]

_PLACED_KEYS = {"dropout", "dropout_add"}  # ops whose kernels read their place in the random stream from the device


class Unknown(Exception):
    """A call reads memory that no call has written."""


class _Operand:
    """A tensor among the arguments of an op."""

    def __init__(self, place: Place | CudaArray, grad: bool) -> None:
        self.place, self.grad = place, grad

    def tensor(self, bindings: Bindings) -> Tensor:
        tensor = Tensor.wrap(bindings.at(self.place))
        tensor._requires_grad = self.grad
        return tensor


class _Stamped:
    """What of an op's node the program asks later: which tensors from outside it has saved."""

    saved_names = ("saved",)

    def __init__(self, saved: list[Any]) -> None:
        self.saved = saved


class GpuCall:
    """One call. `compute(bindings, nodes)` makes it on the memory that is bound, and binds what it gives.

    Args:
        call: as it was recorded.
        regions: of the step.
        number: of the call.
    Raises:
        Unknown: it reads memory that no call has written.
    """

    in_place = False

    def __init__(self, call: Call, regions: Regions, number: int) -> None:
        self.kind, self.name, self.op, self.line, self.number = call.kind, call.name, call.op, call.line, number
        self.outputs = tuple(
            [None if array is None else self._known(regions.place_of(array)) for array in call.outputs]
        )
        self.reads: set[int] = set()  # regions
        self.makes = self.uses = 0  # the node, by the id that the record's had
        self.key: int | None = None  # where the place in the random stream stands among an op's arguments
        self.key_now: Any = None
        self.draws = False
        self.eager = ""  # why it is made between graphs
        self.node: Any = None
        form: Any = call.compute
        if type(form) is Forward:
            self._take_op(form, regions)
            self.node = stamped(call, regions)
        elif type(form) is RuleForm:
            self.uses = id(form.shadow)
            self.g = {0: form.g} if type(form.g) is not Partial else form.g.parts
            self.partial = type(form.g) is Partial
            self.g = {number: self._read(regions, array) for number, array in self.g.items()}
        elif type(form) is SumForm:
            self.operands = [self._read(regions, array) for array in (form.total, form.part)]
        elif type(form) is CopyForm:
            self.operands = [self._read(regions, form.source)]
        elif type(form) is StoreForm:
            self.operands = [self._read(regions, form.source), self._read(regions, form.target)]
        else:
            raise Unknown(f"{call.kind} {call.name} at {call.line}")

    def _known(self, place: Place | CudaArray | None) -> Place | CudaArray:
        if place is None:
            raise Unknown(f"{self.kind} {self.name} at {self.line}")
        return place

    def _read(self, regions: Regions, array: CudaArray) -> Place | CudaArray:
        place = self._known(regions.place_of(array))
        if type(place) is Place:
            self.reads.add(place.region)
        return place

    def _take_op(self, form: Forward, regions: Regions) -> None:
        self.entry, self.grad, self.makes = form.entry, form.grad, id(form.shadow) if form.shadow is not None else 0
        names, by_row = self.entry.op.parameter_names, self.entry.op.row["by_row"]
        self.args = [self._operand(value, regions) for value in form.args]
        if by_row is not None and any([self._draws(name, value) for name, value in zip(names, form.args)]):
            self.key, self.draws = names.index(by_row), True
            self.key_now = self.args[self.key]
            if self.name not in _PLACED_KEYS:
                self.eager = "it draws random numbers whose place its kernels do not read from the device"

    @staticmethod
    def _draws(name: str, value: Any) -> bool:
        return name in ("p", "dropout_p") and value != 0

    def _operand(self, value: Any, regions: Regions) -> object:
        if isinstance(value, Tensor):
            return _Operand(self._read(regions, value.array), bool(value._requires_grad))
        if type(value) in (list, tuple):
            return type(value)([self._operand(element, regions) for element in value])
        return value

    @property
    def writes(self) -> set[int]:
        """Regions."""
        return {place.region for place in self.outputs if type(place) is Place}

    def compute(self, bindings: Bindings, nodes: dict[int, Any]) -> None:
        """Makes the call."""
        if self.kind == "op":
            results = self._forward(bindings, nodes)
        elif self.kind == "rule":
            results = self._rule(bindings, nodes)
        else:
            operands = [bindings.at(place) for place in self.operands]
            if self.kind == "sum":
                results = [kernel("gradients", "add", operands[0])(*operands)]
            elif self.kind == "store":
                results = StoreForm(*operands)()
            else:
                results = [self._copy(operands[0])]
        for place, result in zip(self.outputs, results):
            if place is not None:
                bindings.bind(place, result, self.kind in ("sum", "copy"))

    def _forward(self, bindings: Bindings, nodes: dict[int, Any]) -> list[Any]:
        args = [actual(value, bindings) for value in self.args]
        if self.key is not None:
            args[self.key] = self.key_now
        MODES.grad = self.grad
        try:
            results, _ = results_of(call_with(self.entry.apart(), self.entry.op, args))
        finally:
            MODES.grad = 0
        assert results is not None
        if self.makes:
            node = next(tensor.node for tensor in results if tensor.node is not None)
            nodes[self.makes] = node.edges[0] if type(node) is OutputNode else node
        return [tensor.array for tensor in results]

    def _rule(self, bindings: Bindings, nodes: dict[int, Any]) -> list[Any]:
        parts = {number: bindings.at(place) for number, place in self.g.items()}
        gradients = nodes[self.uses].apply(Partial(parts) if self.partial else parts[0])
        return [as_result(part) if isinstance(part, SCALARS) else part for part in gradients]

    def _copy(self, source: CudaArray) -> CudaArray:
        place = self.outputs[0]
        assert place is not None
        result = new_array(place, source.device_index)
        result[...] = source
        return result


def stamped(call: Call, regions: Regions) -> _Stamped | None:
    """What stands for the node of an op."""
    if call.node is None:
        return None
    return _Stamped([array for array in saved_of(call.node) if id(getattr(array, "storage", None)) in regions.staying])


def actual(value: Any, bindings: Bindings) -> object:
    if type(value) is _Operand:
        return value.tensor(bindings)
    if type(value) in (list, tuple):
        return type(value)([actual(element, bindings) for element in value])
    return value
