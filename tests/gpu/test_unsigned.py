"""uint16, uint32 and uint64 on the GPU, up to their largest values."""

import numpy
import pytest

import dynograd as dg
from dynograd.cuda import driver

CALLS = {
    "add": (lambda x, y: x + y, numpy.add),
    "subtract": (lambda x, y: x - y, numpy.subtract),
    "multiply": (lambda x, y: x * y, numpy.multiply),
    "floor_divide": (lambda x, y: x // y, numpy.floor_divide),
    "remainder": (lambda x, y: x % y, numpy.remainder),
    "add a number": (lambda x, y: x + 1, lambda x, y: x + x.dtype.type(1)),
    "less": (lambda x, y: x < y, numpy.less),
    "and": (lambda x, y: x & y, numpy.bitwise_and),
    "not": (lambda x, y: ~x, lambda x, y: ~x),
    "shift": (lambda x, y: x >> (y % 4), lambda x, y: x >> (y % x.dtype.type(4))),
    "where": (lambda x, y: dg.where(x > y, x, y), numpy.maximum),
    "amax": (lambda x, y: x.amax(), lambda x, y: x.max()),
    "amin": (lambda x, y: y.amin(), lambda x, y: y.min()),
    "argmax": (lambda x, y: x.argmax(), lambda x, y: x.argmax()),
    "argmin": (lambda x, y: y.argmin(), lambda x, y: y.argmin()),
    "sum": (lambda x, y: x.sum(dtype=dg.uint64), lambda x, y: x.sum(dtype="uint64")),
    "cumsum": (lambda x, y: x.cumsum(0, dtype=dg.uint64), lambda x, y: x.cumsum(dtype="uint64")),
    "sort": (lambda x, y: x.sort().values, lambda x, y: numpy.sort(x)),
    "topk": (lambda x, y: x.topk(3).values, lambda x, y: numpy.sort(x)[::-1][:3]),
    "unique": (lambda x, y: x.unique(), lambda x, y: numpy.unique(x)),
    "nonzero": (lambda x, y: x.nonzero()[:, 0], lambda x, y: x.nonzero()[0]),
    "searchsorted": (
        lambda x, y: dg.searchsorted(x.sort().values, y),
        lambda x, y: numpy.searchsorted(numpy.sort(x), y),
    ),
    "float": (lambda x, y: x.float(), lambda x, y: x.astype("float32")),
}


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("name", CALLS)
def test_unsigned(name, kind):
    if name == "not" and driver.is_emulated():
        pytest.skip("Triton's interpreter has no ~ of unsigned integers")
    top = numpy.iinfo(kind).max
    x, y = numpy.random.default_rng(0).integers(1, top, (2, 40), kind, endpoint=True)
    x[3], x[5], y[7] = top, 0, top
    call, reference = CALLS[name]
    result, expected = call(dg.tensor(x).cuda(), dg.tensor(y).cuda()), numpy.asarray(reference(x, y))
    assert result.is_cuda and result.cpu().numpy().dtype == expected.dtype
    assert result.cpu().tolist() == expected.tolist()
