"""Random tensors: reproducible, in range, and clear about bad arguments."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd.base.random_streams import default_generator
from dynograd.kernels.small import few_cpu


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: dg.rand(5, generator=g),
        lambda g: dg.randn(5, generator=g),
        lambda g: dg.randint(10, (5,), generator=g),
        lambda g: dg.randperm(5, generator=g),
        lambda g: dg.bernoulli(dg.full((5,), 0.5), generator=g),
        lambda g: dg.multinomial(dg.ones(5), 3, generator=g),
        lambda g: dg.normal(0.0, 1.0, (5,), generator=g),
        lambda g: dg.zeros(5).uniform_(generator=g),
        lambda g: dg.zeros(5).normal_(generator=g),
        lambda g: dg.zeros(5).random_(generator=g),
        lambda g: dg.zeros(5).bernoulli_(0.5, generator=g),
        lambda g: dg.zeros(5).exponential_(generator=g),
    ],
)
def test_a_seed_gives_the_same_numbers_and_draws_differ(draw):
    generator = dg.Generator().manual_seed(5)
    first, second = draw(generator), draw(generator)
    assert draw(dg.Generator().manual_seed(5)).tolist() == first.tolist()
    again = [draw(generator).tolist() for _ in range(20)]
    assert any(element != first.tolist() for element in [second.tolist(), *again])


def test_state_can_be_put_back():
    state = dg.get_rng_state()
    first = dg.rand(3).tolist()
    dg.set_rng_state(state)
    assert dg.rand(3).tolist() == first and state.dtype is dg.uint8
    generator = dg.Generator().manual_seed(1)
    kept = generator.get_state()
    element = dg.rand(2, generator=generator).tolist()
    assert dg.rand(2, generator=generator.set_state(kept)).tolist() == element
    with pytest.raises(RuntimeError, match="16 bytes"):
        generator.set_state(dg.zeros(3, dtype=dg.uint8))


def test_ranges():
    assert dg.rand(1000).min().item() >= 0 and dg.rand(1000).max().item() < 1
    created = dg.randint(3, 6, (1000,))
    assert sorted(set(created.tolist())) == [3, 4, 5] and dg.randint_like(created, 2).max().item() <= 1
    assert sorted(dg.randperm(100).tolist()) == list(range(100))
    assert sorted(dg.randperm(dg.tensor(5)).tolist()) == list(range(5)) and dg.randint(9, (2,)).shape == (2,)
    x = dg.empty(1000).uniform_(-2, 3)
    assert x.min().item() >= -2 and x.max().item() < 3
    assert dg.empty(100, dtype=dg.uint8).random_().max().item() > 200
    assert dg.empty(100).random_(5, 8).min().item() >= 5 and dg.empty(100).random_(3).max().item() <= 2


def test_normal_takes_tensors():
    created = dg.normal(dg.tensor([0.0, 100.0]), dg.tensor([1e-3, 1e-3]))
    numpy.testing.assert_allclose(created.numpy(), [0, 100], atol=0.02)


def test_multinomial_follows_the_weights():
    created = dg.multinomial(dg.tensor([[0.0, 3.0, 1.0]]), 4000, replacement=True)
    counts = numpy.bincount(created.numpy()[0], minlength=3) / 4000
    numpy.testing.assert_allclose(counts, [0, 0.75, 0.25], atol=0.03)
    assert sorted(dg.multinomial(dg.tensor([1.0, 0.0, 2.0]), 2).tolist()) == [0, 2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dg.randint(5, 5, (1,)), "less than 'to'"),
        (lambda: dg.randperm(-1), "non-negative"),
        (lambda: dg.bernoulli(dg.tensor([1.5])), r"p_in >= 0 && p_in <= 1"),
        (lambda: dg.multinomial(dg.tensor([-1.0, 2.0]), 1), "element < 0"),
        (lambda: dg.multinomial(dg.zeros(2), 1), "sum of probabilities <= 0"),
        (lambda: dg.multinomial(dg.ones(2), 3), r"without replacement: 3 > 2"),
        (lambda: dg.multinomial(dg.ones(2), 0), "n_sample <= 0"),
        (lambda: dg.multinomial(dg.ones(1, 1, 1), 1), "1 or 2 dim"),
        (lambda: dg.normal(0.0, -1.0, (2,)), "std >= 0.0"),
        (lambda: dg.rand(2, dtype=dg.int64), "expected a floating dtype"),
        (lambda: dg.zeros(2).uniform_(1, 0), "from=1 > to=0"),
        (lambda: dg.zeros(2).uniform_(-3e38, 3e38), "within 3.40282e[+]38, the largest of .*float32.*from=-3e[+]38"),
        (lambda: dg.zeros(2).uniform_(0, float("inf")), "to=inf"),
        (lambda: dg.zeros(2).uniform_(float("nan"), 1), "from=nan"),
        (lambda: dg.zeros(2, dtype=dg.half).uniform_(-40000, 40000), "within 65504, the largest of .*float16"),
        (lambda: dg.randperm(257, dtype=dg.uint8), "too large for result tensor type .*uint8.* to 255: got 257"),
        (lambda: dg.randperm(5000, out=dg.empty(0, dtype=dg.half)), "float16, which holds whole numbers to 2048"),
        (lambda: dg.zeros(2).bernoulli_(2), r"p to be in \[0, 1\], but got p=2"),
        (lambda: dg.zeros(2).bernoulli_(dg.tensor([0.5, -0.5])), r"p to be in \[0, 1\]"),
        (lambda: dg.zeros(2).normal_(0, -1), "std >= 0.0"),
        (lambda: dg.zeros(2).exponential_(0.0), "lambda > 0.0"),
    ],
)
def test_bad_arguments_are_told(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_the_largest_permutations_and_ranges_of_narrow_dtypes():
    assert sorted(dg.randperm(256, dtype=dg.uint8).tolist()) == list(range(256))
    assert sorted(dg.randperm(2049, dtype=dg.half).tolist()) == list(range(2049))
    assert dg.zeros(100, dtype=dg.half).uniform_(-32000, 32000).abs().max() <= 32000
    assert dg.zeros(100).uniform_(-1e38, 1e38).abs().max() <= 1e38


def test_filling_in_place_is_recorded_as_a_write():
    x = dg.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.normal_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


@pytest.mark.parametrize("kind", [dg.float32, dg.float64])
@pytest.mark.parametrize("count", [0, 1, 4, 7, 512])
def test_few_numbers_are_those_of_many(kind, count):
    """Few are drawn straight into their memory: the same numbers, and as much of the stream is used."""
    dg.rand(100_000)  # from now on loops are compiled
    for draw, fill in ((dg.randn, "normal_"), (dg.rand, "uniform_")):
        many = draw(16384, dtype=kind, generator=dg.Generator().manual_seed(5))[:count].tolist()
        generator = dg.Generator().manual_seed(5)
        assert draw(count, dtype=kind, generator=generator).tolist() == many
        blocks = -(-count * (kind.itemsize // 4) // 4)
        assert generator.state() == (5, blocks)
        filled = dg.zeros(count, dtype=kind)
        getattr(filled, fill)(generator=dg.Generator().manual_seed(5))
        assert filled.tolist() == many
        across = dg.zeros(count, 2, dtype=kind).t()[0]
        getattr(across, fill)(generator=dg.Generator().manual_seed(5))
        assert across.tolist() == many
        like = dg.zeros(count, dtype=kind)
        assert getattr(dg, f"{draw.__name__}_like")(like, generator=dg.Generator().manual_seed(5)).tolist() == many


def test_filling_few_is_a_write():
    dg.rand(100_000)
    leaf = dg.zeros(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.normal_()
    with dg.no_grad():
        leaf.normal_()
    assert leaf.requires_grad and leaf.is_leaf and float(leaf.detach().abs().sum()) > 0
    ones, kept = dg.ones(3, requires_grad=True), dg.full((3,), 2.0)
    product = ones * kept
    kept.uniform_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    base = dg.zeros(2, 4)
    row = base[1]
    row.normal_()
    assert (base[1] == row).all() and (base[0] == 0).all() and (row != 0).any()


@pytest.mark.parametrize("dtype", [dg.float32, dg.float64, dg.float16])
@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (3,), (5,), (8, 64), (7, 9), (4096,), (4097,), (20000,)])
def test_few_numbers_have_the_same_bits_and_take_the_same_places_in_the_stream(dtype, shape, monkeypatch):
    draws = [
        lambda x: x.normal_(),
        lambda x: x.normal_(3, 0.1),
        lambda x: x.normal_(1e30, 0.0),
        lambda x: x.uniform_(),
        lambda x: x.uniform_(-3, 1.7),
        lambda x: x.uniform_(2.0, 2.0),
        lambda x: x.uniform_(1.0, 1.0000001),
        lambda x: x.uniform_(0.0, generator=default_generator),
        lambda x: x.uniform_(**{"from": 0.5, "to": 0.7}),
    ]
    results = []
    for calls in (-(1 << 30), few_cpu.SMALL_CALLS):
        few_cpu.entries.clear()
        monkeypatch.setattr(few_cpu, "_NUMBA", "not loaded")
        monkeypatch.setattr(few_cpu, "_calls", calls)
        dg.manual_seed(5)
        created = [draw(dg.zeros(shape, dtype=dtype)) for draw in draws]
        created += [draw(dg.zeros(2, *shape, dtype=dtype)[1]) for draw in draws]
        results.append(([element.numpy().tobytes() for element in created], default_generator.state()))
    assert results[0] == results[1]
    assert {len(result) for result in results[0][0]} == {dg.zeros(shape, dtype=dtype).nbytes}


def test_few_numbers_of_what_is_refused(monkeypatch):
    monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS)
    x, state = dg.zeros(4), default_generator.state()
    for draw, words in (
        (lambda: x.normal_(0.0, -1.0), "std >= 0.0"),
        (lambda: x.uniform_(2.0, 1.0), "found from=2"),
        (lambda: x.expand(3, 4).normal_(), "single memory location"),
        (lambda: x.clone().requires_grad_().normal_(), "leaf"),
        (lambda: dg.zeros(4, dtype=dg.int64).normal_(), "floating"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=words):
            draw()
    assert not x.any()
    default_generator.set_plain_state(state)
    weight = dg.ones(4, requires_grad=True)
    z = (weight * x).sum()
    x.normal_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    with dg.no_grad():
        assert weight.uniform_() is weight and weight.requires_grad


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_of_no_rows(replacement):
    draws = dg.multinomial(dg.ones(0, 3), 2, replacement)
    assert draws.shape == (0, 2) and draws.dtype is dg.int64


@pytest.mark.parametrize("dtype", [dg.int64, dg.bool, dg.bfloat16])
def test_bernoulli_writes_into_any_dtype(dtype):
    out = dg.empty(4, dtype=dtype)
    assert dg.bernoulli(dg.tensor([0.0, 1.0, 0.0, 1.0]), out=out) is out
    assert out.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "draw",
    [
        dg.bernoulli,
        dg.poisson,
        lambda p: dg.bernoulli(p, 0.5),
        lambda p: dg.normal(p, 1.0),
        lambda p: dg.normal(0.0, p),
        lambda p: dg.normal(p, p),
    ],
)
def test_draws_have_gradient_zero(draw):
    p = dg.tensor([0.25, 0.5], requires_grad=True)
    y = draw(p)
    assert y.requires_grad
    (y * 3).sum().backward()
    assert p.grad.tolist() == [0, 0]
    with dg.no_grad():
        assert not draw(p).requires_grad
    assert not draw(p.detach()).requires_grad
