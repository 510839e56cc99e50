"""What PyTorch has and this library has not: names that say so, and the way out, instead of a bare AttributeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base.dtypes import QUANTIZED
from dynograd.tensor.tensor import Tensor

__all__ = ["absence_of", "absent_module", "install_absent"]

_NAMED = "named tensors are not supported (in PyTorch they stayed a prototype). Number the dims: x.sum(dim=1), x.permute(0, 2, 1)."
_MKLDNN = "there is no oneDNN layout here. Ops choose their own; use memory_format=channels_last for images."
_COMPLEX_HALF = "complex numbers of 16-bit parts are not supported. Use complex64."
_REMOVED = "PyTorch removed it too. Use dynograd.linalg.{}."
_SPARSE = "the tensor is dense, and this asks for a sparse one. x.to_sparse() makes one of layout COO, x.to_sparse_csr() one of CSR."
_MASKED = "masked tensors (in PyTorch a prototype) are not supported. dynograd.masked has reductions with a mask, and x.masked_fill fills."
_ABSENT = {
    QUANTIZED: "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic "
    "per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric fake_quantize_per_tensor_affine qscheme "
    "fake_quantize_per_channel_affine quantized_lstm quantized_gru",
    _NAMED: "align_tensors",
    _MASKED: "masked_tensor as_masked_tensor MaskedTensor",
    _REMOVED.format("eigh"): "symeig",
    _REMOVED.format("eig"): "eig",
    _REMOVED.format("solve"): "solve",
    _REMOVED.format("lstsq"): "lstsq",
    _REMOVED.format("matrix_rank"): "matrix_rank",
    "it is not here. Use dynograd.linalg.eigh, or svd_lowrank for the largest.": "lobpcg",
}
_ONE_PROCESS = (
    "this way of splitting a model over processes is not here. DistributedDataParallel, ZeroRedundancyOptimizer, fully_shard and "
    "parallelize_module are (docs/distributed.md); dynograd.save and dynograd.runs write checkpoints."
)
_QUANTIZATION = (
    "there is no quantization. Use bfloat16, float16 or float8_e4m3fn, or int8 numbers with a scale of your own."
)
_NO_CPP = "nothing is compiled from C++ here. Write an autograd.Function; kernels can be Numba's or Triton's."
_MODULES = {
    "onnx": "this part of torch.onnx is not here. dynograd.onnx.export writes a model, with verify=True beside onnxruntime.",
    "export": "this part of torch.export is not here. dynograd.export.export makes a program, save writes it and load reads it.",
    "package": "programs are not packaged. dynograd.save writes the weights, dynograd.export.save_program a program.",
    "_VF": "there is no C++ core; use nn.functional, or nn.LSTM and its like.",
    "distributed.fsdp": _ONE_PROCESS,
    "distributed.tensor": _ONE_PROCESS,
    "distributed._tensor": _ONE_PROCESS,
    "distributed.device_mesh": _ONE_PROCESS,
    "distributed.checkpoint": _ONE_PROCESS,
    "distributed.rpc": _ONE_PROCESS,
    "distributed.pipelining": _ONE_PROCESS,
    "distributed.algorithms.ddp_comm_hooks": _ONE_PROCESS,
    "distributed.algorithms.model_averaging": _ONE_PROCESS,
    "distributed.nn": _ONE_PROCESS,
    "quantization": _QUANTIZATION,
    "ao": _QUANTIZATION,
    "nn.quantized": _QUANTIZATION,
    "nn.qat": _QUANTIZATION,
    "nn.intrinsic": _QUANTIZATION,
    "utils.cpp_extension": _NO_CPP,
    "utils.mobile_optimizer": "there is no TorchScript, which it works on.",
    "jit.frontend": "there is no TorchScript, and no graph or type of it. Programs are the Python that they are; fx.symbolic_trace gives graphs.",
    "masked.maskedtensor": _MASKED,
    "xpu.streams": "there are no XPU, MPS or MTIA devices here. Use device='cuda' or 'cpu'.",
    "fx.experimental": "nothing is compiled of graphs. fx traces, rewrites and runs them: symbolic_trace, replace_pattern, Interpreter, split_module.",
    "_subclasses": "nothing is traced with tensors that stand for others. Tensors without memory are those of device='meta'.",
    "utils._python_dispatch": "ops are not handed to `__torch_dispatch__`. torch.overrides.TorchFunctionMode sees the calls of a program, and "
    "torch.utils.flop_counter.FlopCounterMode counts them.",
    "cuda.tunable": "this part of PyTorch's CUDA runtime is not here, there is nothing to set. Streams, events, graphs and memory are in dynograd.cuda.",
}
_METHODS = {
    QUANTIZED: "int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis qscheme",
    _NAMED: "refine_names align_to align_as rename rename_",
    _MKLDNN: "to_mkldnn",
    _COMPLEX_HALF: "chalf",
    _SPARSE: "coalesce indices values crow_indices col_indices ccol_indices row_indices is_coalesced sparse_resize_ sparse_resize_and_clear_ "
    "sspaddmm smm",
    _REMOVED.format("eigh"): "symeig",
    _REMOVED.format("eig"): "eig",
    _REMOVED.format("solve"): "solve",
    _REMOVED.format("lstsq"): "lstsq",
}


def absence_of(name: str) -> str | None:
    """Why `dynograd` has no `name`, where that is worth saying."""
    for why, names in _ABSENT.items():
        if name in names.split():
            return why
    return None


def absent_module(name: str) -> str | None:
    """Why there is no module `dynograd.<name>`, where that is worth saying; also for what would lie below it."""
    while name:
        if name in _MODULES:
            return _MODULES[name]
        name = name.rpartition(".")[0]
    return None


def dequantize(self: Tensor) -> Tensor:
    """The tensor in float32; none is quantized here.

    >>> tensor([1, 2]).dequantize()
    tensor([1., 2.])
    """
    return self.float()


def _names(self: Tensor) -> tuple[None, ...]:
    """None for each dim: dims have no names here."""
    return (None,) * self.array.ndim


def _refused(name: str, why: str) -> Callable[..., Any]:
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
    Tensor.dequantize = dequantize  # type: ignore[assignment, method-assign]
    Tensor.names = property(_names)  # type: ignore[assignment, method-assign]
    Tensor.has_names = lambda self: False  # type: ignore[method-assign]
