"""`torch.backends` as PyTorch programs use it: switches that are accepted, and that say what this build has.

Those for TF32 decide how GPUs multiply float32; the others are remembered and change nothing.
"""

from __future__ import annotations

from dynograd.kernels import precision

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


cudnn = _WithTF32("cudnn", enabled=True, benchmark=False, deterministic=False, benchmark_limit=10)
cuda = _Backend(matmul=_WithTF32("matmul", allow_fp16_reduced_precision_reduction=True))
mps = _Backend()
mkl = _Backend()
mkldnn = _Backend(enabled=False)
openmp = _Backend()
