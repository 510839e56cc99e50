"""Rows to lower: forms of picks, extremes, deviations, scans, movements, paddings and convolutions; see `test_lowering.py`."""

from __future__ import annotations

import numpy

import dynograd
from dynograd.kernels.conv.patches_cpu import columns_of_patches
from tests.plans.lowering_rows import Row, index, mask, of, strided, tensor, whole_numbers

F = "float32"


def equals(random, dtype):
    """Numbers of which many are equal, with both zeros and NaN."""
    values = random.choice([-1.0, 0.0, -0.0, 2.0, numpy.nan], (40, 3))
    return dynograd.tensor(values.astype(dtype)).requires_grad_()


def far(random, dtype):
    """Numbers of all sizes, beyond those of whole ones, too."""
    values = random.uniform(-4, 4, (9, 50)) * 10.0 ** random.integers(-3, 30, (9, 50))
    values[0, :5] = numpy.nan, numpy.inf, -numpy.inf, -0.0, 2.0**31
    return dynograd.tensor(values.astype(dtype))


def columns_like(shape, window):
    """The shape of the columns of images."""
    return tuple(columns_of_patches(numpy.zeros(shape), *window).shape)


FORMS = [
    *[Row(name, of((3, 5))) for name in "sin cos tan asinh sinh cosh atan".split()],
    *[Row(name, lambda r, d: (tensor(r, d, 300, 70) * 10.0 ** dynograd.tensor(r.integers(-8, 30, (300, 70))).to(getattr(dynograd, d)),), "large", (F,)) for name in ("sin", "cos")],
    *[Row(name, lambda r, d: ((tensor(r, d, 3, 5) / 3).detach().requires_grad_(),)) for name in ("asin", "acos", "atanh")],
    Row("atan2", of((4, 6), (6,))),
    Row("pow", lambda r, d: (tensor(r, d, 4, 6).detach().abs().requires_grad_(), tensor(r, d, 4, 6)), "tensors"),
    Row("pow", of((4, 6), numbers=(4,)), "4th"),
    Row("pow", lambda r, d: (2.0, tensor(r, d, 4, 6)), "of number"),
    *[Row(name, lambda r, d: (whole_numbers(r, d), whole_numbers(r, d) + 0.25)) for name in ("remainder", "fmod")],
    *[Row(name, lambda r, d: (whole_numbers(r, d), whole_numbers(r, d)), "zeros", rule=False) for name in ("remainder", "fmod", "floor_divide")],
    *[Row(name, lambda r, d: (index(r, 9, 5, 6) - 4, index(r, 9, 5, 6) - 4), "int64", (F,), False) for name in ("bitwise_and", "bitwise_xor")],
    *[Row(name, lambda r, d, n=n: (index(r, 9, 5, 6) - 4, n), f"int64 by {n}", (F,), False) for name in ("remainder", "fmod", "floor_divide") for n in (3, -2, -1)],
    *[Row(name, lambda r, d: (mask(r, 4, 6), mask(r, 6)), "bool", (F,), False) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")],
    Row("bitwise_not", lambda r, d: (mask(r, 4, 6),), "bool", (F,), False),
    # along a dim
    *[
        Row(name, lambda r, d, x=x, dim=dim, places=places, adds=adds: (
            tensor(r, d, *x), dim, index(r, x[dim], *places), *[tensor(r, d, *places)] * adds), f"{x}{dim}{places}")
        for x, dim, places in [((9, 5), 1, (9, 1)), ((9, 5), 0, (7, 5)), ((3, 4, 5), 1, (3, 6, 5)), ((3, 4, 5), 2, (2, 3, 7)), ((7,), 0, (30,)), ((200, 30), 1, (200, 40))]
        for name, adds in [("gather", 0), ("scatter_add", 1)]
    ],
    Row("gather", lambda r, d: (strided(tensor(r, d, 4, 6), (1, 0)), 1, index(r, 6, 4, 8)[:, ::2]), "turned"),
    Row("gather_backward", lambda r, d: (tensor(r, d, 4, 2), 1, index(r, 6, 4, 2), (4, 6))),
    Row("scatter", lambda r, d: (tensor(r, d, 3, 6), 1, dynograd.tensor([[1, 5], [0, 2], [3, 4]]), tensor(r, d, 3, 2))),
    Row("scatter", lambda r, d: (tensor(r, d, 3, 6, 2), 1, dynograd.tensor([[[1], [5]], [[0], [2]]]), None), "zeros"),
    Row("scatter_number", lambda r, d: (tensor(r, d, 3, 6), 1, index(r, 6, 3, 2), 1.5)),
    # extremes, of which some are equal
    *[
        Row(name, lambda r, d, shape=shape, dim=dim: (dynograd.tensor(r.integers(-2, 3, shape).astype(d)).requires_grad_(), *dim), f"{shape}{dim}")
        for name in ("amax", "amin") for shape, dim in [((4, 6), ()), ((3, 4, 5), (1,)), ((3, 4, 5), ((0, 2), True)), ((7,), (0,)), ((300, 300), (0,)), ((2, 70000), (1,))]
    ],
    *[
        Row(name, lambda r, d, shape=shape, dim=dim: (dynograd.tensor(r.integers(-9, 9, shape).astype(d)).requires_grad_(), *dim), f"{shape}{dim}")
        for name in ("max", "min") for shape, dim in [((4, 6), (1, False)), ((3, 4, 5), (1, True)), ((7,), (0, False)), ((300, 300), (0, False))]
    ],
    *[Row(name, of(shape, numbers=dim), f"{shape}{dim}", rule=False) for name in ("argmax", "argmin") for shape, dim in [((4, 6), ()), ((3, 4, 5), (1, True)), ((300, 300), (-1,))]],
    Row("max", lambda r, d: (index(r, 9, 4, 6), 1, False), "int64", (F,), False),
    Row("amax", lambda r, d: (index(r, 9, 4, 6), 0), "int64", (F,), False),
    *[Row(name, lambda r, d, dim=dim: (mask(r, 5, 3, 4), *dim), f"{dim}", (F,), False) for name in ("any", "all", "count_nonzero") for dim in [(), (0,), (2,), ((0, 2),)]],
    *[Row(name, lambda r, d: (index(r, 2, 5, 3), 1), "int64", (F,), False) for name in ("any", "all", "count_nonzero")],
    *[Row(name, lambda r, d: (dynograd.tensor(r.integers(0, 2, (5, 3)).astype(d)), 1), "float", rule=False) for name in ("any", "all", "count_nonzero")],
    Row("sum", lambda r, d: (mask(r, 5, 3), 1), "bool", (F,), False),
    Row("sum", lambda r, d: (index(r, 9, 5, 3), 0), "int64", (F,), False),
    # deviations, norms
    *[Row(name, of(shape, numbers=(dim, 1, keep)), f"{shape}{dim}{keep}") for name in ("var", "std") for shape, dim, keep in [((4, 6), None, False), ((3, 4, 5), 1, True), ((3, 4, 5), (0, 2), False), ((400, 30), 0, False)]],
    *[Row("vector_norm", of(shape, numbers=(p, dim, keep)), f"{p}{dim}{keep}") for p in (0, 1, 2, 3, 2.5, float("inf"), float("-inf")) for shape, dim, keep in [((4, 6), None, False), ((3, 4, 5), 1, True), ((40, 300), (1,), False)]],
    *[Row(name, lambda r, d, p=p: (whole_numbers(r, d), p), f"{p}") for name in ("absolute_power", "signed_power") for p in (0, 0.5, 2, 3, -1, -0.5)],
    *[Row("logsumexp", of((3, 50, 4), numbers=(dim, keep)), f"{dim}{keep}") for dim in (0, 1, 2, (1, 2)) for keep in (True, False)],
    Row("exp_difference", of((3, 50), (3, 1))),
    # scans
    *[Row(name, of((3, 50, 4), numbers=(dim,)), f"{dim}") for name in ("cumsum", "sum_onwards", "cumprod", "cummax", "cummin", "reversed_along") for dim in (0, 1, 2)],
    *[Row(name, of((3, 9000), numbers=(1,)), "long") for name in ("cumsum", "sum_onwards", "cumprod")],
    *[Row("prod", of((3, 5, 4), numbers=(dim, keep)), f"{dim}{keep}") for dim, keep in [(None, False), (1, True), (0, False), (2, False)]],
    Row("prod", lambda r, d: (whole_numbers(r, d), 1), "zeros"),
    *[Row("logcumsumexp", of((3, 5, 4), numbers=(dim,)), f"{dim}") for dim in (0, 1, 2)],
    *[Row("cumprod", lambda r, d, dim=dim: (whole_numbers(r, d), dim), f"zeros {dim}") for dim in (0, 1)],
    *[Row("recurrence", of((3, 7, 4), (3, 7, 4), numbers=(dim,)), f"{dim}", rule=False) for dim in (0, 1, 2)],
    *[Row("behind_one", of((3, 5, 4), numbers=(dim,)), f"{dim}") for dim in (0, 2)],
    Row("swiglu", of((4, 6), (4, 6))),
    Row("cumsum", lambda r, d: (index(r, 9, 5, 6), 1), "int64", (F,), False),
    *[
        Row("scatter_reduce", lambda r, d, how=how, own=own: (tensor(r, d, 3, 6), 1, index(r, 6, 3, 20), dynograd.tensor(r.integers(1, 4, (3, 20)).astype(d)).requires_grad_(), how, own), f"{how}{own}")
        for how in ("prod", "amax", "amin") for own in (True, False)
    ],
    Row("one_hot", lambda r, d: (index(r, 6, 3, 4), 6), dtypes=(F,), rule=False),
    Row("zero_nan", lambda r, d: (dynograd.log(tensor(r, d, 4, 6)).detach().requires_grad_(),)),
    # movements in other orders
    *[Row("flip", of((3, 4, 5), numbers=(dims,)), f"{dims}") for dims in [(0,), (1, 2), ()]],
    *[Row("roll", of((3, 4, 5), numbers=move), f"{move}") for move in [((1,), (0,)), ((-2, 3), (1, 2)), ((4,), (1,)), ((1, 1), (2, 2))]],
    *[Row("repeat", of((3, 4), numbers=(counts,)), f"{counts}") for counts in [(2, 3), (1, 2), (2, 1)]],
    Row("repeat", lambda r, d: (strided(tensor(r, d, 3, 4), (1, 0)), (2, 3)), "turned"),
    *[Row("repeat_interleave", of((3, 4, 2), numbers=(3, dim)), f"{dim}") for dim in (0, 1, 2)],
    *[Row(name, of((2, 5, 7), numbers=(k,)), f"{k}") for name in ("tril", "triu") for k in (0, -2, 3)],
    *[Row("diagonal_backward", of((2, 3), numbers=((2, 3, 4), k, 1, 2)), f"{k}") for k in (0, 1)],
    Row("diagonal", of((4, 5), numbers=(1, 0, 1))),
    Row("diagonal_put", of((4, 5), (4,), numbers=(1, 0, 1))),
    *[Row("unfold", of((3, 9), numbers=(1, size, step)), f"{size}{step}") for size, step in [(3, 3), (3, 2), (2, 4)]],
    *[Row("constant_pad_nd", of((2, 3, 4), numbers=(sides, 1.5)), f"{sides}") for sides in [((0, 0), (1, 2), (3, 0)), ((0, 0), (-1, 2), (1, -2)), ((0, 0), (0, 0), (0, 0))]],
    *[Row("mirrored_pad", of((2, 4, 5), numbers=(sides, mode)), f"{sides}{mode}") for mode in ("reflect", "replicate", "circular") for sides in [((0, 0), (1, 2), (3, 0)), ((0, 0), (0, 0), (2, 2))]],
    # convolutions that are products
    *[
        Row("convolution", of(x, w, (w[0],), numbers=(stride, (0, 0), (1, 1), 1)), f"{x}{w}{stride}")
        for x, w, stride in [((4, 3, 5, 5), (6, 3, 5, 5), (1, 1)), ((4, 3, 5, 6), (7, 3, 1, 1), (1, 1)), ((4, 3, 5, 6), (7, 3, 1, 1), (2, 2))]
    ],
    *[Row("convolution_input_gradient", of(g, w, numbers=(None, x, (1, 1), (0, 0), (1, 1), 1)), f"{x}{w}") for g, x, w in [((4, 6, 1, 1), (4, 3, 5, 5), (6, 3, 5, 5)), ((4, 7, 5, 6), (4, 3, 5, 6), (7, 3, 1, 1))]],
    Row("convolution_input_gradient", of((4, 6, 1, 1), (6, 3, 5, 5), (3,), numbers=((4, 3, 5, 5), (1, 1), (0, 0), (1, 1), 1)), "bias"),
    *[Row("convolution_weight_gradient", of(x, g, numbers=(w, (1, 1), (0, 0), (1, 1), 1)), f"{x}{w}", rule=False) for g, x, w in [((4, 6, 1, 1), (4, 3, 5, 5), (6, 3, 5, 5)), ((4, 7, 5, 6), (4, 3, 5, 6), (7, 3, 1, 1))]],
    *[Row("nll_loss", lambda r, d, reduction=reduction, n=n: (tensor(r, d, n, 7), index(r, 7, n), None, 3, reduction), f"{reduction} {n}") for reduction in ("mean", "sum") for n in (5, 500)],
    Row("nll_loss", lambda r, d: (tensor(r, d, 50, 7), index(r, 7, 50), tensor(r, d, 7, grad=False).abs(), -100, "mean"), "weights"),
    Row("nll_loss", lambda r, d: (tensor(r, d, 50, 7), index(r, 7, 50), None, -100, "none"), "none", rule=False),
    *[Row("group_norm", of(shape, (6,), (6,), numbers=(groups, 1e-5)), f"{shape}{groups}") for shape, groups in [((3, 6, 5), 2), ((2, 6), 1), ((4, 6, 8, 9), 6), ((2, 6, 20, 20), 1)]],
    Row("group_norm", of((3, 6, 5), numbers=(None, None, 2, 1e-5)), "plain"),
    *[Row(name, lambda r, d, n=n: (tensor(r, d, 4, 6), n), f"number {n}") for name in ("remainder", "fmod") for n in (1.5, -0.75)],
    # orders, searches
    *[Row(name, of(shape, numbers=(dim, turned)), f"{shape}{dim}{turned}", rule=False) for name in ("sort", "argsort") for turned in (False, True) for shape, dim in [((4, 6), 0), ((3, 40, 5), 1), ((3, 4, 600), -1), ((300, 70), 0), ((9,), 0)]],
    *[Row(name, lambda r, d, name=name: (equals(r, d), 0, False), "equals", rule=False) for name in ("sort", "argsort")],
    *[Row(name, lambda r, d: (index(r, 9, 20, 30), 0, True), "int64", (F,), False) for name in ("sort", "argsort")],
    Row("sort", lambda r, d: (strided(tensor(r, d, 5, 40, 30), (2, 0, 1)), 1, False), "turned", rule=False),
    *[Row("topk", of(shape, numbers=(k, dim, largest, True)), f"{shape}{k}{dim}{largest}", rule=False) for largest in (True, False) for shape, k, dim in [((4, 6), 2, 0), ((3, 40, 5), 3, 1), ((3, 50), 30, 1), ((50, 3), 30, 0)]],
    Row("topk", lambda r, d: (equals(r, d), 3, 0, True, True), "equals", rule=False),
    *[Row("kthvalue", of((5, 40, 3), numbers=(7, dim, keep)), f"{dim}{keep}", rule=False) for dim, k in ((0, 2), (1, 7), (2, 3)) for keep in (False, True) if k > 6],
    *[Row("median", of((5, 40, 3), numbers=(dim, keep, False)), f"{dim}{keep} of three", rule=False) for dim in (0, 1, 2) for keep in (False, True)],
    *[Row("median", lambda r, d, ignored=ignored: (equals(r, d), 0, False, ignored), f"equals {ignored}", rule=False) for ignored in (True, False)],
    *[Row("median_of_all", of(shape, numbers=(False,)), f"{shape}", rule=False) for shape in [(4, 6), (9,), (300, 300)]],
    *[Row("searchsorted", lambda r, d, a=a, b=b, right=right: (tensor(r, d, *a, grad=False).sort(-1)[0], tensor(r, d, *b, grad=False), None, right, False), f"{a}{b}{right}", rule=False) for right in (False, True) for a, b in [((9,), (4, 6)), ((9,), (300, 70)), ((5, 9), (5, 20)), ((5, 9), (5, 1))]],
    *[Row("isin", lambda r, d, invert=invert: (whole_numbers(r, d), tensor(r, d, 6, grad=False).round(), invert), f"{invert}", rule=False) for invert in (False, True)],
    Row("isin", lambda r, d: (index(r, 50, 30), index(r, 50, 3, 4), False), "int64", (F,), False),
    Row("isin", lambda r, d: (dynograd.log(tensor(r, d, 4, 6)).detach(), dynograd.log(tensor(r, d, 30)).detach(), False), "nan", rule=False),
    Row("searchsorted", lambda r, d: (index(r, 50, 30).sort()[0], index(r, 50, 9, 7), None, True, False), "int64", (F,), False),
    *[Row("whole_places", lambda r, d, how=how: (dynograd.tensor((r.uniform(-3, 3, (4, 6)) * 2).round() / 2).to(getattr(dynograd, d)), how), how, rule=False) for how in ("lower", "higher", "nearest")],
    # windows, sizes, conversions
    *[Row(name, of(shape, numbers=(*sizes, window)), f"{window}") for window in [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 3), (1, 2), (1, 2), (2, 1)), ((2, 2), (1, 1), (0, 0), (2, 2))]
      for name, shape, sizes in [("columns_of_patches", (2, 3, 8, 9), ()), ("patches_of_columns", columns_like((2, 3, 8, 9), window), ((8, 9),))]],
    *[Row("resample", of((2, 3, 7), numbers=(dim, count, how, False, None)), f"{dim}{count}{how}") for how in ("nearest", "nearest-exact", "linear", "cubic", "linear-antialias") for dim, count in [(2, 14), (1, 2), (2, 5), (1, 9)]],
    *[Row("to_copy", lambda r, d, kind=kind: (far(r, d), getattr(dynograd, kind)), f"to {kind}", rule=False) for kind in ("int64", "int32")],
    *[Row("to_copy", lambda r, d, kind=kind: (index(r, 3, 4, 6), getattr(dynograd, kind)), f"int64 to {kind}", (F,), False) for kind in ("int32", "uint8", "int8", "bool")],
    *[Row("to_copy", lambda r, d, kind=kind: (mask(r, 4, 6), getattr(dynograd, kind)), f"bool to {kind}", (F,), False) for kind in ("int64", "uint8")],
    Row("binary_cross_entropy", lambda r, d: [dynograd.tensor(r.uniform(0.02, 0.98, (4, 6)).astype(d)).requires_grad_() for _ in range(2)]),
    *[Row(name, lambda r, d, own=own: (tensor(r, d, 2, 7, 9), index(r, 7, 9, 2).T, None, -100, *own, "mean"), "labels apart") for name, own in (("cross_entropy", (0.0,)), ("nll_loss", ()))],
]  # fmt: skip
