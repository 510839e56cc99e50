"""Optimizer: parameter groups, the step over them, and saving. An optimizer adds `init_state` and `update` for one parameter.

An optimizer whose `rule` names a kernel for it updates all plain parameters of a group together: see `together.py`.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from dynograd import arrays
from dynograd.autograd.modes import MODES, enable_grad, recording
from dynograd.autograd.nodes import caller
from dynograd.autograd.writes import before_writing, stamp, stamp_all
from dynograd.distributed.splits import splits_of
from dynograd.errors import user_level
from dynograd.interpreter.tensor_parts import view_of
from dynograd.kernels import kernel
from dynograd.optim import states
from dynograd.optim.helpers import *  # noqa: F403
from dynograd.optim.hooks import (
    HookMethods,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_step_hooks,
)
from dynograd.optim.together import Rule, Together, check_shapes
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Optimizer",
    "ParamsT",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

ParamsT: TypeAlias = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]


class _Required:
    """Stands in `defaults` for an option that each parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"

    def __reduce__(self) -> str:
        return "required"


required = _Required()


class Optimizer(HookMethods):
    """Base of all optimizers.

    A subclass either overrides `step`, as in PyTorch, or writes `init_state` and `update` for one parameter and leaves groups
    and closures to `step` here.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        defaults: the options of groups that do not give them.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, or what `add_param_group` refuses.

    >>> class SignDescent(dynograd.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     def update(self, p, g, state, group):
    ...         p.sub_(group["lr"] * g.sign())
    >>> w = tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SignDescent([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    elementwise = False
    """Whether states are tensors of the parameter's shape, and the counters; loading checks their shapes."""

    needs_whole_parameters = False
    """Whether steps depend on more than single elements: then parameters that are divided among processes are refused."""

    sparse_help: str | None = "Build the layer with sparse=False, or use SGD, Adagrad or SparseAdam."
    """What to do instead of giving this optimizer a sparse gradient; None where `update_sparse` takes it."""

    counters: tuple[str, ...] = ("step",)
    """States of one number, which keep their own dtype."""

    defaults: dict[str, Any]
    state: defaultdict[Any, dict[str, Any]]
    param_groups: list[dict[str, Any]]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._init_hooks()
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = _listed(params, type(self).__name__)
        if not groups:
            raise ValueError(
                f"{type(self).__name__}: optimizer got an empty parameter list. A generator such as model.parameters() can be read only "
                f"once: pass a new one, or a list."
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # --- one parameter: what a subclass writes --------------------------------------------------------------------------

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """What is kept for `p` from step to step, before its first one; each optimizer with memory writes its own.

        Args:
            p: the parameter.
            group: the options.
        Returns:
            tensors and numbers by name, a dict.

        >>> optimizer = dynograd.optim.Adam([tensor([1.0, 2.0])])
        >>> optimizer.init_state(optimizer.param_groups[0]["params"][0], optimizer.param_groups[0])["exp_avg"]
        tensor([0., 0.])
        """
        return {}

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """One step of one parameter: writes into `p` and `state`. Runs without recording the tape.

        Args:
            p: the parameter.
            g: its gradient.
            state: what `init_state` made; values are replaced or written in place.
            group: the options.
        Raises:
            NotImplementedError: the class has none.

        >>> p = tensor([1.0])
        >>> optimizer = dynograd.optim.SGD([p], lr=0.5)
        >>> optimizer.update(p, tensor([2.0]), {}, optimizer.param_groups[0])
        >>> p
        tensor([0.])
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no step: override step(closure=None), or update(p, g, state, group)."
        )

    def rule(self, group: dict[str, Any]) -> Rule | None:
        """The kernel that updates the group's plain parameters together, if there is one.

        Args:
            group: the options.
        Returns:
            a `Rule`, or None.

        >>> optimizer = dynograd.optim.SGD([tensor([1.0])])
        >>> optimizer.rule(optimizer.param_groups[0]).kernel
        'sgd_table_step'
        """
        return None

    def complete_state(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        """Adds to `state` what the rule's kernel needs.

        Args:
            p: the parameter.
            state: what is kept for `p`; written in place.
            group: the options.
        Returns:
            whether it added something.

        >>> p, state = tensor([1.0]), {}
        >>> optimizer = dynograd.optim.RMSprop([p])
        >>> optimizer.complete_state(p, state, optimizer.param_groups[0]), sorted(state)
        (True, ['square_avg', 'step'])
        """
        if state:
            return False
        state.update(self.init_state(p, group))
        return True

    def update_recorded(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """`update` with ops, for `differentiable=True`: the new `p` has a history through `g`, `state` and tensor options.

        Args:
            p: the parameter.
            g: its gradient.
            state: what `init_state` made; values are replaced.
            group: the options.
        Raises:
            RuntimeError: the optimizer's step is not made of recorded ops.

        >>> lr = tensor(0.5, requires_grad=True)
        >>> w = tensor([1.0], requires_grad=True).clone()
        >>> w.grad = tensor([2.0])
        >>> dynograd.optim.SGD([w], lr=lr, differentiable=True).step()
        >>> w.sum().backward()
        >>> lr.grad
        tensor(-2.)
        """
        raise RuntimeError(
            f"{type(self).__name__}: differentiable=True is not supported, because its step is not made of recorded ops. "
            f"Write the update yourself, e.g. p = p - lr * g."
        )

    def update_sparse(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """`update` for a sparse gradient, where `sparse_help` is None: only what `g` has entries for is touched.

        Args:
            p: the parameter.
            g: its sparse gradient.
            state: what `init_state` made; written in place.
            group: the options.
        Raises:
            NotImplementedError: the class has none.

        >>> table = dynograd.nn.Embedding.from_pretrained(dynograd.ones(3, 2), freeze=False, sparse=True)
        >>> table(tensor([1])).sum().backward()
        >>> dynograd.optim.SparseAdam(table.parameters(), lr=0.5).step()
        >>> table.weight[:, 0].detach()
        tensor([1.0000, 0.5000, 1.0000])
        """
        raise NotImplementedError(f"{type(self).__name__}: sparse_help is None, so update_sparse must be written.")

    def check_sparse(self, p: Tensor, group: dict[str, Any]) -> None:
        """Raises for a sparse gradient that this optimizer does not take.

        Args:
            p: the parameter, whose gradient is sparse.
            group: the options.
        Raises:
            RuntimeError: the optimizer takes dense gradients only; the message says what to do instead.

        >>> table = dynograd.nn.Embedding(3, 2, sparse=True)
        >>> table(tensor([1])).sum().backward()
        >>> dynograd.optim.Adam(table.parameters()).step()
        Traceback (most recent call last):
            ...
        RuntimeError: Adam does not support sparse gradients, and a parameter of shape (3, 2) has one with 1 entries. ...
        """
        if self.sparse_help is not None:
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients, and a parameter of shape {tuple(p.shape)} has one with "
                f"{p._grad._nnz()} entries. {self.sparse_help}"  # type: ignore[union-attr]
            )

    # --- all parameters -------------------------------------------------------------------------------------------------

    @with_step_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient.

        Args:
            closure: computes the loss again and calls backward; run first, with recording on.
        Returns:
            what the closure returned, or None.
        Raises:
            RuntimeError: a sparse gradient that the optimizer does not take.
            ShapeError: a gradient or state of another shape than its parameter.

        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = dynograd.optim.SGD([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 1.6000])
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        line: Any = caller()
        if MODES.recorder is not None:
            before_writing([p.array for group in self.param_groups for p in group["params"] if p._grad is not None])
        for group in self.param_groups:
            left = group["params"]
            rule = None if group.get("differentiable") else self.rule(group)
            if rule is not None:
                left = self._together().step(self, group, rule, line)
            if left:
                grad = MODES.grad
                try:
                    MODES.grad = recording() if self.defaults.get("differentiable") else 0
                    arrays.quietly(self._step_one_by_one, left, group, line)
                finally:
                    MODES.grad = grad
        return loss

    def _step_one_by_one(self, params: list[Tensor], group: dict[str, Any], line: Any) -> None:
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and found_inf.item():
            return
        recorded = group.get("differentiable", False)
        states_by_parameter = self.state
        for p in params:
            g = p._grad
            if g is None:
                continue
            state = states_by_parameter.get(p) or self.init_state(p, group)
            check_shapes(self, p, state, tuple(state) if self.elementwise else ())
            if g.is_sparse:
                self.check_sparse(p, group)
                self.update_sparse(p, g, state, group)
                stamp(p.array, line)
            elif recorded:
                self.update_recorded(p, g, state, group)
            else:
                self.update(p, g, state, group)
                stamp(p.array, line)
            if state:
                states_by_parameter[p] = state

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether a GradScaler may leave it to the step's kernel to look whether the gradients were finite; derived classes may say so."""
        said = self.__dict__.get("_step_supports_amp_scaling")
        if said is not None:
            return bool(said)
        for group in self.param_groups:
            rule = None if group.get("differentiable") else self.rule(group)
            counted_here = rule is None or (
                "step" in rule.names and not (group.get("fused") or group.get("capturable"))
            )
            if counted_here or not all([type(p.array) is arrays.CudaArray for p in group["params"]]):
                return False
        return True

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        self.__dict__["_step_supports_amp_scaling"] = value

    def _together(self) -> Together:
        together = self.__dict__.get("_plans")
        if together is None:
            together = self.__dict__["_plans"] = Together()
        return together

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros.

        Args:
            set_to_none: `grad` becomes None; False fills it with zeros instead.

        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> (w * w).sum().backward()
        >>> optimizer = dynograd.optim.SGD([w], lr=0.1)
        >>> optimizer.zero_grad()
        >>> print(w.grad)
        None
        """
        if set_to_none:
            for group in self.param_groups:
                for p in group["params"]:
                    p._grad = None
            return
        written = []
        for group in self.param_groups:
            for p in group["params"]:
                if (grad := p._grad) is not None:
                    if grad.requires_grad:
                        if grad.node is not None and view_of(grad) is not None:
                            p._grad = grad = grad.detach()
                        else:
                            grad.detach_()
                    if grad.is_sparse:
                        grad.zero_()
                    else:
                        written.append(grad.array)
        if written:
            before_writing(written)
            kernel("tables", "fill", written[0])(written, 0.0)
            stamp_all(written)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters, with options of their own: `{"params": tensors, "lr": 0.1}`.

        Args:
            param_group: a dict with "params" and options; those it does not have come from `defaults`.
        Raises:
            TypeError: not a dict, not tensors, or a set, whose order changes from run to run.
            KeyError: no "params".
            ValueError: a tensor that is no leaf, is in another group already, or has no name while others have; an
                option without default.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)], lr=0.1)
        >>> optimizer.add_param_group({"params": [dynograd.zeros(3)], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(
                f"add_param_group: param_group must be a dict, but got {type(param_group)}. Pass {{'params': tensors}}."
            )
        if "params" not in param_group:
            raise KeyError(
                f"{type(self).__name__}: a parameter group has no 'params' (its keys: {[*param_group][:6]}). Pass {{'params': tensors, ...}}."
            )
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
                "between runs. Please use a list instead."
            )
        listed = [params] if isinstance(params, Tensor) else _listed(params, type(self).__name__)
        names = [entry[0] for entry in listed if isinstance(entry, tuple)]
        if names and len(names) != len(listed):
            raise ValueError(
                f"all optimizer params should be with/without names. Some param names are missing: {len(names)} of {len(listed)} have one."
            )
        tensors = [_elements(entry[1] if isinstance(entry, tuple) else entry) for entry in listed]
        param_group["params"] = tensors
        if names:
            param_group["param_names"] = names
        for position, parameter in enumerate(tensors):
            self._check_parameter(parameter, position)
        for option, value in self.defaults.items():
            if value is required and option not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {option}")
            param_group.setdefault(option, value)
        self._check_overlap(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, parameter: Any, position: int) -> None:
        if not isinstance(parameter, Tensor):
            way_out = " Pass its parameters()." if callable(getattr(parameter, "parameters", None)) else ""
            raise TypeError(
                f"{type(self).__name__}: optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__} "
                f"(number {position}: {parameter!r:.60}).{way_out}"
            )
        if self.needs_whole_parameters and splits_of(parameter):
            raise TypeError(
                f"{type(self).__name__} looks at whole parameters, and a process has a part of number {position}, of shape "
                f"{tuple(parameter.shape)}. Use an optimizer for elements, such as AdamW."
            )
        if not self.defaults.get("differentiable") and not (parameter.is_leaf or parameter.retains_grad):
            raise ValueError(
                f"{type(self).__name__}: can't optimize a non-leaf Tensor (number {position}, shape {tuple(parameter.shape)}): it was "
                f"computed by {parameter.grad_fn}. Optimize what it was computed from, or x.detach().requires_grad_()."
            )

    def _check_overlap(self, group: dict[str, Any]) -> None:
        mine = {id(p) for p in group["params"]}
        if len(mine) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error. Each is updated "
                "once for every time it is listed.",
                stacklevel=user_level(),
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                text = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    f"all optimizer param groups should be with/without names. cannot add param group {text} to the optimizer, "
                    f"whose groups are the other kind."
                )
            if not mine.isdisjoint(map(id, other["params"])):
                shapes = [tuple(p.shape) for p in group["params"] if any(p is other_p for other_p in other["params"])]
                raise ValueError(
                    f"{type(self).__name__}: some parameters appear in more than one parameter group: of shapes {shapes[:5]}. "
                    f"Give each to one group."
                )

    # --- saving ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options, as PyTorch lays them out.

        Tensors are the optimizer's own, so later steps change them; save or deepcopy to keep them.

        Returns:
            `{"state": {number: {name: tensor}}, "param_groups": [{option: value, "params": [numbers]}]}`.

        >>> w = tensor([1.0], requires_grad=True)
        >>> optimizer = dynograd.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state_dict()["state"]
        {0: {'momentum_buffer': tensor([2.])}}
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        packed = states.packed(self)
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, packed)
            if changed is not None:
                packed = changed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over state and options from `state_dict()`, of this library or PyTorch, by the position of the parameters.

        Tensors are copied; floating ones take the dtype of their parameter, except `step`.

        Args:
            state_dict: what `state_dict()` gave.
        Raises:
            TypeError: no dict.
            StateDictError: a dict without "state" and "param_groups".
            ValueError: another number of groups or parameters, or state of another shape.

        >>> first = dynograd.optim.SGD([dynograd.zeros(2)], lr=0.1)
        >>> second = dynograd.optim.SGD([dynograd.zeros(2)], lr=0.5)
        >>> second.load_state_dict(first.state_dict())
        >>> second.param_groups[0]["lr"]
        0.1
        """
        if not isinstance(state_dict, dict):
            raise TypeError(
                f"load_state_dict: expected what state_dict() returned, a dict, got a {type(state_dict).__name__}."
            )
        loaded = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, loaded)
            if changed is not None:
                loaded = changed
        state, groups = states.unpacked(self, loaded)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {option}: {group[option]}" for option in sorted(group) if option != "params"]
        return "\n".join([*lines, ")"])


def _elements(parameter: Any) -> Tensor:
    """Of a ragged tensor its elements, which are what is optimized; else the tensor itself."""
    while getattr(type(parameter), "__dynograd_rows__", False):
        parameter = getattr(parameter.values, "whole", parameter.values)
    return parameter


def _listed(params: Any, who: str) -> list[Any]:
    """The parameters or groups as a list, or an error that says what was passed instead."""
    if isinstance(params, Tensor):
        raise TypeError(
            f"{who}: params argument given to the optimizer should be an iterable of Tensors or dicts, but got dynograd.Tensor. "
            f"Pass [tensor]."
        )
    if isinstance(params, dict):
        group = "params" in params
        raise TypeError(
            f"{who}: params argument given to the optimizer should be an iterable of Tensors or dicts, but got a dict with the keys "
            f"{[*params][:3]}. Pass {'[group], a list of groups' if group else 'its items() or values()'}."
        )
    try:
        return list(params)
    except TypeError:
        if isinstance(params, Iterable):
            raise
        is_module = callable(getattr(params, "parameters", None))
        raise TypeError(
            f"{who}: params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
            f"{'the module ' if is_module else ''}{type(params).__name__}. "
            f"{'Pass its parameters().' if is_module else 'Pass a list of tensors.'}"
        ) from None
