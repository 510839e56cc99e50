"""Padding, packing and back; parameters as a vector."""

from __future__ import annotations

import math

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.gradcheck import gradcheck
from dynograd.nn.utils import rnn
from dynograd.nn.utils.rnn import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)


def sequences(lengths, *rest):
    start, result = 0, []
    for length in lengths:
        result.append(dg.arange(start, start + length * math.prod(rest), dtype=dg.float32).reshape(length, *rest))
        start += 100
    return result


@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
@pytest.mark.parametrize("lengths", [[3, 2, 1], [1, 4, 2, 4], [2], [3, 3]])
@pytest.mark.parametrize("batch_first", [False, True])
def test_round_trips(lengths, rest, batch_first):
    argument = sequences(lengths, *rest)
    padded = pad_sequence(argument, batch_first=batch_first, padding_value=-7.0)
    assert padded.shape == ((len(argument), max(lengths)) if batch_first else (max(lengths), len(argument))) + rest
    for element, other in zip(unpad_sequence(padded, dg.tensor(lengths), batch_first), argument):
        assert dg.equal(element, other)
    packed = pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    assert packed.data.shape == (sum(lengths), *rest)
    assert packed.batch_sizes.tolist() == [sum(length > step for length in lengths) for step in range(max(lengths))]
    back, result = pad_packed_sequence(packed, batch_first, -7.0)
    assert dg.equal(back, padded) and result.tolist() == lengths
    assert all(dg.equal(each, other) for each, other in zip(unpack_sequence(packed), argument))
    for element, other in zip(unpack_sequence(pack_sequence(argument, enforce_sorted=False)), argument):
        assert dg.equal(element, other)


def test_padding_on_the_left_aligns_the_ends():
    padded = pad_sequence([dg.tensor([1, 2, 3]), dg.tensor([4])], True, 9, "left")
    assert padded.tolist() == [[1, 2, 3], [9, 9, 4]]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_sequences_with_and_without_a_gradient_are_padded_alike(batch_first, side, dtype):
    """Those without are written into one array."""
    plain = [(sequence % 2).to(getattr(dg, dtype)) for sequence in sequences([3, 1, 4], 2)]
    beside = [each.clone().as_subclass(dg.nn.Parameter) if place == 1 else each for place, each in enumerate(plain)]
    if dtype == "float32":
        beside[1] = plain[1].clone().requires_grad_()
    expected = numpy.zeros((3, 4, 2) if batch_first else (4, 3, 2))
    for place, element in enumerate(plain):
        part = slice(4 - len(element), 4) if side == "left" else slice(0, len(element))
        (expected if batch_first else expected.swapaxes(0, 1))[place, part] = element.double().numpy()
    for argument in (plain, beside):
        padded = pad_sequence(argument, batch_first, 0.0, side)
        assert padded.dtype is getattr(dg, dtype) and padded.is_contiguous()
        numpy.testing.assert_array_equal(padded.detach().double().numpy(), expected)
    if dtype == "float32":
        padded.backward(dg.ones_like(padded))
        assert (beside[1].grad == 1).all()


def test_a_tensor_is_a_batch_of_sequences():
    assert pad_sequence(dg.tensor([[1, 2], [3, 4]]), batch_first=True).tolist() == [[1, 2], [3, 4]]


def test_integers_stay_integers():
    packed = pack_sequence([dg.tensor([1, 2]), dg.tensor([3])])
    assert packed.data.dtype is dg.int64
    assert pad_packed_sequence(packed)[0].dtype is dg.int64


def test_packed_order_is_time_by_time():
    packed = pack_sequence([dg.tensor([1, 2]), dg.tensor([3, 4, 5]), dg.tensor([6])], enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5] and packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 0, 2] and packed.unsorted_indices.tolist() == [1, 0, 2]


def test_total_length_and_padding_value():
    packed = pack_sequence([dg.tensor([1.0, 2.0]), dg.tensor([3.0])])
    padded, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=4)
    assert padded.tolist() == [[1, 2, -1, -1], [3, -1, -1, -1]] and lengths.tolist() == [2, 1]


def test_gradients_go_through_packing_and_padding():
    rows = [dg.randn(length, 2, dtype=dg.float64, requires_grad=True) for length in (3, 1, 2)]

    def there_and_back(*given):
        return pad_packed_sequence(pack_sequence(given, enforce_sorted=False))[0] ** 2

    assert gradcheck(there_and_back, rows)


def test_lengths_may_be_a_tensor_or_a_list():
    x = dg.arange(6.0).reshape(3, 2)
    element = pack_padded_sequence(x, dg.tensor([3, 1]))
    two = pack_padded_sequence(x, [3, 1])
    assert dg.equal(element.data, two.data) and element.batch_sizes.device == dg.device("cpu")


def test_the_tuple_and_its_conversions():
    packed = pack_sequence([dg.tensor([1.0, 2.0]), dg.tensor([3.0])], enforce_sorted=False)
    data, batch_sizes, sorted_indices, unsorted_indices = packed
    assert data is packed.data and batch_sizes is packed.batch_sizes and unsorted_indices is packed.unsorted_indices
    again = PackedSequence(data * 2, batch_sizes, sorted_indices)
    assert again.unsorted_indices.tolist() == unsorted_indices.tolist()
    assert packed.double().data.dtype is dg.float64 and packed.to(dg.float16).data.dtype is dg.float16
    assert isinstance(packed.to("cpu"), PackedSequence) and not packed.is_cuda and not packed.is_pinned()
    assert packed.pin_memory().data.tolist() == data.tolist()
    for name, kind in (("int", dg.int32), ("short", dg.int16), ("char", dg.int8), ("byte", dg.uint8)):
        assert getattr(packed, name)().data.dtype is kind
    assert packed.to("cpu") is packed and packed.cpu() is packed and packed.to(packed.data.dtype) is packed
    assert packed.long().data.dtype is dg.int64 and packed.half().float().data.dtype is dg.float32


def test_invert_permutation():
    order = dg.tensor([2, 0, 1])
    assert order[invert_permutation(order)].tolist() == [0, 1, 2]
    assert invert_permutation(None) is None


ERRORS = [
    (lambda: pad_sequence([]), RuntimeError, "empty list"),
    (lambda: pad_sequence([dg.zeros(2, 3), dg.zeros(2, 4)]), RuntimeError, r"sequence 0 .*\(2, 3\).* 1 has \(2, 4\)"),
    (lambda: pad_sequence([dg.zeros(2)], padding_side="middle"), ValueError, "'left' or 'right', got 'middle'"),
    (lambda: pack_padded_sequence(dg.zeros(3, 2), [3]), RuntimeError, r"len\(lengths\).*batch_size.*1 and 2"),
    (lambda: pack_padded_sequence(dg.zeros(3, 2), [3, 0]), RuntimeError, r"greater than 0.*lengths\[1\] is 0"),
    (lambda: pack_padded_sequence(dg.zeros(3, 2), [4, 1]), RuntimeError, r"at most 3.*lengths\[0\] is 4"),
    (lambda: pack_padded_sequence(dg.zeros(3, 2), [1, 3]), RuntimeError, r"sorted in decreasing order.*lengths\[1\]=3.*enforce_sorted=False"),
    (lambda: pack_padded_sequence(dg.zeros(3), [3]), RuntimeError, r"at least 2.*\(3,\)"),
    (lambda: pad_packed_sequence(dg.zeros(3)), TypeError, "PackedSequence, got Tensor"),
    (lambda: pad_packed_sequence(pack_sequence([dg.zeros(3)]), total_length=2), ValueError, "total_length=2.*3"),
    (lambda: unpad_sequence(dg.zeros(3, 2), [1]), ValueError, "2 sequences.*1 length"),
    (lambda: nn.utils.vector_to_parameters(dg.zeros(3), [dg.zeros(2)]), RuntimeError, "3 elements.*2"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_everything_is_public():
    assert set(rnn.__all__) <= set(dir(nn.utils.rnn)) and nn.utils.rnn is rnn


# --- parameters as one vector ------------------------------------------------------------------------------------------------


def test_parameters_to_vector_and_back():
    model = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    weight = model.weight
    nn.utils.vector_to_parameters(dg.arange(9.0), model.parameters())
    assert model.weight is weight and weight.tolist() == [[0, 1], [2, 3], [4, 5]] and model.bias.tolist() == [6, 7, 8]
    vector.sum().backward()
    assert model.bias.grad.tolist() == [1, 1, 1]
