"""`torch.utils` as PyTorch programs import it."""

from dynograd.utils import benchmark, checkpoint, data, dlpack, hooks
from dynograd.utils.swapping import swap_tensors

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks", "swap_tensors"]
