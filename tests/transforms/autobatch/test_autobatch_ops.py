"""Every op inside `autobatch`: the rows of `tests/ops` on three examples give what a plain loop gives, gradients too, in groups.

The first example's arguments are known, those of the others are still to come.
"""

import warnings
from functools import partial

import numpy
import pytest

import dynograd
from dynograd.ops.op import registry
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.autobatch.record.pending import Lazy
from tests.ops.arguments import Subject, as_tuple, converted, draw, widened
from tests.ops.tables import families, rows_of, title_of
from tests.support.cases import run_all

REFUSED: dict[str, str] = {}  # what rows ran one by one
RUN: set[str] = set()
SIZE = 3


def batch_of(array, rng):
    if array.dtype.kind == "f":
        return numpy.stack([array * (1 - 0.03 * number * rng.random(array.shape)) for number in range(SIZE)])
    if array.dtype.kind in "iu" and array.ndim:
        return numpy.stack([array, array[::-1], numpy.roll(array, 1)])
    return numpy.stack([array] * SIZE)


@pytest.mark.parametrize("family", families())
def test_rows(family):
    run_all(family, [(title_of(row), partial(check_row, row)) for row in rows_of(family)])
    RUN.add(family)


def check_row(row):
    subject = Subject(row)
    name = next((name for name in ("float64", "float32") if name in row.dtypes), row.dtypes[0])
    if row.name.startswith("chain_"):
        return  # the lengths of its sequences must fit: other examples are not made by scaling
    arguments = draw(row).map(lambda array: converted(array, name))
    leaves = arguments.leaves()
    if not leaves:
        return
    rng = numpy.random.default_rng(11)
    wide = [batch_of(array, rng) for array in leaves]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        differentiable = subject.differentiable and subject.row.grad is not False
        try:
            expected = run(subject, arguments, wide, differentiable, False)
        except (ValueError, IndexError, RuntimeError, TypeError):
            return  # examples outside the op's domain
        dynograd.manual_seed(3)
        with dynograd.autobatch(always=True) as report:
            results = run(subject, arguments, wide, differentiable, True)
    tolerance = 1e-5 if name == "float32" else 1e-9
    for element, other in zip(results, expected, strict=True):
        if other is None and element is not None:  # rows of a group that nobody used: zeros, see docs/autobatch.md
            assert not element.any()
            continue
        assert (element is None) == (other is None)
        if element is not None:
            assert element.dtype == other.dtype and element.shape == other.shape
            numpy.testing.assert_allclose(widened(element), widened(other), rtol=tolerance, atol=tolerance / 10)
    refused = {(op, why) for op, why, _ in report.refused}
    REFUSED.update(refused)
    assert all(why == registry[op].row["at_once"] or registry[op].row["partly_at_once"] for op, why in refused), refused


def run(subject, arguments, wide, differentiable, lazy):
    """Values of all examples, then gradients."""
    dynograd.manual_seed(3)
    sources = [wrap(many.copy()) for many in wide]
    for source in sources:
        if differentiable and source.dtype.is_floating_point:
            source.requires_grad = True
    rng = numpy.random.default_rng(2)
    outputs, total = [], 0.0
    for number in range(SIZE):
        operands = [element[number] for element in sources]
        if lazy and number and not subject.row.name.startswith("as_strided"):  # a place in the examples' common memory
            operands = [waiting(operand) for operand in operands]
        results = as_tuple(subject.run(arguments.with_leaves(operands)))
        for source in results:
            if isinstance(source, Tensor):
                outputs.append(source)
                if source.requires_grad:
                    factor = wrap(rng.uniform(-1, 1, tuple(source.shape)).astype(source.dtype.numpy))
                    total = total + (source * factor).sum().real
    if isinstance(total, Tensor) and total.requires_grad:
        total.backward()
    values = [output.detach().numpy() for output in outputs]
    assert not any(type(output) is Lazy and not output.pending.bucket.done for output in outputs)
    return values + [None if element.grad is None else element.grad.numpy() for element in sources]


def waiting(one):
    """The same tensor as the result of a recorded call."""
    nothing = dynograd.zeros(()) + 0.0
    created = one.logical_or(nothing.bool()) if one.dtype is dynograd.bool else one - nothing.to(one.dtype)
    assert type(created) is Lazy
    return created


def test_exceptions_are_ops_and_none_too_many():
    assert not any(entry.row["at_once"] and entry.row["partly_at_once"] for entry in registry.values())
    if len(RUN) < len(families()):
        pytest.skip("only some rows have run")
    no_row = {"varlen_attention"}
    partly = {entry.name for entry in registry.values() if entry.row["partly_at_once"]}
    assert partly - no_row <= {*REFUSED}, "these batch now: take them off the list"
