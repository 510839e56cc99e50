"""The CTC loss and `segment_reduce` against PyTorch: values and gradients. (PyTorch has no second order of either.)"""

import numpy
import pytest
import torch

import dynograd

RNG = numpy.random.default_rng(0)
T, N, C = 12, 4, 6
SCORES = RNG.normal(size=(T, N, C))
TARGETS = numpy.array([[1, 2, 3], [2, 2, 5], [4, 4, 4], [1, 5, 1]])
FLAT = numpy.array([1, 2, 3, 2, 4, 4, 1, 5])

# Expressions over torch, F, x (scores), lp (their log_softmax), padded, flat
LOSSES = [
    "F.ctc_loss(lp, padded, (12, 10, 8, 5), (3, 3, 3, 3))",
    "F.ctc_loss(lp, padded, torch.tensor([12, 10, 8, 5]), torch.tensor([3, 1, 0, 2]), reduction='sum')",
    "F.ctc_loss(lp, padded.int(), [12, 10, 8, 5], [3, 1, 0, 2], reduction='none')",
    "F.ctc_loss(lp, flat, (12, 10, 8, 5), (3, 1, 2, 2))",
    "F.ctc_loss(lp, flat.to(torch.uint8), torch.tensor([12, 10, 8, 5]), torch.tensor([3, 1, 2, 2]), blank=0)",
    "F.ctc_loss(lp, padded, (12, 10, 3, 2), (3, 3, 3, 3), zero_infinity=True)",
    "F.ctc_loss(lp, padded, (12, 10, 3, 0), (3, 3, 3, 0), reduction='none')",
    "F.ctc_loss(lp, padded * 0, (12, 10, 8, 5), (0, 0, 0, 0), reduction='sum')",
    "F.ctc_loss(lp, 5 - padded, (12, 10, 8, 5), (3, 3, 3, 3), blank=5, reduction='none')",
    "F.ctc_loss(x, padded, (12, 10, 8, 5), (3, 2, 1, 3), reduction='none')",
    "F.ctc_loss(x.transpose(0, 1).contiguous().transpose(0, 1), padded, (12, 10, 8, 5), (3, 2, 1, 3))",
    "F.ctc_loss(lp[:, 0], padded[0], torch.tensor(12), torch.tensor(3))",
    "F.ctc_loss(lp[:, 0], padded[:1], (12,), (3,), reduction='none')",
    "F.ctc_loss(lp.float(), padded, (12, 10, 8, 5), (3, 3, 3, 3))",
    "torch.ctc_loss(lp, padded, (12, 10, 8, 5), (3, 3, 3, 3), 0, 2, True)",
    "torch.nn.CTCLoss(4, 'sum', True)(lp, padded % 4, (12, 10, 8, 5), (3, 3, 3, 3))",
]
MISTAKES = [
    "F.ctc_loss(lp, padded, (13, 10, 8, 5), (3, 3, 3, 3))",
    "F.ctc_loss(lp, padded, (12, 10, 8, 5), (3, 3, 3, 4))",
    "F.ctc_loss(lp, padded, (12, 10, 8), (3, 3, 3, 3))",
    "F.ctc_loss(lp, padded, (12, 10, 8, -5), (3, 3, 3, 3))",
    "F.ctc_loss(lp, padded[:3], (12, 10, 8, 5), (3, 3, 3, 3))",
    "F.ctc_loss(lp, flat, (12, 10, 8, 5), (3, 3, 3, 3))",
    "F.ctc_loss(lp, padded, (12, 10, 8, 5), (3, 3, 3, 3), blank=6)",
    "F.ctc_loss(lp, padded, (12, 10, 8, 5), (3, 3, 3, 3), reduction='most')",
    "F.ctc_loss(lp[:0], padded, (0, 0, 0, 0), (3, 3, 3, 3))",
    "torch.segment_reduce(x, 'most', lengths=torch.tensor([12]))",
    "torch.segment_reduce(x, 'sum')",
    "torch.segment_reduce(x, 'sum', lengths=torch.tensor([3, 3]))",
    "torch.segment_reduce(x, 'sum', lengths=torch.tensor([13, -1]))",
    "torch.segment_reduce(x, 'sum', offsets=torch.tensor([0, 8, 6, 12]))",
    "torch.segment_reduce(x, 'sum', lengths=torch.tensor([1, 3]), axis=1)",
    "torch.segment_reduce(x, 'sum', lengths=torch.tensor([12]), axis=3)",
]


def reductions():
    bounds = [
        "lengths=torch.tensor([5, 0, 6, 1])", "offsets=torch.tensor([0, 5, 5, 11, 12])", "lengths=torch.tensor([[1, 3], [4, 0]] * 6), axis=1",
        "offsets=torch.tensor([[0, 1, 4], [0, 4, 4]] * 6), axis=1", "lengths=torch.full((12, 4, 2), 3), axis=-1",
        "lengths=torch.tensor([5, 1]), unsafe=True",
    ]  # fmt: skip
    for reduce in ("sum", "mean", "max", "min", "prod"):
        for bound in bounds:
            for initial in ("", ", initial=0.5"):
                for data in ("x", "x.round()"):
                    yield f"torch.segment_reduce({data}, '{reduce}', {bound}{initial})"


def evaluate(library, expression):
    """(value, gradient of the scores) by either library."""
    x = library.tensor(SCORES, requires_grad=True)
    functional = library.nn.functional
    names = dict(
        torch=library,
        F=functional,
        x=x,
        lp=functional.log_softmax(x, -1),
        padded=library.tensor(TARGETS),
        flat=library.tensor(FLAT),
    )
    result = eval(expression, names)
    seed = library.arange(1.0, result.numel() + 1).to(result.dtype).reshape(result.shape)
    (slope,) = library.autograd.grad(result, x, seed)
    return result, slope


@pytest.mark.parametrize("expression", [*LOSSES, *reductions()])
def test_values_and_gradients(expression):
    (mine, slope), (other, other_slope) = evaluate(dynograd, expression), evaluate(torch, expression)
    assert str(mine.dtype).split(".")[-1] == str(other.dtype).split(".")[-1] and tuple(mine.shape) == tuple(other.shape)
    near = dict(rtol=2e-5, atol=2e-5) if mine.dtype == dynograd.float32 else dict(rtol=1e-9, atol=1e-10)
    numpy.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), **near)
    numpy.testing.assert_allclose(slope.numpy(), other_slope.numpy(), **near)


@pytest.mark.parametrize("expression", MISTAKES)
def test_mistakes_are_caught_by_pytorchs_except_clauses(expression):
    with pytest.raises(Exception) as theirs:
        evaluate(torch, expression)
    with pytest.raises(type(theirs.value)):
        evaluate(dynograd, expression)
