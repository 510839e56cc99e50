"""Checksums of tensors' bits."""

import numpy
import pytest

import dynograd
from dynograd import tensor
from tests.ops.harness import Row, error, generate


def by_numpy(x, dim=None, keepdim=False):
    wide = x.astype(numpy.float64 if x.dtype.kind == "f" else numpy.int64)
    return numpy.bitwise_xor.reduce(wide.view(numpy.uint64), axis=dim, keepdims=keepdim)


ROWS = [
    Row("hash_tensor", None, shapes=[(3, 4)], dtypes=("float32", "float64", "int64", "int32"), kwargs=kwargs, result="uint64", grad=False, empty=False, id=str(kwargs), errors=errors)
    for kwargs, errors in (
        ({"dim": 1}, [error(lambda op: op(dynograd.zeros(2), mode=1), RuntimeError, "hash_tensor", "mode=0", "1")]),
        ({"dim": 0, "keepdim": True}, [error(lambda op: op(tensor([1j])), TypeError, "hash_tensor", "complex64", "view_as_real")]),
        ({"dim": (0, 1)}, [error(lambda op: op(dynograd.zeros(0, 3), 0), RuntimeError, "hash_tensor", "non-zero size", "(0, 3)")]),
    )
]  # fmt: skip
test_rows = generate(ROWS)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1000])
def test_any_order_and_every_bit(count):
    x = dynograd.randn(count)
    whole = x.hash_tensor()
    assert whole.dtype is dynograd.uint64 and whole.shape == ()
    assert whole.item() == x.flip(0).hash_tensor().item() == int(by_numpy(x.numpy()))
    x[count // 2] = numpy.nextafter(x[count // 2].item(), numpy.float32(9))
    assert x.hash_tensor().item() != whole.item()


def test_numbers_and_bools():
    assert dynograd.hash_tensor(tensor(True)).item() == 1
    assert dynograd.hash_tensor(tensor([1, 2, 4])).item() == 7
