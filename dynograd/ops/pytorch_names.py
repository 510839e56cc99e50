"""The names of PyTorch's inner operators for calls of our ops, as its policies and tables write them."""

from __future__ import annotations

from typing import Any

__all__ = ["NAMES", "name_in_pytorch"]

# What PyTorch calls our ops, where it has another name or an overload that is not `default`.
NAMES = {
    "add": "add.Tensor",
    "sub": "sub.Tensor",
    "mul": "mul.Tensor",
    "div": "div.Tensor",
    "floor_divide": "div.Tensor_mode",
    "trunc_divide": "div.Tensor_mode",
    "remainder": "remainder.Tensor",
    "fmod": "fmod.Tensor",
    "bitwise_and": "bitwise_and.Tensor",
    "bitwise_or": "bitwise_or.Tensor",
    "bitwise_xor": "bitwise_xor.Tensor",
    "where": "where.self",
    "lerp": "lerp.Scalar",
    "gelu_tanh": "gelu",
    "log_odds": "logit",
    "modulus": "abs",
    "clamp_between": "clamp",
    "scalar_power": "pow.Scalar",
    "half_power": "pow.Tensor_Scalar",
    "square": "pow.Tensor_Scalar",
    "var": "var.correction",
    "std": "std.correction",
    "basic_index": "slice.Tensor",
    "mse_in_one_pass": "mse_loss",
    "binary_cross_entropy_in_one_pass": "binary_cross_entropy",
    "logsigmoid": "log_sigmoid_forward",
    "vector_norm": "linalg_vector_norm",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "batch_norm": "native_batch_norm",
    "dropout": "native_dropout",
    "nll_loss": "nll_loss_forward",
    "cross_entropy": "cross_entropy_loss",
    "to_copy": "_to_copy",
    "to_device": "_to_copy",
    "index": "index.Tensor",
    "scatter": "scatter.src",
    "scatter_number": "scatter.value",
    "scatter_reduce": "scatter_reduce.two",
    "unbind": "unbind.int",
    "varlen_attention": "_flash_attention_forward",
}
_BY_SECOND = ("eq", "ne", "lt", "le", "gt", "ge")
_BY_DIM = {"sum": "sum.dim_IntList", "mean": "mean.dim", "prod": "prod.dim_int", "any": "any.dims", "all": "all.dims"}
_BY_DIM |= {
    "max": "max.dim",
    "min": "min.dim",
    "median": "median.dim",
    "var": "var.correction",
    "std": "std.correction",
}


def name_in_pytorch(op: Any, args: tuple, kwargs: dict[str, Any]) -> str:
    """What PyTorch calls the operator that does what this call does: `mm`, `add.Tensor`; our name where it has none."""
    name = op.name
    if name == "matmul":
        ranks = args[0].ndim, args[1].ndim
        return ("dot" if ranks[0] == ranks[1] else "mv") if min(ranks) < 2 else "bmm" if max(ranks) > 2 else "mm"
    if name == "linear":
        return "mm" if (args[2] if len(args) > 2 else kwargs.get("bias")) is None else "addmm"
    if name == "scaled_dot_product_attention":
        flash = "_scaled_dot_product_flash_attention"
        return flash if args[0].device.type == "cuda" else f"{flash}_for_cpu"
    if name == "pow":
        return "pow.Tensor_Tensor" if _is_tensor(args[1]) else "pow.Tensor_Scalar"
    if name in _BY_SECOND:
        return f"{name}.Tensor" if _is_tensor(args[1]) else f"{name}.Scalar"
    if name in _BY_DIM:
        dim = args[1] if len(args) > 1 else next(iter(kwargs.values()), None)
        return (
            name
            if dim is None or (type(dim) is tuple and len(dim) == args[0].ndim and name == "sum")
            else _BY_DIM[name]
        )
    return NAMES.get(name, name)


def _is_tensor(operand: Any) -> bool:
    return hasattr(operand, "ndim")
