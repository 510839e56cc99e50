"""`torch.utils.hooks`: the type that `register_*hook` functions return."""

from dynograd.tensor_parts import RemovableHandle

__all__ = ["RemovableHandle"]
