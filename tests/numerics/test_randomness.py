"""Random streams pass the tests of `randomness`, and streams that are not random do not. Seeds are fixed, so that results are."""

from __future__ import annotations

import numpy as np
import pytest

from tests.numerics import randomness
from tests.numerics.randomness import BITS, DRAWS, SOURCES

_LEAST = 1e-5  # of a p-value: some 300 of them are looked at
_WORDS = 1 << 15


@pytest.fixture(scope="module")
def bits():
    return {name: randomness.bits_of_words(source(3, words)) for name, (source, words) in SOURCES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_bits(source, bits):
    for name, test in BITS.items():
        for value in test(bits[source]):
            assert value > _LEAST, (source, name, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    for value in DRAWS[name](5, 100_000):
        assert _LEAST < value < 1 - _LEAST / 10, (name, value)


def _congruential(count):
    """Words of a linear congruential generator modulo 2**32, whose low bits repeat soon."""
    words, state = np.empty(count, np.uint32), 1
    for place in range(count):
        state = (1664525 * state + 1013904223) & 0xFFFFFFFF
        words[place] = state
    return words


def _biased(count):
    draw = np.random.default_rng(0)
    return np.packbits(draw.random(32 * count) < 0.505).view(np.uint32)


def _repeated(count):
    return np.tile(np.random.default_rng(0).integers(0, 1 << 32, count // 8, np.uint32), 8)


def _sticky(count):
    """Bits that are as the one before slightly more often."""
    draw = np.random.default_rng(0)
    return np.packbits(np.cumsum(draw.random(32 * count) < 0.495) & 1, bitorder="little").view(np.uint32)


def _shifted(count):
    """A shift register of 31 bits: of small linear complexity."""
    bits = np.random.default_rng(0).integers(0, 2, 32 * count).astype(np.uint8)
    for place in range(31, bits.size):
        bits[place] = bits[place - 31] ^ bits[place - 3]
    return np.packbits(bits, bitorder="little").view(np.uint32)


def _few_words(count):
    """Sixteen words in random order."""
    draw = np.random.default_rng(0)
    return draw.integers(0, 1 << 32, 16, np.uint32)[draw.integers(0, 16, count)]


def _short_runs(count):
    """Never more than eight ones behind one another."""
    bits = np.random.default_rng(0).integers(0, 2, 32 * count).astype(np.uint8)
    ones = 0
    for place, bit in enumerate(bits.tolist()):
        ones = ones + 1 if bit else 0
        if ones > 8:
            bits[place] = ones = 0
    return np.packbits(bits, bitorder="little").view(np.uint32)


def _returning(count):
    """Pairs of different bits: as many ones as zeros at every second place."""
    bits = np.random.default_rng(0).integers(0, 2, 16 * count).astype(np.uint8)
    return np.packbits(np.stack([bits, 1 - bits], 1).reshape(-1), bitorder="little").view(np.uint32)


# Which tests must notice what.
NOT_RANDOM = {
    _biased: ["frequency", "block frequency", "cumulative sums"],
    _sticky: ["runs"],
    _shifted: ["linear complexity", "matrix rank"],
    _repeated: ["spectrum"],
    _congruential: ["spectrum"],
    _few_words: ["serial", "approximate entropy", "universal", "non-overlapping templates"],
    _short_runs: ["longest run", "overlapping templates"],
    _returning: ["random excursions", "runs", "serial"],
}


@pytest.mark.slow
@pytest.mark.parametrize("stream", NOT_RANDOM, ids=lambda stream: stream.__name__.strip("_"))
def test_streams_that_are_not_random_are_noticed(stream):
    told = randomness.bits_of_words(stream(_WORDS))
    for name in NOT_RANDOM[stream]:
        assert min(BITS[name](told)) < _LEAST, name


def test_examples_of_the_standard():
    """SP 800-22, sections 2.1.8, 2.3.8, 2.13.8: the first 100 binary digits of pi."""
    digits = "1100100100001111110110101010001000100001011010001100001000110100110001001100011001100010100010111000"
    told = np.array([int(digit) for digit in digits], np.uint8)
    assert randomness.frequency(told) == [pytest.approx(0.109599, abs=1e-6)]
    assert randomness.runs(told) == [pytest.approx(0.500798, abs=1e-6)]
    assert randomness.cumulative_sums(told) == [pytest.approx(0.219194, abs=1e-6), pytest.approx(0.114866, abs=1e-6)]
    assert randomness.serial(np.array([0, 0, 1, 1, 0, 1, 1, 1, 0, 1], np.uint8), 3) == [
        pytest.approx(0.808792, abs=1e-6),
        pytest.approx(0.670320, abs=1e-6),
    ]
    assert randomness.approximate_entropy(np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1], np.uint8), 3) == [
        pytest.approx(0.261961, abs=1e-6)
    ]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (np.clip(np.random.default_rng(0).standard_normal(100_000), -2.9, 2.9), lambda x: min(randomness._tails(x))),
        (np.random.default_rng(0).uniform(0, 0.99, 100_000), lambda x: min(randomness._uniform_fit(x))),
        (
            np.repeat(np.random.default_rng(0).standard_normal(50_000), 2),
            lambda x: randomness._correlation(x[::2], x[1::2]),
        ),
    ],
    ids=["no tails", "a gap", "pairs"],
)
def test_draws_that_are_not_random_are_noticed(values, told):
    assert told(values) < _LEAST
