"""PyTorch's paths of names that lie elsewhere here: each line is a path below `dynograd`, a module, and those of its names that the path has.

`torch.distributions.beta` holds `Beta`, which `dynograd.distributions` has; programs import it from there.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from dynograd.base.signatures import show_plainly

__all__ = ["FACES", "make"]

_TABLE = """
_dynamo.eval_frame                compiler           OptimizedModule
_custom_ops                       library            custom_op get_ctx impl impl_abstract
_higher_order_ops                 compat.inner.higher_order *
_higher_order_ops.associative_scan compat.inner.higher_order associative_scan
_higher_order_ops.cond            compat.inner.higher_order cond
_higher_order_ops.map             compat.inner.higher_order map
_higher_order_ops.scan            compat.inner.higher_order scan
_higher_order_ops.while_loop      compat.inner.higher_order while_loop
amp.autocast_mode                 amp                autocast custom_fwd custom_bwd is_autocast_available _cast
cpu.amp.autocast_mode             cpu.amp            autocast
cuda.amp.autocast_mode            cuda.amp           autocast custom_fwd custom_bwd
cuda.amp.grad_scaler              amp.grad_scaler    GradScaler OptState
multiprocessing.spawn             compat.inner.spawning *
distributed.distributed_c10d      distributed        *
distributed.algorithms.join       distributed.joins  Join Joinable JoinHook
distributed.constants             distributed.groups default_pg_timeout
distributed.nn.functional         distributed.differentiable all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter
distributed.device_mesh           distributed.meshes DeviceMesh init_device_mesh
distributed._tensor               distributed.meshes DeviceMesh init_device_mesh
distributed.tensor.device_mesh    distributed.meshes DeviceMesh init_device_mesh
distributed.tensor.parallel       nn.sharding.tensor_parallel ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput
distributed.tensor.parallel       nn.sharding.tensor_parallel RowwiseParallel SequenceParallel parallelize_module
distributed.tensor.parallel.api   nn.sharding.tensor_parallel parallelize_module
distributed.tensor.parallel.style nn.sharding.tensor_parallel ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput
distributed.tensor.parallel.style nn.sharding.tensor_parallel RowwiseParallel SequenceParallel
distributed.fsdp                  nn.sharding.fully_sharded FSDPModule UnshardHandle fully_shard
distributed._composable.fsdp      nn.sharding.fully_sharded FSDPModule fully_shard
distributed.checkpoint.state_dict nn.sharding.states StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict
distributed.checkpoint.state_dict nn.sharding.states set_model_state_dict set_optimizer_state_dict set_state_dict
distributed.optim                 optim              ZeroRedundancyOptimizer
distributed.nn                    distributed.differentiable all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter
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
distributions.relaxed_bernoulli   distributions.relaxed RelaxedBernoulli LogitRelaxedBernoulli
distributions.relaxed_categorical distributions.relaxed RelaxedOneHotCategorical ExpRelaxedCategorical
distributions.studentT            distributions      StudentT
distributions.weibull             distributions      Weibull
distributions.wishart             distributions      Wishart
nn._reduction                     compat.inner.reductions *
nn.common_types                   compat.inner.layer_types *
signal.windows.windows            signal.windows     *
utils._python_dispatch            compat.inner.top_level is_traceable_wrapper_subclass
autograd.profiler_util            profiler.legacy    *
_tensor                           compat.inner.rebuilding Tensor _rebuild_from_type_v2
_tensor_str                       compat.inner.tensor_str PRINT_OPTS get_printoptions printoptions set_printoptions _tensor_str _add_suffixes _str_intern _str
_dynamo.utils                     compat.explaining  counters is_compile_supported
_dynamo.exc                       compat.compiler    TensorifyScalarRestartAnalysis
autograd.profiler_legacy          profiler.legacy    profile
cuda.amp.common                   cuda.amp           amp_definitely_not_available
cuda.comm                         nn.parallel.comm   broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter
cuda.profiler                     cuda.nvtx          profile start stop
jit.annotations                   compat.jit         BroadcastingList1 BroadcastingList2 BroadcastingList3 List Dict Tuple Optional Union
onnx.operators                    compat.inner.top_level shape_as_tensor
profiler.profiler                 profiler           profile schedule ProfilerAction ProfilerActivity tensorboard_trace_handler _default_schedule_fn
return_types                      compat.inner.return_types *
testing._internal.common_utils    compat.inner.test_cases TestCase run_tests
utils.tensorboard.writer          utils.tensorboard  SummaryWriter
utils.flop_counter                profiler.flop_counter FlopCounterMode flop_registry register_flop_formula
utils.collect_env                 tools.information  get_pretty_env_info main
utils.model_zoo                   compat.hub         load_url tqdm
optim._adafactor                  optim.adafactor    Adafactor adafactor
utils.data.datapipes              data.datapipes     IterDataPipe MapDataPipe
utils.data.datapipes._decorator   data.datapipes     argument_validation functional_datapipe guaranteed_datapipes_determinism
utils.data.datapipes._decorator   data.datapipes     non_deterministic runtime_validation runtime_validation_disabled
utils.data.datapipes.datapipe     data.datapipes     DFIterDataPipe DataChunk IterDataPipe MapDataPipe
utils.data.datapipes.iter         data.datapipes     IterDataPipe
utils.data.datapipes.iter.combinatorics data.datapipes ShufflerIterDataPipe
utils.data.datapipes.map          data.datapipes     MapDataPipe
utils._foreach_utils              optim.helpers _group_tensors_by_device_and_dtype _get_foreach_kernels_supported_devices _get_fused_kernels_supported_devices
storage                           compat.inner.rebuilding TypedStorage UntypedStorage _load_from_bytes
torch_version                     version            TorchVersion
"""

FACES: dict[str, tuple[str, tuple[str, ...]]] = {}
for _path, _source, *_names in (line.split() for line in _TABLE.strip().splitlines()):
    _before = FACES.get(f"dynograd.{_path}", ("", ()))[1]
    FACES[f"dynograd.{_path}"] = f"dynograd.{_source}", (*_before, *_names)


def make(module: ModuleType) -> None:
    """Fills a module of the table."""
    source, names = FACES[module.__name__]
    real = importlib.import_module(source)
    chosen = tuple(real.__all__) if names == ("*",) else names
    module.__dict__.update({name: getattr(real, name) for name in chosen})
    show_plainly(module.__dict__)
    module.__dict__["__all__"] = sorted(chosen)
    if names == ("*",) and hasattr(real, "__getattr__"):
        module.__dict__["__getattr__"] = real.__getattr__
    module.__doc__ = f"Names of `{source}` under PyTorch's path."
