"""Densities, moments and samples beside SciPy, float64."""

import math

import numpy
import pytest
from scipy import stats

import dynograd
from dynograd import distributions as D
from dynograd.distributions import constraints

REAL = numpy.array([-1.5, -0.2, 0.3, 2.0])
POSITIVE = numpy.array([0.1, 0.7, 1.3, 4.0])
SHARES = numpy.array([0.05, 0.3, 0.6, 0.95])
COUNTS = numpy.array([0.0, 1.0, 2.0, 5.0])
BITS = numpy.array([0.0, 1.0, 1.0, 0.0])


def wide(value):
    return dynograd.tensor(value, dtype=dynograd.float64)


# name, arguments, SciPy's, values
ROWS = [
    ("Normal", (0.3, 1.7), stats.norm(0.3, 1.7), REAL),
    ("LogNormal", (0.3, 0.5), stats.lognorm(0.5, scale=math.exp(0.3)), POSITIVE),
    ("Uniform", (-2.0, 3.0), stats.uniform(-2.0, 5.0), REAL),
    ("Exponential", (1.7,), stats.expon(scale=1 / 1.7), POSITIVE),
    ("Laplace", (0.3, 1.7), stats.laplace(0.3, 1.7), REAL),
    ("Gumbel", (0.3, 1.7), stats.gumbel_r(0.3, 1.7), REAL),
    ("Gamma", (2.5, 1.7), stats.gamma(2.5, scale=1 / 1.7), POSITIVE),
    ("Gamma", (0.4, 1.7), stats.gamma(0.4, scale=1 / 1.7), POSITIVE),
    ("Chi2", (3.0,), stats.chi2(3.0), POSITIVE),
    ("Beta", (2.5, 0.7), stats.beta(2.5, 0.7), SHARES),
    ("Poisson", (2.5,), stats.poisson(2.5), COUNTS),
    ("Bernoulli", (0.3,), stats.bernoulli(0.3), BITS),
    ("Binomial", (7.0, 0.3), stats.binom(7, 0.3), COUNTS),
    ("Geometric", (0.3,), stats.geom(0.3, loc=-1), COUNTS),
]
IDS = [f"{row[0]}{row[1]}" for row in ROWS]


def made(name, arguments):
    return getattr(D, name)(*[wide(argument) for argument in arguments])


@pytest.mark.parametrize(("name", "arguments", "scipy", "values"), ROWS, ids=IDS)
def test_log_prob_and_moments(name, arguments, scipy, values):
    mine = made(name, arguments)
    density = scipy.logpdf if hasattr(scipy.dist, "pdf") else scipy.logpmf
    numpy.testing.assert_allclose(mine.log_prob(wide(values)).numpy(), density(values), rtol=1e-9)
    numpy.testing.assert_allclose(mine.mean.item(), scipy.mean(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.variance.item(), scipy.var(), rtol=1e-9)
    numpy.testing.assert_allclose(mine.stddev.item(), scipy.std(), rtol=1e-9)
    if name != "Poisson":
        numpy.testing.assert_allclose(mine.entropy().item(), scipy.entropy(), rtol=1e-8)
        numpy.testing.assert_allclose(mine.perplexity().item(), math.exp(scipy.entropy()), rtol=1e-8)


@pytest.mark.parametrize(("name", "arguments", "scipy", "values"), ROWS[:6], ids=IDS[:6])
def test_cdf_and_its_inverse(name, arguments, scipy, values):
    mine = made(name, arguments)
    numpy.testing.assert_allclose(mine.cdf(wide(values)).numpy(), scipy.cdf(values), rtol=1e-9, atol=1e-12)
    numpy.testing.assert_allclose(mine.icdf(wide(SHARES)).numpy(), scipy.ppf(SHARES), rtol=1e-9)


@pytest.mark.parametrize(("name", "arguments", "scipy", "values"), ROWS, ids=IDS)
def test_samples_have_the_moments_and_repeat_with_the_seed(name, arguments, scipy, values):
    mine = made(name, arguments)
    dynograd.manual_seed(5)
    sample = mine.sample((20000,))
    assert sample.shape == (20000,) and sample.dtype == dynograd.float64 and not sample.requires_grad
    result = sample.numpy()
    assert abs(result.mean() - scipy.mean()) < 4 * scipy.std() / math.sqrt(20000)
    assert abs(result.var() / scipy.var() - 1) < 0.15
    dynograd.manual_seed(5)
    assert mine.sample((20000,)).equal(sample)
    assert not mine.sample((20000,)).equal(sample)


@pytest.mark.parametrize(("name", "arguments", "scipy", "values"), ROWS, ids=IDS)
def test_expand_and_float32(name, arguments, scipy, values):
    mine = getattr(D, name)(*[dynograd.tensor(argument) for argument in arguments]).expand((2, 3))
    assert mine.batch_shape == (2, 3) and mine.sample((4,)).shape == (4, 2, 3)
    assert mine.sample().dtype == dynograd.float32
    numpy.testing.assert_allclose(mine.mean.numpy(), numpy.full((2, 3), scipy.mean()), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Normal", ([0.3, -1.0], [1.5, 0.4])),
        ("Laplace", ([0.3, -1.0], [1.5, 0.4])),
        ("Gumbel", ([0.3, -1.0], [1.5, 0.4])),
        ("Uniform", ([0.3, -1.0], [1.5, 0.4])),
        ("Exponential", ([0.5, 2.0],)),
        ("LogNormal", ([0.3, -1.0], [0.2, 0.4])),
        ("Gamma", ([0.4, 9.0], [1.5, 3.0])),
        ("Beta", ([0.4, 9.0], [1.5, 3.0])),
    ],
)
def test_gradients_of_samples_are_those_of_the_moments(name, parameters):
    """The derivative of E[x**2] from samples, beside that of variance + mean**2."""
    argument = [wide(parameter).requires_grad_() for parameter in parameters]
    mine = getattr(D, name)(*argument)
    second = (mine.rsample((40000,)) ** 2).mean(0).sum()
    expected = dynograd.autograd.grad((mine.variance + mine.mean**2).sum(), argument)
    for result, reference in zip(dynograd.autograd.grad(second, argument), expected):
        numpy.testing.assert_allclose(result.numpy(), reference.numpy(), rtol=0.05, atol=0.01)


def test_gradients_of_dirichlet_samples():
    a = wide([0.4, 2.0, 5.0]).requires_grad_()
    mine, weights = D.Dirichlet(a), wide([1.0, 2.0, -1.0])
    (result,) = dynograd.autograd.grad((mine.rsample((40000,)) ** 2 * weights).sum(-1).mean(), a)
    (expected,) = dynograd.autograd.grad(((mine.variance + mine.mean**2) * weights).sum(), a)
    numpy.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=0.05, atol=2e-3)


@pytest.mark.parametrize("a", [0.01, 0.5, 1.0, 5.0, 300.0, 15000.0, 30000.0])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 0.999])
def test_derivative_of_a_gamma_quantile(a, share):
    from scipy.special import gammaincinv

    from dynograd.kernels.random.family_draws_cpu import gamma_derivative

    if a == 0.01 and share == 0.01:
        pytest.skip("the quantile is 1e-201 and differences of it lose their digits")
    h = a * 1e-4
    near = [gammaincinv(a + step * h, share) for step in (-2, -1, 1, 2)]
    expected = (8 * (near[2] - near[1]) - (near[3] - near[0])) / (12 * h)
    result = gamma_derivative(numpy.array([a]), numpy.array([gammaincinv(a, share)]))
    numpy.testing.assert_allclose(result[0], expected, rtol=1e-6)


def test_tiny_concentrations_give_shares_and_finite_gradients():
    a = dynograd.full((50, 3), 1e-3, requires_grad=True)
    sample = D.Dirichlet(a).rsample()
    numpy.testing.assert_allclose(sample.sum(-1).detach().numpy(), 1, rtol=1e-5)
    sample[:, 0].sum().backward()
    assert bool(a.grad.isfinite().all())
    assert bool((D.Gamma(a, 1.0).sample() > 0).all())


class TestCategorical:
    PROBS = numpy.array([[0.2, 0.3, 0.5], [0.6, 0.0, 0.4]])

    def test_values(self):
        mine = D.Categorical(wide(2 * self.PROBS))
        numpy.testing.assert_allclose(mine.probs.numpy(), self.PROBS)
        index = dynograd.tensor([2, 0])
        numpy.testing.assert_allclose(mine.log_prob(index).numpy(), numpy.log([0.5, 0.6]), rtol=1e-9)
        numpy.testing.assert_allclose(mine.entropy().numpy(), stats.entropy(self.PROBS, axis=1), rtol=1e-6)
        assert mine.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
        assert mine.mode.tolist() == [2, 0]
        assert mine.log_prob(mine.enumerate_support()).shape == (3, 2)

    def test_logits(self):
        mine = D.Categorical(logits=wide(numpy.log(self.PROBS[:1]) + 3))
        numpy.testing.assert_allclose(mine.probs.numpy(), self.PROBS[:1], rtol=1e-9)

    def test_samples(self):
        sample = D.Categorical(wide(self.PROBS)).sample((4000,)).numpy()
        assert sample.shape == (4000, 2) and sample.dtype == numpy.int64
        for column in range(2):
            result = numpy.bincount(sample[:, column], minlength=3) / 4000
            numpy.testing.assert_allclose(result, self.PROBS[column], atol=0.03)
        assert D.Categorical(wide(self.PROBS)).sample((2, 5)).shape == (2, 5, 2)

    def test_gradient_of_log_prob(self):
        logits = wide([0.1, 0.2, 0.3]).requires_grad_()
        D.Categorical(logits=logits).log_prob(dynograd.tensor(1)).backward()
        expected = numpy.eye(3)[1] - numpy.exp([0.1, 0.2, 0.3]) / numpy.exp([0.1, 0.2, 0.3]).sum()
        numpy.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-9)

    def test_one_hot(self):
        mine = D.OneHotCategorical(wide(self.PROBS))
        sample = mine.sample((7,))
        assert sample.shape == (7, 2, 3) and bool((sample.sum(-1) == 1).all())
        numpy.testing.assert_allclose(mine.log_prob(wide(numpy.eye(3)[[2, 0]])).numpy(), numpy.log([0.5, 0.6]))
        assert mine.enumerate_support().shape == (3, 2, 3)

    def test_straight_through(self):
        probs = wide([0.2, 0.8]).requires_grad_()
        value = D.OneHotCategoricalStraightThrough(probs).rsample()
        (value * wide([1.0, 2.0])).sum().backward()
        assert sorted(value.detach().round().tolist()) == [0.0, 1.0]
        numpy.testing.assert_allclose(probs.grad.numpy(), [-0.8, 0.2], rtol=1e-9)


class TestMultivariateNormal:
    LOC = numpy.array([0.3, -1.0, 2.0])
    COVARIANCE = numpy.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 3.0]])

    @pytest.mark.parametrize(
        ("name", "matrix"),
        [
            ("covariance_matrix", COVARIANCE),
            ("scale_tril", numpy.linalg.cholesky(COVARIANCE)),
            ("precision_matrix", numpy.linalg.inv(COVARIANCE)),
        ],
    )
    def test_values(self, name, matrix):
        mine = D.MultivariateNormal(wide(self.LOC), **{name: wide(matrix)})
        theirs = stats.multivariate_normal(self.LOC, self.COVARIANCE)
        x = numpy.random.default_rng(0).normal(size=(5, 3))
        numpy.testing.assert_allclose(mine.log_prob(wide(x)).numpy(), theirs.logpdf(x), rtol=1e-9)
        numpy.testing.assert_allclose(mine.entropy().item(), theirs.entropy(), rtol=1e-9)
        numpy.testing.assert_allclose(mine.covariance_matrix.numpy(), self.COVARIANCE, atol=1e-9)
        numpy.testing.assert_allclose(mine.precision_matrix.numpy(), numpy.linalg.inv(self.COVARIANCE), atol=1e-9)
        numpy.testing.assert_allclose(mine.variance.numpy(), numpy.diag(self.COVARIANCE), rtol=1e-9)
        assert mine.expand((4,)).sample((2,)).shape == (2, 4, 3)

    def test_samples_and_their_gradients(self):
        root = wide(numpy.linalg.cholesky(self.COVARIANCE)).requires_grad_()
        sample = D.MultivariateNormal(wide(self.LOC), scale_tril=root).rsample((40000,))
        numpy.testing.assert_allclose(numpy.cov(sample.detach().numpy().T), self.COVARIANCE, atol=0.08)
        (sample[:, 0] ** 2).mean().backward()
        numpy.testing.assert_allclose(root.grad[0, 0].item(), 2 * math.sqrt(2.0), rtol=0.05)


def test_independent_sums_the_log_probabilities():
    base = D.Normal(dynograd.zeros(2, 3), dynograd.ones(2, 3))
    mine = D.Independent(base, 1)
    x = dynograd.randn(2, 3)
    assert mine.log_prob(x).allclose(base.log_prob(x).sum(-1)) and mine.entropy().shape == (2,)
    assert mine.batch_shape == (2,) and mine.event_shape == (3,) and mine.has_rsample
    assert mine.expand((5, 2)).sample().shape == (5, 2, 3)


@pytest.mark.parametrize(
    "transform",
    [
        D.ExpTransform(),
        D.PowerTransform(2.0),
        D.SigmoidTransform(),
        D.SoftplusTransform(),
        D.TanhTransform(),
        D.AffineTransform(0.5, -2.0),
        D.ComposeTransform([D.AffineTransform(0.5, 2.0), D.TanhTransform()]),
    ],
    ids=repr,
)
def test_transforms_have_their_inverse_and_derivative(transform):
    x = wide([0.3, 0.9, 1.4]).requires_grad_()
    y = transform(x)
    numpy.testing.assert_allclose(transform.inv(y).detach().numpy(), x.detach().numpy(), rtol=1e-9)
    (slope,) = dynograd.autograd.grad(y.sum(), x)
    result = transform.log_abs_det_jacobian(x, y).detach().numpy()
    numpy.testing.assert_allclose(result, numpy.log(numpy.abs(slope.numpy())), rtol=1e-8, atol=1e-12)
    numpy.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).detach().numpy(), -result, rtol=1e-8)
    assert transform.sign == (1 if slope[0] > 0 else -1)


def test_transformed_distribution():
    mine = D.TransformedDistribution(D.Normal(wide(0.3), wide(0.5)), [D.AffineTransform(0.0, -1.0), D.ExpTransform()])
    theirs = stats.lognorm(0.5, scale=math.exp(-0.3))
    numpy.testing.assert_allclose(mine.log_prob(wide(POSITIVE)).numpy(), theirs.logpdf(POSITIVE), rtol=1e-9)
    numpy.testing.assert_allclose(mine.cdf(wide(POSITIVE)).numpy(), theirs.cdf(POSITIVE), rtol=1e-9)
    numpy.testing.assert_allclose(mine.icdf(wide(SHARES)).numpy(), theirs.ppf(SHARES), rtol=1e-9)
    assert mine.rsample((3,)).shape == (3,)


@pytest.mark.parametrize("logit", [-100.0, -1.0, 0.0, 1.0, 100.0])
def test_gradients_of_binomial_log_probabilities(logit):
    x = dynograd.tensor(logit, dtype=dynograd.float64, requires_grad=True)
    log_prob = D.Binomial(3, logits=x).log_prob(wide(1.0))
    assert log_prob.item() == pytest.approx(math.log(3) + logit - 3 * numpy.logaddexp(0, logit), rel=1e-12)
    assert dynograd.autograd.grad(log_prob, x)[0].item() == pytest.approx(1 - 3 / (1 + math.exp(-logit)), rel=1e-12)


@pytest.mark.parametrize("kind", [dynograd.float32, dynograd.float64])
@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 1e-2])
def test_shares_of_small_concentrations_are_neither_0_nor_1(kind, concentration):
    distribution = D.Beta(dynograd.tensor(concentration, dtype=kind), dynograd.tensor(concentration, dtype=kind))
    shares = distribution.sample((1000,)).numpy()
    assert 0 < shares.min() < 0.1 and 0.9 < shares.max() < 1
    assert numpy.isfinite(distribution.log_prob(dynograd.tensor(shares)).numpy()).all()


@pytest.mark.parametrize(("concentration", "expected"), [(0.5, math.inf), (1.0, 0.0), (2.0, -math.inf)])
def test_gamma_log_probabilities_at_the_number_0(concentration, expected):
    assert D.Gamma(concentration, 1.0).log_prob(0).item() == expected


def test_expanded_subclasses_stay_subclasses():
    for name, parameters in {
        "Pareto": (1.0, 2.0),
        "Weibull": (1.0, 2.0),
        "Kumaraswamy": (1.0, 2.0),
        "LogisticNormal": ([0.0], [1.0]),
    }.items():
        subclass = type("Own", (getattr(D, name),), {})
        expanded = subclass(*[dynograd.tensor(value) for value in parameters]).expand((3,))
        assert type(expanded) is subclass and expanded.batch_shape == (3,)


PAIRS = [
    ("Normal", (0.3, 1.7), (1.0, 0.5)),
    ("LogNormal", (0.3, 0.7), (1.0, 0.5)),
    ("Exponential", (0.3,), (1.0,)),
    ("Laplace", (0.3, 1.7), (1.0, 0.5)),
    ("Gumbel", (0.3, 0.7), (1.0, 0.9)),
    ("Gamma", (2.3, 1.7), (1.0, 0.5)),
    ("Beta", (2.3, 1.7), (1.0, 0.5)),
    ("Uniform", (0.3, 1.7), (0.0, 2.5)),
    ("Poisson", (2.3,), (1.0,)),
    ("Bernoulli", (0.3,), (0.6,)),
    ("Binomial", (7.0, 0.3), (7.0, 0.6)),
    ("Geometric", (0.3,), (0.6,)),
]


@pytest.mark.parametrize(("name", "one", "two"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_kl_divergence_is_the_mean_log_ratio(name, one, two):
    p, q = made(name, one), made(name, two)
    x = p.sample((40000,))
    ratio = (p.log_prob(x) - q.log_prob(x)).numpy()
    assert abs(D.kl_divergence(p, q).item() - ratio.mean()) < 5 * ratio.std() / 200 + 1e-9
    assert abs(D.kl_divergence(p, p).item()) < 1e-12


@pytest.mark.parametrize(("one", "two"), [(0.5, 0.0), (0.5, 1.0), (0.0, 1.0), (1.0, 0.0)])
def test_kl_divergence_from_what_never_happens_is_infinite(one, two):
    assert D.kl_divergence(D.Bernoulli(wide(one)), D.Bernoulli(wide(two))).item() == math.inf
    assert D.kl_divergence(D.Bernoulli(wide(one)), D.Bernoulli(wide(one))).item() == 0


def test_kl_divergence_of_vectors():
    p, q = wide([0.2, 0.3, 0.5]), wide([0.1, 0.6, 0.3])
    expected = stats.entropy(p.numpy(), q.numpy())
    for kind in (D.Categorical, D.OneHotCategorical):
        numpy.testing.assert_allclose(D.kl_divergence(kind(p), kind(q)).item(), expected, rtol=1e-9)
    assert D.kl_divergence(D.Categorical(wide([0.5, 0.5])), D.Categorical(wide([1.0, 0.0]))).item() == math.inf
    assert D.kl_divergence(D.Categorical(wide([1.0, 0.0])), D.Categorical(wide([1.0, 0.0]))).item() == 0
    a, b = D.Dirichlet(wide([1.0, 2.0])), D.Dirichlet(wide([3.0, 1.5]))
    beta = D.kl_divergence(D.Beta(wide(1.0), wide(2.0)), D.Beta(wide(3.0), wide(1.5)))
    numpy.testing.assert_allclose(D.kl_divergence(a, b).item(), beta.item(), rtol=1e-9)
    element = D.MultivariateNormal(wide([0.3, 1.0]), wide([[4.0, 0.0], [0.0, 1.0]]))
    two = D.MultivariateNormal(wide([0.0, 0.0]), wide([[1.0, 0.0], [0.0, 9.0]]))
    split = D.kl_divergence(
        D.Independent(D.Normal(wide([0.3, 1.0]), wide([2.0, 1.0])), 1),
        D.Independent(D.Normal(wide([0.0, 0.0]), wide([1.0, 3.0])), 1),
    )
    numpy.testing.assert_allclose(D.kl_divergence(element, two).item(), split.item(), rtol=1e-9)


t = dynograd.tensor


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: D.Normal(0.0, -1.0), ValueError, r"parameter scale .* constraint GreaterThan\(lower_bound=0.0\)"),
        (lambda: D.Normal(0.0, 1.0).log_prob(1.0), ValueError, "value argument to log_prob must be a Tensor"),
        (lambda: D.Normal("a", 1.0), ValueError, "instances of Number.*got str"),
        (lambda: D.Bernoulli(0.5).log_prob(t(0.5)), ValueError, r"within the support \(Boolean\(\)\)"),
        (lambda: D.Bernoulli(0.5, 0.5), ValueError, "Either `probs` or `logits`"),
        (lambda: D.Categorical(), ValueError, "Either `probs` or `logits`"),
        (lambda: D.Categorical(t(1.0)), ValueError, "at least one-dimensional"),
        (
            lambda: D.Categorical(t([0.5, 0.5])).log_prob(t(2)),
            ValueError,
            "IntegerInterval.lower_bound=0, upper_bound=1",
        ),
        (lambda: D.Categorical(t([2.0, -1.0])), ValueError, "constraint Simplex"),
        (lambda: D.Uniform(1.0, 0.0), ValueError, "not defined when low>= high"),
        (lambda: D.Uniform(0.0, 1.0).log_prob(t(2.0)), ValueError, "within the support"),
        (
            lambda: D.Normal(t([0.0] * 3), t([1.0] * 3)).log_prob(t([0.0] * 2)),
            ValueError,
            r"broadcastable.*\(2,\) vs \(3,\)",
        ),
        (lambda: D.Dirichlet(t([1.0, 2.0])).log_prob(t([0.2, 0.3, 0.5])), ValueError, r"event_shape: \(3,\) vs \(2,\)"),
        (lambda: D.Dirichlet(t(1.0)), ValueError, "at least one-dimensional"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 2), ValueError, "actual 2 vs 0"),
        (lambda: D.MultivariateNormal(t([0.0])), ValueError, "Exactly one of covariance_matrix"),
        (lambda: D.MultivariateNormal(t(0.0), t([[1.0]])), ValueError, "loc must be at least one-dimensional"),
        (lambda: D.MultivariateNormal(t([0.0]), -t([[1.0]])), ValueError, "PositiveDefinite"),
        (lambda: D.Poisson(1.0).rsample(), NotImplementedError, "Poisson: rsample is not defined.*Use sample"),
        (lambda: D.Beta(1.0, 1.0).cdf(t(1.0)), NotImplementedError, "Beta: cdf"),
        (
            lambda: D.kl_divergence(D.Gamma(1.0, 1.0), D.Bernoulli(0.5)),
            NotImplementedError,
            "p type Gamma and q type Bernoulli",
        ),
        (lambda: D.register_kl(3, D.Normal), TypeError, "type_p to be a Distribution"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [1]), ValueError, "list of Transforms"),
        (lambda: D.ExpTransform(cache_size=2), ValueError, "cache_size must be 0 or 1"),
        (lambda: D.Distribution.set_default_validate_args(3), ValueError, "expected True or False, got 3"),
        (lambda: D.Geometric(0.0), ValueError, "to be positive"),
    ],
)
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_validation_can_be_left_out():
    assert math.isnan(D.Normal(0.0, -1.0, validate_args=False).log_prob(t(0.0)).item())
    assert math.isfinite(D.Bernoulli(0.5, validate_args=False).log_prob(t(0.5)).item())


@pytest.mark.parametrize("kind", ["Independent", "MixtureSameFamily", "TransformedDistribution"])
def test_what_a_class_cannot_say_of_its_support(kind):
    support = getattr(D, kind).support
    assert constraints.is_dependent(support) and repr(support) == "DependentProperty()"
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
        support.event_dim  # noqa: B018
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
        constraints.independent(constraints.dependent, 1).event_dim  # noqa: B018
    assert constraints.independent(constraints.dependent(event_dim=0), 1).event_dim == 1
    assert D.Uniform.support.event_dim == 0
