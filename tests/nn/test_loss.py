"""Losses as modules, with their reductions. See `rows.py`."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from tests.nn.rows import Row, build, error, generate

N, C = 5, 4
SIGNS = numpy.array([1.0, -1.0, 1.0, 1.0, -1.0])
WEIGHT = numpy.array([0.5, 1.0, 2.0, 0.25])


def log_softmax(x):
    return x - numpy.log(numpy.exp(x).sum(1, keepdims=True))


def np_nll(x, target, weight=None, ignored=-100, smoothing=0.0, reduction="mean"):
    weight = numpy.ones(C) if weight is None else weight
    kept = target != ignored
    w = numpy.where(kept, weight[numpy.where(kept, target, 0)], 0)
    losses = -x[numpy.arange(len(x)), numpy.where(kept, target, 0)] * w
    smooth = -(x * weight).sum(1) * kept
    if reduction == "none":
        return (1 - smoothing) * losses + smoothing / C * smooth
    total = (1 - smoothing) * losses.sum() + smoothing / C * smooth.sum()
    return total / w.sum() if reduction == "mean" else total


def np_bce(x, y):
    return -(y * numpy.log(x) + (1 - y) * numpy.log(1 - x))


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def cosine(a, b):
    return (a * b).sum(1) / numpy.sqrt((a**2).sum(1) * (b**2).sum(1))


def distance(a, b):
    return numpy.sqrt(((a - b + 1e-6) ** 2).sum(1))


def np_multi_margin(p, x, target):
    right = x[numpy.arange(N), target][:, None]
    terms = numpy.maximum(0, 1 - right + x)
    terms[numpy.arange(N), target] = 0
    return (terms.sum(1) / C).mean()


def classes(rng):
    return [rng.normal(size=(N, C)), rng.integers(0, C, N)]


def scores_and_bits(rng):
    return [rng.normal(size=(N, C)), rng.integers(0, 2, (N, C)).astype(float)]


def with_signs(*shapes):
    return lambda rng: [*[rng.normal(size=shape) for shape in shapes], SIGNS]


def np_ctc_of_one_label(p, x, targets, steps, lengths):
    """Two steps and one label: it stands in the first, in the second, or in both."""
    x, label = numpy.exp(x), targets[0, 0]
    return -numpy.log(x[0, 0, label] * x[1, 0, 0] + x[0, 0, 0] * x[1, 0, label] + x[0, 0, label] * x[1, 0, label])


def smooth_l1(d, beta):
    return numpy.where(abs(d) < beta, 0.5 * d**2 / beta, abs(d) - 0.5 * beta)


PAIR = [(N, C), (N, C)]
ROWS = [
    Row("L1Loss", shapes=PAIR, reference=lambda p, x, y: abs(x - y).mean(), text="L1Loss()", out=()),
    Row("MSELoss", shapes=PAIR, reference=lambda p, x, y: ((x - y) ** 2).mean(), text="MSELoss()", out=()),
    Row("MSELoss", (), {"reduction": "none"}, PAIR, reference=lambda p, x, y: (x - y) ** 2, id="none"),
    Row("MSELoss", (False,), shapes=PAIR, reference=lambda p, x, y: ((x - y) ** 2).sum(), id="size_average"),
    Row("MSELoss", (), {"reduce": False}, PAIR, reference=lambda p, x, y: (x - y) ** 2, id="reduce",
        errors=[error(lambda layer: nn.MSELoss(reduction="middle")(dg.zeros(2), dg.zeros(2)), ValueError, "middle", "reduction")]),
    Row("SmoothL1Loss", (), {"beta": 0.5}, PAIR, reference=lambda p, x, y: smooth_l1(x - y, 0.5).mean()),
    Row("HuberLoss", ("sum", 0.5), shapes=PAIR, reference=lambda p, x, y: 0.5 * smooth_l1(x - y, 0.5).sum()),
    Row("NLLLoss", inputs=classes, reference=lambda p, x, y: np_nll(x, y), text="NLLLoss()", out=()),
    Row("NLLLoss", (WEIGHT,), {"ignore_index": 2, "reduction": "sum"}, inputs=classes, id="options", buffers={"weight": (C,)},
        reference=lambda p, x, y: np_nll(x, y, p.weight, 2, reduction="sum")),
    Row("CrossEntropyLoss", inputs=classes, reference=lambda p, x, y: np_nll(log_softmax(x), y), text="CrossEntropyLoss()", out=(),
        errors=[
            error(lambda layer: layer(dg.zeros(2, 3), dg.tensor([0, 3])), IndexError, "3"),
            error(lambda layer: layer(dg.zeros(2, 3), dg.tensor([0])), ValueError, "2", "1"),
        ]),
    *[
        Row("CrossEntropyLoss", (WEIGHT,), {"ignore_index": 1, "reduction": how, "label_smoothing": 0.2}, inputs=classes,
            reference=lambda p, x, y, how=how: np_nll(log_softmax(x), y, p.weight, 1, 0.2, how), buffers={"weight": (C,)}, id=how)
        for how in ("mean", "sum", "none")
    ],
    Row("CrossEntropyLoss", inputs=lambda rng: [rng.normal(size=(N, C)), rng.dirichlet(numpy.ones(C), N)], id="probabilities",
        reference=lambda p, x, y: -(y * log_softmax(x)).sum() / N),
    Row("BCELoss", inputs=lambda rng: [rng.uniform(0.1, 0.9, (N, C)), rng.uniform(0, 1, (N, C))], text="BCELoss()",
        reference=lambda p, x, y: np_bce(x, y).mean(),
        errors=[error(lambda layer: layer(dg.full((2,), 1.5), dg.zeros(2)), RuntimeError, "between 0 and 1")]),
    Row("BCEWithLogitsLoss", inputs=scores_and_bits, reference=lambda p, x, y: np_bce(sigmoid(x), y).mean()),
    Row("BCEWithLogitsLoss", (), {"weight": WEIGHT, "pos_weight": WEIGHT[::-1].copy(), "reduction": "sum"}, inputs=scores_and_bits,
        buffers={"weight": (C,), "pos_weight": (C,)}, id="weights",
        reference=lambda p, x, y: -(
            p.weight * (p.pos_weight * y * numpy.log(sigmoid(x)) + (1 - y) * numpy.log(1 - sigmoid(x)))
        ).sum()),
    Row("LinearCrossEntropyLoss", (3, C), {"bias": True}, inputs=lambda rng: [rng.normal(size=(N, 3)), rng.integers(0, C, N)],
        reference=lambda p, x, y: np_nll(log_softmax(x @ vars(p)["linear.weight"].T + vars(p)["linear.bias"]), y), out=(),
        parameters={"linear.weight": (C, 3), "linear.bias": (C,)},
        errors=[
            error(lambda layer: nn.LinearCrossEntropyLoss(3, 4, weight=dg.ones(3)), RuntimeError, "(4,)", "(3,)"),
            error(lambda layer: nn.LinearCrossEntropyLoss(3, 4, label_smoothing=2), RuntimeError, "[0, 1]", "2"),
        ]),
    Row("LinearCrossEntropyLoss", (3, C), {"out_features": (2,), "reduction": "sum"}, id="several places",
        inputs=lambda rng: [rng.normal(size=(N, 3)), rng.integers(0, C, (N, 2))], parameters={"linear.weight": (2 * C, 3)},
        reference=lambda p, x, y: sum(
            np_nll(log_softmax(x @ vars(p)["linear.weight"][place::2].T), y[:, place], reduction="sum") for place in (0, 1)
        )),
    # smooth=False: its gradient takes the input for a result of log_softmax, as PyTorch's; tests/ops/test_ctc.py tries it
    Row("CTCLoss", inputs=lambda rng: [rng.normal(size=(2, 1, 3)), numpy.array([[2]]), numpy.array([2]), numpy.array([1])],
        reference=np_ctc_of_one_label, text="CTCLoss()", out=(), smooth=False),
    Row("KLDivLoss", (), {"reduction": "batchmean"}, inputs=lambda rng: [rng.normal(size=(N, C)), rng.dirichlet(numpy.ones(C), N)],
        reference=lambda p, x, y: (y * (numpy.log(y) - x)).sum() / N),
    Row("KLDivLoss", (), {"reduction": "sum", "log_target": True}, PAIR, id="log",
        reference=lambda p, x, y: (numpy.exp(y) * (y - x)).sum()),
    Row("PoissonNLLLoss", inputs=lambda rng: [rng.normal(size=(N,)), rng.integers(0, 5, N).astype(float)],
        reference=lambda p, x, y: (numpy.exp(x) - y * x).mean()),
    Row("GaussianNLLLoss", inputs=lambda rng: [rng.normal(size=(N,)), rng.normal(size=(N,)), rng.uniform(0.5, 2, N)],
        reference=lambda p, x, y, v: (0.5 * (numpy.log(v) + (x - y) ** 2 / v)).mean()),
    Row("HingeEmbeddingLoss", (0.8,), inputs=with_signs((N,)), constants=(1,),
        reference=lambda p, x, y: numpy.where(y > 0, x, numpy.maximum(0, 0.8 - x)).mean()),
    Row("CosineEmbeddingLoss", (0.1,), inputs=with_signs((N, C), (N, C)), constants=(2,),
        reference=lambda p, a, b, y: numpy.where(y > 0, 1 - cosine(a, b), numpy.maximum(0, cosine(a, b) - 0.1)).mean()),
    Row("MarginRankingLoss", (0.3,), inputs=with_signs((N,), (N,)),
        reference=lambda p, a, b, y: numpy.maximum(0, -y * (a - b) + 0.3).mean()),
    Row("SoftMarginLoss", inputs=with_signs((N,)), constants=(1,), reference=lambda p, x, y: numpy.log1p(numpy.exp(-y * x)).mean()),
    Row("MultiLabelSoftMarginLoss", inputs=scores_and_bits, reference=lambda p, x, y: np_bce(sigmoid(x), y).mean(1).mean()),
    Row("MultiMarginLoss", inputs=classes, reference=np_multi_margin,
        errors=[error(lambda layer: nn.MultiMarginLoss(3), ValueError, "p == 1", "3")]),
    Row("MultiLabelMarginLoss", inputs=lambda rng: [numpy.array([[0.1, 0.2, 0.4, 0.8]]), numpy.array([[3, 0, -1, 1]])],
        reference=lambda p, x, y: (1.3 + 1.6 + 0.4 + 0.6 - 0.0) / 4 - 0.975 + 0.85),
    Row("TripletMarginLoss", (0.7,), shapes=[(N, C)] * 3,
        reference=lambda p, a, b, c: numpy.maximum(0, distance(a, b) - distance(a, c) + 0.7).mean()),
    Row("TripletMarginWithDistanceLoss", (), {"margin": 0.7, "swap": True}, [(N, C)] * 3,
        reference=lambda p, a, b, c: numpy.maximum(
            0, distance(a, b) - numpy.minimum(distance(a, c), distance(b, c)) + 0.7
        ).mean(),
        text="TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)",
        errors=[error(lambda layer: nn.TripletMarginWithDistanceLoss(margin=0), ValueError, "margin", "0")]),
]  # fmt: skip

test_rows = generate(ROWS)


NAMES = {
    "CTCLoss": "log_probs targets input_lengths target_lengths",
    "PoissonNLLLoss": "log_input target",
    "GaussianNLLLoss": "input target var",
    "CosineEmbeddingLoss": "input1 input2 target",
    "MarginRankingLoss": "input1 input2 target",
    "TripletMarginLoss": "anchor positive negative",
    "TripletMarginWithDistanceLoss": "anchor positive negative",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name} {row.id}".strip())
def test_inputs_are_taken_by_pytorchs_names(row):
    rng = numpy.random.default_rng(0)
    values = row.inputs(rng) if row.inputs else [rng.uniform(size=shape) for shape in row.shapes]
    loss, inputs = (
        build(row, dtype=dg.float64) if row.name.startswith("Linear") else build(row).double(),
        map(dg.tensor, values),
    )
    by_name = dict(zip(NAMES.get(row.name, "input target").split(), inputs, strict=True))
    assert loss(**by_name).equal(loss(*by_name.values()))


def test_weights_move_with_the_module():
    loss = nn.CrossEntropyLoss(dg.ones(3)).double()
    assert loss.weight.dtype is dg.float64
    assert list(loss.state_dict()) == ["weight"] and list(nn.CrossEntropyLoss().state_dict()) == []


def test_a_distance_of_ones_own():
    loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(1), margin=1.0)
    assert loss(dg.zeros(1, 2), dg.ones(1, 2), dg.zeros(1, 2)).item() == pytest.approx(3.0)
