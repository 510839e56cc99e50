"""`torch.distributed.checkpoint.state_dict`: states of models and optimizers whose parameters are parts, whole or as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dynograd.distributed import objects
from dynograd.distributed.groups import group_of, is_initialized
from dynograd.distributed.splits import part_of_whole, splits_of, whole_of
from dynograd.nn.module import Module
from dynograd.nn.parallel import DistributedDataParallel
from dynograd.nn.sharding.fully_sharded import unit_of
from dynograd.tensor.tensor import Tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """How states are read and written.

    Args:
        full_state_dict: whole tensors, as one process would have them; else the parts of this process.
        cpu_offload: with `full_state_dict`, the first process alone has the states; others get an empty dict.
        ignore_frozen_params: leave out parameters that require no gradient.
        keep_submodule_prefixes: accepted.
        strict: all names of the model must come, and no others.
        broadcast_from_rank0: with `full_state_dict`, the states of the first process are written in all of them; others give an empty dict.
        flatten_optimizer_state_dict: not here; must be False.

    >>> from dynograd.distributed.checkpoint.state_dict import StateDictOptions
    >>> StateDictOptions(full_state_dict=True).strict
    True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        if self.flatten_optimizer_state_dict:
            raise NotImplementedError("StateDictOptions: states of optimizers are not flattened. Leave the option out.")


def _plain(model: Module) -> Module:
    return model.module if isinstance(model, DistributedDataParallel) else model


def _is_left_out(options: StateDictOptions) -> bool:
    return options.full_state_dict and options.cpu_offload and is_initialized() and group_of(None).rank() != 0


def _parameters(model: Module) -> dict[str, Tensor]:
    return dict(_plain(model).named_parameters(remove_duplicate=False))


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Parameters and buffers of a model by their names.

    Args:
        model: which; all processes call it.
        submodules: not here; must be None.
        options: `StateDictOptions(full_state_dict=True)` gives whole tensors, which a model of one process loads.
    Returns:
        A dict.

    >>> from dynograd.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    >>> from dynograd.distributed.fsdp import fully_shard
    >>> def program():
    ...     model = fully_shard(dynograd.nn.Linear(3, 1))
    ...     parts = get_model_state_dict(model)
    ...     whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    ...     return [tuple(state["weight"].shape) for state in (parts, whole)]
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[(2,), (1, 3)], [(1,), (1, 3)]]
    """
    options = options or StateDictOptions()
    if submodules is not None:
        raise NotImplementedError("get_model_state_dict: give the submodule itself as model, instead of submodules.")
    parameters = _parameters(model)
    state: dict[str, Any] = {}
    for name, value in _plain(model).state_dict().items():
        parameter = parameters.get(name)
        if parameter is not None and options.ignore_frozen_params and not parameter.requires_grad:
            continue
        if parameter is not None and options.full_state_dict:
            value = whole_of(parameter.detach(), splits_of(parameter))
        state[name] = value
    return {} if _is_left_out(options) else state


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> object:
    """Writes parameters and buffers into a model.

    With `full_state_dict`, what the state leaves out stays as it is, and parameters on the device "meta" become those of the state.

    Args:
        model: which; all processes call it.
        model_state_dict: what `get_model_state_dict` gave with the same options.
        options: how.
    Returns:
        What `load_state_dict` gives.

    >>> from dynograd.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
    >>> from dynograd.distributed.fsdp import fully_shard
    >>> def program():
    ...     model, options = fully_shard(dynograd.nn.Linear(3, 1, bias=False)), StateDictOptions(full_state_dict=True)
    ...     set_model_state_dict(model, {"weight": tensor([[1.0, 2.0, 3.0]])}, options=options)
    ...     return model(tensor([1.0, 1.0, 1.0])).item()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [6.0, 6.0]
    """
    options = options or StateDictOptions()
    state, assign = _of_first(model_state_dict, options), False
    if options.full_state_dict:
        parameters, own = _parameters(model), _plain(model).state_dict()
        assign = any([isinstance(value, Tensor) and value.is_meta for value in own.values()])
        parts = {
            name: part_of_whole(value, splits_of(parameters[name])) if name in parameters else value
            for name, value in state.items()
        }
        state = {**own, **parts}
    if is_initialized():
        group_of(None).run("a state is loaded", lambda communicator: communicator.barrier())
    result = _plain(model).load_state_dict(state, strict=options.strict, assign=assign)
    for part in model.modules():
        unit = unit_of(part)
        if unit is not None:
            unit.context.changed()
    return result


def _of_first(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    if not (options.full_state_dict and options.broadcast_from_rank0):
        return state
    group = group_of(None)
    sent = [state] if group.rank() == 0 else None
    return group.run("state of the first process", lambda communicator: objects.sent(communicator, sent, 0))[0]


def _named(model: Module, optimizer: Any) -> list[str]:
    """The names of an optimizer's parameters, in its order."""
    names = {parameter: name for name, parameter in _plain(model).named_parameters()}
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any([parameter not in names for parameter in listed]):
        raise ValueError("expected the optimizer of this model: it has parameters that the model has not.")
    return [names[parameter] for parameter in listed]


def _listed(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of an optimizer or of several, by the names of the parameters.

    Args:
        model: whose parameters they are; all processes call it.
        optimizers: an optimizer, or a list of them; without any, the state is empty.
        submodules: not here; must be None.
        options: `StateDictOptions(full_state_dict=True)` gives whole tensors.
    Returns:
        A dict with "state" and "param_groups".

    >>> from dynograd.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
    >>> from dynograd.distributed.fsdp import fully_shard
    >>> def program():
    ...     model = fully_shard(dynograd.nn.Linear(3, 1))
    ...     optimizer = dynograd.optim.Adam(model.parameters())
    ...     model(dynograd.ones(3)).backward()
    ...     optimizer.step()
    ...     state = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    ...     return tuple(state["state"]["weight"]["exp_avg"].shape), state["param_groups"][0]["params"]
    >>> dynograd.distributed.simulate(program, ranks=2)[0]
    ((1, 3), ['weight', 'bias'])
    """
    options = options or StateDictOptions()
    if submodules is not None:
        raise NotImplementedError("get_optimizer_state_dict: give the submodule's optimizer, instead of submodules.")
    optimizers, parameters = _listed(optimizers), _parameters(model)
    by_name, groups = {}, []
    for optimizer in optimizers:
        names, state = _named(model, optimizer), optimizer.state_dict()
        for place, name in enumerate(names):
            values = state["state"].get(place)
            if values is None:
                continue
            parameter = parameters[name]
            by_name[name] = {
                key: whole_of(value, splits_of(parameter))
                if options.full_state_dict and _is_like(value, parameter)
                else value
                for key, value in values.items()
            }
        groups += [{**group, "params": [names[place] for place in group["params"]]} for group in state["param_groups"]]
    return {"state": by_name, "param_groups": groups} if optimizers and not _is_left_out(options) else {}


def _is_like(value: object, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape and value.ndim > 0


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Writes the state of an optimizer.

    Args:
        model: whose parameters they are; all processes call it.
        optimizers: an optimizer, or a list of them.
        optim_state_dict: what `get_optimizer_state_dict` gave with the same options.
        options: how.

    >>> from dynograd.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    >>> model = dynograd.nn.Linear(2, 1)
    >>> optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    >>> state = get_optimizer_state_dict(model, optimizer)
    >>> state["param_groups"][0]["lr"] = 0.2
    >>> set_optimizer_state_dict(model, optimizer, state)
    >>> optimizer.param_groups[0]["lr"]
    0.2
    """
    options = options or StateDictOptions()
    optimizers, parameters = _listed(optimizers), _parameters(model)
    state = _of_first(optim_state_dict, options)
    for optimizer in optimizers:
        names = _named(model, optimizer)
        places = {name: place for place, name in enumerate(names)}
        by_place = {}
        for name, values in state["state"].items():
            if name not in places:
                continue
            splits = splits_of(parameters[name])
            by_place[places[name]] = {
                key: part_of_whole(value, splits)
                if options.full_state_dict
                and splits
                and isinstance(value, Tensor)
                and tuple(value.shape) == splits[0].shape
                else value
                for key, value in values.items()
            }
        groups = [
            {**group, "params": [places[name] for name in group["params"]]}
            for group in state["param_groups"]
            if len(optimizers) == 1 or places.keys() >= set(group["params"])
        ]
        optimizer.load_state_dict({"state": by_place, "param_groups": groups})


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimizer.

    Args:
        model, optimizers, submodules, options: as of `get_model_state_dict` and `get_optimizer_state_dict`.
    Returns:
        Both.

    >>> from dynograd.distributed.checkpoint.state_dict import get_state_dict
    >>> model = dynograd.nn.Linear(2, 1)
    >>> [*get_state_dict(model, dynograd.optim.SGD(model.parameters(), lr=0.1))[0]]
    ['weight', 'bias']
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> object:
    """Writes the states of a model and of its optimizer.

    Args:
        model, optimizers, model_state_dict, optim_state_dict, options: as of `set_model_state_dict` and `set_optimizer_state_dict`.
    Returns:
        What `load_state_dict` gives.

    >>> from dynograd.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> model = dynograd.nn.Linear(2, 1)
    >>> optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    >>> states = get_state_dict(model, optimizer)
    >>> set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    <All keys matched successfully>
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
