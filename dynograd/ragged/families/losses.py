"""Losses of ragged predictions: the mean over all real tokens, or with `reduction="sequence_mean"` the mean over rows of each row's mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.errors import IndexRangeError, ShapeError
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.ops.loss.losses import reduction_of
from dynograd.ops.op import rows_with
from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.groups import grouped, index_of
from dynograd.ragged.families.normalizing import channels_last
from dynograd.ragged.families.segmented import sum_rows
from dynograd.ragged.families.views import merged_levels
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.tensor.tensor import Tensor

SEQUENCES = "sequence_mean"
_NOTE = 'mean over real tokens; reduction="sequence_mean": of each row, then over rows'


@ragged_rule(*rows_with("ragged", "elements"), *rows_with("ragged", "tokens"), kind="packed", note=_NOTE)
def on_tokens(call: Call) -> Any:
    """The loss of packed elements."""
    ragged = call.ragged()
    if any([isinstance(x.packed, RaggedTensor) for x in ragged]):
        return _by_levels(call, ragged)
    like = max(ragged, key=lambda x: x.ndim)
    if isinstance(like.partition, Shapes) and call.op.row["ragged"] == "tokens":
        return _of_tokens_of_shapes(call)
    for x in ragged:
        if x.place != like.place:
            return NotImplemented
        like.partition.check_same(call.name, x.partition)
    for name in ("input", "target", "input1", "input2", "var", "positive", "negative"):
        operand = call.get(name)
        if isinstance(operand, Tensor) and operand.ndim and not isinstance(operand, RaggedTensor):
            return NotImplemented  # a dense one beside ragged ones broadcasts
    arguments = call.map_ragged(lambda x: x.packed)
    return _reduced(call, arguments, like, lambda: like.partition)


def _of_tokens_of_shapes(call: Call) -> Any:
    """Losses of tokens that lie in several ragged dims: rows of equal shape together, then over all tokens."""
    how = call["reduction"]
    losses = grouped(Call(call.key, call.op, {**call.arguments, "reduction": "none"}))
    if how == "none":
        return losses
    if how == SEQUENCES:
        means = losses.mean(tuple(range(1, losses.ndim)))
        return means[losses.partition.tensor("lengths", means.device) > 0].mean()
    return losses.sum() if how == "sum" else losses.mean()


@ragged_rule("cross_entropy.public", "nll_loss.public", kind="packed", note=_NOTE)
def of_classes(call: Call) -> Any:
    """Scores (B, j, C), (B, C, j) or of images (B, C, j, j); class numbers (B, j) or (B, j, j), or probabilities like the scores. Scores (B, j)
    of the places of each row: the classes are its places, the numbers (B,); for each token (B, j, j), the places in dim 1."""
    x, target = call["input"], call["target"]
    if isinstance(x, RaggedTensor) and x.ndim == 2 and not isinstance(target, RaggedTensor):
        return _of_places(call, x, target)
    x, target = _both_ragged(call)
    if isinstance(x.packed, RaggedTensor) or isinstance(target.packed, RaggedTensor):
        return _by_levels(call, [x, target])
    if x.ndim == 2:
        return NotImplemented
    if isinstance(x.partition, Shapes):
        return _of_pixels(call, x, target)
    x.partition.check_same(call.name, target.partition, ("the input", "the target"))
    scores = _classes_last(x.packed, x.place)
    labels = target.packed
    if target.ndim == x.ndim:
        labels = _classes_last(labels, target.place)
    elif target.place != x.place - (x.place > 1):
        return NotImplemented
    rest = tuple(scores.shape)[:-1]
    flat = run("reshape", scores, (-1, scores.shape[-1]))
    labels = run("reshape", labels, (-1, scores.shape[-1]) if target.ndim == x.ndim else (-1,))
    if (
        batch_invariant() and x.place == 2 and x.ndim == 3 and target.ndim == 2
    ):  # classes stand where those of a row alone do
        flat, labels = x.packed.unsqueeze(0), target.packed.unsqueeze(0)
    shape = (x.partition.total,) if x.ndim == 3 else rest
    like = RaggedTensor.with_packed(target, target.packed, 1) if x.ndim == 3 else target
    arguments = {**call.arguments, "input": flat, "target": labels}
    return _reduced(call, arguments, like, lambda: x.partition, shape)


@ragged_rule("linear_cross_entropy", kind="packed", note=_NOTE)
def linear_cross_entropy(call: Call) -> Any:
    """Inputs (B, j, D), class numbers (B, j) or probabilities (B, j, C): all real tokens in chunks."""
    x, target = _both_ragged(call)
    if isinstance(x.packed, RaggedTensor) or isinstance(target.packed, RaggedTensor):
        return _by_levels(call, [x, target])
    if x.ndim != 3 or x.place != 1 or isinstance(x.partition, Shapes) or target.place != 1:
        raise call.refuse(
            f"expected ragged input (B, j, D) and target (B, j), got shapes {tuple(x.shape)} and {tuple(target.shape)}."
        )
    x.partition.check_same(call.name, target.partition, ("the input", "the target"))
    arguments = {**call.arguments, "input": x.packed, "target": target.packed}
    return _reduced(call, arguments, target, lambda: x.partition)


def _both_ragged(call: Call) -> tuple[RaggedTensor, RaggedTensor]:
    x, target = call["input"], call["target"]
    if not isinstance(x, RaggedTensor):
        raise call.refuse(
            "the target is ragged but the input is not. Make both ragged: ragged_from_padded(input, lengths)."
        )
    if not isinstance(target, RaggedTensor):
        raise call.refuse(
            f"the input is ragged (lengths {x.partition}) but the target is not (shape {tuple(target.shape)}). Make it ragged: "
            f"ragged_like(x, target), or ragged_from_padded(target, lengths)."
        )
    return x, target


def _by_levels(call: Call, ragged: list[RaggedTensor]) -> Any:
    """Several levels (documents of sentences): the loss of the elements of the level below; means of sequences are those of documents."""
    like = ragged[0]
    for x in ragged[1:]:
        like.partition.check_same(call.name, x.partition)
    for x in ragged:
        if not isinstance(x.packed, RaggedTensor):
            raise call.refuse(f"operands have different levels of rows (shapes {[tuple(x.shape) for x in ragged]}).")
    if call["reduction"] == SEQUENCES:
        return call.on(call.map_ragged(merged_levels))
    loss = call.on(call.map_ragged(lambda x: x.packed))
    return like.with_packed(loss) if isinstance(loss, RaggedTensor) else loss


def _of_places(call: Call, x: RaggedTensor, target: Any) -> Any:
    """The loss of choosing a place of each row, as pointer networks do."""
    smoothing, ignored = call.get("label_smoothing", 0.0), call["ignore_index"]
    if call["weight"] is not None:
        raise call.refuse(
            "the classes of scores (B, j) are the places of each row, which have no weights. Leave weight out."
        )
    if tuple(target.shape) != (x.partition.count,):
        raise ShapeError(
            f"{call.name}: expected target ({x.partition.count},), a place in each row, for scores of shape {tuple(x.shape)}, got "
            f"{tuple(target.shape)}."
        )
    chosen, lengths = np.asarray(arrays.to_numpy(target.array)), x.partition.lengths
    wrong = (chosen != ignored) & ((chosen < 0) | (chosen >= lengths))
    if wrong.any():
        row = int(wrong.argmax())
        raise IndexRangeError(
            f"{call.name}: Target {chosen[row]} is out of bounds: row {row} has {lengths[row]} places."
        )
    counted = target != ignored
    rows = run("nonzero", counted)[:, 0]
    mine, at = run("getitem", x, rows), target[rows]
    scores = run("log_softmax", mine, 1) if call.name == "cross_entropy" else mine
    losses = -run("gather.public", scores, 1, at[:, None])[:, 0]
    if smoothing:
        losses = losses * (1 - smoothing) - scores.mean(1) * smoothing
    named = "mean" if call["reduction"] == SEQUENCES else call["reduction"]  # a row has one loss
    how = reduction_of(call.name, call.get("size_average"), call.get("reduce"), named)
    if how == "none":
        return losses.new_zeros(x.partition.count).index_copy(0, rows, losses)
    return losses.sum() if how == "sum" else losses.mean()


def _of_places_of_tokens(call: Call, x: RaggedTensor, target: RaggedTensor) -> Any:
    """Scores (B, k, j) of the k places of each row for each of its j tokens, as of heads in a sentence; also (B, j, k) where that is no square."""
    part = x.partition
    assert isinstance(part, Shapes)
    if not part.sizes_of(2).same(target.partition) and part.sizes_of(1).same(target.partition):
        by_token = x
    else:
        part.sizes_of(2).check_same(call.name, target.partition, ("the input", "the target"))
        by_token = run("transpose", x, 1, 2)
    sizes = by_token.partition.sizes  # type: ignore[attr-defined]
    tokens = make(by_token.packed, Partition(np.repeat(sizes[:, 1], sizes[:, 0])))
    how = call["reduction"]
    if how not in ("none", SEQUENCES):
        return _of_places(call, tokens, target.packed)
    alone = Call(call.key, call.op, {**call.arguments, "reduction": "none"})
    losses = target.with_packed(_of_places(alone, tokens, target.packed))
    if how == "none":
        return losses
    counted = target.with_packed((target.packed != call["ignore_index"]).to(losses.dtype))
    there = target.partition.tensor("lengths", losses.device) > 0
    means = losses.sum(1) / run("where", there, counted.sum(1), 1.0)
    return means.sum() / there.sum()


def _of_pixels(call: Call, x: RaggedTensor, target: RaggedTensor) -> Any:
    """Scores of images of different sizes (B, C, j, j): those of each pixel side by side."""
    part = x.partition
    assert isinstance(part, Shapes)
    classes = part.fixed[0]
    if part.fixed == (None, None) and target.ndim == 2:
        return _of_places_of_tokens(call, x, target)
    if classes is None:
        raise call.refuse(
            f"dim 1 counts the classes, but of shape {tuple(x.shape)} it is ragged. Use x.permute(0, 3, 1, 2)."
        )
    pixels = part.kept("pixels", lambda: Shapes(part.sizes[:, 1:], part.fixed[1:]))
    places = channels_last(part)[0]

    def columns(operand: Any) -> Any:
        values = run("index", operand.packed, [index_of(places, operand.packed)], (0,))
        return run("reshape", values, (pixels.total, classes))

    if target.ndim == x.ndim:
        part.check_same(call.name, target.partition, ("the input", "the target"))
        labels = columns(target)
    else:
        pixels.check_same(call.name, target.partition, ("the input", "the target"))
        labels = target.packed
    arguments = {**call.arguments, "input": columns(x), "target": labels}
    return _reduced(call, arguments, make(x.packed, pixels, 0), lambda: pixels)


def _classes_last(packed: Any, place: int) -> Any:
    """Packed scores with the classes in the last dim: they are there, or in front where the ragged dim follows them."""
    if place == 1:
        return packed
    return run("permute", packed, (*range(1, packed.ndim), 0))


def _reduced(call: Call, arguments: dict[str, Any], like: Any, rows: Any, shape: tuple[int, ...] | None = None) -> Any:
    """The loss of these packed elements, reduced as the call says."""
    legacy = arguments.get("size_average") is not None or arguments.get("reduce") is not None
    how = arguments["reduction"]
    if how == "batchmean":
        return call.on({**arguments, "reduction": "sum"}) / max(rows().count, 1)
    if how != SEQUENCES or legacy:
        loss = call.on(arguments)
        if loss.ndim:
            loss = loss if shape is None else run("reshape", loss, shape)
            return like.with_packed(loss)
        return loss
    part = rows()
    if like.place != 1 and not isinstance(part, Shapes):
        raise call.refuse("reduction='sequence_mean' wants the ragged dim in dim 1. Use x.transpose(1, 2).")
    losses = call.on({**arguments, "reduction": "none"})
    flat = run("reshape", losses, (part.total, -1)) if part.total else losses.new_zeros(0, 1)
    weights = _token_weights(arguments, flat) if "ignore_index" in arguments else None
    sums = run("sum", sum_rows(flat, part), (1,), False)
    if weights is None:
        counts = part.tensor("lengths", flat.device).to(flat.dtype) * flat.shape[1]
    else:
        counts = run("sum", sum_rows(run("reshape", weights, tuple(flat.shape)), part), (1,), False)
    there = part.tensor("lengths", flat.device) > 0
    means = sums / run("where", there, counts, 1.0)
    return means.sum() / there.sum()


def _token_weights(arguments: dict[str, Any], like: Any) -> Any:
    """What the mean of a row divides by, token by token; None where each token counts one."""
    target, weight, ignored = arguments["target"], arguments.get("weight"), arguments["ignore_index"]
    if target.dtype.is_floating_point:
        return None  # probabilities
    counted = target != (-100 if ignored is None else ignored)
    if weight is None:
        return counted.to(like.dtype)
    return run("where", counted, weight[target * counted], 0.0).to(like.dtype)


@ragged_rule("ctc_loss", kind="written")
def ctc_loss(call: Call) -> Any:
    """Log-probabilities (B, j, C), targets (B, j): lengths are those of the rows and need not be given."""
    x, targets = call["log_probs"], call["targets"]
    lengths, target_lengths = call["input_lengths"], call["target_lengths"]
    if isinstance(x, RaggedTensor):
        if x.ndim != 3 or x.place != 1 or isinstance(x.packed, RaggedTensor):
            raise call.refuse(f"expected ragged log_probs (B, j, C), got shape {tuple(x.shape)}.")
        if lengths is not None:
            raise ValueError(
                f"{call.name}: input_lengths should be None for ragged log_probs, whose rows have lengths. Leave it out."
            )
        lengths = x.partition.tensor("lengths", x.device)
        if isinstance(targets, RaggedTensor) and targets.partition.count != x.partition.count:
            x.partition.check_same(call.name, targets.partition, ("the log_probs", "the targets"))
        x = run("transpose", x.to_padded(0.0), 0, 1)
    if isinstance(targets, RaggedTensor):
        if target_lengths is not None:
            raise ValueError(
                f"{call.name}: target_lengths should be None for ragged targets, whose rows have lengths. Leave it out."
            )
        target_lengths, targets = targets.partition.tensor("lengths", targets.device), targets.packed
    return call.with_(log_probs=x, targets=targets, input_lengths=lengths, target_lengths=target_lengths)
