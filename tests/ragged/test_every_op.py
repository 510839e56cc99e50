"""Every op in the table: on ragged tensors it gives what a loop over the rows gives, and so do its first and second derivatives.

`test_any_rows.py` has the same for rows of any lengths, several levels of rows and rows with several ragged dims.
"""

from __future__ import annotations

import functools

import numpy
import pytest

import dynograd
from dynograd.ops.op import registry, rows_with
from dynograd.ragged import RaggedTensor
from dynograd.ragged.refusals import REFUSED
from dynograd.tensor.tensor import Tensor
from tests.ragged.samples import Item, Sample, Values, items

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of the ops, of rows alone and together alike

# Tested by name, in the files beside this one.
APART = frozenset(
    """basic_index getitem vstack row_stack vsplit dropout_again flipud addbmm nonzero argwhere nonzero_static ctc_loss linear_cross_entropy
    lstm_step gru_step fold""".split()
)
# Dims of these are the rows alone; they say so.
ACROSS_ROWS = frozenset("t t_copy msort".split())
NO_TENSORS = frozenset("tril_indices triu_indices".split())
# Gradients of these are no function of the input (signs and phases of vectors), or kernels there have no float64.
PHASES = frozenset("linalg_svd svd linalg_eigh linalg_eig linalg_eigvals lstm_cell gru_cell".split())

ITEMS = list(items())
NAMES = {key.removesuffix(".public") for key in registry}
refused = {key.removesuffix(".public") for names in REFUSED.values() for key in names.split()}


def test_every_op_has_a_rule_or_a_reason():
    known = {one.name for one in ITEMS} | APART | ACROSS_ROWS | NO_TENSORS | {*rows_with("inner")} | refused
    missing = sorted(NAMES - known)
    assert not missing, (
        f"add a line to tests/ragged/calls.txt, or a reason to dynograd/ragged/refusals.py, for {missing}"
    )
    assert len(refused | ACROSS_ROWS) < 0.05 * len(NAMES)


@functools.cache
def sample() -> Sample:
    return Sample([3, 2, 5, 3])


@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_values_and_first_and_second_gradients(item):
    check(item, sample())


# --- comparing ---------------------------------------------------------------------------------------------------------------


def several(found):
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def expected(item: Item, made: Sample):
    if item.mode == "all":
        return several(item.run(made.together()))
    rows = [several(item.run(made.row(k) if item.mode == "rows" else made.single(k))) for k in range(len(made.lengths))]
    return [[one[0] if item.mode == "rows" else one for one in row] for row in rows]


def alone(item: Item, made: Sample, number: int) -> tuple[Values, tuple]:
    """The arguments of one row, or of all elements (number -1), and what the op gives for them; both may be differentiated."""
    wants = item.name not in PHASES
    if number < 0:
        values = made.together(wants)
    else:
        values = made.row(number, wants) if item.mode == "rows" else made.single(number, wants)
    return values, several(item.run(values))


def check(item: Item, made: Sample, apart: list[tuple[Values, tuple]] | None = None):
    """Values, and first and second gradients; `apart`: what `alone` gave for each row."""
    if apart is None:
        numbers = [-1] if item.mode == "all" else range(len(made.lengths))
        apart = [alone(item, made, number) for number in numbers]
    if item.mode == "all":
        compare(item.run(made.whole()), apart[0][1], item, made)
    else:
        rows = [[one[0] if item.mode == "rows" else one for one in results] for _, results in apart]
        compare(item.run(made.whole()), rows, item, made)
    check_gradients(item, made, apart)


def at(x, place):
    for number in place:
        x = x[number]
    return x


def elements(x):
    """The packed elements, of the lowest level."""
    while isinstance(x, RaggedTensor):
        x = x.packed
    return x


def compare(found, wanted, item: Item, made: Sample):
    found = several(found)
    if item.mode == "all":
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(elements(one), other)
        return
    for place, row in zip(made.places, wanted, strict=True):
        assert len(found) == len(row)
        for one, other in zip(found, row, strict=True):
            same(one if isinstance(one, (bool, int)) else at(one, place), other)


def same(one, other, rtol=1e-7, atol=1e-9):
    if not isinstance(one, Tensor):
        assert one == other
        return
    assert tuple(one.shape) == tuple(other.shape)
    assert one.dtype == other.dtype
    numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=rtol, atol=atol)


def check_gradients(item: Item, made: Sample, apart: list[tuple[Values, tuple]]):
    if item.name in PHASES:
        return
    whole = made.whole(wants=True)
    names = [name for name in item.names if isinstance(whole[name], Tensor) and whole[name].requires_grad]
    found = derivatives(item.run(whole), [whole[name] for name in names])
    if found is None:
        return
    if item.mode == "all":
        ((together, results),) = apart
        wanted = derivatives(results, [together[name] for name in names])
        for ours, theirs in zip(found, wanted, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                if one is None or other is None:
                    assert nothing(one) and nothing(other)
                    continue
                same(
                    elements(one) if isinstance(one, RaggedTensor) else one.reshape(tuple(other.shape)),
                    other,
                    1e-6,
                    1e-7,
                )
        return
    for place, (values, results) in zip(made.places, apart, strict=True):
        wanted = derivatives(results, [values[name] for name in names])
        for ours, theirs in zip(found, wanted, strict=True):
            for name, one, other in zip(names, ours, theirs, strict=True):
                if one is None or other is None:
                    assert nothing(one if one is None else at(one, place)) and nothing(other), name
                else:
                    same(at(one, place), other[0] if item.mode == "rows" else other, 1e-6, 1e-7)


def nothing(gradient):
    """Whether there is no gradient, or one of zeros."""
    return gradient is None or not gradient.abs().sum().item()


def derivatives(found, inputs):
    """First gradients of a sum that weighs each element with itself, and gradients of the sum of their squares."""
    outputs = [one for one in several(found) if isinstance(one, Tensor) and one.requires_grad]
    if not outputs:
        return None
    first = dynograd.autograd.grad(total(outputs), inputs, create_graph=True, allow_unused=True)
    again = [one for one in first if one is not None and one.requires_grad]
    if not again:
        return [first, [None] * len(first)]
    second = dynograd.autograd.grad(sum((real(one) ** 2).sum() for one in again), inputs, allow_unused=True)
    return [first, second]


def total(outputs):
    return sum((real(one) * (0.3 + 0.7 * real(one).detach())).sum() for one in outputs)


def real(one):
    return dynograd.view_as_real(one.resolve_conj() if one.is_conj() else one) if one.dtype.is_complex else one
