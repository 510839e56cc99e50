"""The rarer families beside SciPy, divergences beside numerical integration, maps of vectors and of constraints, and mistakes."""

import math

import numpy
import pytest
from scipy import integrate, stats

import dynograd
from dynograd import distributions as D
from dynograd.distributions import constraints, kl

REAL = numpy.array([-1.5, -0.2, 0.3, 2.0])
POSITIVE = numpy.array([0.1, 0.7, 1.3, 4.0])
SHARES = numpy.array([0.05, 0.3, 0.6, 0.95])
COUNTS = numpy.array([0.0, 1.0, 2.0, 5.0])
COVARIANCE = numpy.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 3.0]])


def wide(value):
    return dynograd.tensor(value, dtype=dynograd.float64)


class Kumaraswamy(stats.rv_continuous):
    def _pdf(self, x, a, b):
        return a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)

    def _cdf(self, x, a, b):
        return 1 - (1 - x**a) ** b

    def _ppf(self, q, a, b):
        return (1 - (1 - q) ** (1 / b)) ** (1 / a)


class ContinuousBernoulli(stats.rv_continuous):
    def _pdf(self, x, p):
        return p**x * (1 - p) ** (1 - x) * (2 * numpy.arctanh(1 - 2 * p) / (1 - 2 * p))


# name, arguments, SciPy's, values
ROWS = [
    ("Cauchy", (0.3, 1.7), stats.cauchy(0.3, 1.7), REAL),
    ("HalfCauchy", (1.7,), stats.halfcauchy(scale=1.7), POSITIVE),
    ("HalfNormal", (1.7,), stats.halfnorm(scale=1.7), POSITIVE),
    ("StudentT", (4.5, 0.3, 1.7), stats.t(4.5, 0.3, 1.7), REAL),
    ("FisherSnedecor", (3.0, 9.0), stats.f(3.0, 9.0), POSITIVE),
    ("Pareto", (0.1, 4.5), stats.pareto(4.5, scale=0.1), POSITIVE),
    ("GeneralizedPareto", (-2.0, 1.7, 0.2), stats.genpareto(0.2, -2.0, 1.7), REAL),
    ("GeneralizedPareto", (-2.0, 3.7, -0.4), stats.genpareto(-0.4, -2.0, 3.7), REAL),
    ("GeneralizedPareto", (-2.0, 1.7, 0.0), stats.expon(-2.0, 1.7), REAL),
    ("InverseGamma", (4.5, 1.7), stats.invgamma(4.5, scale=1.7), POSITIVE),
    ("Weibull", (1.7, 2.3), stats.weibull_min(2.3, scale=1.7), POSITIVE),
    ("Kumaraswamy", (2.3, 1.7), Kumaraswamy(a=0, b=1, name="kumaraswamy")(2.3, 1.7), SHARES),
    ("ContinuousBernoulli", (0.2,), ContinuousBernoulli(a=0, b=1, name="continuous")(0.2), SHARES),
    ("NegativeBinomial", (3.0, 0.3), stats.nbinom(3, 0.7), COUNTS),
]
IDS = [f"{row[0]}{row[1]}" for row in ROWS]


@pytest.mark.parametrize(("name", "arguments", "theirs", "values"), ROWS, ids=IDS)
def test_families_beside_scipy(name, arguments, theirs, values):
    mine = getattr(D, name)(*[wide(argument) for argument in arguments])
    density = theirs.logpdf if hasattr(theirs.dist, "pdf") else theirs.logpmf
    numpy.testing.assert_allclose(mine.log_prob(wide(values)).numpy(), density(values), rtol=1e-8)
    finite = numpy.isfinite(theirs.mean()) and numpy.isfinite(theirs.var())
    if finite:
        numpy.testing.assert_allclose(
            [mine.mean.item(), mine.variance.item()], [theirs.mean(), theirs.var()], rtol=1e-6
        )
    if name not in ("FisherSnedecor", "NegativeBinomial"):
        numpy.testing.assert_allclose(mine.entropy().item(), theirs.entropy(), rtol=1e-6)
        if name != "StudentT":
            numpy.testing.assert_allclose(mine.cdf(wide(values)).numpy(), theirs.cdf(values), rtol=1e-6)
        if name not in ("StudentT", "InverseGamma"):
            numpy.testing.assert_allclose(mine.icdf(mine.cdf(wide(values))).numpy(), values, rtol=1e-7)
    dynograd.manual_seed(3)
    sample = mine.sample((20000,)).numpy()
    marks = theirs.ppf([0.1, 0.5, 0.9])
    if name == "NegativeBinomial":
        assert abs(sample.mean() - theirs.mean()) < 4 * theirs.std() / math.sqrt(20000)
    else:
        numpy.testing.assert_allclose([(sample <= mark).mean() for mark in marks], [0.1, 0.5, 0.9], atol=0.012)
    wider = mine.expand((2, 3))
    assert wider.batch_shape == (2, 3) and wider.sample((4,)).shape == (4, 2, 3)


def test_moments_that_do_not_exist():
    assert D.Cauchy(0.0, 1.0).mean.isnan() and D.HalfCauchy(1.0).mean.isinf()
    t = D.StudentT(dynograd.tensor([0.5, 1.5, 3.0]))
    assert t.mean.isnan().tolist() == [True, False, False] and t.variance.isinf().tolist() == [False, True, False]
    assert D.Pareto(1.0, 1.5).variance.isinf() and D.GeneralizedPareto(0.0, 1.0, 1.5).mean.isinf()
    assert D.FisherSnedecor(2.0, 2.0).mean.isnan() and D.InverseGamma(1.0, 1.0).mean.isinf()


def test_von_mises():
    mine, theirs = D.VonMises(wide(0.4), wide(2.5)), stats.vonmises(2.5, 0.4)
    numpy.testing.assert_allclose(mine.log_prob(wide(REAL)).numpy(), theirs.logpdf(REAL), rtol=1e-9)
    dynograd.manual_seed(1)
    sample = mine.sample((20000,))
    assert sample.dtype == dynograd.float64 and bool((sample.abs() <= math.pi).all())
    numpy.testing.assert_allclose(((sample - 0.4).cos()).mean().item(), 1 - mine.variance.item(), atol=0.01)
    assert abs((sample - 0.4).sin().mean().item()) < 0.015
    flat = D.VonMises(wide(0.0), wide(1e-7)).sample((20000,))
    numpy.testing.assert_allclose(
        [(flat < mark).double().mean().item() for mark in (-1.5, 0.0, 1.5)], [0.261, 0.5, 0.739], atol=0.015
    )


def test_multinomial():
    p = numpy.array([0.2, 0.3, 0.5])
    mine, theirs = D.Multinomial(4, wide(p)), stats.multinomial(4, p)
    counts = numpy.array([[4, 0, 0], [1, 1, 2]])
    numpy.testing.assert_allclose(mine.log_prob(wide(counts)).numpy(), theirs.logpmf(counts), rtol=1e-9)
    numpy.testing.assert_allclose(mine.entropy().item(), theirs.entropy(), rtol=1e-9)
    sample = mine.sample((5000,))
    assert bool((sample.sum(-1) == 4).all())
    numpy.testing.assert_allclose(sample.mean(0).numpy(), mine.mean.numpy(), atol=0.06)
    impossible = D.Multinomial(2, logits=wide([0.0, -numpy.inf])).log_prob(wide([[2.0, 0.0], [1.0, 1.0]]))
    numpy.testing.assert_allclose(impossible.numpy(), [0, -numpy.inf])


def test_relaxed_samples_have_gradients_and_come_near_corners():
    logits = wide([0.3, -0.5, 1.0]).requires_grad_()
    sample = D.RelaxedOneHotCategorical(wide(0.05), logits=logits).rsample((2000,))
    numpy.testing.assert_allclose(sample.sum(-1).detach().numpy(), 1, rtol=1e-9)
    shares = dynograd.nn.functional.one_hot(sample.argmax(-1), 3).double().mean(0)
    numpy.testing.assert_allclose(shares.numpy(), logits.detach().softmax(0).numpy(), atol=0.04)
    sample[:, 0].mean().backward()
    assert logits.grad[0] > 0 > logits.grad[2]
    bits = D.RelaxedBernoulli(wide(0.05), probs=wide([0.2, 0.9])).rsample((2000,))
    numpy.testing.assert_allclose((bits > 0.5).double().mean(0).numpy(), [0.2, 0.9], atol=0.04)


@pytest.mark.parametrize("temperature", [0.9, 1.5])
def test_relaxed_densities_integrate_to_one(temperature):
    mine = D.RelaxedBernoulli(wide(temperature), probs=wide(0.3))
    area, _ = integrate.quad(lambda x: mine.log_prob(wide(x)).exp().item(), 1e-9, 1 - 1e-9, limit=200)
    assert abs(area - 1) < 1e-3
    pair = D.RelaxedOneHotCategorical(wide(temperature), probs=wide([0.3, 0.7]), validate_args=False)
    area, _ = integrate.quad(lambda x: pair.log_prob(wide([x, 1 - x])).exp().item(), 1e-9, 1 - 1e-9, limit=200)
    assert abs(area - 1) < 1e-3


@pytest.mark.parametrize("logit", [100.0, -100.0, 30.0, -5.0])
def test_continuous_bernoulli_whose_probability_rounds_to_one(logit):
    """The density is logit / (exp(logit) - 1) * exp(logit * x), in float32 as in float64."""
    for dtype in (dynograd.float32, dynograd.float64):
        leaf = dynograd.tensor(logit, dtype=dtype, requires_grad=True)
        mine = D.ContinuousBernoulli(logits=leaf)
        x = numpy.array([0.25, 0.5, 0.99])
        density = math.log(abs(logit)) + logit * x - (logit if logit > 0 else 0) - math.log(-math.expm1(-abs(logit)))
        mean = (
            1 / logit * -1 + 1 / -math.expm1(-logit) if logit > 0 else -1 / logit - math.exp(logit) / -math.expm1(logit)
        )
        numpy.testing.assert_allclose(mine.log_prob(dynograd.tensor(x, dtype=dtype)).tolist(), density, rtol=1e-5)
        numpy.testing.assert_allclose(mine.mean.item(), mean, rtol=1e-4)
        numpy.testing.assert_allclose(
            mine.entropy().item(), -(density[0] + logit * (mean - 0.25)), rtol=1e-4, atol=1e-4
        )
        middle = math.log(0.5 * math.expm1(-abs(logit)) + 1) / -abs(logit)
        numpy.testing.assert_allclose(
            mine.icdf(dynograd.tensor(0.5, dtype=dtype)).item(), middle if logit < 0 else 1 - middle, rtol=1e-4
        )
        mine.log_prob(dynograd.tensor(0.5, dtype=dtype)).backward()
        numpy.testing.assert_allclose(leaf.grad.item(), 0.5 - mean, rtol=1e-4)


def test_continuous_bernoulli_near_one_half():
    for step in (0.0, 1e-4, 1.01e-3):  # inside the limits the Taylor series, outside the closed form
        p = 0.5 + step
        mine = D.ContinuousBernoulli(wide(p))
        norm, _ = integrate.quad(lambda x, p=p: p**x * (1 - p) ** (1 - x), 0, 1)
        mean, _ = integrate.quad(lambda x, p=p: x * p**x * (1 - p) ** (1 - x), 0, 1)
        numpy.testing.assert_allclose(mine.mean.item(), mean / norm, rtol=1e-9)
        numpy.testing.assert_allclose(
            mine.log_prob(wide(0.3)).item(), math.log(p**0.3 * (1 - p) ** 0.7 / norm), rtol=1e-9
        )


def test_low_rank_normal_vectors():
    factor, diagonal = numpy.array([[1.0], [0.5], [-1.0]]), numpy.array([0.5, 1.0, 2.0])
    covariance = factor @ factor.T + numpy.diag(diagonal)
    mine = D.LowRankMultivariateNormal(wide(REAL[:3]), wide(factor), wide(diagonal))
    theirs = stats.multivariate_normal(REAL[:3], covariance)
    x = numpy.random.default_rng(0).normal(size=(5, 3))
    numpy.testing.assert_allclose(mine.log_prob(wide(x)).numpy(), theirs.logpdf(x), rtol=1e-9)
    numpy.testing.assert_allclose(mine.entropy().item(), theirs.entropy(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.precision_matrix.numpy(), numpy.linalg.inv(covariance), atol=1e-9)
    numpy.testing.assert_allclose(mine.scale_tril.numpy(), numpy.linalg.cholesky(covariance), atol=1e-9)
    sample = mine.expand((2,)).rsample((20000,))
    numpy.testing.assert_allclose(numpy.cov(sample[:, 1].numpy().T), covariance, atol=0.1)
    whole = D.MultivariateNormal(wide(REAL[:3]), wide(covariance))
    other = D.LowRankMultivariateNormal(wide(POSITIVE[:3]), wide(2 * factor), wide(diagonal + 1))
    full = D.MultivariateNormal(wide(POSITIVE[:3]), wide(4 * factor @ factor.T + numpy.diag(diagonal + 1)))
    expected = D.kl_divergence(whole, full).item()
    for p, q in ((mine, other), (whole, other), (mine, full)):
        numpy.testing.assert_allclose(D.kl_divergence(p, q).item(), expected, rtol=1e-9)


def test_packages_draw_wishart_matrices_by_bartlett():
    dynograd.manual_seed(0)
    family = D.Wishart(wide(5.5), wide(COVARIANCE))
    drawn = family.rsample((3,))
    dynograd.manual_seed(0)
    assert dynograd.equal(family._bartlett_sampling((3,)), drawn)


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("covariance_matrix", COVARIANCE),
        ("scale_tril", numpy.linalg.cholesky(COVARIANCE)),
        ("precision_matrix", numpy.linalg.inv(COVARIANCE)),
    ],
)
def test_wishart(name, matrix):
    mine, theirs = D.Wishart(wide(5.5), **{name: wide(matrix)}), stats.wishart(5.5, COVARIANCE)
    x = theirs.rvs(4, random_state=0)
    result = [mine.log_prob(wide(element)).item() for element in x]
    numpy.testing.assert_allclose(result, [theirs.logpdf(element) for element in x], rtol=1e-9)
    numpy.testing.assert_allclose(mine.entropy().item(), theirs.entropy(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.variance.numpy(), theirs.var(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.mode.numpy(), theirs.mode(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.rsample((20000,)).mean(0).numpy(), theirs.mean(), atol=0.3)
    assert mine.expand((2,)).sample().shape == (2, 3, 3)


def test_lkj_correlations():
    """The marginal of each correlation is beta (Lewandowski et al., theorem 1), mapped to (-1, 1)."""
    mine = D.LKJCholesky(3, wide(1.5))
    dynograd.manual_seed(0)
    root = mine.sample((4000,))
    assert bool(constraints.corr_cholesky.check(root).all())
    matrix = (root @ root.mT).numpy()
    marginal = stats.beta(1.5 - 1 + 1.5, 1.5 - 1 + 1.5, loc=-1, scale=2)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert stats.kstest(matrix[:, i, j], marginal.cdf).pvalue > 1e-3
    # uniform over correlation matrices for concentration 1: det^0 and the Jacobian of the root alone
    flat = D.LKJCholesky(2, wide(1.0))
    numpy.testing.assert_allclose(flat.log_prob(wide([[1.0, 0.0], [0.6, 0.8]])).item(), math.log(0.5), rtol=1e-9)


def test_mixtures():
    mine = D.MixtureSameFamily(D.Categorical(wide([0.3, 0.7])), D.Normal(wide([-1.0, 2.0]), wide([0.5, 1.0])))
    theirs = [stats.norm(-1.0, 0.5), stats.norm(2.0, 1.0)]
    numpy.testing.assert_allclose(
        mine.log_prob(wide(REAL)).numpy(), numpy.log(0.3 * theirs[0].pdf(REAL) + 0.7 * theirs[1].pdf(REAL)), rtol=1e-9
    )
    numpy.testing.assert_allclose(mine.cdf(wide(REAL)).numpy(), 0.3 * theirs[0].cdf(REAL) + 0.7 * theirs[1].cdf(REAL))
    sample = mine.sample((20000,))
    numpy.testing.assert_allclose(
        [sample.mean().item(), sample.var().item()], [mine.mean.item(), mine.variance.item()], atol=0.06
    )
    vectors = D.MixtureSameFamily(
        D.Categorical(wide([[0.3, 0.7], [0.5, 0.5]])),
        D.Independent(D.Normal(wide(numpy.zeros((2, 2, 3))), wide(1.0)), 1),
    )
    assert vectors.sample((5,)).shape == (5, 2, 3) and vectors.log_prob(vectors.sample((5,))).shape == (5, 2)
    assert vectors.expand((4, 2)).sample().shape == (4, 2, 3)


# --- divergences -------------------------------------------------------------------------------------------------------------

SIDES = {
    "Normal": (0.4, 0.8),
    "Laplace": (-0.3, 1.2),
    "Gumbel": (0.2, 1.1),
    "Cauchy": (0.1, 1.3),
    "Exponential": (1.4,),
    "Gamma": (2.2, 1.4),
    "Beta": (2.2, 1.6),
    "ContinuousBernoulli": (0.3,),
    "Uniform": (0.1, 0.8),
    "Pareto": (0.05, 3.2),
    "HalfNormal": (0.9,),
}
RANGES = {
    **dict.fromkeys(("Normal", "Laplace", "Gumbel"), (-30, 30)),
    "Cauchy": (-numpy.inf, numpy.inf),
    **dict.fromkeys(("Exponential", "Gamma", "HalfNormal"), (0, 60)),
    **dict.fromkeys(("Beta", "ContinuousBernoulli"), (0, 1)),
    "Uniform": (0.1, 0.8),
    "Pareto": (0.05, numpy.inf),
}


def panels(count=60, inner=24):
    """Gauss-Legendre nodes and weights of (-1, 1) in panels."""
    t, weight = numpy.polynomial.legendre.leggauss(inner)
    middles = (2 * numpy.arange(count) + 1) / count - 1
    return (middles[:, None] + t / count).reshape(-1), numpy.tile(weight / count, count)


NODES = panels()


def pairs():
    for p in SIDES:
        for q in SIDES:
            element, two = getattr(D, p)(*map(wide, SIDES[p])), getattr(D, q)(*[wide(1.1 * side) for side in SIDES[q]])
            try:
                yield pytest.param(p, element, two, D.kl_divergence(element, two).item(), id=f"{p}-{q}")
            except NotImplementedError:
                continue


@pytest.mark.parametrize(("name", "p", "q", "result"), list(pairs()))
def test_divergences_beside_integration(name, p, q, result):
    low, high = RANGES[name]
    t, weight = NODES
    if numpy.isinf(low):
        x, slope = t / (1 - t**2), (1 + t**2) / (1 - t**2) ** 2
    elif numpy.isinf(high):
        x, slope = low + (1 + t) / (1 - t), 2 / (1 - t) ** 2
    else:
        x, slope = low + (high - low) * (1 + t) / 2, (high - low) / 2
    value = wide(x)
    first = p.log_prob(value).numpy()
    inside = q.support.check(value).numpy()
    second = numpy.full_like(first, -numpy.inf)
    second[inside] = q.log_prob(wide(x[inside])).numpy()
    if not inside[numpy.exp(first) * slope * weight > 1e-12].all():
        assert result == math.inf
        return
    some = inside & numpy.isfinite(first)
    expected = (weight * slope * numpy.exp(first) * (first - second))[some].sum()
    numpy.testing.assert_allclose(result, expected, rtol=5e-3, atol=1e-4)


def test_there_are_enough_divergences():
    assert len(list(pairs())) >= 70


# --- maps --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (D.StickBreakingTransform(), (3,)),
        (D.CorrCholeskyTransform(), (3,)),
        (D.ReshapeTransform((4,), (2, 2)), (4,)),
        (D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=-1, lengths=[2, 1]), (3,)),
        (D.StackTransform([D.ExpTransform(), D.SigmoidTransform()], dim=-1), (2,)),
        (D.CumulativeDistributionTransform(D.Normal(wide(0.2), wide(1.5))), ()),
    ],
    ids=lambda one: repr(one)[:24],
)  # fmt: skip
def test_maps_of_vectors(transform, shape):
    x = wide(numpy.random.default_rng(1).normal(size=shape) * 0.7)
    y = transform(x)
    numpy.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-6, atol=1e-8)
    assert transform.forward_shape(x.shape) == y.shape and transform.inverse_shape(y.shape) == x.shape
    matrix = dynograd.func.jacrev(lambda one: transform(one).reshape(-1))(x).reshape(-1, max(1, x.numel())).numpy()
    if isinstance(transform, D.StickBreakingTransform):
        matrix = matrix[:-1]
    elif isinstance(transform, D.CorrCholeskyTransform):
        matrix = matrix.reshape(3, 3, 3)[numpy.tril_indices(3, -1)]
    result = transform.log_abs_det_jacobian(x, y).sum().item()
    numpy.testing.assert_allclose(result, numpy.linalg.slogdet(matrix)[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
@pytest.mark.parametrize(
    "region",
    [
        constraints.real,
        constraints.positive,
        constraints.nonnegative,
        constraints.greater_than(2.0),
        constraints.greater_than_eq(2.0),
        constraints.less_than(-1.0),
        constraints.unit_interval,
        constraints.interval(-2.0, 5.0),
        constraints.half_open_interval(-2.0, 5.0),
        constraints.simplex,
        constraints.real_vector,
        constraints.corr_cholesky,
        constraints.lower_cholesky,
        constraints.positive_definite,
        constraints.cat([constraints.positive, constraints.unit_interval], dim=-1, lengths=[2, 1]),
        constraints.stack([constraints.positive, constraints.real, constraints.unit_interval], dim=-1),
    ],
    ids=repr,
)
def test_maps_onto_regions(registry, region):
    x = wide(numpy.random.default_rng(0).normal(size=(3, 3)))
    if region is constraints.corr_cholesky:
        x = x[0]
    y = registry(region)(x)
    assert bool(region.check(y).all())
    numpy.testing.assert_allclose(registry(region)(x).numpy(), y.numpy())


def test_own_maps_can_be_registered():
    class Odd(constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Odd constraints"):
        D.transform_to(Odd())

    @D.transform_to.register(Odd)
    def odd(constraint):
        return D.ExpTransform()

    assert isinstance(D.transform_to(Odd()), D.ExpTransform)
    with pytest.raises(
        TypeError, match="Expected constraint to be either a Constraint subclass or instance, but got 3"
    ):
        D.biject_to.register(3, odd)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: D.NegativeBinomial(3.0), ValueError, "Either `probs` or `logits`"),
        (lambda: D.NegativeBinomial(3.0, probs=1.0), ValueError, "parameter probs .*HalfOpenInterval"),
        (lambda: D.Multinomial(dynograd.tensor([1, 2]), dynograd.ones(2)), NotImplementedError, "inhomogeneous total_count"),
        (lambda: D.Multinomial(2, dynograd.ones(2)).log_prob(dynograd.tensor([3.0, 0.0])), ValueError, "Multinomial.upper_bound=2"),
        (lambda: D.RelaxedBernoulli(0.5), ValueError, "Either `probs` or `logits`"),
        (lambda: D.LKJCholesky(1), ValueError, "Found dim=1"),
        (lambda: D.Wishart(1.0, dynograd.eye(3)), ValueError, "df=1.0 expected to be greater than ndim - 1 = 2"),
        (lambda: D.Wishart(4.0), ValueError, "exactly one of covariance_matrix"),
        (lambda: D.Wishart(4.0, dynograd.ones(3)), ValueError, "covariance_matrix must be at least two-dimensional"),
        (lambda: D.LowRankMultivariateNormal(dynograd.zeros(3), dynograd.ones(2, 1), dynograd.ones(3)), ValueError, "3 x m, got shape .2, 1."),
        (lambda: D.LowRankMultivariateNormal(dynograd.zeros(3), dynograd.ones(3, 1), dynograd.ones(2)), ValueError, "shape .3,., got shape .2,."),
        (lambda: D.LowRankMultivariateNormal(dynograd.tensor(1.0), dynograd.ones(3, 1), dynograd.ones(2)), ValueError, "loc must be at least"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)), ValueError, "instance of Categorical, got Normal"),
        (lambda: D.MixtureSameFamily(D.Categorical(dynograd.ones(2)), 3), ValueError, "instance of Distribution, got 3"),
        (lambda: D.MixtureSameFamily(D.Categorical(dynograd.ones(2)), D.Normal(dynograd.zeros(3), 1.0)), ValueError, r"component` \(2\).*\(3\)"),
        (lambda: D.CatTransform([D.ExpTransform()], lengths=[1, 2]), ValueError, "1 transforms but 2 lengths"),
        (lambda: D.CatTransform([D.ExpTransform()], lengths=[1])(dynograd.ones(2)), ValueError, "expected 1 places along dim 0"),
        (lambda: D.StackTransform([D.ExpTransform()])(dynograd.ones(2)), ValueError, "expected 1 places along dim 0"),
        (lambda: D.StackTransform([3]), TypeError, "expected a list of Transforms"),
        (lambda: D.ReshapeTransform((2,), (3,)), ValueError, "different numbers of elements"),
        (lambda: D.ReshapeTransform((2,), (2, 1))(dynograd.ones(3)), ValueError, r"last dims to be \(2,\), got \(3,\)"),
        (lambda: D.CorrCholeskyTransform().forward_shape((4,)), ValueError, "input size 4"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((4, 3)), ValueError, r"square matrices, got shape \(4, 3\)"),
        (lambda: constraints.cat([3]), TypeError, "expected a list of constraints"),
        (lambda: D.ContinuousBernoulli(dynograd.tensor(1.5), validate_args=True), ValueError, "probs has invalid values"),
    ],
)  # fmt: skip
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_triangles_and_vectors():
    from dynograd.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    vec = wide([1.0, 2.0, 3.0])
    assert vec_to_tril_matrix(vec).tolist() == [[1, 0], [2, 3]]
    assert vec_to_tril_matrix(vec, diag=-1).shape == (3, 3)
    assert tril_matrix_to_vec(vec_to_tril_matrix(vec, diag=-1), diag=-1).equal(vec)
    with pytest.raises(ValueError, match="size of the last dimension is 4"):
        vec_to_tril_matrix(wide([1.0] * 4))
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-2, 1\]"):
        tril_matrix_to_vec(wide([[1.0, 2.0], [3.0, 4.0]]), diag=3)


# --- exponential families ----------------------------------------------------------------------------------------------------

SPREAD = numpy.array([[2.0, 0.3], [0.3, 1.0]])
FAMILIES = [  # name, arguments of p, of q; whether the entropy follows from the log normalizer
    ("Normal", ([0.3, -1.0], 1.7), ([0.1, 2.0], 0.6), True),
    ("Bernoulli", ([0.2, 0.7],), ([0.9, 0.4],), True),
    ("ContinuousBernoulli", ([0.2, 0.5001],), ([0.9, 0.4],), True),
    ("Exponential", ([0.4, 3.0],), ([2.0, 1.0],), True),
    ("Gamma", ([0.4, 3.0], 1.5), ([2.0, 1.0], 0.3), True),
    ("Chi2", ([0.4, 3.0],), ([2.0, 1.0],), True),
    ("Wishart", (4.5, SPREAD), (3.1, numpy.eye(2)), True),
    ("Beta", ([0.4, 3.0], 1.5), ([2.0, 1.0], 0.3), False),
    ("Dirichlet", ([[0.4, 3.0, 1.0], [1.0, 2.0, 3.0]],), ([2.0, 1.0, 0.5],), False),
    ("Poisson", ([0.4, 3.0],), ([2.0, 1.0],), False),
]


@pytest.mark.parametrize("row", FAMILIES, ids=[row[0] for row in FAMILIES])
def test_divergence_and_entropy_follow_from_the_log_normalizer(row):
    name, p, q, has_entropy = row
    p, q = [getattr(D, name)(*map(wide, arguments)) for arguments in (p, q)]
    assert isinstance(p, D.ExponentialFamily)
    divergence = kl._exponential_families(p, q)
    dynograd.testing.assert_close(divergence.detach(), D.kl_divergence(p, q), rtol=1e-9, atol=1e-12)
    if has_entropy:
        dynograd.testing.assert_close(D.ExponentialFamily.entropy(p).detach(), p.entropy(), rtol=1e-6, atol=1e-8)
    else:
        with pytest.raises(NotImplementedError, match=f"{name}: _mean_carrier_measure must be given"):
            D.ExponentialFamily.entropy(p)


def test_a_family_of_the_program_has_divergence_and_entropy():
    class Waiting(D.ExponentialFamily):
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -(-x).log()

    rates = wide([0.4, 3.0]), wide([2.0, 1.0])
    p, q = map(Waiting, rates)
    expected = D.kl_divergence(*map(D.Exponential, rates))
    dynograd.testing.assert_close(D.kl_divergence(p, q).detach(), expected)
    with pytest.raises(NotImplementedError, match="for p type Waiting and q type Poisson. Add one with register_kl"):
        D.kl_divergence(p, D.Poisson(1.0))
