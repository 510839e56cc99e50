"""Losses that ask for a margin."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def reduced(loss, reduction):
    return {"mean": numpy.mean, "sum": numpy.sum, "none": lambda x: x}[reduction](loss)


def np_hinge_embedding(input, target, margin=1.0, reduction="mean"):
    return reduced(numpy.where(target == 1, input, numpy.maximum(0, margin - input)), reduction)


def np_cosine_embedding(input1, input2, target, margin=0, reduction="mean"):
    cosine = (input1 * input2).sum(-1) / numpy.sqrt(((input1**2).sum(-1) + 1e-12) * ((input2**2).sum(-1) + 1e-12))
    return reduced(numpy.where(target == 1, 1 - cosine, numpy.maximum(0, cosine - margin)), reduction)


def np_margin_ranking(input1, input2, target, margin=0, reduction="mean"):
    return reduced(numpy.maximum(0, -target * (input1 - input2) + margin), reduction)


def np_soft_margin(input, target, reduction="mean"):
    return reduced(numpy.log1p(numpy.exp(-target * input)), reduction)


def np_multilabel_soft_margin(input, target, weight=1.0, reduction="mean"):
    chance = 1 / (1 + numpy.exp(-input))
    return reduced(-(weight * (target * numpy.log(chance) + (1 - target) * numpy.log(1 - chance))).mean(-1), reduction)


def np_multi_margin(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
    rows, labels = numpy.atleast_2d(input), numpy.atleast_1d(target)
    losses = []
    for row, label in zip(rows, labels, strict=True):
        terms = numpy.maximum(0, margin - row[label] + row) ** p
        losses.append((terms.sum() - terms[label]) / len(row) * (1 if weight is None else weight[label]))
    losses = numpy.array(losses)
    return reduced(losses if input.ndim == 2 else losses[0], reduction)


def np_multilabel_margin(input, target, reduction="mean"):
    losses = []
    for row, labels in zip(numpy.atleast_2d(input), numpy.atleast_2d(target), strict=True):
        named = list(labels[: numpy.argmax(labels < 0)] if (labels < 0).any() else labels)
        others = [j for j in range(len(row)) if j not in named]
        losses.append(sum(max(0, 1 - row[i] + row[j]) for i in named for j in others) / len(row))
    losses = numpy.array(losses)
    return reduced(losses if input.ndim == 2 else losses[0], reduction)


def np_triplet(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean"):
    def distance(one, other):
        return (numpy.abs(one - other + eps) ** p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    if swap:
        far = numpy.minimum(far, distance(positive, negative))
    return reduced(numpy.maximum(0, distance(anchor, positive) - far + margin), reduction)


def signs(rng, *shape):
    return rng.choice([-1, 1], shape)


x, n = dynograd.zeros(2, 3), dynograd.zeros(2).long()
BAD_REDUCTION = error(lambda op: op(x, x, reduction="all"), ValueError, "all", "'mean'")
SIZES = error(lambda op: op(x, dynograd.zeros(2, 4)), RuntimeError, "(2, 3)", "(2, 4)")
MARGIN = error(lambda op: op(x, x, x, margin=0), ValueError, "margin must be greater than 0", "got 0")
DIMS = error(lambda op: op(x, x, x[0]), RuntimeError, "same number of dimensions", "(2, 3)", "negative (3,)")

ROWS = [
    Row(
        "nn.functional.hinge_embedding_loss",
        np_hinge_embedding,
        args=lambda rng: [rng.uniform(0, 2, (3, 4)), signs(rng, 3, 4)],
        errors=[BAD_REDUCTION, SIZES],
    ),
    Row(
        "nn.functional.cosine_embedding_loss",
        np_cosine_embedding,
        args=lambda rng: [rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), signs(rng, 5)],
        kwargs={"margin": 0.1, "reduction": "none"},
        tolerance=2,
        errors=[error(lambda op: op(x, x, x), RuntimeError, "1D target", "target (2, 3)", "input1 (2, 3)")],
    ),
    Row(
        "nn.functional.cosine_embedding_loss",
        np_cosine_embedding,
        args=lambda rng: [rng.normal(size=4), rng.normal(size=4), numpy.array(1)],
        id="single",
        tolerance=2,
    ),
    Row(
        "nn.functional.margin_ranking_loss",
        np_margin_ranking,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), signs(rng, 3, 4)],
        kwargs={"margin": 0.2},
        errors=[error(lambda op: op(x, x, x[0]), RuntimeError, "same dimension", "input1: (2, 3)", "target: (3,)")],
    ),
    Row("nn.functional.soft_margin_loss", np_soft_margin, args=lambda rng: [rng.normal(size=(3, 4)), signs(rng, 3, 4)], errors=[BAD_REDUCTION, SIZES]),
    Row(
        "nn.functional.multilabel_soft_margin_loss",
        np_multilabel_soft_margin,
        args=lambda rng: [rng.normal(size=(3, 4)), rng.integers(0, 2, (3, 4)), rng.uniform(0.5, 1, 4)],
        kwargs={"reduction": "none"},
        errors=[SIZES, error(lambda op: op(x[0, 0], x[0, 0]), RuntimeError, "0-dim")],
    ),
    *[
        Row(
            "nn.functional.multi_margin_loss",
            np_multi_margin,
            args=lambda rng: [rng.normal(size=(3, 4)), numpy.array([0, 3, 1])],
            kwargs=lambda rng, p=p: {"p": p, "margin": 0.7, "weight": rng.uniform(0.5, 1, 4)},
            id=f"p{p}",
            errors=[
                error(lambda op: op(x, n + 3), IndexError, "multi_margin_loss", "target 3", "[0]", "3 classes"),
                error(lambda op: op(x, n, p=3), ValueError, "p == 1 and p == 2", "3"),
                error(lambda op: op(x, n, weight=dynograd.ones(2)), RuntimeError, "weight", "3 elements", "(2,)"),
                error(lambda op: op(x, n[:1]), RuntimeError, "(2, 3)", "(1,)"),
                error(lambda op: op(x, n.float()), RuntimeError, "integer dtype", "float32"),
            ],
        )
        for p in (1, 2)
    ],
    Row("nn.functional.multi_margin_loss", np_multi_margin, args=lambda rng: [rng.normal(size=4), numpy.array(2)], id="single"),
    Row(
        "nn.functional.multilabel_margin_loss",
        np_multilabel_margin,
        args=lambda rng: [rng.normal(size=(4, 4)), numpy.array([[0, 2, -1, 1], [-1, 0, 0, 0], [3, -1, 0, 0], [1, 2, 3, 0]])],
        kwargs={"reduction": "none"},
        errors=[
            error(lambda op: op(x, n), RuntimeError, "input (2, 3)", "target (2,)"),
            error(lambda op: op(x, x.long() + 3), IndexError, "target 3", "[0, 0]", "3 classes"),
        ],
    ),
    Row("nn.functional.multilabel_margin_loss", np_multilabel_margin, args=lambda rng: [rng.normal(size=4), numpy.array([1, -1, 0, 0])], id="single"),
    Row("nn.functional.triplet_margin_loss", np_triplet, shapes=[(3, 4)] * 3, kwargs={"swap": True}, empty=False, errors=[MARGIN, DIMS]),
    Row("nn.functional.triplet_margin_loss", np_triplet, shapes=[(4,)] * 3, kwargs={"p": 3, "margin": 5.0, "reduction": "sum"}, id="vectors"),
    Row(
        "nn.functional.triplet_margin_with_distance_loss",
        np_triplet,
        shapes=[(3, 4)] * 3,
        kwargs={"reduction": "none"},
        errors=[MARGIN, DIMS, error(lambda op: op(x, x, x, reduction="all"), ValueError, "all")],
    ),
]  # fmt: skip
test_rows = generate(ROWS)


def test_any_distance_function_will_do():
    element, two, three = dynograd.zeros(2, 3), dynograd.ones(2, 3), dynograd.full((2, 3), 3.0)
    loss = F.triplet_margin_with_distance_loss(
        element, two, three, distance_function=lambda a, b: (a - b).abs().sum(-1), margin=10.0
    )
    assert loss.item() == 3.0 - 9.0 + 10.0


def test_soft_margin_far_out_does_not_overflow():
    assert F.soft_margin_loss(dynograd.tensor([-1e4]), dynograd.tensor([1.0])).item() == pytest.approx(1e4)


def test_single_scores_and_other_targets():
    score, label = dynograd.tensor(0.5), dynograd.tensor(0)
    assert F.multi_margin_loss(score, label).item() == 0
    assert F.multilabel_margin_loss(score, label).item() == 0
    scores = dynograd.tensor([1.0, 0.5])
    assert F.multi_margin_loss(scores, dynograd.tensor([0])).item() == F.multi_margin_loss(scores, label).item() == 0.25
    # a target that is neither 1 nor -1 counts for both, as in PyTorch
    assert F.hinge_embedding_loss(dynograd.tensor([0.25]), dynograd.tensor([0.0])).item() == 1.0


def test_the_loss_of_one_row_has_the_shape_of_its_target():
    scores = dynograd.tensor([0.5, 0.0])
    for target, loss in (([1], [0.75]), (1, 0.75)):
        result = F.multi_margin_loss(scores, dynograd.tensor(target), reduction="none")
        assert result.tolist() == loss


def test_targets_of_another_shape_are_those_of_the_loss():
    with pytest.raises(
        dynograd.errors.ShapeError, match=r"^hinge_embedding_loss: shapes \(3,\) and \(2,\) do not broadcast"
    ):
        F.hinge_embedding_loss(dynograd.ones(3), dynograd.ones(2))
