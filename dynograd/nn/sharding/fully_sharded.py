"""`torch.distributed.fsdp.fully_shard`: each process keeps a part of all parameters, gradients and states of optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.distributed.groups import group_of
from dynograd.distributed.meshes import DeviceMesh
from dynograd.distributed.synchronizing import synchronize
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.nn.sharding.contexts import Context, Unit
from dynograd.nn.sharding.flats import DIVIDED, Flat

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "unit_of"]

_NAME = "_sharded_unit"


class _OfShardedModules(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Module) and unit_of(value) is not None


class FSDPModule(metaclass=_OfShardedModules):
    """What modules are for `isinstance` when `fully_shard` has divided them. These are the methods that they have then.

    >>> from dynograd.distributed.fsdp import FSDPModule, fully_shard
    >>> dynograd.distributed.init_process_group()
    >>> layer = fully_shard(dynograd.nn.Linear(2, 1))
    >>> dynograd.distributed.destroy_process_group()
    >>> isinstance(layer, FSDPModule), isinstance(dynograd.nn.Linear(2, 1), FSDPModule)
    (True, False)
    """

    @staticmethod
    def set_requires_gradient_sync(unit: Unit, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward joins gradients: not for all micro-batches of a step but the last one. They wait whole in each process until then.

        Args:
            requires_gradient_sync: whether.
            recurse: accepted; it holds for the whole model.
        """
        unit.context.is_on = requires_gradient_sync

    @staticmethod
    def set_is_last_backward(unit: Unit, is_last_backward: bool) -> None:
        """Accepted; backward ends when it ends.

        Args:
            is_last_backward: whether.
        """

    @staticmethod
    def set_reshard_after_forward(unit: Unit, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are given back between forward and backward.

        Args:
            reshard_after_forward: whether.
            recurse: also in the sharded modules inside.
        """
        for inner in _units_in(unit.module) if recurse else (unit,):
            inner.is_released = reshard_after_forward

    @staticmethod
    def unshard(unit: Unit, async_op: bool = False) -> UnshardHandle | None:
        """Reads the parameters before the module is called.

        Args:
            async_op: by a thread; the module, or the handle, waits for it.
        Returns:
            A handle with `async_op`.
        """
        for flat in unit.flats:
            if async_op:
                flat.read_ahead()
            else:
                flat.gather()
        return UnshardHandle(unit) if async_op else None

    @staticmethod
    def reshard(unit: Unit) -> None:
        """Gives the memory of the whole parameters back."""
        for flat in unit.flats:
            flat.release()


class UnshardHandle:
    """What `unshard(async_op=True)` gives.

    >>> from dynograd.distributed.fsdp import fully_shard
    >>> dynograd.distributed.init_process_group()
    >>> layer = fully_shard(dynograd.nn.Linear(2, 1))
    >>> layer.unshard(async_op=True).wait()
    >>> dynograd.distributed.destroy_process_group()
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Waits until the parameters have been read."""
        for flat in self._unit.flats:
            flat.gather()


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | None = None,
    ignored_params: Iterable[Parameter] | None = None,
    average: str | Callable[..., float] = "ranks",
    prefetch: bool | None = None,
) -> Module:
    """Divides the parameters of a module: each process keeps an equal part of their elements, and of their gradients.

    A call of the module reads the others' parts, and gives the memory back; backward does so again, and joins gradients. Divide layers
    first, then the model: `for block in model.blocks: fully_shard(block)`, `fully_shard(model)`; what is called together is whole
    together. `parameters()` are parts from then on: make the optimizer afterwards. Processes may use different layers, and any number of
    times: reading a part asks nothing of the process that has it. Those that no process has used keep `grad=None`.

    All processes run forward and backward as often; the first forward pass after a backward pass waits for all of them.

    Args:
        module: which, in place. All processes begin with the parameters of the first one.
        mesh: of one dim, whose processes divide them; all processes when left out.
        reshard_after_forward: give the memory back between forward and backward, unless False.
        ignored_params: parameters that stay whole.
        average: how gradients are joined, as of `DistributedDataParallel`: "ranks", "samples", "tokens" or a function.
        prefetch: whether a thread reads the parameters of the layer behind while one computes; None: where cores are free for it.
    Returns:
        `module`, with the methods of `FSDPModule`.
    Raises:
        ValueError: divided already, or a parameter that a divided module inside has, too.
    Source: Zhao et al., PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel, 2023 (arXiv:2304.11277).

    >>> from dynograd.distributed.fsdp import fully_shard
    >>> def program():
    ...     model = fully_shard(dynograd.nn.Linear(3, 1, bias=False))
    ...     model(dynograd.full((1, 3), dynograd.distributed.get_rank() + 1.0)).sum().backward()
    ...     return [parameter.grad.tolist() for parameter in model.parameters()]
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[[1.5]], [[1.5, 1.5]]]
    """
    if not isinstance(module, Module):
        raise TypeError(f"fully_shard: expected a Module, got {type(module).__name__}.")
    if unit_of(module) is not None:
        raise ValueError(f"fully_shard: this {type(module).__name__} has been divided already.")
    if mesh is not None and mesh.ndim != 1:
        raise ValueError(f"fully_shard: expected a mesh of one dim, got {mesh!r}. Take a dim of it, mesh['dp'].")
    if not callable(average) and average not in ("ranks", "samples", "tokens"):
        raise ValueError(
            f"fully_shard: expected average to be 'ranks', 'samples', 'tokens' or a function, got {average!r}."
        )
    group = group_of(None) if mesh is None else mesh.get_group()
    inner = _units_in(module)
    for unit in inner:
        if unit.context.group is not group:
            raise ValueError(
                f"fully_shard: {type(unit.module).__name__} inside has been divided over other processes. Use one mesh."
            )
    parts = {piece.shard for unit in inner for flat in unit.flats for piece in flat.pieces}
    wholes = {piece.whole for unit in inner for flat in unit.flats for piece in flat.pieces}
    left_out = {*(ignored_params or ()), *parts}
    synchronize(module, group, left_out)
    places: dict[Parameter, list[tuple[Module, str]]] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if getattr(parameter, DIVIDED, False):
                raise ValueError(
                    f"fully_shard: {type(part).__name__}.{name} is a parameter of a divided module, too. Divide the module that has both."
                )
            if parameter is not None and parameter not in left_out and parameter not in wholes:
                places.setdefault(parameter, []).append((part, name))
    by_kind: dict[Any, list[tuple[Parameter, list[tuple[Module, str]]]]] = {}
    for parameter, where in places.items():
        by_kind.setdefault((parameter.array.dtype, parameter.requires_grad), []).append((parameter, where))
    context = Context(group, average, prefetch)
    unit = Unit(
        module,
        [Flat(parameters, group) for parameters in by_kind.values()],
        context,
        reshard_after_forward is not False,
    )
    for other in [*inner, unit]:
        context.add(other)
    module.__dict__[_NAME] = unit
    module.register_forward_pre_hook(unit.enter, with_kwargs=True)
    module.register_forward_hook(unit.leave, always_call=True)
    for name, method in vars(FSDPModule).items():
        if isinstance(method, staticmethod):
            module.__dict__[name] = functools.partial(method.__func__, unit)
    return module


def unit_of(module: Module) -> Unit | None:
    """What `fully_shard` has made of a module, or None."""
    return module.__dict__.get(_NAME)


def _units_in(module: Module) -> list[Unit]:
    return [unit for part in module.modules() if (unit := unit_of(part)) is not None]
