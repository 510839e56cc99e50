"""`torch.utils` as PyTorch programs import it."""

from dynograd.utils import data

__all__ = ["data"]
