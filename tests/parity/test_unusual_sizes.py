"""Ops on operands of unusual sizes give PyTorch's results and gradients, and refuse what it refuses."""

import warnings

import numpy
import pytest
import torch

import dynograd
from tests.plans.unusual_sizes import expressions, leaves_of, operands_of, results_of

EVERYTHING = list(expressions())
FAMILIES = list(dict.fromkeys(family for family, _ in EVERYTHING))
BATCHES = (5, 1, 0, 7)
CRASHES = {"F.pdist(a)"}  # PyTorch's backward of no rows
# Text of the expression: why it is otherwise here.
TAKEN = {
    "a.repeat(*[1] * a.dim())": "repeat() of a tensor without dims needs no arguments",
    "a.repeat(*[0] * a.dim())": "the same",
    "a.permute(*reversed(range(a.dim())))": "so does permute()",
    "a.repeat_interleave(2, 0)": "a tensor without dims has dim 0",
    "a.bernoulli(1.0)": "has a gradient of zeros",
    "a.floor_divide(0.3)": "has a gradient of zeros",
    "a.heaviside(b)": "has a gradient of zeros",
    "a.unique()": "has no gradient",
    "torch.fft.fft(a).abs()": "of no rows is nothing",
    "torch.fft.rfft(a).abs()": "of no rows is nothing",
    "F.soft_margin_loss(a, b.sign())": "the target may have a gradient",
    "a.index_add(0, i, a[0])": "a slice without dims is one of size 1",
    "F.pixel_shuffle(a[:, :, None, None], 2)": "of no images is none",
    "nn.RNN(4, 3)(a[:, None])[0]": "no steps are none",
    "nn.LSTM(4, 3)(a[:, None])[0]": "no steps are none",
    "nn.GRU(4, 3)(a[:, None])[0]": "no steps are none",
}
REFUSED = {
    "a.index_fill(0, torch.tensor([0]), 2.0)": "an index of a dim without elements is out of range",
    "a.clone().index_fill_(0, torch.tensor([0]), 0.0)": "the same",
}
OTHERWISE = {
    "torch.trapezoid(a)": "of nothing has a history of zeros",
    "F.multi_margin_loss(a, i)": "the mean of no rows is NaN; PyTorch reads memory that nobody has written",
}


def run(expression, library, arrays):
    """The results and the gradients, or None where the library refuses."""
    leaves = leaves_of(expression, library, arrays)
    try:
        results = results_of(expression, library)(*leaves)
    except Exception:
        return None
    return [described(results, library), described([leaf.grad for leaf in leaves], library)]


def described(value, library):
    if isinstance(value, library.Tensor):
        values = value.detach().resolve_conj()
        values = values.numpy(force=True) if library is torch else values.numpy()
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), value.requires_grad, numpy.asarray(values)
    if isinstance(value, (list, tuple)):
        return [described(each, library) for each in value]
    return value


def compare(ours, theirs, values):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for each, other in zip(ours, theirs):
            compare(each, other, values)
    elif isinstance(theirs, tuple):
        assert ours[:3] == theirs[:3]
        if values:
            numpy.testing.assert_allclose(ours[3], theirs[3], 2e-4, 2e-5)
    elif isinstance(theirs, float):
        numpy.testing.assert_allclose(ours, theirs, 2e-4, 2e-5)
    else:
        assert ours == theirs


@pytest.mark.parametrize("family", FAMILIES)
def test_expressions(family):
    failed = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for expression in [expression for its, expression in EVERYTHING if its == family]:
            text = expression.text
            for batch in BATCHES if "B" in expression.title else BATCHES[:1]:
                if text in CRASHES:
                    continue
                arrays = operands_of(expression, batch, 0)
                theirs, ours = run(expression, torch, arrays), run(expression, dynograd, arrays)
                try:
                    if theirs is None or ours is None:
                        assert (theirs is None) == (ours is None) or text in (REFUSED if ours is None else TAKEN)
                    elif text not in OTHERWISE:
                        compare(ours, theirs, family != "module")  # whose weights are drawn otherwise
                except AssertionError as error:
                    failed.append(f"{expression.title}, B = {batch}: {error}")
    assert not failed, "\n".join(failed)
