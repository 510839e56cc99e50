"""`torch.utils.data._utils`: paths by which programs reach for what collates and for a worker's own information."""

from dynograd.utils.data._utils import collate, pin_memory, worker

__all__ = ["collate", "pin_memory", "worker"]
