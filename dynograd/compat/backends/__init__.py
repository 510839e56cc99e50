"""`torch.backends` as PyTorch programs use it: switches that are accepted, and that say what this build has.

Those for TF32 decide how GPUs multiply float32; the others are remembered and change nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dynograd.base import stubs
from dynograd.compat.import_paths import below
from dynograd.kernels.build import precision

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized"]


class _Backend(stubs.Settings):
    """A backend's switches. None of PyTorch's is in this build."""

    def is_available(self) -> bool:
        """Whether this backend can be used in this build."""
        return False

    def is_built(self) -> bool:
        return False

    def version(self) -> int | None:
        return None

    def flags(self, **switches: Any) -> Any:
        """Sets switches (`enabled=`, `benchmark=`, `deterministic=`, `allow_tf32=`, ...) inside the block."""
        return self.patch(switches)


class _WithTF32(_Backend):
    """A backend whose products may be told to use TF32."""

    @property
    def _what(self) -> str:
        return self.__name__.rpartition(".")[2]

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
        precision.set_allow_tf32(self._what, _checked(word) == "tf32")


def _checked(word: Any) -> str:
    if word not in ("tf32", "ieee", "none"):
        raise ValueError(f"fp32_precision: expected 'ieee', 'tf32' or 'none', got {word!r}.")
    return str(word)


class _Backends(ModuleType):
    """This module, whose `fp32_precision` is that of all backends."""

    _fp32_precision = "none"

    @property
    def fp32_precision(self) -> str:
        """What was set last for all backends: "tf32", "ieee", or "none", which is PyTorch's default for each."""
        return self._fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, word: str) -> None:
        self._fp32_precision = _checked(word)
        for what, allowed in precision.DEFAULTS.items():
            precision.set_allow_tf32(what, allowed if word == "none" else word == "tf32")


class _Cuda(_Backend):
    """CUDA's switches."""

    def sdp_kernel(self, **switches: bool) -> Any:
        """Accepts `enable_flash=`, `enable_math=`, `enable_mem_efficient=`, `enable_cudnn=` inside the block."""
        known = [f"enable_{what}" for what in _ATTENTIONS]
        for name in switches:
            if name not in known:
                raise TypeError(f"sdp_kernel: no argument {name!r}; known are {', '.join(known)}.")
        return self.patch({})


def _switch(what: str) -> dict[str, Callable]:
    """`<what>_sdp_enabled()` and `enable_<what>_sdp(enabled)`."""
    state = [True]

    def is_enabled() -> bool:
        return state[0]

    def enable(enabled: bool) -> None:
        state[0] = bool(enabled)

    is_enabled.__name__, enable.__name__ = f"{what}_sdp_enabled", f"enable_{what}_sdp"
    is_enabled.__doc__ = (
        f"What `enable_{what}_sdp` was told; it changes nothing: there is one implementation of attention.\n\nReturns:\n    True or False.\n\n"
        f">>> dynograd.backends.cuda.{what}_sdp_enabled()\nTrue"
    )
    enable.__doc__ = (
        f"Remembers what `{what}_sdp_enabled` answers; it changes nothing: there is one implementation of attention.\n\nArgs:\n"
        f"    enabled: True or False.\n\n>>> dynograd.backends.cuda.enable_{what}_sdp(True)"
    )
    return {is_enabled.__name__: is_enabled, enable.__name__: enable}


def _preference(what: str, names: tuple[str, ...]) -> Callable:
    """`preferred_<what>_library(backend)`."""
    state = [names[0]]

    def preferred(backend: str | None = None) -> str:
        if backend is not None:
            if backend not in names:
                raise RuntimeError(
                    f"{preferred.__name__}: expected {', '.join(map(repr, names))} or None, but got {backend!r}."
                )
            state[0] = backend
        return state[0]

    preferred.__name__ = f"preferred_{what}_library"
    preferred.__doc__ = (
        f"The name that was given last; it changes nothing: there is one implementation.\n\nArgs:\n    backend: one of {', '.join(map(repr, names))}; "
        f"None leaves it.\nReturns:\n    The name.\n\n>>> dynograd.backends.cuda.{preferred.__name__}()\n{names[0]!r}"
    )
    return preferred


_LIBRARIES = {
    "linalg": ("default", "cusolver", "magma"),
    "blas": ("default", "cublas", "cublaslt", "hipblaslt", "ck"),
    "rocm_fa": ("default", "aotriton", "ck"),
}
_ATTENTIONS = ("flash", "math", "mem_efficient", "cudnn")
stubs.settings("backends.cuda.matmul", _WithTF32)
cudnn, cuda = stubs.settings("backends.cudnn", _WithTF32), stubs.settings("backends.cuda", _Cuda)
for _what in _ATTENTIONS:
    cuda.__dict__.update(_switch(_what))
for _what, _names in _LIBRARIES.items():
    cuda.__dict__[f"preferred_{_what}_library"] = _preference(_what, _names)
mkl, mkldnn, mps, openmp, opt_einsum, quantized = (
    stubs.settings(f"backends.{_name}", _Backend) for _name in "mkl mkldnn mps openmp opt_einsum quantized".split()
)
mps.__dict__["is_macos_or_newer"] = lambda major, minor: False

__getattr__ = below("backends")
_this = _Backends(__name__)
_this.__dict__.update(globals())
sys.modules[__name__] = _this
