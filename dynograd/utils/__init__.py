"""`torch.utils` as PyTorch programs import it."""

from dynograd.utils import benchmark, data, hooks

__all__ = ["benchmark", "data", "hooks"]
