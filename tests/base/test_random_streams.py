"""A generator is a place in a stream: seeding, reserving, saving and copying it."""

import contextlib
import copy
import pickle
import threading

import numpy
import pytest

from dynograd.base import random_streams
from dynograd.base.devices import device
from dynograd.base.random_streams import Generator, apart, default_generator


def test_new_generator_has_torchs_default_seed():
    assert Generator().state() == (67280421310721, 0)
    assert Generator().initial_seed() == 67280421310721


def test_device_is_recorded():
    assert Generator().device == device("cpu")
    assert Generator("cuda:1").device == device("cuda:1")


@pytest.mark.parametrize(
    "seed, expected",
    [
        (0, 0),
        (5, 5),
        (-1, 2**64 - 1),
        (2**64 + 3, 3),
        (-(2**63), 2**63),
        (numpy.int64(7), 7),
        (3.0, 3),
    ],
)
def test_seeds_are_taken_modulo_2_to_the_64(seed, expected):
    generator = Generator()
    assert generator.manual_seed(seed) is generator
    assert generator.initial_seed() == expected


def test_seed_that_is_no_number_is_refused_by_name():
    with pytest.raises(
        TypeError, match=r"Generator.manual_seed: expected an integer seed, got 'abc'.*manual_seed\(0\)"
    ):
        Generator().manual_seed("abc")


def test_key_hands_out_places_one_after_the_other():
    generator = Generator().manual_seed(3)
    assert [generator.key(4), generator.key(0), generator.key(1), generator.key(2)] == [(3, 0), (3, 4), (3, 4), (3, 5)]
    assert generator.state() == (3, 7)


def test_key_wraps_around_at_the_end_of_the_stream():
    generator = Generator()
    generator.set_plain_state((1, 2**64 - 2))
    assert generator.key(5) == (1, 2**64 - 2)
    assert generator.state() == (1, 3)


def test_negative_count_is_refused():
    with pytest.raises(ValueError, match=r"key: expected a number of blocks >= 0, got -1"):
        Generator().key(-1)


def test_manual_seed_starts_again():
    generator = Generator().manual_seed(3)
    generator.key(9)
    assert generator.manual_seed(3).key(1) == (3, 0)


def test_seed_is_fresh_each_time():
    generator = Generator()
    generator.key(5)
    seeds = {generator.seed() for _ in range(20)}
    assert len(seeds) == 20
    assert generator.state() == (generator.initial_seed(), 0)
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_state_continues_elsewhere():
    element, other = Generator().manual_seed(8), Generator()
    element.key(13)
    other.set_plain_state(element.state())
    assert other.key(1) == element.key(1)


@pytest.mark.parametrize("state", [(1,), (1, 2, 3), None, ("a", 0), (1.5, 0), (-1, 0), (0, 2**64)])
def test_what_is_no_state_is_refused(state):
    generator = Generator()
    with pytest.raises(ValueError, match=r"Generator.set_plain_state: expected .* got .*Use state\(\)"):
        generator.set_plain_state(state)
    assert generator.state() == (67280421310721, 0)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda generator: pickle.loads(pickle.dumps(generator))]
)
def test_copies_continue_on_their_own(duplicate):
    generator = Generator("cuda:0").manual_seed(5)
    generator.key(2)
    created = duplicate(generator)
    assert (created.device, created.state()) == (generator.device, (5, 2))
    created.key(1)
    assert generator.state() == (5, 2)


def test_threads_never_get_the_same_place():
    generator, places = Generator(), []

    def reserve():
        mine = [generator.key(3)[1] for _ in range(2000)]
        places.extend(mine)

    threads = [threading.Thread(target=reserve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(0, 3 * 8000, 3))


def test_repr_shows_the_state():
    assert repr(Generator().manual_seed(1)) == "Generator(device='cpu', seed=1, offset=0)"


def test_default_generator():
    before = random_streams.default_generator.state()
    try:
        assert random_streams.manual_seed(-2) is random_streams.default_generator
        assert random_streams.initial_seed() == 2**64 - 2
        assert random_streams.seed() == random_streams.initial_seed()
        with pytest.raises(TypeError, match=r"^manual_seed: expected an integer seed, got None"):
            random_streams.manual_seed(None)
    finally:
        random_streams.default_generator.set_plain_state(before)


@pytest.mark.parametrize("place", [None, (5, 7)], ids=["of the process", "of the thread"])
def test_a_place_is_exchanged_for_another(place):
    before = default_generator.state()
    with contextlib.nullcontext() if place is None else apart(place):
        own = default_generator.state()
        assert default_generator.exchange((3, 4)) == own
        assert default_generator.key(2) == (3, 4)
        assert default_generator.exchange(own) == (3, 6)
        assert default_generator.state() == own
    assert default_generator.state() == before
