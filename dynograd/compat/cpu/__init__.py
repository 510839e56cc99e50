"""`torch.cpu`: the CPU as if it were a device that one could wait for."""

from dynograd.base import stubs
from dynograd.compat.cpu import amp

globals().update(stubs.names("cpu"))

__all__ = ["amp", *stubs.names("cpu")]
