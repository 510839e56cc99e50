"""The cross-entropy of a linear layer, whole and in chunks, against plain NumPy."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.nn import LinearCrossEntropyOptions
from dynograd.nn import functional as F
from dynograd.ops.loss import linear_losses
from tests.ops.harness import Row, error, generate

N, D, C = 7, 3, 5
LABELS = numpy.array([0, 4, 2, 2, 1, 3, 0])
WEIGHT = numpy.array([0.5, 1.0, 2.0, 0.25, 1.5])


def np_entropy(
    input, linear_weight, target, linear_bias=None, weight=None, ignored=-100, smoothing=0.0, reduction="mean"
):
    """Class numbers at the places of all dims of the layer but its first and last."""
    scores = numpy.tensordot(input, linear_weight, (-1, -1))
    scores = scores + (0 if linear_bias is None else linear_bias)
    single = input.ndim == 1
    scores, target = (scores[None], target[None]) if single else (scores, target)
    logarithms = scores - numpy.log(numpy.exp(scores).sum(1, keepdims=True))
    weight = numpy.ones(scores.shape[1]) if weight is None else weight
    if target.shape == scores.shape:
        target = target * (1 - smoothing) + smoothing / scores.shape[1]
        losses = -(logarithms * target * weight.reshape(-1, *(1,) * (scores.ndim - 2))).sum(1)
        total = losses.size / numpy.prod(losses.shape[1:])
        total = losses.size
    else:
        counts = target != ignored
        labels = numpy.where(counts, target, 0)
        hit = numpy.take_along_axis(logarithms, labels[:, None], 1)[:, 0]
        spread = numpy.moveaxis(logarithms, 1, -1) @ weight / scores.shape[1]
        losses = -((1 - smoothing) * weight[labels] * hit + smoothing * spread) * counts
        total = (weight[labels] * counts).sum()
    losses = losses[0] if single else losses
    return {"none": lambda: losses, "sum": losses.sum, "mean": lambda: losses.sum() / total}[reduction]()


def row(id, target=LABELS, shape=(N, D), wide=(C, D), bias=False, weight=None, chunk=2, **options):
    def function(input, linear_weight, target, linear_bias=None, weight=None):
        argument = dict(options, linear_bias=linear_bias, weight=weight)
        if chunk:
            argument["options"] = LinearCrossEntropyOptions(batch_chunk_size=chunk)
        return F.linear_cross_entropy(input, linear_weight, target, **argument)

    def reference(*arrays):
        names = {"ignore_index": "ignored", "label_smoothing": "smoothing"}
        return np_entropy(*arrays, **{names.get(name, name): value for name, value in options.items()})

    def args(rng):
        own = target(rng) if callable(target) else target
        biases = rng.normal(size=wide[:-1]) if bias else None
        return [rng.normal(size=shape), rng.normal(size=wide), own, biases, weight]

    grads = [True, True, *[False] * callable(target), *[True] * bias, *[False] * (weight is not None)]
    return Row(
        "linear_cross_entropy",
        reference,
        args=args,
        function=function,
        id=id,
        grad=grads,
        covers=["linear_cross_entropy_in_chunks"] if chunk else [],
    )


x, w, labels = dynograd.ones(N, D), dynograd.ones(C, D), dynograd.tensor(LABELS)
CHUNKS = LinearCrossEntropyOptions(batch_chunk_size=2)


def refused(*words, kind=RuntimeError, **changed):
    argument = dict(input=x, linear_weight=w, target=labels) | changed
    return error(lambda op: F.linear_cross_entropy(**argument), kind, "inear", *words)


ERRORS = [
    refused("1 or 2", "(2, 7, 3)", input=dynograd.ones(2, N, D)),
    refused("(classes, ..., 3)", "(5, 4)", linear_weight=dynograd.ones(C, 4)),
    refused("linear_bias shape (5,)", "(4,)", linear_bias=dynograd.ones(4)),
    refused("several places", "(3,)", input=x[0], linear_weight=dynograd.ones(C, 2, D)),
    refused("ignore_index=1", "probabilities", target=dynograd.ones(N, C), ignore_index=1),
    refused("Target 5", "5 classes", kind=IndexError, target=labels + 1, options=CHUNKS),
    refused("batch_size (7)", "(6)", target=labels[:6], options=CHUNKS),
    refused("(5,)", "(4,)", weight=dynograd.ones(4), options=CHUNKS),
    refused("label_smoothing", "1.5", label_smoothing=1.5, options=CHUNKS),
    refused("int64", ".float()", input=x.long(), options=CHUNKS),
    refused("'mean'", "most", kind=ValueError, reduction="most"),
    error(lambda op: LinearCrossEntropyOptions(batch_chunk_size=0), ValueError, "batch_chunk_size", "0"),
]

ROWS = [
    row("mean in chunks"),
    row("sum in chunks", bias=True, reduction="sum", ignore_index=2, label_smoothing=0.1),
    row("each in chunks", bias=True, weight=WEIGHT, reduction="none", ignore_index=2),
    row("weighted mean in chunks", weight=WEIGHT, ignore_index=0, label_smoothing=0.2, chunk=3),
    row("whole", bias=True, chunk=None),
    row("one row", numpy.array(3), (D,), chunk=None),
    row("several places", numpy.arange(N * 2).reshape(N, 2) % C, wide=(C, 2, D), bias=True, chunk=None),
    row("probabilities", lambda rng: rng.dirichlet(numpy.ones(C), N), weight=WEIGHT, label_smoothing=0.1, chunk=None),
]  # fmt: skip
ROWS[0].errors = ERRORS
test_rows = generate(ROWS)


def test_large_scores_are_never_held_at_once(monkeypatch):
    """Chunks follow from the number of classes; gradients are those of the whole."""
    monkeypatch.setattr(linear_losses, "_SCORES", 40_000)
    calls = []
    inner = linear_losses.linear
    monkeypatch.setattr(linear_losses, "linear", lambda x, *rest: calls.append(len(x)) or inner(x, *rest))
    x, w = dynograd.randn(300, 16, requires_grad=True), dynograd.randn(400, 16, requires_grad=True)
    target = dynograd.randint(0, 400, (300,))
    loss = F.linear_cross_entropy(x, w, target)
    results = grad(loss, (x, w))
    assert calls == [100, 100, 100]
    whole = F.cross_entropy(x @ w.T, target)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-6)
    for element, other in zip(results, grad(whole, (x, w)), strict=True):
        numpy.testing.assert_allclose(element.numpy(), other.numpy(), rtol=2e-4, atol=1e-7)


def test_the_layer_alone_may_want_gradients():
    w = dynograd.randn(C, D, dtype=dynograd.float64, requires_grad=True)
    (result,) = grad(F.linear_cross_entropy(x.double(), w, labels, options=CHUNKS), w)
    (expected,) = grad(F.cross_entropy(x.double() @ w.T, labels), w)
    assert (result - expected).abs().max() < 1e-12


def test_half_types_add_up_in_float32():
    x, w = dynograd.randn(600, 4), dynograd.randn(6, 4)
    y = dynograd.randint(0, 6, (600,))
    slopes = []
    for kind in (dynograd.float32, dynograd.bfloat16):
        argument = [tensor.bfloat16().to(kind).requires_grad_() for tensor in (x, w)]
        loss = F.linear_cross_entropy(
            *argument, y, reduction="sum", options=LinearCrossEntropyOptions(batch_chunk_size=3)
        )
        assert loss.dtype is kind
        slopes.append(grad(loss, argument)[1].float())
    assert (slopes[0] - slopes[1]).abs().max() < 0.02 * slopes[0].abs().max()
