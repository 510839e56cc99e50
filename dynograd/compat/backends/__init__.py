"""`torch.backends` as PyTorch programs use it: switches that are accepted, and that say what this build has.

Those for TF32 decide how GPUs multiply float32; the others are remembered and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynograd.kernels.build import precision

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


class _Backend:
    """A backend's switches."""

    def __init__(self, available: bool = False, **switches: object) -> None:
        self._available = available
        self.__dict__.update(switches)

    def is_available(self) -> bool:
        """Whether this backend can be used in this build."""
        return self._available

    def is_built(self) -> bool:
        return self._available

    def version(self) -> int | None:
        return None

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"backends: no switch {name!r}; known are {sorted(k for k in self.__dict__ if k[0] != '_')}."
        )


class _WithTF32(_Backend):
    """A backend whose products may be told to use TF32."""

    def __init__(self, what: str, **switches: object) -> None:
        super().__init__(False, **switches)
        self._what = what

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 factors may be rounded to TF32 on a GPU."""
        return precision.allows_tf32(self._what)

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        precision.set_allow_tf32(self._what, allow)

    @property
    def fp32_precision(self) -> str:
        """The same switch as "tf32" or "ieee"."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, word: str) -> None:
        if word not in ("tf32", "ieee", "none"):
            raise ValueError(f"fp32_precision: expected 'ieee', 'tf32' or 'none', got {word!r}.")
        precision.set_allow_tf32(self._what, word == "tf32")


class _CuDNN(_WithTF32):
    """cuDNN's switches."""

    @contextmanager
    def flags(self, **switches: Any) -> Iterator[None]:
        """Sets switches (`enabled=`, `benchmark=`, `deterministic=`, `allow_tf32=`, ...) inside the block."""
        before = {name: getattr(self, name) for name in switches}
        for name, value in switches.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


class _Cuda(_Backend):
    """CUDA's switches. Those of attention are remembered; there is one implementation."""

    @contextmanager
    def sdp_kernel(self, **switches: bool) -> Iterator[None]:
        """Accepts `enable_flash=`, `enable_math=`, `enable_mem_efficient=`, `enable_cudnn=` inside the block."""
        known = ("enable_flash", "enable_math", "enable_mem_efficient", "enable_cudnn")
        for name in switches:
            if name not in known:
                raise TypeError(f"sdp_kernel: no argument {name!r}; known are {', '.join(known)}.")
        yield

    def __getattr__(self, name: str) -> Any:
        what, _, kind = name.partition("_sdp")
        if kind == "_enabled" and what in ("flash", "math", "mem_efficient", "cudnn"):
            return lambda: self.__dict__.get(f"_{what}_sdp", True)
        if what.startswith("enable_") and name.endswith("_sdp"):
            return lambda enabled: self.__dict__.__setitem__(f"_{what[len('enable_') :]}_sdp", bool(enabled))
        return super().__getattr__(name)


cudnn = _CuDNN("cudnn", enabled=True, benchmark=False, deterministic=False, benchmark_limit=10)
cuda = _Cuda(matmul=_WithTF32("matmul", allow_fp16_reduced_precision_reduction=True))
mps = _Backend()
mkl = _Backend()
mkldnn = _Backend(enabled=False)
openmp = _Backend()
