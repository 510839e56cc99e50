"""`torch.utils` as PyTorch programs import it."""

from dynograd.utils import benchmark, checkpoint, data, dlpack, hooks

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks"]
