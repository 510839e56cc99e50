"""`torch.utils.data._utils.pin_memory`: batches in pinned memory."""

from dynograd.data.pinning import pinned_batch as pin_memory

__all__ = ["pin_memory"]
