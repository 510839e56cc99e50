"""PyTorch's paths of names that lie elsewhere here: each line is a path below `dynograd`, a module, and those of its names that the path has.

`torch.distributions.beta` holds `Beta`, which `dynograd.distributions` has; programs import it from there.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["FACES", "make"]

_TABLE = """
_dynamo.eval_frame                compiler           OptimizedModule
amp.autocast_mode                 amp                autocast custom_fwd custom_bwd is_autocast_available
cpu.amp.autocast_mode             cpu.amp            autocast
cuda.amp.autocast_mode            cuda.amp           autocast custom_fwd custom_bwd
cuda.amp.grad_scaler              cuda.amp           GradScaler
distributed.distributed_c10d      distributed        *
distributed.algorithms.join       distributed.joins  Join Joinable JoinHook
distributed.constants             distributed.groups default_pg_timeout
distributions.beta                distributions      Beta
distributions.binomial            distributions      Binomial
distributions.cauchy              distributions      Cauchy
distributions.chi2                distributions      Chi2
distributions.continuous_bernoulli distributions     ContinuousBernoulli
distributions.exp_family          distributions      ExponentialFamily
distributions.fishersnedecor      distributions      FisherSnedecor
distributions.generalized_pareto  distributions      GeneralizedPareto
distributions.geometric           distributions      Geometric
distributions.half_cauchy         distributions      HalfCauchy
distributions.half_normal         distributions      HalfNormal
distributions.inverse_gamma       distributions      InverseGamma
distributions.kumaraswamy         distributions      Kumaraswamy
distributions.lkj_cholesky        distributions      LKJCholesky
distributions.log_normal          distributions      LogNormal
distributions.logistic_normal     distributions      LogisticNormal
distributions.lowrank_multivariate_normal distributions LowRankMultivariateNormal
distributions.mixture_same_family distributions      MixtureSameFamily
distributions.multinomial         distributions      Multinomial
distributions.negative_binomial   distributions      NegativeBinomial
distributions.one_hot_categorical distributions      OneHotCategorical OneHotCategoricalStraightThrough
distributions.pareto              distributions      Pareto
distributions.relaxed_bernoulli   distributions      RelaxedBernoulli
distributions.relaxed_categorical distributions      RelaxedOneHotCategorical
distributions.studentT            distributions      StudentT
distributions.weibull             distributions      Weibull
distributions.wishart             distributions      Wishart
nn.parallel.distributed           nn.parallel        DistributedDataParallel
storage                           tensor.storages    TypedStorage UntypedStorage
torch_version                     version            TorchVersion
"""

FACES: dict[str, tuple[str, tuple[str, ...]]] = {
    f"dynograd.{path}": (f"dynograd.{source}", tuple(names))
    for path, source, *names in (line.split() for line in _TABLE.strip().splitlines())
}


def make(module: ModuleType) -> None:
    """Fills a module of the table."""
    source, names = FACES[module.__name__]
    real = importlib.import_module(source)
    chosen = tuple(real.__all__) if names == ("*",) else names
    module.__dict__.update({name: getattr(real, name) for name in chosen})
    module.__dict__["__all__"] = sorted(chosen)
    module.__doc__ = f"Names of `{source}` under PyTorch's path."
