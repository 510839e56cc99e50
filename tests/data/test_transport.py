"""Slots of shared memory, in the process that makes them."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from dynograd.data import DataLoader
from dynograd.data.generators import mix
from dynograd.data.pinning import pinned_batch
from dynograd.data.transport import Slots


def test_arrays_made_in_a_slot_lie_one_behind_the_other():
    slots = Slots()
    slots.capacity = 1 << 20
    shapes = [(100, 50), (3,), (64, 2, 9), (0, 4), (7, 7)]
    for _ in range(3):
        slots.begin()
        arrays = [slots.empty(shape, dtype) for shape in shapes for dtype in ("<f4", "<f8", "u1")]
        for number, array in enumerate(arrays):
            array.fill(number)
        for number, array in enumerate(arrays):
            assert (array == number).all()
        inside = [array for array in arrays if array.base is not None]
        assert len(inside) == len(arrays)
        number, _, places = slots.lay(arrays, sum(array.nbytes for array in arrays))
        ends = [(offset, offset + array.nbytes) for (offset, _, _), array in zip(places, arrays) if array.nbytes]
        assert all(offset % 64 == 0 for offset, _ in ends)
        assert all(end <= begin for (_, end), (begin, _) in zip(sorted(ends), sorted(ends)[1:]))
        slots.sent()
        slots.take_back([number], [])
        assert number == 0  # the same slot each time


def test_what_does_not_fit_lies_elsewhere_and_the_next_slot_is_larger():
    slots = Slots()
    slots.begin()
    first = slots.empty((1 << 15,), "f4")
    assert first.base is None
    first.fill(3)
    number, _, (place,) = slots.lay([first], first.nbytes)
    slots.sent()
    slots.take_back([number], [])
    assert slots.size_of(number) >= first.nbytes and slots.capacity >= first.nbytes
    slots.begin()
    second = slots.empty((1 << 15,), "f4")
    assert second.base is not None and place[0] == 0
    third = slots.empty((slots.capacity,), "u1")
    assert third.base is None


def test_arrays_of_elsewhere_that_do_not_fit_behind_those_in_a_slot_go_to_a_larger_one():
    slots = Slots()
    slots.capacity = 1 << 16
    slots.begin()
    first, second = slots.empty((1 << 15,), "u1"), np.full(1 << 17, 7, "u1")
    assert first.base is not None
    first.fill(3)
    number, _, places = slots.lay([first, second], first.nbytes + second.nbytes)
    assert slots.size_of(number) >= first.nbytes + second.nbytes and len(places) == 2


@pytest.mark.parametrize(
    "number, value",
    [(0, 0xE220A8397B1DCDAF), (1, 0x6E789E6AA1B965F4), (2, 0x06C45D188009454F), (3, 0xF88BB8A8724C81EC)],
)
def test_seeds_are_those_of_splitmix64(number, value):
    """As published by Sebastiano Vigna, for the seed 0."""
    assert mix(0, number) == value


def first_of(samples):
    return samples[0]


def test_arrays_of_objects_come_out_of_workers():
    samples = [np.array([None, "a", number], object) for number in range(4)]
    for received, sample in zip(DataLoader(samples, num_workers=2, collate_fn=first_of), samples, strict=True):
        assert received.dtype == object and received.tolist() == sample.tolist()


class Pinnable:
    """Tells where it was asked to be pinned."""

    def pin_memory(self, device="the current device"):
        return device


Fields = collections.namedtuple("Fields", "x y")


class Rows(list):
    def __init__(self, rows):
        super().__init__(rows)


class Named(dict):
    def __init__(self, *, names):
        super().__init__(names)


@pytest.mark.parametrize(
    "batch, pinned, kind",
    [
        (Pinnable(), "cuda:1", str),
        ({"x": Pinnable(), "y": 3}, {"x": "cuda:1", "y": 3}, dict),
        (Fields(Pinnable(), [Pinnable()]), Fields("cuda:1", ["cuda:1"]), Fields),
        ((Pinnable(), "a"), ("cuda:1", "a"), tuple),
        (Rows([Pinnable(), None]), ["cuda:1", None], Rows),
        (Named(names={"x": Pinnable()}), {"x": "cuda:1"}, dict),
    ],
    ids=["itself", "dict", "namedtuple", "tuple", "own list", "own dict"],
)
def test_whatever_can_be_pinned_in_a_batch_is(batch, pinned, kind):
    result = pinned_batch(batch, "cuda:1")
    assert result == pinned and type(result) is kind
    assert pinned_batch(Pinnable()) == "the current device"
