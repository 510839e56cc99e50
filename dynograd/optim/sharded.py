"""Optimizers whose states are divided among processes: each updates a slice of all parameters and sends it to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.autograd import enable_grad, no_grad
from dynograd.base.devices import device
from dynograd.distributed.buffers import Buffer
from dynograd.distributed.communicators.protocol import Communicator, parts_of
from dynograd.distributed.groups import group_of
from dynograd.distributed.joins import Joinable, JoinHook
from dynograd.distributed.object_collectives import all_gather_object
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.ops.layout.joins import cat
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.together import PARTS_OF
from dynograd.tensor.creation import zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["ZeroRedundancyOptimizer"]


class _Slice:
    """The part of a parameter that a process updates: a leaf in the parameter's memory."""

    def __init__(self, parameter: Tensor, part: slice) -> None:
        self.parameter, self.part = parameter, part
        self.leaf = parameter.detach().view(-1)[part].requires_grad_(parameter.requires_grad)

    def look(self) -> None:
        """The parameter's memory and gradient, as they are now."""
        parameter = self.parameter
        self.leaf.data = parameter.detach().view(-1)[self.part]
        grad = parameter.grad
        self.leaf.grad = None if grad is None else grad.detach().reshape(-1)[self.part]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer for elements, of which each process keeps the states of a slice of all parameters: 1/ranks of the memory.

    All processes must have the same gradients (`DistributedDataParallel`) and the same options. After a step all have all parameters.

    Args:
        params: tensors, or dicts of parameter groups.
        optimizer_class: which optimizer; one that treats each element by itself (SGD, Adam, AdamW, RMSprop, Adagrad and their like).
        process_group: whose processes divide the states; all when left out.
        parameters_as_bucket_view, overlap_with_ddp: accepted; slices are views of the parameters.
        defaults: options of `optimizer_class`.
    Raises:
        ValueError: `distributed.init_process_group` has not been called.
        TypeError: `optimizer_class` looks at whole parameters (LBFGS, Adafactor, Muon).
    Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, 2020 (arXiv:1910.02054).

    >>> def program():
    ...     w = tensor([1.0, 2.0], requires_grad=True)
    ...     optimizer = dynograd.optim.ZeroRedundancyOptimizer([w], dynograd.optim.SGD, lr=0.5)
    ...     w.sum().backward()
    ...     optimizer.step()
    ...     return w.tolist()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[0.5, 1.5], [0.5, 1.5]]
    """

    def __init__(
        self,
        params: ParamsT,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
            raise TypeError(
                f"ZeroRedundancyOptimizer: expected optimizer_class to be an Optimizer class, got {optimizer_class!r}."
            )
        if optimizer_class.needs_whole_parameters:
            raise TypeError(
                f"ZeroRedundancyOptimizer: {optimizer_class.__name__} looks at whole parameters, and a process has a slice of them. Use an "
                f"optimizer for elements, such as AdamW."
            )
        self.process_group = group_of(process_group)
        self._class, self._options = optimizer_class, defaults
        self._slices: list[list[_Slice]] = []
        self.optim: Optimizer | None = None
        self._consolidated: dict[str, Any] | None = None
        super().__init__(params, optimizer_class([zeros(1).requires_grad_()], **defaults).defaults)
        self._divide()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if self.optim is not None:
            self._divide()

    def _divide(self) -> None:
        """Each process gets an equal slice of each group's elements; states that are there already are kept where they fit."""
        group, before = self.process_group, self.optim
        states = (
            {} if before is None else {(id(s.parameter), s.part.start): before.state.get(s.leaf) for s in self._own()}
        )
        self._slices = []
        for options in self.param_groups:
            parameters = options["params"]
            total = sum([parameter.numel() for parameter in parameters])
            own = parts_of(total, group.size())[group.rank()]
            slices, start = [], 0
            for parameter in parameters:
                first, last = max(own.start - start, 0), min(own.stop - start, parameter.numel())
                if first < last:
                    slices.append(_Slice(parameter, slice(first, last)))
                start += parameter.numel()
            self._slices.append(slices)
        groups = [
            {**options, "params": [s.leaf for s in slices], PARTS_OF: options["params"]}
            for options, slices in zip(self.param_groups, self._slices)
            if slices
        ]
        self.optim = self._class(groups, **self._options) if groups else None
        if self.optim is not None:
            for part in self._own():
                state = states.get((id(part.parameter), part.part.start))
                if state:
                    self.optim.state[part.leaf] = state

    def _own(self) -> list[_Slice]:
        return [part for slices in self._slices for part in slices]

    def _groups(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """(a group here, the group of its slices)."""
        if self.optim is None:
            return []
        here = [options for options, slices in zip(self.param_groups, self._slices) if slices]
        return list(zip(here, self.optim.param_groups))

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> object:
        """Updates this process's slice, and takes the others'.

        Args:
            closure: computes the loss again and gives it.
            kwargs: for the optimizer's step.
        Returns:
            What `closure` gives, or None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._consolidated = None
        for here, there in self._groups():  # schedulers write into the groups here
            there.update({name: value for name, value in here.items() if name != "params"})
        for part in self._own():
            part.look()
        if self.optim is not None:
            self.optim.step(**kwargs)
        for part in self._own():
            part.leaf.grad = None
        self._send()
        return loss

    def _send(self) -> None:
        """Each process sends its slices to all others."""
        group = self.process_group
        if group.size() == 1:
            return
        for options in self.param_groups:
            parameters = options["params"]
            with no_grad():
                whole = cat([parameter.reshape(-1) for parameter in parameters])
            buffer = Buffer(whole, True, may_stay=True)
            flat = buffer.array
            parts = [flat[part] for part in parts_of(flat.size, group.size())]

            def task(communicator: Communicator, parts: list[Any] = parts, buffer: Buffer = buffer) -> None:
                communicator.all_gather(parts[communicator.rank], parts)
                buffer.finish()

            group.run(f"slices of {flat.size} parameters", task)
            with no_grad():
                for parameter, part in zip(parameters, whole.split([parameter.numel() for parameter in parameters])):
                    parameter.copy_(part.view(parameter.shape))

    # --- saving ---------------------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the states of all processes to one, whose `state_dict` can be saved; all processes call it.

        Args:
            to: the rank that gets them.
        """
        group = self.process_group
        places = {
            id(p): place for place, p in enumerate([p for options in self.param_groups for p in options["params"]])
        }
        own = []
        if self.optim is not None:
            for part in self._own():
                state = self.optim.state.get(part.leaf, {})
                own.append(
                    (places[id(part.parameter)], part.part.start, {name: _as_array(v) for name, v in state.items()})
                )
        everyone: list[Any] = [None] * group.size()
        all_gather_object(everyone, own, group)
        if group.rank() == to:
            self._consolidated = self._whole(
                sorted([entry for entries in everyone for entry in entries], key=lambda e: e[:2])
            )

    def _whole(self, entries: list[tuple[int, int, dict[str, Any]]]) -> dict[str, Any]:
        """The state dict of an optimizer that is not divided."""
        parameters = self._parameters()
        state: dict[int, dict[str, Any]] = {}
        for place, _, values in entries:
            whole = state.setdefault(place, {})
            for name, value in values.items():
                if isinstance(value, np.ndarray) and value.ndim:
                    whole.setdefault(name, []).append(value)
                else:
                    whole[name] = value
        for place, whole in state.items():
            for name, value in whole.items():
                if isinstance(value, list):
                    whole[name] = Tensor.wrap(np.concatenate(value).reshape(tuple(parameters[place].shape)))
                elif isinstance(value, np.ndarray):
                    whole[name] = Tensor.wrap(value)
        plain = Optimizer.state_dict(self)
        return {
            "state": {place: whole for place, whole in state.items() if whole},
            "param_groups": plain["param_groups"],
        }

    def state_dict(self) -> dict[str, Any]:
        """The states of all processes, as of an optimizer that is not divided.

        Returns:
            A dict, on the process that `consolidate_state_dict` brought them to.
        Raises:
            RuntimeError: it was not called since the last step, or for another process.
        """
        if self._consolidated is None:
            raise RuntimeError(
                f"ZeroRedundancyOptimizer: state_dict has not been consolidated on this rank ({self.process_group.rank()}). Please call "
                f"consolidate_state_dict(to={self.process_group.rank()}) on all ranks beforehand if you meant to save the global state."
            )
        return self._consolidated

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the states of an optimizer, divided or not; each process keeps its slice.

        Args:
            state_dict: the same one in all processes.
        """
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(options["params"]) for options in self.param_groups]:
            raise ValueError(
                f"ZeroRedundancyOptimizer: loaded state dict has groups of {[len(g['params']) for g in groups]} parameters, this optimizer "
                f"of {[len(options['params']) for options in self.param_groups]}."
            )
        for options, loaded in zip(self.param_groups, groups):
            options.update({name: value for name, value in loaded.items() if name != "params"})
        numbers = [number for loaded in groups for number in loaded["params"]]
        parameters = self._parameters()
        states = {id(p): state_dict["state"].get(number, {}) for p, number in zip(parameters, numbers)}
        if self.optim is None:
            return
        for part in self._own():
            state = states[id(part.parameter)]
            self.optim.state[part.leaf] = {name: _cut(value, part) for name, value in state.items()}
        self._consolidated = None

    def state_of_slices(self) -> dict[str, Any]:
        """The states that this process keeps, and of which elements they are.

        Returns:
            A dict for `load_state_of_slices`.
        """
        places = {parameter: place for place, parameter in enumerate(self._parameters())}
        states = {} if self.optim is None else self.optim.state
        slices = [
            [places[part.parameter], part.part.start, part.part.stop, dict(states.get(part.leaf, {}))]
            for part in self._own()
        ]
        return {"entries": slices, "param_groups": Optimizer.state_dict(self)["param_groups"]}

    def load_state_of_slices(self, states: list[dict[str, Any]]) -> None:
        """Takes its slice of what processes, of whatever number, have kept.

        Args:
            states: what `state_of_slices` has given in them.
        """
        parameters = self._parameters()
        entries = [entry for state in states for entry in state["entries"]]
        for options, loaded in zip(self.param_groups, states[0]["param_groups"]):
            options.update({name: value for name, value in loaded.items() if name != "params"})
        for part in self._own():
            state: dict[str, Any] = {}
            for place, start, stop, values in entries:
                first, last = max(start, part.part.start), min(stop, part.part.stop)
                if parameters[place] is part.parameter and first < last:
                    for name, value in values.items():
                        if isinstance(value, Tensor) and value.ndim:
                            whole = state.setdefault(name, zeros(part.leaf.numel(), dtype=value.dtype))
                            whole[first - part.part.start : last - part.part.start] = value[
                                first - start : last - start
                            ]
                        else:
                            state[name] = value.clone() if isinstance(value, Tensor) else value
            if state and self.optim is not None:
                self.optim.state[part.leaf] = state
        self._consolidated = None

    def _parameters(self) -> list[Tensor]:
        return [parameter for options in self.param_groups for parameter in options["params"]]

    # --- ranks with different numbers of batches --------------------------------------------------------------------------

    def join_hook(self, **kwargs: object) -> JoinHook:
        """What this optimizer does in the steps of the others when this process has run out of inputs.

        Args:
            kwargs: of `Join`.
        Returns:
            A `JoinHook`.
        """
        return _Shadow(self)

    @property
    def join_device(self) -> device:
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group."""
        return self.process_group


class _Shadow(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


def _as_array(value: object) -> object:
    return value.detach().cpu().numpy().copy() if isinstance(value, Tensor) else value


def _cut(value: object, part: _Slice) -> object:
    if isinstance(value, Tensor):
        if value.ndim and value.numel() == part.parameter.numel():
            with no_grad():
                return value.detach().reshape(-1)[part.part].clone()
        return value.clone()
    return value
