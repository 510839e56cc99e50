"""GPyTorch, BoTorch, Pyro, normalizing flows."""

from __future__ import annotations

from typing import Any

import torch

from packages.values import filled, normal, program, trained


def _curve() -> tuple[Any, Any]:
    x = torch.linspace(0, 1, 20)
    return x, torch.sin(6 * x) + 0.1 * normal(20)


@program
def gpytorch_exact() -> dict[str, Any]:
    import gpytorch

    x, y = _curve()

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = trained(
        model.parameters(), lambda: -objective(model(x), y), 10, torch.optim.Adam(model.parameters(), lr=0.1)
    )
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        predicted = likelihood(model(torch.linspace(0, 1.2, 7)))
        return {
            "losses": losses,
            "mean": predicted.mean,
            "variance": predicted.variance,
            "scale": model.covar_module.base_kernel.lengthscale,
        }


@program
def gpytorch_kernels() -> dict[str, Any]:
    import gpytorch

    x, z, kernels = normal(6, 2), normal(4, 2, seed=1), gpytorch.kernels
    kinds = {
        "rbf": kernels.RBFKernel(ard_num_dims=2),
        "matern": kernels.MaternKernel(nu=2.5),
        "matern1": kernels.MaternKernel(nu=0.5),
        "periodic": kernels.PeriodicKernel(),
        "rq": kernels.RQKernel(),
        "linear": kernels.LinearKernel(),
        "poly": kernels.PolynomialKernel(2),
        "cosine": kernels.CosineKernel(),
        "piecewise": kernels.PiecewisePolynomialKernel(q=1),
        "sum": kernels.RBFKernel() + kernels.LinearKernel(),
        "product": kernels.RBFKernel() * kernels.PeriodicKernel(),
        "spectral": filled(kernels.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=2)),
        "constant": kernels.ScaleKernel(kernels.RBFKernel()),
        "arc": kernels.ArcKernel(kernels.MaternKernel(nu=1.5)),
        "index": None,
    }
    results = {name: kernel(x, z).to_dense() for name, kernel in kinds.items() if kernel is not None}
    covariance = kernels.RBFKernel()(x).add_jitter(0.1)
    return results | {
        "solve": covariance.solve(normal(6, 1)),
        "logdet": covariance.logdet(),
        "root": covariance.cholesky().to_dense(),
        "diagonal": covariance.diagonal(),
    }


@program
def gpytorch_variational() -> dict[str, Any]:
    import gpytorch

    x, y = _curve()

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            points = torch.linspace(0, 1, 5)[:, None]
            distribution = gpytorch.variational.CholeskyVariationalDistribution(5)
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
            self.mean_module, self.covar_module = (
                gpytorch.means.ConstantMean(),
                gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel()),
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    model.variational_strategy.variational_params_initialized.fill_(1)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, 20)
    parameters = [*model.parameters(), *likelihood.parameters()]
    losses = trained(parameters, lambda: -objective(model(x), y), 8, torch.optim.Adam(parameters, lr=0.05))
    return {"losses": losses, "mean": model.eval()(x).mean}


@program
def botorch() -> dict[str, Any]:
    from botorch.acquisition import ExpectedImprovement, LogExpectedImprovement, UpperConfidenceBound
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = normal(12, 2).sigmoid().double()
    y = (x.sum(1, keepdim=True) * 3).sin()
    model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
    objective = ExactMarginalLogLikelihood(model.likelihood, model)
    losses = trained(
        model.parameters(),
        lambda: -objective(model(*model.train_inputs), model.train_targets),
        5,
        torch.optim.Adam(model.parameters(), 0.001),
    )
    points = normal(5, 1, 2, seed=1).sigmoid().double()
    posterior = model.eval().posterior(points[:, 0])
    return {
        "losses": losses,
        "mean": posterior.mean,
        "variance": posterior.variance,
        "ei": ExpectedImprovement(model, best_f=y.max())(points),
        "logei": LogExpectedImprovement(model, best_f=y.max())(points),
        "ucb": UpperConfidenceBound(model, beta=0.2)(points),
    }


@program
def pyro_svi() -> dict[str, Any]:
    """Point estimates, which need no draws; and an ELBO with the draws replaced by means."""
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
    from pyro.infer.autoguide import AutoDelta

    pyro.clear_param_store()
    x, y = _curve()

    def model() -> None:
        slope, bias = pyro.sample("slope", dist.Normal(0.0, 1.0)), pyro.sample("bias", dist.Normal(0.0, 1.0))
        noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
        with pyro.plate("rows", len(x)):
            pyro.sample("y", dist.Normal(slope * x + bias, noise), obs=y)

    guide = AutoDelta(model, init_loc_fn=lambda site: torch.tensor(0.5))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step() for _ in range(10)]

    pyro.clear_param_store()

    @config_enumerate
    def mixture() -> None:
        weights = pyro.param("weights", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
        means = pyro.param("means", torch.tensor([-0.5, 0.5]))
        with pyro.plate("rows", len(y)):
            place = pyro.sample("place", dist.Categorical(weights))
            pyro.sample("y", dist.Normal(means[place], 0.5), obs=y)

    svi = SVI(mixture, lambda: None, pyro.optim.Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
    enumerated = [svi.step() for _ in range(8)]
    return {
        "losses": losses,
        "median": {name: value.detach() for name, value in guide.median().items()},
        "enumerated": enumerated,
        "means": pyro.param("means"),
    }


@program
def pyro_distributions() -> dict[str, Any]:
    import pyro.distributions as dist
    import pyro.nn as pyro_nn
    from pyro.infer import Predictive
    from pyro.infer.mcmc.util import initialize_model
    from pyro.poutine import trace

    x = normal(5).sigmoid()
    kinds = {
        "beta_binomial": dist.BetaBinomial(2.0, 3.0, 10).log_prob(torch.arange(5.0)),
        "zip": dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)).log_prob(torch.arange(5.0)),
        "gamma_poisson": dist.GammaPoisson(2.0, 3.0).log_prob(torch.arange(5.0)),
        "skew": dist.AsymmetricLaplace(0.0, 1.0, 2.0).log_prob(x),
        "stable": None,
        "projected": dist.ProjectedNormal(torch.ones(2)).log_prob(torch.tensor([0.6, 0.8])),
        "lkj": dist.LKJCholesky(3, 2.0).log_prob(torch.eye(3)),
        "affine_beta": dist.AffineBeta(2.0, 3.0, 1.0, 2.0).log_prob(x + 1.2),
        "hmm": dist.GaussianHMM(
            dist.Normal(0.0, 1.0).expand([2]).to_event(1),
            torch.eye(2),
            dist.Normal(0.0, 1.0).expand([2]).to_event(1),
            torch.eye(2),
            dist.Normal(0.0, 0.5).expand([2]).to_event(1),
        ).log_prob(normal(6, 2)),
        "spline": dist.TransformedDistribution(
            dist.Normal(0.0, 1.0).expand([2]).to_event(1), [filled(dist.transforms.Spline(2))]
        ).log_prob(normal(4, 2) * 0.5),
        "flow": dist.TransformedDistribution(
            dist.Normal(0.0, 1.0).expand([2]).to_event(1),
            [
                filled(
                    dist.transforms.AffineAutoregressive(pyro_nn.AutoRegressiveNN(2, [8], permutation=torch.arange(2)))
                )
            ],
        ).log_prob(normal(4, 2)),
    }
    assert Predictive is not None and initialize_model is not None and trace is not None
    return {name: value for name, value in kinds.items() if value is not None}


@program
def pyro_nuts() -> dict[str, Any]:
    """NUTS: the draws differ between libraries, so what is compared is where they lie, coarsely, and the potential that they follow."""
    import pyro
    import pyro.distributions as dist
    from pyro.infer import MCMC, NUTS
    from pyro.infer.mcmc.util import initialize_model

    data = normal(40) * 0.5 + 2.0

    def model() -> None:
        mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("rows", 40):
            pyro.sample("y", dist.Normal(mean, scale), obs=data)

    pyro.set_rng_seed(0)
    mcmc = MCMC(NUTS(model), num_samples=150, warmup_steps=80, disable_progbar=True)
    mcmc.run()
    samples = mcmc.get_samples()
    _, potential, _, _ = initialize_model(model)
    values = potential({"mean": torch.tensor(1.5), "scale": torch.tensor(-0.5)})
    near = (
        abs(float(samples["mean"].mean()) - float(data.mean())) < 0.1
        and abs(float(samples["scale"].mean()) - float(data.std())) < 0.1
    )
    return {"potential": values, "near": near}


@program
def flows() -> dict[str, Any]:
    """zuko, nflows and normflows: densities and their training."""
    import normflows
    import zuko
    from nflows.distributions.normal import StandardNormal
    from nflows.flows import Flow
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import (
        CompositeTransform,
        MaskedAffineAutoregressiveTransform,
        PiecewiseRationalQuadraticCouplingTransform,
        ReversePermutation,
    )

    x, results = normal(16, 3), {}
    for name in ("MAF", "NSF", "NICE"):
        flow = filled(getattr(zuko.flows, name)(3, transforms=2, hidden_features=(16, 16)), 0.3)
        results[f"zuko {name}"] = trained(flow.parameters(), lambda: -flow().log_prob(x).mean(), 3)
    coupling = PiecewiseRationalQuadraticCouplingTransform(
        torch.tensor([1, 0, 1]), lambda i, o: ResidualNet(i, o, 8), tails="linear", tail_bound=3.0
    )
    flow = filled(
        Flow(
            CompositeTransform([ReversePermutation(3), MaskedAffineAutoregressiveTransform(3, 8), coupling]),
            StandardNormal([3]),
        ),
        0.3,
    )
    results["nflows"] = trained(flow.parameters(), lambda: -flow.log_prob(x).mean(), 3)
    layers = [
        normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2])),
        normflows.flows.Permute(2, mode="swap"),
        normflows.flows.Planar((2,)),
    ]
    model = filled(normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), layers[:2]), 0.3)
    results["normflows"] = trained(model.parameters(), lambda: model.forward_kld(normal(16, 2)), 3)
    return results
