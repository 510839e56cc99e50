"""Ops on the last dims of each element: computed on packed elements when the ragged dim is not among those dims."""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, ragged_rule, results
from dynograd.ragged.families.elementwise import aligned
from dynograd.ragged.families.groups import grouped
from dynograd.ragged.families.reductions import all_elements
from dynograd.ragged.partitions import Shapes
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.creation import ones
from dynograd.tensor.tensor import Tensor

__all__ = ["on_last_dims"]


def on_last_dims(call: Call, behind: int, operands: tuple[str, ...] = ()) -> Any:
    """The op on packed elements when the ragged dim lies in front of the last `behind` dims; else on rows of equal shape together.

    `operands` are arguments of the same dims as the ragged one, which may be dense and are then repeated for the elements of each row.
    """
    ragged = call.ragged()
    like = max(ragged, key=lambda x: x.ndim)
    if isinstance(like.partition, Shapes) and behind:
        return grouped(call)
    named = {name: call[name] for name in operands if isinstance(call.get(name), (RaggedTensor, Tensor))}
    aligned_operands = aligned(call.name, named or {"like": like})
    if aligned_operands is None:
        return grouped(call)
    like, packed = aligned_operands
    if like.place and like.ndim - 1 - like.place < behind:
        return grouped(call)
    changed = packed if named else call.map_ragged(lambda x: x.packed)
    return _with_rows(call.on({**call.arguments, **changed}), like)


def _with_rows(outcome: Any, like: RaggedTensor) -> Any:
    """Results that still have the elements of the rows are ragged."""

    def change(result: Any) -> Any:
        at = max(like.place, 1) - 1
        if isinstance(result, Tensor) and result.ndim > at and result.shape[at] == like.packed.shape[at]:
            return like.with_packed(result)
        return result

    return results(outcome, change)


@ragged_rule(
    "layer_norm",
    "rms_norm",
    "group_norm",
    kind="packed",
    note="on the packed elements; over the ragged dim, rows of equal length together",
)
def norms(call: Call) -> Any:
    """Norms over the last dims, on packed elements."""
    return grouped(call) if call.name == "group_norm" else on_last_dims(call, call["rank"])


@ragged_rule("add_layer_norm", kind="packed")
def add_layer_norm(call: Call) -> Any:
    """Sum and norm over the last dims, on packed elements."""
    return on_last_dims(call, call["rank"], ("input", "residual"))


@ragged_rule("add_layer_norm.public", kind="packed")
def public_add_layer_norm(call: Call) -> Any:
    """Sum and norm over the last dims, on packed elements."""
    sizes = call["normalized_shape"]
    return on_last_dims(call, 1 if isinstance(sizes, int) else len(sizes), ("input", "residual"))


@ragged_rule("linear", kind="packed")
def linear(call: Call) -> Any:
    """Features of each element, on packed elements: nothing is computed for padding."""
    if not isinstance(call["input"], RaggedTensor):
        raise call.refuse(
            "weight and bias must be dense; only the input may be ragged. For weights of each row use bmm or einsum."
        )
    return on_last_dims(call, 1)


@ragged_rule("bilinear", kind="packed")
def bilinear(call: Call) -> Any:
    """Features of pairs of elements, on packed elements."""
    return on_last_dims(call, 1, ("input1", "input2"))


@ragged_rule("lstm_step", "gru_step", kind="packed")
def cells(call: Call) -> Any:
    """A step for each element."""
    return on_last_dims(call, 1, tuple(call.op.array_names))


@ragged_rule("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", kind="packed")
def public_cells(call: Call) -> Any:
    """A step for each element: input (B, j, I), states (B, j, H)."""
    ragged = call.ragged()
    for x in ragged:
        if x.ndim != 3 + _depth(x) or x.place != 1:
            raise call.refuse(f"expected input (B, j, I) and states (B, j, H), got shape {tuple(x.shape)}.")
        ragged[0].partition.check_same(call.name, x.partition)
    return results(call.on(call.map_ragged(lambda x: x.packed)), ragged[0].with_packed)


def _depth(x: RaggedTensor) -> int:
    """How many levels lie above the lowest one."""
    return 1 + _depth(x.packed) if isinstance(x.packed, RaggedTensor) else 0


@ragged_rule("affine_grid", kind="packed")
def affine_grid(call: Call) -> Any:
    """A grid for each (2, 3) of theta (B, j, 2, 3); the first of `size` is not asked."""
    theta, size = call["theta"], list(call["size"])
    if not isinstance(theta, RaggedTensor) or theta.place != 1 or isinstance(theta.partition, Shapes):
        return NotImplemented
    grids = call.with_(theta=theta.packed, size=(len(theta.packed), *size[1:]))
    return theta.with_packed(grids)


@ragged_rule("bias_activation", kind="packed")
def bias_activation(call: Call) -> Any:
    """On packed elements."""
    return on_last_dims(call, 1)


@ragged_rule("swiglu", "dropout_add", "ties", "complex", "exp_difference", "binary_cross_entropy", kind="packed")
def pairs(call: Call) -> Any:
    """Operands of one shape, on packed elements."""
    return on_last_dims(call, 0, tuple(call.op.array_names))


@ragged_rule("complex.public", "polar", "swiglu.public", "bias_gelu", "bias_relu", "bias_silu", kind="packed")
def public_pairs(call: Call) -> Any:
    """Operands of one shape, on packed elements."""
    return on_last_dims(call, 0, tuple(name for name in call.arguments if isinstance(call[name], Tensor)))


@ragged_rule(*[
    f"{name}_in_one_pass" for name in "mse l1 smooth_l1 huber kl_div kl_div_of_logarithms binary_cross_entropy binary_cross_entropy_with_logits".split()
], kind="packed")  # fmt: skip
def losses(call: Call) -> Any:
    """Over all real elements."""
    aligned_operands = aligned(call.name, {"input": call["input"], "target": call["target"]})
    if aligned_operands is None:
        raise call.refuse("input and target are ragged in different dims.")
    like, packed = aligned_operands
    loss = call.on({**call.arguments, **packed})
    return like.with_packed(loss) if call["reduction"] == "none" else loss


@ragged_rule(
    "dropout.public", "alpha_dropout", kind="packed", note="one draw for the packed elements: none is wasted on padding"
)
def dropout(call: Call) -> Any:
    """Each real element for itself."""
    x = call["input"]
    packed = call.with_(input=x.packed)
    return x if packed is x.packed else x.with_packed(packed)


@ragged_rule("dropout_add.public", kind="packed")
def dropout_add(call: Call) -> Any:
    """Each real element for itself."""
    aligned_operands = aligned(call.name, {"input": call["input"], "residual": call["residual"]})
    if aligned_operands is None:
        raise call.refuse("input and residual are ragged in different dims.")
    return aligned_operands[0].with_packed(call.with_(**aligned_operands[1]))


@ragged_rule("dropout", "dropout_again", kind="packed")
def masked(call: Call) -> Any:
    """One draw for each real element, or for each channel of each row, as the mask's shape says."""
    x, shape = call["input"], tuple(call["mask_shape"])
    if shape == tuple(x.shape):
        return x.with_packed(call.with_(input=x.packed, mask_shape=tuple(x.packed.shape)))
    return x * call.with_(input=ones(shape, dtype=x.dtype, device=x.device))


@ragged_rule("one_hot", "one_hot.public", kind="packed")
def one_hot(call: Call) -> Any:
    """One more dim behind each element."""
    name = "tensor" if "tensor" in call.arguments else "input"
    x = call[name]
    if isinstance(x.partition, Shapes):
        if call["num_classes"] < 0:
            call = Call(call.key, call.op, {**call.arguments, "num_classes": int(x.packed.max().item()) + 1})
        return grouped(call)
    return x.with_packed(call.with_(**{name: x.packed}))


@ragged_rule("bucketize", "searchsorted", "searchsorted.public", "isin", "isin.public", kind="packed")
def searches(call: Call) -> Any:
    """Each element in a dense sorted sequence; in a ragged one, each row in its own."""
    names = [name for name in ("input", "elements") if isinstance(call.get(name), RaggedTensor)]
    others = [name for name, value in call.arguments.items() if isinstance(value, RaggedTensor) and name not in names]
    if call.name == "isin" and others:
        return call.with_(**{name: all_elements(call[name]) for name in others})
    if others or (call.name == "searchsorted" and getattr(call["sorted_sequence"], "ndim", 1) > 1):
        return grouped(call)
    x = call[names[0]]
    return x.with_packed(call.with_(**{names[0]: x.packed}))


@ragged_rule("view_as_real", "view_as_complex", "view_as_complex.public", "view_as_complex_copy", kind="packed")
def complex_views(call: Call) -> Any:
    """Pairs of numbers in a last dim."""
    x = call["input"]
    if isinstance(x.partition, Shapes) or ("complex" in call.name and x.place == x.ndim - 1):
        return grouped(call)
    return x.with_packed(call.with_(input=x.packed))


@ragged_rule(
    "fft_complex",
    "fft_half",
    "fft_from_half",
    kind="packed",
    note="along the ragged dim, rows of equal length together",
)
def transforms(call: Call) -> Any:
    """Along dims beside the ragged one on packed elements."""
    x, dims = call["input"], tuple(call["dims"])
    if isinstance(x.partition, Shapes) or x.place in dims or 0 in dims:
        return grouped(call)
    return x.with_packed(call.with_(input=x.packed, dims=tuple([dim - 1 for dim in dims])))


@ragged_rule("unravel_index", kind="packed")
def unravel_index(call: Call) -> Any:
    """Each number for itself."""
    x = call["indices"]
    return results(call.with_(indices=x.packed), x.with_packed)
