"""Signals (`torch.signal`): `signal.windows`."""

from dynograd.signal import windows as windows

__all__ = ["windows"]
