"""All parameters of a group in one compiled call or launch, as far as they are plain: row-major, floating, with states like them.

What is updated together depends on the group's parameters alone, and an element's result on that element alone, so training
resumed from a checkpoint continues as it would have. A plan is made when a group is first updated and again whenever anything
it was made of has been replaced: parameters, their data, states.
"""

from __future__ import annotations

from operator import is_
from typing import Any, NamedTuple

from dynograd import arrays
from dynograd.autograd.writes import marks, stamp_marks
from dynograd.base import dtypes
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor

__all__ = ["Rule", "Together", "shape_error"]

# Below so many elements, in few parameters, NumPy's 15 us a parameter are not worth loading Numba for.
FEW_ELEMENTS, FEW_PARAMETERS = 256, 4
# In groups whose parameters are parts: what they are parts of. NumPy rounds otherwise, so the choice must not depend on the cut.
PARTS_OF = "parts_of"


class Rule(NamedTuple):
    """How an optimizer updates a group: the kernel, the names of the states it takes (in order; `step` anywhere), its options."""

    kernel: str
    names: tuple[str, ...]
    numbers: tuple[Any, ...]


class Together:
    """Updates groups of one optimizer; keeps a plan for each."""

    def __init__(self) -> None:
        self.plans: dict[int, Plan] = {}

    def step(self, optimizer: Any, group: dict[str, Any], rule: Rule, line: Any) -> list[Tensor]:
        """Updates what can be updated together; gives the parameters that are left."""
        plan = self.plans.get(id(group))
        if plan is None or not plan.is_current(optimizer, group, rule):
            ids = {id(own_group) for own_group in optimizer.param_groups}
            self.plans = {number: kept for number, kept in self.plans.items() if number in ids}
            plan = self.plans[id(group)] = Plan(optimizer, group, rule)
        left = plan.others
        for batch in plan.batches:
            waiting = batch.step(optimizer, group, rule, line)
            if waiting is batch.members:
                batch.take_back_new(optimizer)
                self.plans.pop(id(group), None)
            if waiting:
                left = left + waiting
        return left


class Plan:
    """What of a group is updated together, in a `Batch` for each dtype. `others` are updated one by one."""

    def __init__(self, optimizer: Any, group: dict[str, Any], rule: Rule) -> None:
        self.group, self.params = group, list(group["params"])
        self.names = rule.names
        self.others: list[Tensor] = []
        self.waiting: list[Tensor] = []
        self.batches: list[Batch] = []
        plain = [p for p in self.params if _is_plain(p.array)]
        if _are_few(group.get(PARTS_OF, plain)):
            plain = [p for p in plain if type(p.array) is not arrays.ndarray]
        chosen = set(plain)
        self.others = [p for p in self.params if p not in chosen]
        for kind in dict.fromkeys(_kind_of(p.array) for p in plain):
            self._add([p for p in plain if _kind_of(p.array) == kind], optimizer, rule)

    def _add(self, alike: list[Tensor], optimizer: Any, rule: Rule) -> None:
        members, new = [], []
        for p in alike:
            if p._grad is not None and p._grad.is_sparse:
                optimizer.check_sparse(p, self.group)
                self.others.append(p)
                continue
            state = optimizer.state.get(p) if rule.names else None
            if p._grad is None and any(name not in (state or ()) for name in rule.names):
                self.waiting.append(p)
                continue
            if p._grad is not None:
                check_shapes(optimizer, p, state or {}, rule.names)
            completed = bool(rule.names) and optimizer.complete_state(p, optimizer.state[p], self.group)
            if rule.names and not _states_fit(p, optimizer.state[p], rule.names, optimizer.counters):
                self.others.append(p)
                continue
            members.append(p)
            new.append(completed)
        if not members:
            return
        batch = Batch(optimizer, members, new, rule)
        if batch.table is None:
            batch.take_back_new(optimizer)
            self.others += members
        else:
            self.batches.append(batch)

    def is_current(self, optimizer: Any, group: dict[str, Any], rule: Rule) -> bool:
        params = group["params"]
        if group is not self.group or self.names != rule.names or len(params) != len(self.params):
            return False
        if not all(map(is_, params, self.params)):
            return False
        for p in self.waiting:
            if p._grad is not None:
                return False
        return all([batch.is_current(optimizer) for batch in self.batches])


class Batch:
    """Parameters of one dtype, with the table of their addresses and the arrays it was made of."""

    def __init__(self, optimizer: Any, members: list[Tensor], new: list[bool], rule: Rule) -> None:
        self.members, self.names = members, rule.names
        self.new = [p for p, is_new in zip(members, new, strict=True) if is_new]
        self.arrays = [p.array for p in members]
        self.in_order = all([tuple(optimizer.state[p]) == rule.names for p in members]) if rule.names else True
        if "step" in rule.names and type(self.arrays[0]) is arrays.CudaArray:
            _side_by_side([optimizer.state[p]["step"] for p in members])
        counted = [name for name in rule.names if name != "step" and name in optimizer.counters]
        counters = [_side_by_side([optimizer.state[p][name] for p in members]) for name in counted]
        self.states = self._states_of(optimizer)
        columns = [[optimizer.state[p][name].array for p in members] for name in rule.names]
        named = {name: column for name, column in zip(rule.names, columns, strict=True) if name not in counted}
        steps = named.pop("step", None)
        make = kernel("optimizers", "step_table", self.arrays[0])
        # (a tuple: lists of a GPU's kernel hold arrays of one device, and steps may be counted by the host)
        self.table = make(self.arrays, list(named.values()), None if steps is None else tuple(steps), new)
        if counted and self.table is not None:
            self.table = None if any([counter is None for counter in counters]) else self.table
            if self.table is not None:
                self.table.counters = counters
        self.marks = marks(self.arrays)

    def _states_of(self, optimizer: Any) -> list[Any]:
        names, states = self.names, optimizer.state
        if not names:
            return []
        if self.in_order:  # half as long as by name
            return [value.array for p in self.members for value in states[p].values()]
        return [states[p][name].array for p in self.members for name in names]

    def is_current(self, optimizer: Any) -> bool:
        """Whether parameters and states are the arrays that they were."""
        if not all(map(is_, [p.array for p in self.members], self.arrays)):
            return False
        try:
            states = self._states_of(optimizer)
            return len(states) == len(self.states) and all(map(is_, states, self.states))
        except (KeyError, AttributeError):  # a state was dropped or is no tensor now
            return False

    def step(self, optimizer: Any, group: dict[str, Any], rule: Rule, line: Any) -> list[Tensor]:
        """One step of the members that have a gradient; gives those back whose step cannot be done here."""
        try:
            gradients = [p._grad.array for p in self.members]  # type: ignore[union-attr]
        except AttributeError:  # a gradient is None
            gradients = [None if (g := p._grad) is None else g.array for p in self.members]
        run = kernel("optimizers", rule.kernel, self.arrays[0])
        more = self._found_inf(optimizer)
        bad = run(self.table, gradients, *rule.numbers, **more)
        sparse: list[Tensor] = []
        if bad >= 0:
            sparse = [p for p in self.members if p._grad is not None and p._grad.is_sparse]
            for p in sparse:
                optimizer.check_sparse(p, group)
            gradients = [
                None if p._grad is None or p._grad.is_sparse else self._mended(optimizer, p, g)
                for p, g in zip(self.members, gradients)
            ]
            bad = run(self.table, gradients, *rule.numbers, **more)
            if bad >= 0:
                return self.members
        if self.new:
            self.new = []
        stamp_marks(self.marks, gradients, line)
        return sparse

    def _found_inf(self, optimizer: Any) -> dict[str, Any]:
        """What a GradScaler has said of the gradients, for a kernel that looks at it without the host."""
        found_inf = getattr(optimizer, "found_inf", None)
        if found_inf is None:
            return {}
        return {"found_inf": arrays.to_device(found_inf.array, arrays.device_of(self.arrays[0]))}

    def _mended(self, optimizer: Any, p: Tensor, g: Any) -> Any:
        """A gradient as the table wants it: the parameter's dtype, in order."""
        if g.shape != p.array.shape:
            raise shape_error(optimizer, "gradient", g, p.array)
        return g if _is_plain(g) and g.dtype is p.array.dtype else arrays.copy(arrays.cast(g, p.dtype))

    def take_back_new(self, optimizer: Any) -> None:
        """Forgets states that were made for a step here: an update by itself makes its own."""
        for p in self.new:
            for name in self.names:
                del optimizer.state[p][name]
        self.new = []


def check_shapes(optimizer: Any, p: Tensor, state: dict[str, Any], names: tuple[str, ...]) -> None:
    """The gradient and the states of a parameter have its shape."""
    array = p.array
    if p._grad is not None and p._grad.array.shape != array.shape:
        raise shape_error(optimizer, "gradient", p._grad.array, array)
    for name in names:
        value = state.get(name)
        if name not in optimizer.counters and isinstance(value, Tensor) and value.array.shape != array.shape:
            raise shape_error(optimizer, name, value.array, array)


def shape_error(optimizer: Any, name: str, tensor: Any, parameter: Any) -> ShapeError:
    return ShapeError(
        f"{type(optimizer).__name__}.step: {name} has shape {tuple(tensor.shape)}, but its parameter has shape "
        f"{tuple(parameter.shape)}. After replacing a parameter's data, drop its gradient (zero_grad) and its state "
        f"(del optimizer.state[p])."
    )


def _side_by_side(counters: list[Tensor]) -> Any:
    """Lays counters of the host into one array, which it gives, so that all are counted at once; None if they differ in kind."""
    kind = counters[0].array.dtype
    if any([type(c.array) is not arrays.ndarray or c.array.dtype != kind or c.array.shape for c in counters]):
        return None
    whole = arrays.zeros((len(counters),), dtypes.BY_NUM[kind.num])
    for place, counter in enumerate(counters):
        part = whole[place : place + 1].reshape(())
        arrays.write(part, counter.array)
        counter.array = part
    return whole


def _are_few(parameters: list[Tensor]) -> bool:
    on_cpu = [p.array.size for p in parameters if type(p.array) is arrays.ndarray and _is_plain(p.array)]
    return 0 < len(on_cpu) <= FEW_PARAMETERS and sum(on_cpu) < FEW_ELEMENTS


def _is_plain(array: Any) -> bool:
    if type(array) is arrays.CudaArray:
        return array.is_contiguous and array.dtype.name in ("float32", "bfloat16", "float16", "float64")
    return type(array) is arrays.ndarray and array.dtype.char in "fd" and array.flags.carray


def _kind_of(array: Any) -> tuple[Any, ...]:
    """What arrays of one batch have in common."""
    return (array.dtype, array.device_index) if type(array) is arrays.CudaArray else (array.dtype,)


def _states_fit(p: Tensor, state: dict[str, Any], names: tuple[str, ...], counters: tuple[str, ...]) -> bool:
    for name in names:
        value = state.get(name)
        if not isinstance(value, Tensor) or not _is_plain(value.array):
            return False
        if name in counters:
            if value.array.size != 1:
                return False
        elif _kind_of(value.array) != _kind_of(p.array) or value.array.shape != p.array.shape:
            return False
    return True
