"""What PyTorch has and this library has not: names that say so, and the way out, instead of a bare AttributeError."""

from __future__ import annotations

from typing import Any

from dynograd.tensor import Tensor

__all__ = ["absence_of", "install_absent"]

_QUANTIZED = (
    "quantized tensors are not supported. Store numbers as int8 with a scale of your own (x = scale * (q - zero_point)), or use "
    "bfloat16, float16 or float8_e4m3fn."
)
_NAMED = "named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1)."
_MKLDNN = "there is no oneDNN layout here. Ops choose their own; use memory_format=channels_last for images."
_ABSENT = {
    _QUANTIZED: "qint8 quint8 qint32 quint4x2 quint2x4 quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic "
    "per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric fake_quantize_per_tensor_affine qscheme "
    "fake_quantize_per_channel_affine quantized_lstm quantized_gru",
    _NAMED: "align_tensors",
}
_METHODS = {
    _QUANTIZED: "int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis qscheme",
    _NAMED: "refine_names align_to align_as rename rename_",
    _MKLDNN: "to_mkldnn",
}


def absence_of(name: str) -> str | None:
    """Why `dynograd` has no `name`, where that is worth saying."""
    for why, names in _ABSENT.items():
        if name in names.split():
            return why
    return None


def dequantize(self: Tensor) -> Tensor:
    """The tensor in float32; none is quantized here."""
    return self.float()  # type: ignore[attr-defined]


def _names(self: Tensor) -> tuple[None, ...]:
    """None for each dim: dims have no names here."""
    return (None,) * self.array.ndim


def _refused(name: str, why: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name}: {why}")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Raises NotImplementedError: {why}"
    return method


def install_absent() -> None:
    """Puts these names on Tensor."""
    for why, names in _METHODS.items():
        for name in names.split():
            setattr(Tensor, name, _refused(name, why))
    Tensor.dequantize = dequantize  # type: ignore[attr-defined]
    Tensor.names = property(_names)  # type: ignore[attr-defined]
    Tensor.has_names = lambda self: False  # type: ignore[attr-defined]
