"""Losses of classes: one among many, and yes or no."""

import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate

inf = float("inf")


def log_softmax(input, dim):
    return input - numpy.log(numpy.exp(input).sum(dim, keepdims=True))


def np_nll(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Target by target."""
    rows = numpy.moveaxis(input, 1, -1).reshape(-1, input.shape[1]) if input.ndim > 1 else input[None]
    classes = rows.shape[1]
    weight = numpy.ones(classes) if weight is None else weight
    losses, total = [], 0.0
    for row, label in zip(rows, target.reshape(-1), strict=True):
        if label == ignore_index:
            losses.append(0.0)
            continue
        own = -row[label] * weight[label]
        losses.append((1 - label_smoothing) * own - label_smoothing / classes * (row * weight).sum())
        total += weight[label]
    losses = numpy.array(losses).reshape(target.shape)
    if reduction == "none":
        return losses
    return losses.sum() / total if reduction == "mean" else losses.sum()


def np_cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    dim = min(1, input.ndim - 1)
    logarithms = log_softmax(input, dim)
    if target.dtype.kind == "i":
        return np_nll(logarithms, target, weight, ignore_index, reduction, label_smoothing)
    target = target * (1 - label_smoothing) + label_smoothing / input.shape[dim]
    if weight is not None:
        target = target * weight.reshape([-1] + [1] * (input.ndim - dim - 1))
    losses = -(target * logarithms).sum(dim)
    return {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]


def np_bce(input, target, weight=1.0, reduction="mean"):
    losses = -weight * (target * numpy.log(input) + (1 - target) * numpy.log(1 - input))
    return {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]


def np_bce_logits(input, target, weight=1.0, reduction="mean", pos_weight=1.0):
    chance = 1 / (1 + numpy.exp(-input))
    losses = -weight * (pos_weight * target * numpy.log(chance) + (1 - target) * numpy.log(1 - chance))
    return {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]


def labelled(rng):
    return [rng.normal(size=(5, 4)), numpy.array([0, 3, -100, 1, 3])]


def images(rng):
    return [rng.normal(size=(2, 4, 3)), numpy.array([[0, 3, -100], [1, 3, 2]])]


def weight(rng):
    return rng.uniform(0.5, 2, 4)


scores = dynograd.zeros(4, 5)


def target_errors(who):
    return [
        error(
            lambda op: op(scores, dynograd.tensor([0, 1, 7, 2])),
            IndexError,
            who,
            "Target 7 is out of bounds",
            "[2]",
            "5 classes",
        ),
        error(lambda op: op(scores, dynograd.tensor([0, 1, -1, 2])), IndexError, who, "Target -1", "[2]", "(4, 5)"),
        error(lambda op: op(scores, dynograd.tensor([0, 1])), ValueError, who, "batch_size (4)", "batch_size (2)"),
        error(lambda op: op(scores, dynograd.zeros(4, 1).long()), RuntimeError, who, "[4]", "[4, 1]", "squeeze"),
        error(lambda op: op(scores, dynograd.zeros(4)), RuntimeError, who, "Long", "float32", "target.long()"),
        error(
            lambda op: op(scores, dynograd.zeros(4).long(), dynograd.ones(3)),
            RuntimeError,
            who,
            "weight tensor",
            "all 5 classes",
            "(3,)",
        ),
        error(lambda op: op(scores, dynograd.zeros(4).long(), reduction="all"), ValueError, who, "all", "'mean'"),
        error(lambda op: op(scores.long(), dynograd.zeros(4).long()), RuntimeError, who, "int64", "input.float()"),
        error(lambda op: op(dynograd.tensor(1.0), dynograd.tensor(0)), RuntimeError, who, "0-dim"),
    ]


ENTROPY_ERRORS = [
    *target_errors("cross_entropy"),
    error(lambda op: op(scores, scores.long()), RuntimeError, "floating point type", "probabilities", "int64"),
    error(lambda op: op(scores, scores, ignore_index=1), RuntimeError, "ignore_index is not supported", "1"),
    error(
        lambda op: op(scores, dynograd.zeros(4).long(), label_smoothing=1.5),
        RuntimeError,
        "label_smoothing must be between 0.0 and 1.0",
        "1.5",
    ),
]
halves = dynograd.full((2,), 0.5)

ROWS = [
    *[
        Row(
            "nn.functional.cross_entropy",
            np_cross_entropy,
            args=labelled,
            kwargs=lambda rng, r=reduction, s=smoothing: {"reduction": r, "label_smoothing": s},
            id=f"{reduction}-{smoothing}",
            errors=ENTROPY_ERRORS if smoothing else (),
        )
        for reduction, smoothing in (("mean", 0.0), ("sum", 0.0), ("none", 0.2), ("mean", 0.2))
    ],
    *[
        Row(
            "nn.functional.cross_entropy",
            np_cross_entropy,
            args=images,
            kwargs=lambda rng, r=reduction: {"weight": weight(rng), "reduction": r, "label_smoothing": 0.1},
            id=f"images-weight-{reduction}",
        )
        for reduction in ("mean", "none")
    ],
    Row(
        "nn.functional.cross_entropy",
        np_cross_entropy,
        args=lambda rng: [rng.normal(size=4), numpy.array(2)],
        id="single",
    ),
    Row(
        "nn.functional.cross_entropy",
        np_cross_entropy,
        args=lambda rng: [rng.normal(size=(40, 30)), rng.integers(0, 30, 40)],
        id="compiled",
        second=False,
        gradient_tolerance=(1e-3, 1e-6),
    ),
    *[
        Row(
            "nn.functional.cross_entropy",
            np_cross_entropy,
            args=lambda rng: [rng.normal(size=(3, 4)), rng.dirichlet([1.0] * 4, 3)],
            kwargs=lambda rng, r=reduction: {"weight": weight(rng), "reduction": r, "label_smoothing": 0.1},
            id=f"probabilities-{reduction}",
        )
        for reduction in ("mean", "sum", "none")
    ],
    *[
        Row(
            "nn.functional.cross_entropy",
            np_cross_entropy,
            args=lambda rng, s=shape: [rng.normal(size=s), rng.dirichlet([1.0] * 30, 40).reshape(40, 30, *s[2:])],
            kwargs=lambda rng, r=reduction: {"weight": rng.uniform(0.5, 1, 30), "reduction": r, "label_smoothing": 0.1},
            grad=[True, False, False],
            second=False,
            gradient_tolerance=(1e-3, 1e-6),
            id=f"probabilities-compiled-{reduction}-{len(shape)}",
            covers=["cross_entropy_of_distributions"],
        )
        for reduction, shape in (("mean", (40, 30)), ("none", (40, 30, 1)))
    ],
    *[
        Row(
            f"nn.functional.{name}",
            reference,
            args=lambda rng: [rng.uniform(0.1, 0.9, (9, 500)), rng.uniform(0.1, 0.9, (9, 500))],
            grad=[True, False],
            second=False,
            gradient_tolerance=(1e-3, 1e-6),
            strided=False,
            id="one-pass",
            covers=[f"{name}_in_one_pass"],
        )
        for name, reference in (
            ("binary_cross_entropy", np_bce),
            ("binary_cross_entropy_with_logits", np_bce_logits),
        )
    ],
    *[
        Row(
            "nn.functional.nll_loss",
            np_nll,
            args=arguments,
            kwargs=lambda rng, r=reduction, w=weighted: {"weight": weight(rng) if w else None, "reduction": r},
            id=f"{arguments.__name__}-{reduction}-{'weight' if weighted else 'plain'}",
            errors=target_errors("nll_loss") if arguments is labelled else (),
        )
        for arguments in (labelled, images)
        for reduction, weighted in (("mean", True), ("none", True), ("sum", False), ("mean", False))
    ],
    Row("nn.functional.nll_loss", np_nll, args=lambda rng: [rng.normal(size=4), numpy.array(2)], id="single"),
    Row(
        "nn.functional.binary_cross_entropy",
        np_bce,
        args=lambda rng: [rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0, 1, (3, 4))],
        errors=[
            error(lambda op: op(halves + 1, halves), RuntimeError, "between 0 and 1", "1.5", "sigmoid"),
            error(lambda op: op(halves - 1, halves), RuntimeError, "between 0 and 1", "-0.5"),
            error(lambda op: op(halves, halves[:1]), ValueError, "target size ((1,))", "input size ((2,))"),
            error(lambda op: op(halves.long(), halves), RuntimeError, "int64"),
        ],
    ),
    Row(
        "nn.functional.binary_cross_entropy",
        np_bce,
        args=lambda rng: [rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0, 1, (3, 4)), weight(rng)],
        kwargs={"reduction": "none"},
        id="weight",
    ),
    Row(
        "nn.functional.binary_cross_entropy_with_logits",
        np_bce_logits,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.uniform(0, 1, (3, 4))],
        errors=[error(lambda op: op(halves, halves[:1]), ValueError, "Target size ((1,))", "input size ((2,))")],
    ),
    Row(
        "nn.functional.binary_cross_entropy_with_logits",
        np_bce_logits,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.uniform(0, 1, (3, 4)), weight(rng)],
        kwargs=lambda rng: {"pos_weight": weight(rng), "reduction": "sum"},
        id="weights",
    ),
]
test_rows = generate(ROWS)


def test_no_target_gives_nan_for_the_mean_and_zero_for_the_sum():
    x, ignored = dynograd.zeros(2, 3), dynograd.full((2,), -100)
    assert math.isnan(F.cross_entropy(x, ignored).item())
    assert F.cross_entropy(x, ignored, reduction="sum").item() == 0.0
    assert math.isnan(F.nll_loss(dynograd.zeros(0, 3), dynograd.zeros(0).long()).item())


def test_ignored_rows_get_no_gradient_whatever_they_hold():
    x = dynograd.tensor([[0.0, 1.0], [inf, 1.0]], requires_grad=True)
    F.cross_entropy(x, dynograd.tensor([1, -100])).backward()
    assert x.grad[1].tolist() == [0.0, 0.0]
    assert numpy.isfinite(x.grad.numpy()).all()


def test_gradients_flow_to_class_weights():
    for loss in (F.cross_entropy, F.nll_loss):
        weight = dynograd.tensor([1.0, 2.0], requires_grad=True)
        loss(dynograd.tensor([[0.0, 1.0], [2.0, 0.0]]), dynograd.tensor([1, 0]), weight).backward()
        assert weight.grad.abs().sum().item() > 0


def test_classes_masked_with_minus_infinity_stay_out():
    x = dynograd.tensor([[0.0, -inf, 0.0]], requires_grad=True)
    loss = F.cross_entropy(x, dynograd.tensor([0]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert x.grad.tolist() == [[-0.5, 0.0, 0.5]]


def test_target_may_be_any_integer_dtype():
    x = dynograd.tensor([[0.0, 1.0]])
    expected = F.cross_entropy(x, dynograd.tensor([1])).item()
    for dtype in (dynograd.int32, dynograd.uint8, dynograd.int16):
        assert F.cross_entropy(x, dynograd.tensor([1], dtype=dtype)).item() == expected


def test_cross_entropy_is_nll_loss_of_log_softmax():
    x, target = dynograd.randn(4, 3, 2), dynograd.randint(0, 3, (4, 2))
    element, two = F.cross_entropy(x, target), F.nll_loss(dynograd.log_softmax(x, 1), target)
    assert element.item() == pytest.approx(two.item(), rel=1e-6)


def test_certain_and_wrong_costs_a_hundred():
    x = dynograd.tensor([0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, dynograd.tensor([1.0, 0.0]))
    loss.backward()
    assert loss.item() == 100.0
    assert numpy.isfinite(x.grad.numpy()).all()


def test_logits_far_out_do_not_overflow():
    x = dynograd.tensor([-1e4, 1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, dynograd.tensor([1.0, 0.0]))
    loss.backward()
    assert loss.item() == 1e4
    assert x.grad.tolist() == [-0.5, 0.5]


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 3)])
def test_smoothing_over_no_classes_is_no_error(shape):
    scores = dynograd.zeros(shape, requires_grad=True)
    losses = F.cross_entropy(scores, dynograd.zeros(shape), label_smoothing=0.1, reduction="none")
    assert losses.tolist() == [0.0] * shape[0]
