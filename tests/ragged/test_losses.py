"""Losses of ragged predictions: means over real tokens, or over rows of each row's mean."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

LENGTHS = [4, 0, 2, 5]
TOKENS = sum(LENGTHS)
CLASSES = 3


def ragged(values):
    return dynograd.ragged_tensor(list(values.split(LENGTHS)))


def draw(*rest, positive=False):
    created = dynograd.randn(TOKENS, *rest, dtype=dynograd.float64)
    return created.sigmoid() if positive else created


def signs(*rest):
    return (draw(*rest) > 0).double() * 2 - 1


# name: the arguments, each with one entry per token, and options
LOSSES = {
    "mse_loss": lambda: ([draw(2), draw(2)], {}),
    "l1_loss": lambda: ([draw(), draw()], {}),
    "smooth_l1_loss": lambda: ([draw(2), draw(2)], {"beta": 0.5}),
    "huber_loss": lambda: ([draw(2), draw(2)], {"delta": 0.5}),
    "kl_div": lambda: ([draw(3).log_softmax(-1), draw(3).softmax(-1)], {}),
    "poisson_nll_loss": lambda: ([draw(), draw(positive=True)], {}),
    "gaussian_nll_loss": lambda: ([draw(2), draw(2), draw(2, positive=True)], {}),
    "binary_cross_entropy": lambda: ([draw(positive=True), draw(positive=True)], {}),
    "binary_cross_entropy_with_logits": lambda: ([draw(2), draw(2, positive=True)], {"pos_weight": dynograd.tensor([0.5, 2.0]).double()}),
    "hinge_embedding_loss": lambda: ([draw(), signs()], {}),
    "soft_margin_loss": lambda: ([draw(2), signs(2)], {}),
    "margin_ranking_loss": lambda: ([draw(), draw(), signs()], {}),
    "cosine_embedding_loss": lambda: ([draw(3), draw(3), signs()], {}),
    "multilabel_soft_margin_loss": lambda: ([draw(3), (draw(3) > 0).double()], {}),
    "multi_margin_loss": lambda: ([draw(3), dynograd.randint(0, 3, (TOKENS,))], {}),
    "triplet_margin_loss": lambda: ([draw(3), draw(3), draw(3)], {"margin": 2.0}),
    "nll_loss": lambda: ([draw(3).log_softmax(-1), dynograd.randint(0, 3, (TOKENS,))], {}),
    "cross_entropy": lambda: ([draw(3), dynograd.randint(0, 3, (TOKENS,))], {}),
    "cross_entropy.weights": lambda: ([draw(3), dynograd.randint(0, 3, (TOKENS,))], {"weight": dynograd.tensor([0.5, 2.0, 1.0]).double(), "ignore_index": 1, "label_smoothing": 0.1}),
    "cross_entropy.probabilities": lambda: ([draw(3), draw(3).softmax(-1)], {"label_smoothing": 0.1}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*kl_div")
@pytest.mark.filterwarnings("ignore:.*batchmean")
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "sequence_mean"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_of_ragged_rows(name, reduction):
    function = getattr(F, name.split(".")[0])
    argument, options = LOSSES[name]()
    results = []
    for together in (True, False):
        x = argument[0].clone().detach().requires_grad_()
        values = [x, *argument[1:]]
        if together:
            y = function(*[ragged(value) for value in values], reduction=reduction, **options)
            y = y.values() if dynograd.is_ragged(y) else y
        elif reduction == "sequence_mean":
            rows = [each for each in zip(*[value.split(LENGTHS) for value in values]) if len(each[0])]
            y = sum(function(*row, reduction="mean", **options) for row in rows) / len(rows)
        else:
            y = function(*values, reduction=reduction, **options)
        g = dynograd.autograd.grad((y**2).sum(), x, create_graph=True)[0]
        second = dynograd.autograd.grad((g**2).sum(), x)[0] if g.requires_grad else x
        results.append([y, g, second])
    for element, two in zip(*results, strict=True):
        assert element.shape == two.shape
        assert numpy.allclose(element.detach(), two.detach(), equal_nan=True)


def test_the_mean_of_each_row_is_the_mean_of_its_losses():
    x, target = ragged(draw(3)), ragged(dynograd.randint(0, 3, (TOKENS,)))
    losses = F.cross_entropy(x, target, reduction="none")
    assert losses.shape[0] == 4 and losses.lengths().tolist() == LENGTHS
    rows = [F.cross_entropy(*element).item() for element in zip(x.unbind(), target.unbind()) if len(element[0])]
    assert losses.mean(1)[losses.lengths() > 0].tolist() == pytest.approx(rows)
    assert F.cross_entropy(x, target, reduction="sequence_mean").item() == pytest.approx(sum(rows) / 3)
    assert nn.CrossEntropyLoss(reduction="sequence_mean")(x, target).item() == pytest.approx(sum(rows) / 3)


def test_classes_may_stand_before_the_ragged_dim():
    x, target = ragged(draw(3)), ragged(dynograd.randint(0, 3, (TOKENS,)))
    for reduction in ("mean", "none"):
        element, two = (F.cross_entropy(scores, target, reduction=reduction) for scores in (x, x.transpose(1, 2)))
        assert numpy.allclose(*[y.values() if dynograd.is_ragged(y) else y for y in (element, two)])


def test_kl_divergence_per_row_counts_rows():
    x, target = ragged(draw(3).log_softmax(-1)), ragged(draw(3).softmax(-1))
    assert F.kl_div(x, target, reduction="batchmean").item() == pytest.approx(
        F.kl_div(x, target, reduction="sum").item() / 4
    )


def test_ctc_takes_the_lengths_of_rows():
    steps, labels = [9, 5, 8], [3, 0, 2]
    x = [dynograd.randn(length, 7, dtype=dynograd.float64).log_softmax(-1).requires_grad_() for length in steps]
    targets = [dynograd.randint(1, 7, (length,)) for length in labels]
    together = nn.CTCLoss(reduction="none")(dynograd.ragged_tensor(x), dynograd.ragged_tensor(targets))
    for number in range(3):
        alone = F.ctc_loss(x[number], targets[number], steps[number], labels[number], reduction="none")
        assert together[number].item() == pytest.approx(alone.item())
    g = dynograd.autograd.grad(together.sum(), x, retain_graph=True)
    assert all(element.abs().sum() > 0 for element in g)


def test_nothing_but_empty_rows():
    x = dynograd.ragged_tensor([dynograd.zeros(0, 3), dynograd.zeros(0, 3)])
    target = dynograd.ragged_tensor([dynograd.zeros(0).long(), dynograd.zeros(0).long()])
    assert F.cross_entropy(x, target, reduction="sum").item() == 0
    assert numpy.isnan(F.cross_entropy(x, target).item())
    assert numpy.isnan(F.cross_entropy(x, target, reduction="sequence_mean").item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "sequence_mean"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"ignore_index": -1}])
def test_scores_of_the_places_of_each_row(reduction, options):
    rows = [dynograd.randn(length, dtype=dynograd.float64).requires_grad_() for length in (4, 1, 6, 3)]
    target = dynograd.tensor([2, 0, 5, 1])
    if options.get("ignore_index"):
        target[1] = -1
    result = F.cross_entropy(dynograd.ragged_tensor(rows), target, reduction=reduction, **options)
    each = [F.cross_entropy(row[None], at[None], reduction="none", **options)[0] for row, at in zip(rows, target)]
    count = (target != options.get("ignore_index", -100)).sum()
    total = sum(each)
    expected = {"none": dynograd.stack(each), "sum": total}.get(reduction, total / count)
    assert numpy.allclose(result.detach(), expected.detach())
    for element, two in zip(*[dynograd.autograd.grad((y**2).sum(), rows) for y in (result, expected)]):
        assert numpy.allclose(element, two)
    if not options.get("label_smoothing"):
        scores = dynograd.ragged_tensor(rows).log_softmax(1)
        assert numpy.allclose(F.nll_loss(scores, target, reduction=reduction, **options).detach(), result.detach())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "sequence_mean"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"ignore_index": -1}])
@pytest.mark.parametrize("extra", [0, 2])
def test_each_token_chooses_a_place_of_its_row(reduction, options, extra):
    """Heads of words: scores (places, tokens) of each sentence, as `cross_entropy` of dense scores (B, C, T) has them."""
    lengths = [4, 1, 6, 3]
    rows = [dynograd.randn(length + extra, length, dtype=dynograd.float64).requires_grad_() for length in lengths]
    heads = [dynograd.randint(0, length + extra, (length,)) for length in lengths]
    if options.get("ignore_index"):
        heads[2][1] = -1
    target = dynograd.ragged_tensor(heads)
    result = F.cross_entropy(dynograd.ragged_tensor(rows, ragged_dims=(1, 2)), target, reduction=reduction, **options)
    each = [F.cross_entropy(row.T, head, reduction="none", **options) for row, head in zip(rows, heads)]
    counted = [(head != -1).sum() for head in heads]
    total = sum(entry.sum() for entry in each)
    expected = {
        "none": dynograd.cat(each),
        "sum": total,
        "mean": total / sum(counted),
        "sequence_mean": sum(entry.sum() / count for entry, count in zip(each, counted)) / 4,
    }[reduction]
    result = result.values() if reduction == "none" else result
    assert numpy.allclose(result.detach(), expected.detach())
    for element, two in zip(*[dynograd.autograd.grad((y**2).sum(), rows) for y in (result, expected)]):
        assert numpy.allclose(element, two)
    if extra:
        turned = dynograd.ragged_tensor([row.T for row in rows], ragged_dims=(1, 2))
        y = F.cross_entropy(turned, target, reduction=reduction, **options)
        assert numpy.allclose((y.values() if reduction == "none" else y).detach(), result.detach())


x = dynograd.ragged_tensor([dynograd.zeros(2, 3), dynograd.zeros(1, 3)])
ERRORS = [
    (lambda: F.cross_entropy(x, dynograd.ragged_tensor([dynograd.zeros(1).long(), dynograd.zeros(1).long()])), RuntimeError, "row 0", "2", "1"),
    (lambda: F.cross_entropy(x, dynograd.zeros(3).long()), NotImplementedError, "target is not", "(3,)", "ragged_like"),
    (lambda: F.cross_entropy(dynograd.zeros(2, 3), dynograd.ragged_tensor([dynograd.zeros(1).long()])), NotImplementedError, "input is not", "ragged_from_padded"),
    (lambda: F.cross_entropy(x, dynograd.ragged_tensor([dynograd.tensor([0, 5]), dynograd.tensor([1])])), IndexError, "5"),
    (lambda: F.cross_entropy(x[..., 0], dynograd.tensor([1])), RuntimeError, "target (2,)", "(1,)"),
    (lambda: F.cross_entropy(x[..., 0], dynograd.tensor([1, 1])), IndexError, "row 1", "1"),
    (lambda: F.cross_entropy(x[..., 0], dynograd.tensor([1, 0]), dynograd.ones(2)), NotImplementedError, "Leave weight out"),
    (lambda: F.cross_entropy(x, x, reduction="median"), ValueError, "median", "reduction"),
    (lambda: F.ctc_loss(x, dynograd.ragged_tensor([dynograd.tensor([1]), dynograd.tensor([1])]), dynograd.tensor([2, 1])), ValueError, "input_lengths", "Leave it out"),
    (lambda: F.ctc_loss(dynograd.zeros(2, 1, 3), dynograd.tensor([[1]])), TypeError, "input_lengths", "missing"),
    (lambda: F.mse_loss(x, dynograd.ragged_tensor([dynograd.zeros(1, 3), dynograd.zeros(1, 3)])), RuntimeError, "row 0"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(case):
    call, kind, *words = case
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
