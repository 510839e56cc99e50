"""What a module is apart from its code: `state_dict`, `load_state_dict`, and their report of keys that do not fit."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from dynograd.autograd.modes import no_grad
from dynograd.errors import StateDictError
from dynograd.nn.parameter import Parameter
from dynograd.nn.uninitialized import is_lazy
from dynograd.tensor import Tensor

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
    """The part of Module that saves and loads parameters and buffers by name."""

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
        """What to keep beside tensors; a module that overrides this and `set_extra_state` has it in its state_dict."""
        raise RuntimeError("get_extra_state: override it to keep extra state in state_dict().")

    def set_extra_state(self, state: Any) -> None:
        """Takes back what `get_extra_state` gave."""
        raise RuntimeError("set_extra_state: override it to read extra state from state_dict().")

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by name, sharing their memory.

        Args:
            keep_vars: give the parameters themselves instead of detached tensors.
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
        buffers = [(name, one) for name, one in self._buffers.items() if name not in left_out]
        return {name: one for name, one in (*self._parameters.items(), *buffers) if one is not None}

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Copies values from `state_dict` into the parameters and buffers.

        Args:
            strict: raise when keys are missing or unexpected.
            assign: take the given tensors themselves instead of copying into the old ones.
        Returns:
            the lists of missing and unexpected keys.
        Raises:
            StateDictError: names every missing or unexpected key and every shape that differs; what fits has been copied.
        """
        if not hasattr(state_dict, "items"):
            raise TypeError(f"load_state_dict: expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        def load(module: StateMethods, prefix: str) -> None:
            local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = assign
            for hook in module._load_state_dict_pre_hooks.values():
                hook(state, prefix, local, strict, missing, unexpected, errors)
            module._load_from_state_dict(state, prefix, local, strict, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, f"{prefix}{name}.")
            outcome = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                hook(module, outcome)

        load(self, "")
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}.")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}.")
        if errors:
            lines = "\n\t".join(errors)
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
        own = self._own_state()
        for name, held in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(
                    f"While copying the parameter named {key!r}, expected a Tensor but received {type(value).__name__}."
                )
                continue
            if is_lazy(held) or is_lazy(value):
                if is_lazy(value) and not is_lazy(held):
                    error_msgs.append(f"While copying {key!r}: the state_dict has no values for it yet ({value!r}).")
                continue
            if held.ndim == 0 and value.ndim == 1 and value.numel() == 1:
                value = value[0]  # type: ignore[index]
            if value.array.shape != held.array.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                    f"the shape in current model is {held.shape}."
                )
            elif local_metadata.get("assign_to_params_buffers"):
                self._take(name, held, value)
            else:
                with no_grad():
                    held.copy_(value)  # type: ignore[attr-defined]
        takes_extra = type(self).set_extra_state is not StateMethods.set_extra_state
        if takes_extra and prefix + _EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + _EXTRA])
        elif takes_extra and strict:
            missing_keys.append(prefix + _EXTRA)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and not (takes_extra and key == prefix + _EXTRA):
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in (self._modules if rest else own):
                        unexpected_keys.append(key)

    def _take(self, name: str, held: Tensor, value: Tensor) -> None:
        if not isinstance(held, Parameter):
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            self._parameters[name] = Parameter(value, requires_grad=held.requires_grad)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
