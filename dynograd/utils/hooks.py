"""`torch.utils.hooks`: the type that `register_*hook` functions return."""

from dynograd.interpreter.tensor_parts import RemovableHandle

__all__ = ["RemovableHandle"]
