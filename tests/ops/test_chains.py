"""Chains of tags against all sequences of tags written out, one by one."""

import itertools

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.func import vmap
from dynograd.gradcheck import gradcheck
from dynograd.ops.loss.chains import chain_best_paths, chain_likelihoods, chain_marginals
from tests.ops.harness import Row, generate

K = 3
STARTS, LENGTHS = numpy.array([0, 4, 5, 8]), numpy.array([4, 0, 1, 3])  # rows 4, 6, 7 and 11 belong to no sequence
TAGS = numpy.array([0, 2, 2, 1, 0, 1, 2, 0, 2, 0, 1, 2])
ROWS_OF = len(TAGS)


def scores_of(x, transitions, first, last):
    """{tags: score} of all sequences of tags for emissions (T, K)."""
    found = {}
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        moves = sum(transitions[a, b] for a, b in itertools.pairwise(path))
        found[path] = sum(x[t, tag] for t, tag in enumerate(path)) + moves + first[path[0]] + last[path[-1]]
    return found


def sequences(starts, lengths, step):
    """(number, rows) of the sequences that are not empty."""
    return [
        (n, start + step * numpy.arange(length)) for n, (start, length) in enumerate(zip(starts, lengths)) if length
    ]


def np_likelihoods(x, transitions, first, last, tags, starts, lengths, step):
    result = numpy.zeros(len(starts))
    for n, rows in sequences(starts, lengths, step):
        scores = scores_of(x[rows], transitions, first, last)
        total = numpy.log(sum(numpy.exp(score) for score in scores.values()))
        result[n] = (0 if tags is None else scores[tuple(tags[rows])]) - total
    return result


def np_marginals(x, transitions, first, last, starts, lengths, step):
    result = numpy.zeros(x.shape)
    for _, rows in sequences(starts, lengths, step):
        scores = scores_of(x[rows], transitions, first, last)
        total = sum(numpy.exp(score) for score in scores.values())
        for path, score in scores.items():
            result[rows, list(path)] += numpy.exp(score) / total
    return result


def np_best_paths(x, transitions, first, last, starts, lengths, step):
    tags, best = numpy.zeros(len(x), int), numpy.zeros(len(starts))
    for n, rows in sequences(starts, lengths, step):
        scores = scores_of(x[rows], transitions, first, last)
        path = max(scores, key=scores.get)
        tags[rows], best[n] = path, scores[path]
    return tags, best


def arguments(tags="absent", starts=STARTS, lengths=LENGTHS, rows=ROWS_OF, tag_count=K):
    def draw(rng):
        weights = [
            rng.normal(size=shape) for shape in ((rows, tag_count), (tag_count, tag_count), tag_count, tag_count)
        ]
        return [*weights, *([] if isinstance(tags, str) else [tags]), starts, lengths]

    return draw


TIME_FIRST = dict(starts=numpy.arange(3), lengths=numpy.array([3, 1, 2]), rows=9)


def row(op, reference, **options):
    """The ops know float32 and float64; `nn.CRF` widens others."""
    return Row(
        op.__name__,
        reference,
        function=op,
        dtypes=("float32", "float64"),
        kwargs=dict(step=options.pop("step", 1)),
        **options,
    )


ROWS = [
    row(chain_likelihoods, np_likelihoods, args=arguments(TAGS)),
    row(chain_likelihoods, np_likelihoods, args=arguments(None), id="no tags"),
    row(chain_likelihoods, np_likelihoods, args=arguments(TAGS[:9].clip(0, 2), **TIME_FIRST), step=3, id="time first"),
    row(
        chain_likelihoods, np_likelihoods, id="one tag",
        args=arguments(numpy.zeros(4, int), numpy.arange(2), numpy.array([4, 0]), 4, 1),
    ),
    row(chain_marginals, np_marginals, args=arguments()),
    row(chain_marginals, np_marginals, args=arguments(**TIME_FIRST), step=3, id="time first"),
    row(chain_best_paths, np_best_paths, args=arguments(), result=("int64", None), grad=False, jvp=False),
    row(
        chain_best_paths, np_best_paths, args=arguments(**TIME_FIRST), step=3, result=("int64", None), grad=False, jvp=False,
        id="time first",
    ),
]  # fmt: skip
test_rows = generate(ROWS)


def drawn(seed, tags, rows, scale=1.0, dtype="float64"):
    rng = numpy.random.default_rng(seed)
    shapes = (rows, tags), (tags, tags), (tags,), (tags,)
    return [dynograd.tensor((rng.normal(size=one) * scale).astype(dtype), requires_grad=True) for one in shapes]


def step_by_step(given, tags, starts, lengths):
    """The values and gradients of the decomposition, in float64."""
    given = [one.detach().double().requires_grad_() for one in given]
    found = chain_likelihoods.op.decomposition(*given, tags, starts, lengths, 1)
    return found.detach().numpy(), [one.numpy() for one in grad(found.sum(), given)]


@pytest.mark.parametrize("dtype, near", [("float32", 2e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("tag_count", [2, 5, 16, 37])
def test_long_chains_of_every_width_keep_their_digits(tag_count, dtype, near):
    given = drawn(0, tag_count, 700, dtype=dtype)
    starts, lengths = dynograd.tensor([0, 500, 500, 510]), dynograd.tensor([500, 0, 1, 190])
    tags = dynograd.randint(0, tag_count, (700,))
    found = chain_likelihoods(*given, tags, starts, lengths, 1)
    slopes = grad(found.sum(), given)
    wanted, wanted_slopes = step_by_step(given, tags, starts, lengths)
    numpy.testing.assert_allclose(found.detach().numpy(), wanted, rtol=5e-7 if dtype == "float32" else 1e-13)
    for one, other in zip(slopes, wanted_slopes):
        numpy.testing.assert_allclose(one.numpy(), other, atol=near * max(abs(other).max(), 1))


@pytest.mark.parametrize("dtype, near", [("float32", 3e-6), ("float64", 1e-11)])
def test_constraints_are_exact_however_far_scores_lie_apart(dtype, near):
    """-inf and -10,000 in transitions, emissions hundreds apart: sums of exponentials alone would come out 0."""
    given = drawn(1, 5, 40, 60.0, dtype)
    with dynograd.no_grad():
        given[1][0], given[1][:, 1], given[1][2, 3] = -numpy.inf, -numpy.inf, -10_000
        given[0][7, 2] = -numpy.inf
        given[0][20] = dynograd.tensor([0.0, 0.0, 0.0, 500.0, -numpy.inf])
        given[1][3] = dynograd.tensor([-numpy.inf, -numpy.inf, -300.0, -numpy.inf, -400.0])
    starts, lengths = dynograd.tensor([0, 12]), dynograd.tensor([12, 28])
    found = chain_likelihoods(*given, None, starts, lengths, 1)
    slopes = grad(found.sum(), given)
    wanted, wanted_slopes = step_by_step(given, None, starts, lengths)
    assert numpy.isfinite(wanted).all()
    numpy.testing.assert_allclose(found.detach().numpy(), wanted, rtol=2e-7)
    for one, other in zip(slopes, wanted_slopes):
        numpy.testing.assert_allclose(one.numpy(), other, atol=near * max(abs(other).max(), 1))


def test_tags_that_no_path_allows_have_likelihood_0_and_chains_without_a_path_no_gradient():
    given = drawn(2, 2, 3)
    with dynograd.no_grad():
        given[1][0, 1] = -numpy.inf
    starts, lengths = dynograd.tensor([0]), dynograd.tensor([3])
    found = chain_likelihoods(*given, dynograd.tensor([0, 1, 1]), starts, lengths, 1)
    assert found.item() == -numpy.inf
    assert all(one.isfinite().all() for one in grad(found.sum(), given))
    with dynograd.no_grad():
        given[1].fill_(-numpy.inf)
    found = chain_likelihoods(*given, None, starts, lengths, 1)
    assert found.item() == numpy.inf and not any(one.any() for one in grad(found.sum(), given))


def test_tags_in_rows_of_no_sequence_may_be_anything():
    given = drawn(6, K, len(TAGS))
    starts, lengths = dynograd.tensor(STARTS), dynograd.tensor(LENGTHS)
    odd = dynograd.tensor(TAGS)
    odd[4], odd[6], odd[7], odd[11] = 9, -7, 1 << 40, -1
    for function in (chain_likelihoods, chain_likelihoods.op.decomposition):
        found, wanted = (function(*given, tags, starts, lengths, 1) for tags in (odd, dynograd.tensor(TAGS)))
        assert (found == wanted).all()


def test_nan_comes_through():
    given = drawn(3, 3, 4, dtype="float32")
    with dynograd.no_grad():
        given[0][1, 1] = numpy.nan
    found = chain_likelihoods(*given, None, dynograd.tensor([0, 3]), dynograd.tensor([3, 1]), 1)
    assert found.isnan().tolist() == [True, False]


def test_the_best_path_of_ties_is_the_lowest_and_survives_minus_infinity():
    x = dynograd.zeros(4, 3)
    transitions = dynograd.full((3, 3), -numpy.inf)
    transitions[2, 1] = transitions[1, 2] = 0.0
    nothing = dynograd.zeros(3)
    starts, lengths = dynograd.tensor([0]), dynograd.tensor([4])
    tags, scores = chain_best_paths(x, transitions, nothing, nothing, starts, lengths, 1)
    assert (tags.tolist(), scores.tolist()) == ([2, 1, 2, 1], [0.0])
    tags, scores = chain_best_paths(x, transitions * 0 - numpy.inf, nothing, nothing, starts, lengths, 1)
    assert scores.item() == -numpy.inf and set(tags.tolist()) <= {0, 1, 2}


def test_best_paths_step_by_step_are_those_of_the_kernel():
    given = [one.detach() for one in drawn(7, 4, 12)]
    starts, lengths = dynograd.tensor(STARTS), dynograd.tensor(LENGTHS)
    found = chain_best_paths.op.decomposition(*given, starts, lengths, 1)
    for one, other in zip(found, chain_best_paths(*given, starts, lengths, 1)):
        assert one.dtype is other.dtype and one.tolist() == pytest.approx(other.tolist())


def test_marginals_are_the_gradient_of_the_partition_and_differentiate_too():
    given = drawn(4, 3, 9)
    starts, lengths = dynograd.tensor([0, 5]), dynograd.tensor([5, 3])
    total = -chain_likelihoods(*given, None, starts, lengths, 1).sum()
    (slope,) = grad(total, given[:1])
    numpy.testing.assert_allclose(
        chain_marginals(*given, starts, lengths, 1).detach().numpy(), slope.numpy(), atol=1e-12
    )
    assert gradcheck(lambda *weights: chain_marginals(*weights, starts, lengths, 1), given)


def test_vmap_makes_one_batch_of_all_examples_and_takes_transitions_of_each():
    x, transitions, first, last = [one.detach() for one in drawn(5, 3, 6)]
    many = dynograd.stack([x, x * 2])
    tags = dynograd.tensor([[0, 1, 2, 0, 1, 2], [2, 2, 2, 0, 0, 0]])
    starts, lengths = dynograd.tensor([0, 3]), dynograd.tensor([[3, 2], [1, 3]])
    dynograd.func.vmap_fallbacks(clear=True)

    def likelihood(x, transitions, tags, lengths):
        return chain_likelihoods(x, transitions, first, last, tags, starts, lengths, 1)

    one_each = dynograd.stack([transitions, -transitions])
    for given, dim in [(transitions, None), (one_each, 0)]:
        found = vmap(likelihood, in_dims=(0, dim, 0, 0))(many, given, tags, lengths)
        for n in range(2):
            own = given if dim is None else given[n]
            wanted = likelihood(many[n], own, tags[n], lengths[n])
            numpy.testing.assert_allclose(found[n].numpy(), wanted.numpy(), rtol=1e-12)
    assert not dynograd.func.vmap_fallbacks()
