"""Fourier transforms."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel


@kernel("rfft", (1024, 1024), small=(3, 8), forms="forward")
def rfft(torch, rows, columns):
    """Of each row."""
    (x,) = draw(torch, (rows, columns))
    return Kernel(lambda x: torch.view_as_real(torch.fft.rfft(x)), (x,))


@kernel("fft2", (1024, 1024), small=(4, 8), forms="forward")
def fft2(torch, rows, columns):
    """Of a complex picture."""
    x, y = draw(torch, (rows, columns), (rows, columns))
    return Kernel(lambda x: torch.view_as_real(torch.fft.fft2(x)), (torch.complex(x, y),))


@kernel("rfft.line", (2**20,), small=(16,), forms="forward")
def line(torch, count):
    """Of one long line."""
    (x,) = draw(torch, (count,))
    return Kernel(lambda x: torch.view_as_real(torch.fft.rfft(x)), (x,))
