"""What a module is apart from its code: `state_dict`, `load_state_dict`, and their report of keys that do not fit."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from dynograd.autograd.modes import no_grad
from dynograd.errors import StateDictError, user_level
from dynograd.nn.parameter import Parameter, is_lazy
from dynograd.tensor.tensor import Tensor

__all__ = ["StateMethods"]

_EXTRA = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StateMethods:
    """The part of Module that saves and loads parameters and buffers by name.

    >>> isinstance(dynograd.nn.Linear(2, 1), dynograd.nn.state.StateMethods)
    True
    """

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: dict[int, Any]
    _state_dict_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    def get_extra_state(self) -> Any:
        """What to keep beside tensors; a module that overrides this and `set_extra_state` has it in its state_dict.

        Returns:
            whatever `set_extra_state` takes.
        Raises:
            RuntimeError: the class has none.

        >>> class Counter(dynograd.nn.Module):
        ...     count = 3
        ...
        ...     def get_extra_state(self):
        ...         return {"count": self.count}
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state["count"]
        >>> Counter().state_dict()["_extra_state"]
        {'count': 3}
        """
        raise RuntimeError("get_extra_state: override it to keep extra state in state_dict().")

    def set_extra_state(self, state: Any) -> None:
        """Takes back what `get_extra_state` gave; `load_state_dict` calls it.

        Args:
            state: what `get_extra_state` gave.
        Raises:
            RuntimeError: the class has none.

        >>> class Counter(dynograd.nn.Module):
        ...     def get_extra_state(self):
        ...         return self.count
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> counter = Counter()
        >>> counter.load_state_dict({"_extra_state": 5})
        <All keys matched successfully>
        >>> counter.count
        5
        """
        raise RuntimeError("set_extra_state: override it to read extra state from state_dict().")

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by path, sharing their memory.

        Args:
            args: PyTorch's old way to give the three others.
            destination: a dict that they are put into; a new one when left out.
            prefix: put before all paths.
            keep_vars: give the parameters themselves instead of detached tensors.
        Returns:
            an OrderedDict of path and tensor.

        >>> dynograd.nn.Sequential(dynograd.nn.Linear(2, 1)).state_dict().keys()
        odict_keys(['0.weight', '0.bias'])
        """
        if args:
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])  # type: ignore[misc]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for before in self._state_dict_pre_hooks.values():
            before(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for after in self._state_dict_hooks.values():
            changed = after(self, destination, prefix, local)
            if isinstance(changed, dict):
                destination = changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        """This module's own parameters and persistent buffers."""
        left_out = self._non_persistent_buffers_set
        buffers = [(name, tensor) for name, tensor in self._buffers.items() if name not in left_out]
        return {name: tensor for name, tensor in (*self._parameters.items(), *buffers) if tensor is not None}

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Copies values from `state_dict` into the parameters and buffers.

        Args:
            state_dict: a mapping of path and tensor, as `state_dict()` gives it.
            strict: raise when keys are missing or unexpected.
            assign: take the tensors themselves instead of copying into the old ones.
        Returns:
            the lists of missing and unexpected keys.
        Raises:
            TypeError: `state_dict` is no mapping.
            StateDictError: names every missing or unexpected key, with the nearest name, and every shape that
                differs; what fits has been copied.

        >>> source, copy = dynograd.nn.Linear(2, 1), dynograd.nn.Linear(2, 1)
        >>> copy.load_state_dict(source.state_dict())
        <All keys matched successfully>
        >>> copy.load_state_dict({"weight": dynograd.ones(1, 2)}, strict=False)
        _IncompatibleKeys(missing_keys=['bias'], unexpected_keys=[])
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        odd = [key for key in state_dict if not isinstance(key, str)]
        if odd:
            raise TypeError(f"load_state_dict: expected paths of tensors, got the key {odd[0]!r} in state_dict.")
        metadata = getattr(state_dict, "_metadata", None)
        whole: Any = OrderedDict(state_dict)
        whole._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        def load(module: StateMethods, part: Any, prefix: str) -> None:
            local = metadata.get(prefix[:-1]) if isinstance(metadata, Mapping) else None
            local = dict(local) if isinstance(local, Mapping) else {}
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(part, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {key: value for key, value in part.items() if key.startswith(below)}, below)
            outcome = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, outcome) is not None:
                    raise AssertionError(
                        "hooks of register_load_state_dict_post_hook are not expected to return values: change incompatible_keys in place."
                    )

        load(self, whole, "")
        problems = errors + (_unlike_names(missing, unexpected) if strict else [])
        if problems:
            lines = "\n\t".join(problems)
            raise StateDictError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}\n"
                f"Compare model.state_dict().keys() with the file's, or pass strict=False to load what fits by name."
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads this module's own part. Subclasses override it to read older files: `local_metadata["version"]` says how old."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, key, tensor, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA
        takes_extra = type(self).set_extra_state is not StateMethods.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif strict and takes_extra:
            missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, own: Tensor, value: Any, assign: bool) -> str | None:
        """Loads one tensor; what is wrong with it, if anything."""
        if not isinstance(value, Tensor):
            return f'While copying the parameter named "{key}", expected a Tensor but received {type(value).__name__}.'
        if is_lazy(own) or is_lazy(value):
            if is_lazy(value) and not is_lazy(own):
                return f"While copying {key!r}: the state_dict has no values for it yet ({value!r})."
            return None
        if own.ndim == 0 and value.ndim == 1 and value.numel() == 1:  # as files of before 0-d tensors have it
            value = value[0]
        if value.array.shape != own.array.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {own.shape}."
            )
        if own.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a checkpoint to a parameter on device meta does nothing. Pass assign=True to take the "
                f"checkpoint's tensors, or call model.to_empty(device='cpu') before.",
                stacklevel=user_level(),
            )
        try:
            if assign:
                self._take(name, own, value)
            else:
                with no_grad():
                    own.copy_(value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", of shape {tuple(own.shape)} in the model and {tuple(value.shape)} in the '
                f"checkpoint, an exception occurred: {error}"
            )
        return None

    def _take(self, name: str, own: Tensor, value: Tensor) -> None:
        if isinstance(own, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(own.requires_grad)
            else:
                value = Parameter(value, requires_grad=own.requires_grad)
        setattr(self, name, value)


def _unlike_names(missing: list[str], unexpected: list[str]) -> list[str]:
    """A line each for missing and unexpected keys, with the names that may be meant."""
    lines = []
    few = len(missing) * len(unexpected) <= _MOST_COMPARED
    for what, keys, others in (("Missing", missing, unexpected), ("Unexpected", unexpected, missing)):
        if keys:
            named = [_hinted(key, others) if few else f'"{key}"' for key in keys]
            lines.append(f"{what} key(s) in state_dict: {', '.join(named)}.")
    shift = _shift(missing, unexpected)
    return lines + [shift] if shift else lines


def _hinted(key: str, others: list[str]) -> str:
    """The key, and the nearest of the names without a partner on the other side."""
    near = get_close_matches(key, others, 1, 0.75)
    return f'"{key}"' + (f' (did you mean "{near[0]}"?)' if near else "")


def _shift(missing: list[str], unexpected: list[str]) -> str | None:
    """What to do where all names differ by the same beginning, as those of a wrapped model do."""
    for longer, shorter in ((unexpected, missing), (missing, unexpected)):
        if longer and len(longer) == len(shorter) and longer[0].endswith("." + shorter[0]):
            start = longer[0][: -len(shorter[0])]
            if [start + key for key in shorter] == longer:
                new = f"k.removeprefix({start!r})" if longer is unexpected else f"{start!r} + k"
                return f"All names differ by the prefix {start!r}: load {{{new}: v for k, v in state_dict.items()}}."
    return None


_MOST_COMPARED = 10_000  # pairs of names whose likeness is measured, 10 us each
