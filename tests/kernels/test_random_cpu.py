"""The stream is Philox, both halves compute the same bits, ranges hold at their edges, and the distributions are what they say."""

import math
import subprocess
import sys

import ml_dtypes
import numpy
import pytest
from scipy import stats

import dynograd
from dynograd import arrays
from dynograd.base import dtypes
from dynograd.base.random_streams import default_generator
from dynograd.kernels.build import threads
from dynograd.kernels.random import random_cpu, random_numba
from dynograd.kernels.random.random_formulas import high_product

F32, F64, F16, BF16 = numpy.dtype("f4"), numpy.dtype("f8"), numpy.dtype("f2"), numpy.dtype(ml_dtypes.bfloat16)
FLOATS = [F32, F64, F16, BF16]
COUNT = 200_000

# Random123's known-answer vectors of philox4x32-10: counter, key, result.
KNOWN_ANSWERS = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]

DRAWS = {
    "bits": lambda seed, offset, n: random_cpu.random_bits(seed, offset, n),
    "uniform float32": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), F32),
    "uniform float32 scaled": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), F32, -0.3, 1.7),
    "uniform float64": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), F64),
    "uniform float16": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), F16, 1, 3),
    "uniform bfloat16": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), BF16),
    "uniform complex64": lambda seed, offset, n: random_cpu.uniform(seed, offset, (n,), numpy.complex64),
    "normal float32": lambda seed, offset, n: random_cpu.normal(seed, offset, (n,), F32),
    "normal float64": lambda seed, offset, n: random_cpu.normal(seed, offset, (n,), F64, 1.0, 2.0),
    "normal bfloat16": lambda seed, offset, n: random_cpu.normal(seed, offset, (n,), BF16, 1.0, 2.0),
    "normal complex128": lambda seed, offset, n: random_cpu.normal(seed, offset, (n,), numpy.complex128),
    "exponential float32": lambda seed, offset, n: random_cpu.exponential(seed, offset, (n,), F32, 3.0),
    "exponential float64": lambda seed, offset, n: random_cpu.exponential(seed, offset, (n,), F64),
    "integers": lambda seed, offset, n: random_cpu.integers(seed, offset, (n,), -5, 1000),
    "integers wide": lambda seed, offset, n: random_cpu.integers(seed, offset, (n,), -(2**62), 2**63 - 1),
    "integers all": lambda seed, offset, n: random_cpu.integers(seed, offset, (n,), -(2**63), 2**63),
    "bernoulli number": lambda seed, offset, n: random_cpu.bernoulli(seed, offset, 0.3, (n,), numpy.dtype(bool)),
    "bernoulli array": lambda seed, offset, n: random_cpu.bernoulli(seed, offset, numpy.full(n, 0.3), (n,), F32),
    "dropout float32": lambda seed, offset, n: random_cpu.dropout_mask(seed, offset, (n,), 0.3, F32),
    "dropout float64": lambda seed, offset, n: random_cpu.dropout_mask(seed, offset, (n,), 0.3, F64),
    "dropout bfloat16": lambda seed, offset, n: random_cpu.dropout_mask(seed, offset, (n,), 0.3, BF16),
    "permutation": lambda seed, offset, n: random_cpu.permutation(seed, offset, n),
    "multinomial": lambda seed, offset, n: random_cpu.multinomial(seed, offset, numpy.ones((3, n + 1)), n, True),
    "multinomial race": lambda seed, offset, n: random_cpu.multinomial(seed, offset, numpy.ones((3, n + 1)), n, False),
}


@pytest.fixture
def numpy_only(monkeypatch):
    monkeypatch.setattr(random_cpu, "_compiled", lambda words: None)


@pytest.mark.parametrize("counter, key, expected", KNOWN_ANSWERS)
def test_known_answers_of_philox(counter, key, expected):
    counter, key = numpy.array(counter, numpy.uint64), numpy.array(key, numpy.uint64)
    assert random_cpu.philox(counter.reshape(4, 1), key).ravel().tolist() == expected
    assert [int(word) for word in random_numba.philox(*counter, *key)] == expected


def test_stream_is_philox_of_offset_plus_block():
    seed, offset = 0x299F31D0A4093822, 2**32 - 1
    expected = []
    for place in (offset, offset + 1, offset + 2):
        counter = numpy.array([[place & 0xFFFFFFFF], [place >> 32], [0], [0]], numpy.uint64)
        expected += random_cpu.philox(counter, numpy.array([0xA4093822, 0x299F31D0], numpy.uint64)).ravel().tolist()
    assert random_cpu.random_bits(seed, offset, 10).tolist() == expected[:10]


@pytest.mark.parametrize("seed, offset", [(0, 0), (2**64 - 1, 2**64 - 2), (67280421310721, 2**32 - 3)])
@pytest.mark.parametrize("name", DRAWS)
def test_numpy_and_numba_give_the_same_bits(name, seed, offset, monkeypatch):
    for count in (1, 2, 3, 4, 5, 999):
        monkeypatch.setattr(random_cpu, "_compiled", lambda words: None)
        slow = DRAWS[name](seed, offset, count)
        monkeypatch.setattr(random_cpu, "_compiled", lambda words: random_numba)
        fast = DRAWS[name](seed, offset, count)
        assert slow.dtype == fast.dtype and slow.shape == fast.shape
        assert slow.tobytes() == fast.tobytes()


@pytest.mark.parametrize("name", [name for name in DRAWS if not name.startswith("multinomial")])
def test_two_threads_give_the_bits_of_one(name, monkeypatch):
    monkeypatch.setattr(threads, "_threads", 1)
    alone = DRAWS[name](3, 5, 66_001)
    monkeypatch.setattr(threads, "_threads", 2)
    asked = []
    monkeypatch.setattr(threads, "parts", lambda work: asked.append(work) or 2)
    together = DRAWS[name](3, 5, 66_001)
    assert asked
    assert alone.tobytes() == together.tobytes()


@pytest.mark.parametrize("name", ["bits", "uniform float32", "normal bfloat16", "dropout float64"])
def test_a_large_draw_lies_in_kept_memory_and_begins_like_a_small_one(name):
    large = DRAWS[name](3, 5, 300_001)
    assert large.shape == (300_001,) and arrays.owns_memory(large)
    assert large[:5000].tobytes() == DRAWS[name](3, 5, 5000).tobytes()


@pytest.mark.parametrize("first, count", [(0, 8), (0, 3), (5, 0), (5, 1), (7, 6), (6, 1000), (4, 997)])
def test_words_of_a_tile(first, count):
    tile = numpy.full(count + 7, 0xABCDEF, numpy.uint32)
    begin = random_numba.words_of(numpy.uint64(3), numpy.uint64(2**32 - 2), first, count, tile)
    words = random_cpu.random_bits(3, 2**32 - 2, first + count)[first:]
    assert tile[begin : begin + count].tolist() == words.tolist()


@pytest.mark.parametrize("name", [name for name in DRAWS if not name.startswith(("permutation", "multinomial"))])
def test_an_element_does_not_depend_on_the_size_of_its_draw(name):
    assert DRAWS[name](3, 5, 40)[:7].tobytes() == DRAWS[name](3, 5, 7).tobytes()


@pytest.mark.parametrize("dtype", [numpy.float32, numpy.float64])
@pytest.mark.parametrize("name, numbers", [("uniform", (-1.0, 3.0)), ("uniform", (2.0, 2.0)), ("normal", (2.0, 5.0))])
def test_few_numbers_straight_into_an_array(name, numbers, dtype):
    """By the entries of compiled code; the same bits as large draws have."""
    random_cpu._compiled(1 << 20)  # loads them
    ordered = numbers if name == "uniform" else numbers[::-1]  # `few` is given the deviation first
    many = getattr(random_cpu, name)(3, 2**32 - 1, (40,), dtype, *ordered)
    for count in range(14):
        few = random_cpu.few(name, lambda blocks: (3, 2**32 - 1), numbers, (count,), numpy.dtype(dtype))
        assert few.dtype == dtype and few.tobytes() == many[:count].tobytes()


@pytest.mark.parametrize("name", DRAWS)
def test_other_seeds_and_offsets_give_other_numbers(name):
    draws = {
        DRAWS[name](seed, offset, 500).tobytes() for seed, offset in [(0, 0), (1, 0), (2**32, 0), (0, 1000), (0, 2**32)]
    }
    assert len(draws) == 5


@pytest.mark.parametrize("name", DRAWS)
def test_results_own_their_memory_and_are_contiguous(name):
    for count in (7, 8):
        created = DRAWS[name](0, 0, count)
        assert created.base is None and created.flags.c_contiguous and created.flags.writeable


@pytest.mark.parametrize("name", [name for name in DRAWS if not name.startswith("multinomial")])
def test_empty_draws(name):
    assert DRAWS[name](0, 0, 0).shape == (0,)


@pytest.mark.parametrize("dtype", FLOATS)
def test_shapes(dtype):
    for shape in [(), (0, 3), (2, 3), (1, 1, 5)]:
        for created in (
            random_cpu.uniform(0, 0, shape, dtype, -1, 1),
            random_cpu.normal(0, 0, shape, dtype, 1, 2),
            random_cpu.exponential(0, 0, shape, dtype),
            random_cpu.dropout_mask(0, 0, shape, 0.5, dtype),
            random_cpu.bernoulli(0, 0, 0.5, shape, dtype),
            random_cpu.bernoulli(0, 0, numpy.full(shape, 0.5) if shape else 0.5, shape, dtype),
            random_cpu.integers(0, 0, shape, 0, 5, dtype),
        ):
            assert isinstance(created, numpy.ndarray) and created.shape == shape and created.dtype == dtype


def test_dynograd_dtypes_are_understood():
    assert random_cpu.uniform(0, 0, (2,), dtypes.bfloat16).dtype == BF16
    assert random_cpu.blocks_needed("normal", 4, dtypes.float64) == 2


def test_small_draws_do_not_load_numba():
    code = (
        "import sys\n"
        "from dynograd.kernels.random import random_cpu as r\n"
        "small = r.normal(1, 2, (100,), 'float32')\n"
        "assert 'numba' not in sys.modules\n"
        "large = r.normal(1, 2, (5000,), 'float32')\n"
        "assert 'numba' in sys.modules and (large[:100] == small).all()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_many_small_draws_load_the_loops(monkeypatch):
    monkeypatch.setattr(random_cpu, "_loops", None)
    monkeypatch.setattr(random_cpu, "_small_draws", random_cpu._SMALL_DRAWS - 1)
    monkeypatch.delitem(sys.modules, "numba")
    assert random_cpu._compiled(4) is None
    assert random_cpu._compiled(4) is random_numba


@pytest.mark.parametrize(
    "kind, count, dtype, expected",
    [
        ("random_bits", 0, None, 0),
        ("random_bits", 5, None, 2),
        ("uniform", 8, F32, 2),
        ("uniform", 8, F64, 4),
        ("uniform", 8, BF16, 2),
        ("uniform", 8, numpy.complex64, 4),
        ("normal", 8, numpy.complex128, 8),
        ("exponential", 3, F64, 2),
        ("bernoulli", 8, F64, 2),
        ("dropout_mask", 9, F64, 3),
        ("integers", 8, None, 4),
        ("permutation", 3, None, 2),
        ("multinomial", 6, F32, 3),
    ],
)
def test_blocks_needed(kind, count, dtype, expected):
    assert random_cpu.blocks_needed(kind, count, dtype) == expected


# ---- uniform


@pytest.mark.parametrize("dtype, bits", [(F32, 24), (F64, 53), (F16, 11), (BF16, 8)])
def test_uniform_reaches_the_ends_of_its_range_but_not_one(dtype, bits, numpy_only, monkeypatch):
    for word, expected in [(0, 0.0), (0xFFFFFFFF, 1 - 2.0**-bits)]:
        monkeypatch.setattr(
            random_cpu, "_words", lambda seed, offset, count, w=word: numpy.full(count, w, numpy.uint32)
        )
        assert (random_cpu.uniform(0, 0, (4,), dtype).astype(F64) == expected).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (1000, 1001), (-1e-3, 0), (3, 4), (-2, 60000)])
def test_uniform_stays_below_high(dtype, low, high, numpy_only, monkeypatch):
    monkeypatch.setattr(random_cpu, "_words", lambda seed, offset, count: numpy.full(count, 0xFFFFFFFF, numpy.uint32))
    last, first = random_cpu.uniform(0, 0, (4,), dtype, low, high), dtype.type(low)
    assert (last >= first).all()
    assert (last < dtype.type(high)).all() or first == dtype.type(high)  # 1000 and 1001 are one number in bfloat16


def test_uniform_between_equal_ends_is_that_value():
    assert (random_cpu.uniform(0, 0, (100,), F32, 0.7, 0.7) == numpy.float32(0.7)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_is_even(dtype):
    values = random_cpu.uniform(11, 0, (COUNT,), dtype, -2, 3).astype(F64)
    counts, _ = numpy.histogram(values, bins=40, range=(-2, 3))
    assert dtype.itemsize == 2 or stats.chisquare(counts).pvalue > 0.001
    assert abs(values.mean() - 0.5) < 0.02 and abs(values.var() - 25 / 12) < 0.02


def test_bits_and_neighbours_are_independent():
    words = random_cpu.random_bits(5, 0, COUNT)
    ones = numpy.unpackbits(words.view(numpy.uint8)).reshape(COUNT, 32).sum(axis=0)
    assert (numpy.abs(ones - COUNT / 2) < 4.5 * math.sqrt(COUNT) / 2).all()
    unit = words.astype(F64)
    for lag in (1, 2, 3, 4, 8):
        assert abs(numpy.corrcoef(unit[:-lag], unit[lag:])[0, 1]) < 0.01
    other = random_cpu.random_bits(6, 0, COUNT).astype(F64)
    assert abs(numpy.corrcoef(unit, other)[0, 1]) < 0.01


# ---- normal, exponential


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_has_the_moments_and_shape_of_a_normal(dtype):
    values = random_cpu.normal(12, 0, (COUNT,), dtype, 0.5, 2.0).astype(F64)
    standard = (values - 0.5) / 2
    assert abs(standard.mean()) < 0.01 and abs(standard.std() - 1) < 0.01
    assert abs((standard**3).mean()) < 0.03 and abs((standard**4).mean() - 3) < 0.08
    if dtype.itemsize > 2:
        assert stats.kstest(standard, "norm").pvalue > 0.001
    assert abs(numpy.corrcoef(standard[0::2], standard[1::2])[0, 1]) < 0.01


@pytest.mark.parametrize("dtype, tolerance", [(F32, 2e-5), (F64, 1e-14)])
def test_normal_is_box_and_muller_of_the_words(dtype, tolerance):
    words = random_cpu.random_bits(1, 2, 4000)
    if dtype == F32:
        unit, turn = (words[0::2] + 0.5) / 2.0**32, words[1::2] / 2.0**32
    else:
        wide = words.view(numpy.uint64)
        unit, turn = ((wide[0::2] >> 11) + 0.5) / 2.0**53, wide[1::2] / 2.0**64
    radius = numpy.sqrt(-2 * numpy.log(unit))
    created = random_cpu.normal(1, 2, (words.nbytes // dtype.itemsize,), dtype)
    numpy.testing.assert_allclose(created[0::2], radius * numpy.cos(2 * numpy.pi * turn), atol=tolerance)
    numpy.testing.assert_allclose(created[1::2], radius * numpy.sin(2 * numpy.pi * turn), atol=tolerance)


@pytest.mark.parametrize("word", [0, 1, 0x1FFFFFFF, 0x20000000, 0x7FFFFFFF, 0x80000000, 0xE0000000, 0xFFFFFFFF])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extreme_words_give_finite_numbers(dtype, word, numpy_only, monkeypatch):
    monkeypatch.setattr(random_cpu, "_words", lambda seed, offset, count: numpy.full(count, word, numpy.uint32))
    assert (numpy.abs(random_cpu.normal(0, 0, (4,), dtype).astype(F64)) < 8.8).all()
    exponential = random_cpu.exponential(0, 0, (4,), dtype).astype(F64)
    assert (exponential > 0).all() and (exponential < 38).all()


def test_normal_takes_arrays_of_means_and_deviations():
    mean, std = numpy.array([[0.0], [100.0]]), numpy.array([1.0, 2.0, 0.0])
    standard = random_cpu.normal(3, 0, (2, 3), F64)
    numpy.testing.assert_array_equal(random_cpu.normal(3, 0, (2, 3), F64, mean, std), standard * std + mean)
    assert random_cpu.normal(3, 0, (2, 3), F32, mean, std).dtype == F32


def test_complex_normal_has_variance_one():
    values = random_cpu.normal(3, 0, (COUNT,), numpy.complex64)
    assert abs((numpy.abs(values) ** 2).mean() - 1) < 0.01
    assert abs(values.real.var() - 0.5) < 0.01


@pytest.mark.parametrize("dtype", [F32, F64])
def test_exponential_is_distributed_as_one(dtype):
    values = random_cpu.exponential(4, 0, (COUNT,), dtype, 2.0).astype(F64)
    assert (values > 0).all()
    assert abs(values.mean() - 0.5) < 0.005
    assert stats.kstest(values, "expon", args=(0, 0.5)).pvalue > 0.001


# ---- integers


@pytest.mark.parametrize(
    "low, high",
    [(0, 1), (0, 2), (-3, 4), (0, 2**31), (0, 2**32 + 5), (-(2**63), 2**63), (2**63 - 2, 2**63), (-(2**63), 0)],
)
def test_integers_stay_in_range(low, high):
    values = random_cpu.integers(1, 0, (5000,), low, high).tolist()
    assert low <= min(values) and max(values) < high
    if high - low <= 8:
        assert set(values) == set(range(low, high))
    else:
        assert max(values) - min(values) > (high - low) * 0.99


def test_integers_are_even():
    counts = numpy.bincount(random_cpu.integers(2, 0, (COUNT,), 0, 37))
    assert stats.chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "float16"])
def test_integers_in_every_dtype(dtype):
    values = random_cpu.integers(2, 0, (1000,), 0, 100, dtype)
    assert values.dtype == dtype
    assert (values.astype("int64") == random_cpu.integers(2, 0, (1000,), 0, 100)).all()


def test_high_product_is_exact():
    words = random_cpu.random_bits(0, 0, 400).view(numpy.uint64)
    for width in (1, 3, 2**32 - 1, 2**32, 2**32 + 1, 2**63 + 12345, 2**64 - 1):
        created = high_product(words, numpy.uint64(width)).tolist()
        assert created == [word * width >> 64 for word in words.tolist()]


# ---- bernoulli, dropout


def test_bernoulli_of_0_and_1_is_certain():
    for p in (0.0, 1.0):
        assert (random_cpu.bernoulli(1, 0, p, (COUNT,), F32) == p).all()
        assert (random_cpu.bernoulli(1, 0, numpy.full(1000, p, F32), (1000,), F32) == p).all()


def test_bernoulli_of_a_number_and_of_an_array_agree():
    for p in (0.1, 0.5, 1 / 3, 1e-9, 1 - 1e-12):
        element = random_cpu.bernoulli(1, 0, p, (COUNT,), numpy.dtype("u1"))
        many = random_cpu.bernoulli(1, 0, numpy.array([p]), (COUNT,), numpy.dtype("u1"))
        assert (element == many).all()
        assert abs(element.mean() - p) < 5 * math.sqrt(p * (1 - p) / COUNT) + 1e-9


def test_bernoulli_probabilities_broadcast():
    created = random_cpu.bernoulli(1, 0, numpy.array([0.0, 1.0, 0.5]), (1000, 3), F32)
    assert created[:, 0].sum() == 0 and created[:, 1].sum() == 1000 and 400 < created[:, 2].sum() < 600


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_keeps_the_mean(dtype):
    for p in (0.1, 0.5):
        mask = random_cpu.dropout_mask(1, 0, (COUNT,), p, dtype)
        assert set(numpy.unique(mask.astype(F64))) == {0.0, float(dtype.type(1 / (1 - p)))}
        assert abs(mask.astype(F64).mean() - 1) < 0.02
        dropped = random_cpu.bernoulli(1, 0, p, (COUNT,), numpy.dtype(bool))
        assert ((mask == 0) == dropped).all()


def test_dropout_of_everything_and_nothing():
    assert (random_cpu.dropout_mask(1, 0, (100,), 1.0, F32) == 0).all()
    assert (random_cpu.dropout_mask(1, 0, (100,), 0.0, F32) == 1).all()


# ---- permutation, multinomial


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 65, 5000])
def test_permutation_holds_each_number_once(count):
    created = random_cpu.permutation(9, 0, count)
    assert created.dtype == numpy.int64 and sorted(created.tolist()) == list(range(count))


def test_permutations_are_equally_likely():
    counts = {}
    for offset in range(6000):
        order = tuple(random_cpu.permutation(1, 2 * offset, 3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > 0.001


def test_multinomial_with_replacement_follows_the_weights():
    weights = numpy.array([[1.0, 0.0, 3.0, 6.0, 0.0], [0.0, 5.0, 0.0, 5.0, 0.0]], numpy.float32)
    drawn = random_cpu.multinomial(1, 0, weights, COUNT, True)
    assert drawn.shape == (2, COUNT) and drawn.dtype == numpy.int64
    counts = numpy.bincount(drawn[0], minlength=5)
    assert counts[1] == counts[4] == 0
    assert stats.chisquare(counts[[0, 2, 3]], COUNT * numpy.array([0.1, 0.3, 0.6])).pvalue > 0.001
    assert set(drawn[1].tolist()) == {1, 3}


def test_multinomial_with_replacement_is_a_cumulative_search():
    weights = random_cpu.uniform(2, 0, (3, 1000), F64)
    cumulative = numpy.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    reference = random_cpu.uniform(7, 9, (3, 50), F64)
    expected = [numpy.searchsorted(row, unit, side="right") for row, unit in zip(cumulative, reference, strict=True)]
    assert (random_cpu.multinomial(7, 9, weights, 50, True) == expected).all()


@pytest.mark.parametrize("weights", [[0.0, 0.0, 5e-324], [5e-324, 5e-324, 0.0], [1e308, 0.0, 0.0], [0.0, 1e-45, 0.0]])
def test_multinomial_of_extreme_weights_draws_no_impossible_column(weights):
    drawn = random_cpu.multinomial(1, 0, numpy.array([weights]), 200, True)
    assert (numpy.array(weights)[drawn] > 0).all()


def test_multinomial_without_replacement_draws_each_column_once():
    weights = numpy.array([[1.0, 0.0, 3.0, 6.0, 0.0, 2.0]])
    for offset in range(200):
        drawn = random_cpu.multinomial(1, offset * 3, weights, 4, False)[0].tolist()
        assert sorted(drawn) == [0, 2, 3, 5]


@pytest.mark.parametrize("num_samples", [1, 2, 8])
def test_multinomial_without_replacement_starts_by_weight(num_samples):
    weights = numpy.tile(numpy.arange(40.0), (20_000, 1))
    first = random_cpu.multinomial(3, 0, weights, num_samples, False)[:, 0]
    counts = numpy.bincount(first, minlength=40)[1:]
    assert stats.chisquare(counts, 20_000 * numpy.arange(1, 40) / 780).pvalue > 0.001


@pytest.mark.parametrize("name", ["randn", "rand", "normal_", "uniform_"])
@pytest.mark.parametrize(
    "state", [(5, 0), ((1 << 63) + 5, 7), ((1 << 64) - 3, 0), (9, (1 << 63) - 2), (9, (1 << 64) - 1)]
)
def test_few_numbers_are_the_first_of_many_for_any_seed_and_offset(name, state):
    """Seeds of workers and samples are any 64 bits."""

    def drawn(count):
        default_generator.set_plain_state(state)
        created = getattr(dynograd, name)(count) if name[-1] != "_" else getattr(dynograd.empty(count), name)()
        return created.numpy(), default_generator.state()

    for seed in (1, (1 << 64) - 5):  # compiled for either kind of number
        default_generator.set_plain_state((seed, 0))
        dynograd.randn(4), dynograd.rand(4), dynograd.empty(4).normal_(), dynograd.empty(4).uniform_()
    before = default_generator.state()
    many, _ = drawn(1 << 15)
    for count in (1, 3, 4, 8, 30):
        few, after = drawn(count)
        numpy.testing.assert_array_equal(few, many[:count])
        assert after == (state[0], (state[1] + -(-count // 4)) % (1 << 64))
    default_generator.set_plain_state(before)
