"""`vmap` of every op: the rows of `tests/ops`, run on three examples at once, equal the same op on each of them.

Each row is tried with all arguments batched, with the first alone and with all but the first; then the gradient inside vmap.
"""

from __future__ import annotations

import inspect
import warnings
from functools import partial

import numpy
import pytest

from dynograd import func
from dynograd.tensor.tensor import Tensor, wrap
from tests.ops.arguments import Arguments, Subject, as_tuple, converted, draw, widened
from tests.ops.tables import families, rows_of, title_of
from tests.support.cases import run_all

SIZE = 3
DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "axis", "source", "destination", "dimension", "start_dim", "end_dim")

# What cannot be one tensor, because its size or structure depends on values that differ, or what reads values as Python numbers.
REFUSED = {
    "where-indices": "as many results as there are True",
    "allclose": "gives a Python bool",
    "equal": "gives a Python bool",
    "getitem-mask-and-array": "as many results as there are True",
    "index_put-mask-accumulate": "as many values as there are True",
    "index_put-mask": "as many values as there are True",
    "nonzero": "as many results as there are True",
    "argwhere": "as many results as there are True",
    "bincount": "as many counts as the largest number",
    "unique": "as many results as there are distinct elements",
    "unique_consecutive": "as many results as there are distinct elements",
    "masked_select": "as many results as there are True",
    "quantile": "q is read as numbers",
    "nanquantile": "q is read as numbers",
    "repeat_interleave": "sizes come from a tensor",
    "tensor_split": "sizes come from a tensor",
    "as_strided_scatter": "strides and offset are those of an example alone in its memory",
    "istft": "the window is checked by its values",
    "dropout": "random: see test_vmap.py",
    "dropout1d": "random: see test_vmap.py",
    "dropout2d": "random: see test_vmap.py",
    "dropout3d": "random: see test_vmap.py",
    "dropout_add": "random: see test_vmap.py",
    "alpha_dropout": "random: see test_vmap.py",
    "feature_alpha_dropout": "random: see test_vmap.py",
}
# Ops that run once per example. May only shrink.
LOOPED = {
    "_of_flat",
    "as_strided",
    "embedding_bag",
    "identity_like",
    "masked_scatter",
    "multilabel_margin_loss",
    "nonzero_static",
    "sparse_product",
    "sparse_sampled",
    "sparse_transposed_product",
    "unfold",
    "view_as_dtype",
}


def batch_of(array, rng):
    """Three arrays like `array`: floating values are scaled a little, so that they stay in the op's domain; others change places."""
    if array.dtype.kind == "f":
        return numpy.stack([array * (1 - 0.03 * number * rng.random(array.shape)) for number in range(SIZE)])
    if array.dtype.kind in "iu" and array.ndim:
        return numpy.stack([array, array[::-1], numpy.roll(array, 1)])
    return numpy.stack([array] * SIZE)


def refused(row):
    name, title = row.name.rpartition(".")[2], title_of(row)
    return name in REFUSED or any(title.startswith(element) for element in REFUSED if "-" in element)


@pytest.mark.parametrize("family", families())
def test_rows(family):
    run_all(family, [(title_of(row), partial(check_row, row)) for row in rows_of(family)])


def check_row(row):
    subject = Subject(row)
    name = next((name for name in ("float64", "float32") if name in row.dtypes), row.dtypes[0])
    arguments = draw(row).map(lambda array: converted(array, name))
    leaves = arguments.leaves()
    if not leaves:
        return
    rng = numpy.random.default_rng(11)
    wide = [batch_of(array, rng) for array in leaves]
    ways = {(True,) * len(leaves), (True, *[False] * (len(leaves) - 1)), (False, *[True] * (len(leaves) - 1))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in sorted(ways - {(False,)}):
            check(subject, arguments, leaves, wide, way)
        turned = counted_from_the_end(subject.function, arguments, leaves[0].ndim)
        if turned is not None:
            check(subject, turned, leaves, wide, (True,) * len(leaves))


def counted_from_the_end(function, arguments, rank):
    """The arguments with negative dims, or None where there are no dims among them."""
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        return None

    def turn(name, value):
        if name in DIMS and type(value) is int and 0 <= value < rank:
            return value - rank
        if name in DIMS and isinstance(value, (tuple, list)) and {*map(type, value)} == {int}:
            return type(value)(turn(name, place) for place in value)
        return value

    turned = Arguments(
        [*map(turn, names, arguments.positional), *arguments.positional[len(names) :]],
        {name: turn(name, value) for name, value in arguments.keywords.items()},
    )
    before = [*arguments.positional, *arguments.keywords.values()]
    after = [*turned.positional, *turned.keywords.values()]
    return None if all(first is second for first, second in zip(before, after, strict=True)) else turned


def check(subject, arguments, leaves, wide, way):
    """Batched arguments where `way` says so, the first example's elsewhere."""

    def given(number):
        return [
            wrap(many[number].copy()) if batched else wrap(element.copy())
            for element, many, batched in zip(leaves, wide, way, strict=True)
        ]

    def run(*values):
        return tuple(
            element for element in as_tuple(subject.run(arguments.with_leaves(values))) if isinstance(element, Tensor)
        )

    try:
        expected = [run(*given(number)) for number in range(SIZE)]
    except (ValueError, IndexError, RuntimeError, TypeError):
        return  # examples outside the op's domain
    inputs = [
        wrap(many.copy()) if batched else wrap(element.copy())
        for element, many, batched in zip(leaves, wide, way, strict=True)
    ]
    dims = tuple(0 if batched else None for batched in way)
    func.vmap_fallbacks(clear=True)
    try:
        compare(func.vmap(run, dims)(*inputs), expected, 1e-5)
    except RuntimeError as error:
        assert refused(subject.row) and "vmap" in str(error), error
        return
    loops = set(func.vmap_fallbacks(clear=True))
    floating = [place for place, element in enumerate(leaves) if element.dtype.kind == "f"]
    if subject.differentiable and subject.row.grad is not False and floating:
        loops |= check_gradient(subject, run, given, inputs, dims, floating)
    assert loops <= LOOPED, f"{loops - LOOPED} have no batch rule"


def check_gradient(subject, run, given, inputs, dims, floating):
    def gradients(*values):
        def loss(*moving):
            full = list(values)
            for place, element in zip(floating, moving, strict=True):
                full[place] = element
            rng = numpy.random.default_rng(2)
            total = 0.0
            for element in run(*full):
                if element.dtype.is_floating_point:
                    factor = wrap(rng.uniform(-1, 1, tuple(element.shape)).astype(element.dtype.numpy))
                    total = total + (element * factor).sum()
            return total

        return func.grad(loss, tuple(range(len(floating))))(*[values[place] for place in floating])

    try:
        expected = [gradients(*given(number)) for number in range(SIZE)]
    except RuntimeError:
        return set()  # nothing to differentiate
    try:
        compare(func.vmap(gradients, dims)(*inputs), expected, 1e-4)
    except RuntimeError as error:  # an argument that is read as numbers gets one gradient, so one value, per example
        assert refused(subject.row) and "vmap" in str(error), error
    return set(func.vmap_fallbacks(clear=True))


def compare(results, expected, tolerance):
    for number in range(SIZE):
        for element, other in zip(results, expected[number], strict=True):
            assert element.dtype is other.dtype
            assert tuple(element.shape[1:]) == tuple(other.shape)
            numpy.testing.assert_allclose(
                widened(element.array[number]), widened(other.array), rtol=tolerance, atol=tolerance / 10
            )
