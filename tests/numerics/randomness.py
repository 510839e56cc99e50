"""Tests of random streams: those of NIST SP 800-22 (revision 1a, 2010) on bits, and goodness of fit, correlation and overlap of what is drawn.

Each gives p-values: uniform between 0 and 1 for numbers that are random. A battery is many of them; `verdict` says whether they look uniform together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import fft, special, stats

import dynograd

__all__ = ["BITS", "DRAWS", "SOURCES", "bits_of_words", "verdict", "words_of_draw"]

# --- bits (SP 800-22, section 2) ------------------------------------------------------------------------------------------------


def frequency(bits: np.ndarray) -> list[float]:
    excess = abs(2 * int(bits.sum(dtype=np.int64)) - bits.size)
    return [math.erfc(excess / math.sqrt(2 * bits.size))]


def block_frequency(bits: np.ndarray, size: int = 20_000) -> list[float]:
    shares = bits[: bits.size // size * size].reshape(-1, size).mean(1)
    return [_chi(4 * size * float(((shares - 0.5) ** 2).sum()), shares.size)]


def runs(bits: np.ndarray) -> list[float]:
    share = bits.mean()
    count = 1 + int((bits[1:] != bits[:-1]).sum())
    spread = 2 * share * (1 - share)
    return [math.erfc(abs(count - bits.size * spread) / (math.sqrt(2 * bits.size) * spread))]


_RUN_SHARES = [
    0.0882,
    0.2092,
    0.2483,
    0.1933,
    0.1208,
    0.0675,
    0.0727,
]  # longest run of ones of 10,000 bits: up to 10, 11, ..., 16 and above


def longest_run(bits: np.ndarray) -> list[float]:
    blocks = bits[: bits.size // 10_000 * 10_000].reshape(-1, 10_000)
    counts = np.zeros(7, int)
    for block in blocks:
        ends = np.flatnonzero(np.diff(np.concatenate([[0], block, [0]]).astype(np.int8)))
        longest = int((ends[1::2] - ends[::2]).max(initial=0))
        counts[min(max(longest, 10), 16) - 10] += 1
    return [_fit(counts, _RUN_SHARES)]


def matrix_rank(bits: np.ndarray, size: int = 32) -> list[float]:
    count = min(bits.size // size**2, 4000)
    rows = (
        np.packbits(bits[: count * size * size].reshape(count, size, size), axis=2, bitorder="little")
        .view(np.uint32)[:, :, 0]
        .copy()
    )
    ranks = np.zeros(count, int)
    for column in range(size):
        has = (rows >> np.uint32(column)) & np.uint32(1)
        pivot = has.argmax(1)
        some = has.any(1)
        line = np.where(some, rows[np.arange(count), pivot], 0).astype(np.uint32)
        rows[np.arange(count)[some], pivot[some]] = 0
        rows ^= np.where(has.astype(bool), line[:, None], 0).astype(np.uint32)
        rows[np.arange(count)[some], pivot[some]] = 0
        ranks += some
    full = float(np.prod([1 - 2.0 ** (-i) for i in range(1, size + 1)]))
    less = full * 2.0 * (1 - 2.0**-size)  # one missing: of 2^(-1) (1 - 2^-n)^2 / (1 - 1/2)^2 / ... of the full ones
    return [
        _fit(
            np.array([(ranks == size).sum(), (ranks == size - 1).sum(), (ranks < size - 1).sum()]),
            [full, less, 1 - full - less],
        )
    ]


def spectrum(bits: np.ndarray) -> list[float]:
    signs = 2.0 * bits[: 1 << 20] - 1
    heights = np.abs(fft.rfft(signs))[: signs.size // 2]
    below = int((heights < math.sqrt(math.log(20.0) * signs.size)).sum())
    distance = (below - 0.95 * signs.size / 2) / math.sqrt(signs.size * 0.95 * 0.05 / 4)
    return [math.erfc(abs(distance) / math.sqrt(2))]


def non_overlapping(bits: np.ndarray, size: int = 9, blocks: int = 8) -> list[float]:
    """Of some patterns that cannot overlap themselves."""
    length = bits.size // blocks
    mean = (length - size + 1) / 2**size
    variance = length * (2.0**-size - (2 * size - 1) * 2.0 ** (-2 * size))
    values = []
    for pattern in ("000000001", "000010011", "001010011", "011111111", "100000000", "110101000", "111110110"):
        digits = np.array([int(digit) for digit in pattern], np.uint8)
        counts = []
        for block in bits[: length * blocks].reshape(blocks, length):
            here = np.ones(length - size + 1, bool)
            for place, digit in enumerate(digits):
                here &= block[place : length - size + 1 + place] == digit
            counts.append(int(here.sum()))  # those of such a pattern never overlap
        values.append(_chi(float(((np.array(counts) - mean) ** 2).sum() / variance), blocks))
    return values


def overlapping(bits: np.ndarray) -> list[float]:
    """Nine ones, in blocks of 1032."""
    blocks = bits[: bits.size // 1032 * 1032].reshape(-1, 1032)
    sums = np.cumsum(np.pad(blocks, ((0, 0), (1, 0))), 1, dtype=np.int32)
    counts = np.minimum(((sums[:, 9:] - sums[:, :-9]) == 9).sum(1), 5)
    return [_fit(np.bincount(counts, minlength=6), [0.364091, 0.185659, 0.139381, 0.100571, 0.0704323, 0.139865])]


def universal(bits: np.ndarray) -> list[float]:
    """Maurer's, of words of 7 bits."""
    size, first = 7, 1280
    words = bits[: bits.size // size * size].reshape(-1, size) @ (1 << np.arange(size))
    order = np.argsort(words, kind="stable")
    same = words[order][1:] == words[order][:-1]
    gaps = np.zeros(words.size, np.int64)
    gaps[order[1:]] = np.where(same, order[1:] - order[:-1], order[1:] + 1)
    gaps[order[0]] = order[0] + 1
    tested = gaps[first:]
    value = float(np.log2(tested).mean())
    count = tested.size
    factor = 0.7 - 0.8 / size + (4 + 32 / size) * count ** (-3 / size) / 15
    return [math.erfc(abs(value - 6.1962507) / (math.sqrt(2) * factor * math.sqrt(3.125 / count)))]


def serial(bits: np.ndarray, size: int = 12) -> list[float]:
    psi = [_psi(bits, size - less) for less in range(3)]
    return [
        float(special.gammaincc(2 ** (size - 2), (psi[0] - psi[1]) / 2)),
        float(special.gammaincc(2 ** (size - 3), (psi[0] - 2 * psi[1] + psi[2]) / 2)),
    ]


def _pattern_counts(bits: np.ndarray, size: int) -> np.ndarray:
    around = np.concatenate([bits, bits[: size - 1]]).astype(np.int32)
    codes = np.zeros(bits.size, np.int32)
    for place in range(size):
        codes = (codes << 1) | around[place : place + bits.size]
    return np.bincount(codes, minlength=1 << size)


def _psi(bits: np.ndarray, size: int) -> float:
    counts = _pattern_counts(bits, size).astype(float)
    return float((counts**2).sum() * 2**size / bits.size - bits.size)


def approximate_entropy(bits: np.ndarray, size: int = 10) -> list[float]:
    def phi(length: int) -> float:
        shares = _pattern_counts(bits, length) / bits.size
        return float(special.xlogy(shares, shares).sum())

    entropy = phi(size) - phi(size + 1)
    return [float(special.gammaincc(2 ** (size - 1), bits.size * (math.log(2) - entropy)))]


def cumulative_sums(bits: np.ndarray) -> list[float]:
    return [_cumulative(bits), _cumulative(bits[::-1])]


def _cumulative(bits: np.ndarray) -> float:
    n = bits.size
    z = int(np.abs(np.cumsum(2 * bits.astype(np.int64) - 1)).max())
    root = z / math.sqrt(n)

    def between(first: int, low: int, high: int) -> float:
        k = np.arange((-n // z + first) // 4, (n // z - 1) // 4 + 1)
        return float((special.ndtr((4 * k + high) * root) - special.ndtr((4 * k + low) * root)).sum())

    return 1 - between(1, -1, 1) + between(-3, 1, 3)


_COMPLEXITY_SHARES = [0.010417, 0.03125, 0.125, 0.5, 0.25, 0.0625, 0.020833]


def linear_complexity(bits: np.ndarray, size: int = 500, blocks: int = 400) -> list[float]:
    lengths = np.array([_shortest_register(block) for block in bits[: size * blocks].reshape(blocks, size)])
    sign = 1 if size % 2 == 0 else -1
    mean = size / 2 + (9 - sign) / 36 - (size / 3 + 2 / 9) / 2**size
    distances = sign * (lengths - mean) + 2 / 9
    counts = np.histogram(distances, [-np.inf, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf])[0]
    return [_fit(counts, _COMPLEXITY_SHARES)]


def _shortest_register(block: np.ndarray) -> int:
    """The linear complexity of a row of bits (Berlekamp and Massey); polynomials are whole numbers."""
    c, b, length, shift, window = 1, 1, 0, 1, 0
    for place, bit in enumerate(block.tolist()):
        window = window << 1 | bit
        if (c & window).bit_count() & 1:
            c, old = c ^ b << shift, c
            if 2 * length <= place:
                length, b, shift = place + 1 - length, old, 0
        shift += 1
    return length


def random_excursions(bits: np.ndarray) -> list[float]:
    walk = np.concatenate([[0], np.cumsum(2 * bits.astype(np.int64) - 1), [0]])
    zeros = np.flatnonzero(walk == 0)
    cycles = zeros.size - 1
    if cycles < 500:
        return []  # too few returns to 0 for the test, as the standard has it
    cycle = np.cumsum(walk == 0)
    values = []
    for state in (-4, -3, -2, -1, 1, 2, 3, 4):
        visits = np.bincount(cycle[walk == state], minlength=cycles + 2)[1 : cycles + 1]
        stay = 1 - 1 / (2 * abs(state))
        shares = [stay, *[(1 - stay) ** 2 * stay ** (k - 1) for k in range(1, 5)], (1 - stay) * stay**4]
        values.append(_fit(np.bincount(np.minimum(visits, 5), minlength=6), shares))
    for state in [*range(-9, 0), *range(1, 10)]:
        total = int((walk == state).sum())
        values.append(math.erfc(abs(total - cycles) / math.sqrt(2 * cycles * (4 * abs(state) - 2))))
    return values


def _fit(counts: np.ndarray, shares: Any) -> float:
    """The p-value of counts of bins with these shares."""
    expected = np.asarray(shares, float) * counts.sum()
    return _chi(float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1)


def _chi(value: float, degrees: int) -> float:
    return float(special.gammaincc(degrees / 2, value / 2))


BITS: dict[str, Callable[[np.ndarray], list[float]]] = {
    "frequency": frequency,
    "block frequency": block_frequency,
    "runs": runs,
    "longest run": longest_run,
    "matrix rank": matrix_rank,
    "spectrum": spectrum,
    "non-overlapping templates": non_overlapping,
    "overlapping templates": overlapping,
    "universal": universal,
    "linear complexity": linear_complexity,
    "serial": serial,
    "approximate entropy": approximate_entropy,
    "cumulative sums": cumulative_sums,
    "random excursions": random_excursions,
}


def bits_of_words(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")


# --- where bits come from --------------------------------------------------------------------------------------------------------


def words_of_draw(seed: int, count: int) -> np.ndarray:
    """32-bit words, as public draws make them."""
    generator = dynograd.Generator().manual_seed(seed)
    return dynograd.randint(0, 1 << 32, (count,), generator=generator, dtype=dynograd.int64).numpy().astype(np.uint32)


def _uniform_words(seed: int, count: int) -> np.ndarray:
    """The upper 16 bits of uniform numbers, in pairs."""
    generator = dynograd.Generator().manual_seed(seed)
    halves = (dynograd.rand(2 * count, generator=generator).numpy() * 65536).astype(np.uint16)
    return halves.view(np.uint32)


def _words_side_by_side(seed: int, count: int) -> np.ndarray:
    """A word of each of 64 generators with neighbouring seeds in turn."""
    streams = [words_of_draw(64 * seed + place, count // 64) for place in range(64)]
    return np.stack(streams, 1).reshape(-1)


def _mask_words(seed: int, count: int) -> np.ndarray:
    """Dropout's masks at a half."""
    dynograd.manual_seed(seed)
    kept = dynograd.nn.functional.dropout(dynograd.ones(32 * count), 0.5).numpy() != 0
    return np.packbits(kept).view(np.uint32)


def _bernoulli_words(seed: int, count: int) -> np.ndarray:
    generator = dynograd.Generator().manual_seed(seed)
    drawn = dynograd.bernoulli(dynograd.full((32 * count,), 0.5), generator=generator).numpy()
    return np.packbits(drawn != 0).view(np.uint32)


def _first_words(seed: int, count: int) -> np.ndarray:
    """The first words of generators of neighbouring seeds, four of each."""
    return np.concatenate([words_of_draw((seed << 24) + place, 4) for place in range(count // 4)])


SOURCES: dict[str, tuple[Callable[[int, int], np.ndarray], int]] = {
    # and how many words
    "words of one generator": (words_of_draw, 1 << 15),
    "uniform, upper 16 bits": (_uniform_words, 1 << 15),
    "64 neighbouring seeds in turn": (_words_side_by_side, 1 << 15),
    "first words of 8,192 neighbouring seeds": (_first_words, 1 << 15),
    "dropout masks": (_mask_words, 1 << 15),
    "bernoulli": (_bernoulli_words, 1 << 15),
}


# --- what is drawn -----------------------------------------------------------------------------------------------------------------


def _uniform_fit(values: np.ndarray) -> Iterator[float]:
    yield float(stats.kstest(values, "uniform").pvalue)
    yield _fit(np.bincount((values * 1000).astype(int), minlength=1000), np.full(1000, 1e-3))
    pairs = (values[: values.size // 2 * 2].reshape(-1, 2) * 64).astype(int)
    yield _fit(np.bincount(pairs[:, 0] * 64 + pairs[:, 1], minlength=4096), np.full(4096, 1 / 4096))


def uniform(seed: int, count: int) -> list[float]:
    generator = dynograd.Generator().manual_seed(seed)
    single = dynograd.rand(count, generator=generator).double().numpy()
    double = dynograd.rand(count, generator=generator, dtype=dynograd.float64).numpy()
    least = [float(1 - (1 - single.min()) ** count), float(single.max() ** count)]  # extremes of many
    return [*_uniform_fit(single), *_uniform_fit(double), *least]


def normal(seed: int, count: int) -> list[float]:
    generator = dynograd.Generator().manual_seed(seed)
    values = []
    for dtype in (dynograd.float32, dynograd.float64):
        x = dynograd.randn(count, generator=generator, dtype=dtype).double().numpy()
        values += [*_uniform_fit(special.ndtr(x)), *_tails(x)]
        values.append(float(stats.chi2.cdf((x**2).sum(), count)))
        values.append(_correlation(x[::2], x[1::2]))
        values.append(_correlation(x[::2] ** 2, x[1::2] ** 2))
    return values


def _tails(x: np.ndarray) -> Iterator[float]:
    for bound in (3.0, 4.0):
        for count in (int((x > bound).sum()), int((x < -bound).sum())):
            yield _randomised_poisson(count, x.size * float(special.ndtr(-bound)))


def _randomised_poisson(count: int, mean: float) -> float:
    """The middle of the step of the distribution function: counts are few and whole."""
    return float(stats.poisson.cdf(count, mean) - 0.5 * stats.poisson.pmf(count, mean))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    r = float(np.corrcoef(x, y)[0, 1])
    return math.erfc(abs(r) * math.sqrt(x.size / 2))


def permutations(seed: int, count: int) -> list[float]:
    """All orders of 5 as often; where the first of 1000 goes; cycles of 1000."""
    generator = dynograd.Generator().manual_seed(seed)
    drawn = np.stack([dynograd.randperm(5, generator=generator).numpy() for _ in range(count // 50)])
    codes = drawn @ (5 ** np.arange(5))
    _, counts = np.unique(codes, return_counts=True)
    long = np.stack([dynograd.randperm(1000, generator=generator).numpy() for _ in range(count // 500)])
    fixed = (long == np.arange(1000)).sum(1)
    poisson = stats.poisson.pmf(np.arange(4), 1)
    return [
        _fit(counts, np.full(120, 1 / 120)),
        float(stats.kstest((long[:, 0] + 0.5) / 1000, "uniform").pvalue),
        _fit(np.bincount(np.minimum(fixed, 4), minlength=5), [*poisson, 1 - poisson.sum()]),
        *[_fit(np.bincount(long[:, place] // 50, minlength=20), np.full(20, 0.05)) for place in (1, 500, 999)],
    ]


def multinomial(seed: int, count: int) -> list[float]:
    generator = dynograd.Generator().manual_seed(seed)
    weights = np.arange(1.0, 33.0)
    shares = weights / weights.sum()
    table = dynograd.tensor(weights)
    drawn = dynograd.multinomial(table, count, replacement=True, generator=generator).numpy()
    rows = dynograd.tensor(np.tile(weights[:6], (count // 20, 1)))
    pairs = dynograd.multinomial(rows, 2, replacement=False, generator=generator).numpy()
    p = weights[:6] / weights[:6].sum()
    expected = [p[i] * p[j] / (1 - p[i]) for i in range(6) for j in range(6) if i != j]
    counted = np.bincount(pairs[:, 0] * 6 + pairs[:, 1], minlength=36)
    return [
        _fit(np.bincount(drawn, minlength=32), shares),
        _fit(np.bincount(drawn[::2] * 32 + drawn[1::2], minlength=1024), np.outer(shares, shares).reshape(-1)),
        _fit(counted[[i * 6 + j for i in range(6) for j in range(6) if i != j]], expected),
    ]


def integers(seed: int, count: int) -> list[float]:
    generator = dynograd.Generator().manual_seed(seed)
    values = []
    for high in (3, 7, 100, 1000, 3 << 30):
        drawn = dynograd.randint(0, high, (count,), generator=generator).numpy()
        bins = min(high, 1000)
        values.append(_fit(np.bincount(drawn * bins // high, minlength=bins), np.full(bins, 1 / bins)))
    return values


def others(seed: int, count: int) -> list[float]:
    """Exponential, bernoulli, dropout, gamma, beta and Poisson numbers."""
    generator = dynograd.Generator().manual_seed(seed)
    dynograd.manual_seed(seed)
    exponential = dynograd.empty(count).exponential_(2.0, generator=generator).double().numpy()
    values = [float(stats.kstest(exponential, "expon", (0, 0.5)).pvalue)]
    for p in (0.1, 0.5, 0.999):
        ones = int(dynograd.bernoulli(dynograd.full((count,), p), generator=generator).sum().item())
        values.append(float(stats.binomtest(ones, count, p).pvalue))
        dropped = int((dynograd.nn.functional.dropout(dynograd.ones(count), p) == 0).sum().item())
        values.append(float(stats.binomtest(dropped, count, p).pvalue))
    families = dynograd.distributions
    for family, cdf in (
        (families.Gamma(2.5, 1.5), stats.gamma(2.5, scale=1 / 1.5).cdf),
        (families.Beta(0.7, 2.0), stats.beta(0.7, 2.0).cdf),
        (families.StudentT(4.0), stats.t(4.0).cdf),
        (families.Laplace(0.0, 1.0), stats.laplace.cdf),
    ):
        values.append(float(stats.kstest(family.sample((count,)).double().numpy(), cdf).pvalue))
    counts = np.bincount(
        np.minimum(dynograd.poisson(dynograd.full((count,), 4.0), generator=generator).numpy().astype(int), 12),
        minlength=13,
    )
    shares = stats.poisson.pmf(np.arange(12), 4.0)
    values.append(_fit(counts, [*shares, 1 - shares.sum()]))
    return values


def streams(seed: int, count: int) -> list[float]:
    """Correlations of generators with neighbouring seeds and of threads with places of their own, and words that occur in two of them."""
    seeds = [seed, seed + 1, seed + 2, seed ^ (1 << 31), seed + (1 << 32), seed + (1 << 63)]
    drawn = [
        dynograd.randn(count, generator=dynograd.Generator().manual_seed(number)).double().numpy() for number in seeds
    ]
    values = [_correlation(drawn[i], drawn[j]) for i in range(6) for j in range(i)]
    values += [_correlation(drawn[0][lag:], drawn[1][:-lag]) for lag in (1, 2, 4, 1024)]
    words = np.concatenate([words_of_draw(number, count // 6) for number in seeds])
    repeated = words.size - np.unique(words).size
    values.append(_randomised_poisson(repeated, words.size**2 / 2**33))
    return values


DRAWS: dict[str, Callable[[int, int], list[float]]] = {
    "uniform": uniform,
    "normal": normal,
    "randint": integers,
    "randperm": permutations,
    "multinomial": multinomial,
    "exponential, bernoulli, dropout, distributions": others,
    "streams of several seeds": streams,
}


def verdict(values: list[float]) -> tuple[float, float]:
    """(the smallest distance of a p-value from 0 or 1 times twice their number, the p-value of their uniformity)."""
    sides = np.minimum(values, 1 - np.asarray(values))
    return float(min(1.0, sides.min() * 2 * len(values))), float(stats.kstest(values, "uniform").pvalue)
