"""Masked functions against loops over what counts, in float64."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import masked, tensor

INF, NAN = float("inf"), float("nan")


def lower_median(values):
    return numpy.sort(values)[(len(values) - 1) // 2] if len(values) else NAN


def spread(values, correction):
    with numpy.errstate(all="ignore"):
        return (
            numpy.square(values - values.mean()).sum() / numpy.maximum(len(values) - correction, 0)
            if len(values)
            else NAN
        )


# Of the elements that count in a row; in a row without any, the value after it.
REDUCTIONS = {
    "sum": (numpy.sum, 0.0),
    "prod": (numpy.prod, 1.0),
    "amax": (numpy.max, -INF),
    "amin": (numpy.min, INF),
    "mean": (numpy.mean, NAN),
    "norm": (numpy.linalg.norm, 0.0),
    "logsumexp": (special.logsumexp, -INF),
    "var": (lambda values: spread(values, 1), NAN),
    "std": (lambda values: numpy.sqrt(spread(values, 1)), NAN),
    "median": (lower_median, NAN),
}


def normalised(values, counts, function):
    result = numpy.zeros(len(values))
    result[counts] = function(values[counts]) if counts.any() else []
    return result if counts.any() else numpy.full(len(values), NAN)


ROWS = {
    "cumsum": lambda values, counts: numpy.cumsum(numpy.where(counts, values, 0)),
    "cumprod": lambda values, counts: numpy.cumprod(numpy.where(counts, values, 1)),
    "softmax": lambda values, counts: normalised(values, counts, special.softmax),
    "softmin": lambda values, counts: normalised(values, counts, lambda row: special.softmax(-row)),
    "log_softmax": lambda values, counts: (
        numpy.where(counts, values - special.logsumexp(values[counts]), -INF) if counts.any() else values * NAN
    ),
}


def data(shape=(4, 5)):
    rng = numpy.random.default_rng(3)
    mask = rng.uniform(size=shape) < 0.6
    mask[0], mask[1] = True, False
    return rng.normal(size=shape) + 0.2, mask


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, keepdim):
    x, mask = data()
    reference, nothing = REDUCTIONS[name]
    expected = numpy.array(
        [reference(row[counts]) if counts.any() else nothing for row, counts in zip(x, mask, strict=True)]
    )
    result = getattr(masked, name)(tensor(x), dim=1, keepdim=keepdim, mask=tensor(mask))
    assert result.shape == ((4, 1) if keepdim else (4,))
    numpy.testing.assert_allclose(result.numpy().reshape(-1), expected, rtol=1e-12)
    plain = getattr(masked, name)(tensor(x), dim=1, keepdim=keepdim)
    numpy.testing.assert_allclose(plain.numpy().reshape(-1), [reference(row) for row in x], rtol=1e-12)
    if name != "median":
        whole = getattr(masked, name)(tensor(x), mask=tensor(mask))
        numpy.testing.assert_allclose(whole.item(), reference(x[mask]), rtol=1e-12)
        both = getattr(masked, name)(tensor(x), dim=(0, -1), mask=tensor(mask))
        assert both.item() == whole.item()


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    x, mask = data()
    result = getattr(masked, name)(tensor(x), -1, mask=tensor(mask))
    expected = [ROWS[name](row, counts) for row, counts in zip(x, mask, strict=True)]
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_masks_broadcast():
    x, mask = data()
    for part in (mask[0], mask[:, :1], mask[0].astype(int), numpy.array(True)):
        whole = numpy.broadcast_to(part, x.shape).astype(bool).copy()
        assert masked.sum(tensor(x), mask=tensor(part)).item() == masked.sum(tensor(x), mask=tensor(whole)).item()


def test_places():
    x, mask = tensor([[1.0, 9.0, 4.0], [2.0, 0.0, 3.0]]), tensor([[True, False, True], [True, False, True]])
    assert masked.argmax(x, 1, mask=mask).tolist() == [2.0, 2.0] and masked.argmin(x, 1, mask=mask).tolist() == [
        0.0,
        0.0,
    ]
    assert masked.argmax(x, mask=mask, dtype=dynograd.int64).item() == 2
    assert masked.argmax(x.long(), 1, keepdim=True, mask=mask).tolist() == [[2], [2]]


def test_normalize_and_logaddexp():
    x, mask = data()
    result = masked.normalize(tensor(x), 3.0, 1, mask=tensor(mask)).numpy()
    size = numpy.where(mask, numpy.abs(x) ** 3, 0).sum(1, keepdims=True) ** (1 / 3)
    numpy.testing.assert_allclose(result, numpy.where(mask, x, 0) / numpy.maximum(size, 1e-12), rtol=1e-12)
    y, other = x[::-1].copy(), mask[::-1].copy()
    result = masked.logaddexp(tensor(x), tensor(y), input_mask=tensor(mask), other_mask=tensor(other)).numpy()
    numpy.testing.assert_allclose(
        result, numpy.logaddexp(numpy.where(mask, x, -INF), numpy.where(other, y, -INF)), rtol=1e-12
    )
    assert masked.norm(tensor([1.0, 2.0]), -INF, mask=tensor([False, False])).item() == INF


def test_corrections():
    x, mask = data()
    counts = mask[2]
    row = tensor(x[2])
    for options, correction in (({"unbiased": False}, 0), ({"unbiased": True}, 1), ({"correction": 2}, 2)):
        expected = spread(x[2][counts], correction)
        numpy.testing.assert_allclose(masked.var(row, mask=tensor(counts), **options).item(), expected, rtol=1e-12)
        numpy.testing.assert_allclose(masked.var(row, **options).item(), spread(x[2], correction), rtol=1e-12)


def test_integers():
    x, mask = tensor([[3, 1, 2], [5, 4, 6]], dtype=dynograd.int32), tensor([[True, False, True], [False, True, True]])
    assert masked.sum(x, 1, mask=mask).dtype is dynograd.int64 and masked.sum(x, 1, mask=mask).tolist() == [5, 10]
    assert masked.prod(x, 1, mask=mask).tolist() == [6, 24]
    assert masked.amax(x, 1, mask=mask).tolist() == [3, 6] and masked.amin(x, 1, mask=mask).dtype is dynograd.int32
    assert masked.amax(x, 1, mask=tensor([False])).tolist() == [-(2**31)] * 2
    assert masked.median(x, 1, mask=mask).tolist() == [2, 4]
    assert masked.mean(x, 1, mask=mask, dtype=dynograd.float64).tolist() == [2.5, 5.0]
    assert masked.sum(x, 1, mask=mask, dtype=dynograd.float32).dtype is dynograd.float32
    assert masked.var(x, 1, mask=mask).dtype is dynograd.float32


@pytest.mark.parametrize("name", [*REDUCTIONS, *ROWS])
def test_gradients(name):
    x, mask = data()
    mask[1, :3] = True
    leaf = tensor(x, requires_grad=True)

    def run(value):
        result = getattr(masked, name)(value, dim=1, mask=tensor(mask))
        return result.where(result.isfinite(), dynograd.zeros_like(result))

    assert dynograd.autograd.gradcheck(run, (leaf,)) and dynograd.autograd.gradgradcheck(run, (leaf,))
    (slope,) = dynograd.autograd.grad(run(leaf).sum(), leaf)
    assert (slope.numpy()[~mask] == 0).all()


def test_of_batches():
    x, mask = data()
    mask[1, 0] = True
    for name in ("sum", "mean", "amax", "logsumexp", "var"):
        function = getattr(masked, name)
        result = dynograd.vmap(lambda one, counts, function=function: function(one, mask=counts))(
            tensor(x), tensor(mask)
        )
        numpy.testing.assert_allclose(result.numpy(), function(tensor(x), 1, mask=tensor(mask)).numpy(), rtol=1e-12)


X = tensor([[1.0, 2.0]])
REFUSED = [
    (lambda: masked.sum(X, mask=tensor([[[True]]])), RuntimeError, "masked.sum: .*\\(1, 1, 1\\).*\\(1, 2\\)"),
    (lambda: masked.mean(X.long()), ValueError, "masked.mean: .*int64"),
    (lambda: masked.median(X.long(), mask=tensor([False])), ValueError, "masked.median: .*fully masked"),
    (lambda: masked.amax(X > 0, mask=tensor([False])), RuntimeError, "masked.amax: .*bool"),
    (lambda: masked.sum(X, (0, 0)), RuntimeError, "masked.sum: .*twice"),
    (lambda: masked.softmax(X, 3), IndexError, "masked.softmax: .*3"),
    (lambda: masked.var(X, unbiased=True, correction=1), ValueError, "Only one"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
