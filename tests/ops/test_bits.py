"""Logic on bits, and shifts."""

import numpy

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, INTEGERS, Row, error, generate

TWO = [(3, 4), (3, 4)]


def bits(name, reference, **options):
    wrong = error(lambda op: op(tensor([1.0]), tensor([1])), RuntimeError, name, "integer", "float32", ".long()")
    return Row(
        name, reference, shapes=TWO, dtypes=INTEGERS + BOOL, result="same", broadcast=True, errors=[wrong], **options
    )


ROWS = [
    bits("bitwise_and", numpy.bitwise_and),
    bits("bitwise_or", numpy.bitwise_or),
    bits("bitwise_xor", numpy.bitwise_xor),
    Row(
        "bitwise_not",
        lambda x: numpy.invert(x),
        shapes=[(3, 4)],
        dtypes=("int64", "int32", "bool"),
        result="same",
        errors=[error(lambda op: op(tensor([1.0])), TypeError, "bitwise_not", "integer", "float32")],
    ),
    Row("bitwise_left_shift", numpy.left_shift, shapes=TWO, domain=(0, 2), dtypes=INTEGERS, result="same"),
    Row("bitwise_right_shift", numpy.right_shift, shapes=TWO, domain=(0, 2), dtypes=INTEGERS, result="same"),
]
test_rows = generate(ROWS)


def test_numbers_keep_the_dtype_and_uint8_turns_over():
    assert (tensor([5], dtype=dynograd.int32) & 4).dtype is dynograd.int32
    assert (~tensor([1], dtype=dynograd.uint8)).tolist() == [254]
    assert (tensor([True]) & 1).dtype is dynograd.int64


def test_shifts_by_the_whole_width_and_more():
    assert (tensor([1, -1]) << 64).tolist() == [0, 0]
    assert (tensor([1, -1]) >> 64).tolist() == [0, -1]


def test_augmented_shifts_write_in_place():
    x = tensor([1, 6])
    place = x.data_ptr()
    x <<= 2
    x >>= 1
    assert x.tolist() == [2, 12] and x.data_ptr() == place
