"""`torch.backends` as PyTorch programs use it: switches that are accepted, and that say what this build has."""

from __future__ import annotations

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


class _Backend:
    """A backend's switches; setting one is remembered and changes nothing on the CPU."""

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


cudnn = _Backend(enabled=True, benchmark=False, deterministic=False, allow_tf32=True, benchmark_limit=10)
cuda = _Backend(matmul=_Backend(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, fp32_precision="ieee"))
mps = _Backend()
mkl = _Backend()
mkldnn = _Backend(enabled=False)
openmp = _Backend()
