"""dynograd: define-by-run deep learning in plain Python for data that is not a rectangle, named like PyTorch.

>>> x = dynograd.tensor([1.0, 2.0], requires_grad=True)
>>> (x**2).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any  # PyTorch has both, too

from dynograd.base import numpy_warnings as _numpy_warnings
from dynograd.base.garbage import uncollected

_numpy_warnings.drop()

with uncollected():
    from dynograd import arrays, autograd, cuda, errors, memory
    from dynograd import ops as _ops
    from dynograd.base import devices, dtypes, shapes
    from dynograd.base import layouts as _layouts
    from dynograd.base import listing as _listing
    from dynograd.base import memory_formats as _memory_formats
    from dynograd.base import signatures as _signatures
    from dynograd.compat import einops_support as _einops_support
    from dynograd.compat import import_paths as _import_paths
    from dynograd.interpreter import differentiation as _differentiation
    from dynograd.interpreter import out_forms as _out_forms
    from dynograd.interpreter import override_protocol as _override_protocol
    from dynograd.interpreter import overriding as _overriding
    from dynograd.interpreter import public_forms as _public_forms
    from dynograd.interpreter import tensor_parts as _tensor_parts
    from dynograd.kernels.build import batch_invariance as _batch_invariance
    from dynograd.kernels.build import determinism as _determinism
    from dynograd.kernels.build import kernel_cache as _kernel_cache
    from dynograd.kernels.build import notices as _notices
    from dynograd.kernels.build import precision as _precision
    from dynograd.kernels.build import threads as _threads
    from dynograd.ops.index import embeddings as _embeddings
    from dynograd.ops.op import registry as _registry
    from dynograd.tensor import absent as _absent
    from dynograd.tensor import array_protocols as _array_protocols
    from dynograd.tensor import creation as _creation
    from dynograd.tensor import custom_function as _custom_function
    from dynograd.tensor import fills as _fills
    from dynograd.tensor import foreach as _foreach
    from dynograd.tensor import graphs as _graphs
    from dynograd.tensor import histograms as _histograms
    from dynograd.tensor import honest as _honest
    from dynograd.tensor import inplace_forms as _inplace_forms
    from dynograd.tensor import legacy as _legacy
    from dynograd.tensor import low_rank as _low_rank
    from dynograd.tensor import methods as _methods
    from dynograd.tensor import native_forms as _native_forms
    from dynograd.tensor import printing as _printing
    from dynograd.tensor import questions as _tensor_questions
    from dynograd.tensor import random_fills as _random_fills
    from dynograd.tensor import randomness as _randomness
    from dynograd.tensor import sparse_methods as _sparse_methods
    from dynograd.tensor import storages as _storages
    from dynograd.tensor import top_level as _top_level
    from dynograd.tensor import typed_storages as _typed_storages
    from dynograd.tensor import window_functions as _window_functions
    from dynograd.tensor.tensor import Tensor as Tensor
    from dynograd.tensor.tensor import is_tensor as is_tensor
    from dynograd.version import __version__ as __version__

with uncollected():
    _methods.install_methods()
    _inplace_forms.install_inplace(_registry)
    _creation.install_creation_methods()
    _randomness.install_random_methods()
    _random_fills.install_random_fills()
    _array_protocols.install_protocols(lambda: importlib.import_module("dynograd.array_api"))
    _storages.install_storages()
    _fills.install_fills()
    _tensor_questions.install_questions()
    _absent.install_absent()
    Tensor.type = _legacy.type_  # type: ignore[assignment, method-assign]

    _overriding.install_overriding()

    _public: dict[str, Any] = _out_forms.out_forms(_methods.public_functions())
    _top_level.install_more_methods(_public)
    _public |= _top_level.inplace_functions()
    for _module in (
        _creation,
        _randomness,
        _window_functions,
        _legacy,
        _storages,
        _histograms,
        _low_rank,
        _native_forms,
        _top_level,
        _tensor_questions,
        shapes,
        devices,
        dtypes,
    ):
        _public |= _public_forms.explained_of_tensors({_name: getattr(_module, _name) for _name in _module.__all__})
_public |= _typed_storages.STORAGES | dtypes.WITHOUT_TENSORS
_public |= {_name: getattr(autograd, _name) for _name in autograd.__all__}
_public |= {
    "Tensor": Tensor,
    "is_tensor": is_tensor,
    "set_printoptions": _printing.set_printoptions,
    "get_printoptions": _printing.get_printoptions,
    "printoptions": _printing.printoptions,
    "set_num_threads": _threads.set_num_threads,
    "get_num_threads": _threads.get_num_threads,
    "set_num_interop_threads": _threads.set_num_interop_threads,
    "get_num_interop_threads": _threads.get_num_interop_threads,
    "use_batch_invariant": _batch_invariance.use_batch_invariant,
    "is_batch_invariant": _batch_invariance.is_batch_invariant,
    "set_float32_matmul_precision": _precision.set_float32_matmul_precision,
    "get_float32_matmul_precision": _precision.get_float32_matmul_precision,
    **{name: getattr(_determinism, name) for name in _determinism.__all__},
    "kernel_cache_statistics": _kernel_cache.statistics,
    "clear_kernel_cache": _kernel_cache.clear,
    "set_quiet": _notices.set_quiet,
    "is_quiet": _notices.is_quiet,
    **{name: getattr(_layouts, name) for name in _layouts.__all__},
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "newaxis": None,
    **{name: getattr(_memory_formats, name) for name in _memory_formats.__all__ if name != "wanted"},
}
globals().update(_public)
globals().update(_foreach.foreach_functions())

# `autograd` is a low layer; these of its public names are made higher up.
for _name, _value in {
    "Function": _custom_function.Function,
    "Variable": _legacy.Variable,
    "backward": _differentiation.backward,
    "grad": _differentiation.grad,
    "honest_where": _honest.honest_where,
    "is_honest_where_enabled": _honest.is_honest_where_enabled,
    "set_honest_where": _honest.set_honest_where,
}.items():
    setattr(autograd, _name, _value)
_import_paths.install()
_einops_support.install()


def _imported_when_called(module: str, name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See `{module}.{name}`, which this calls."
    return call


def _imported_when_named(module: str, place: str, names: tuple[str, ...], name: str) -> object:
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module(place), name)


_above = functools.partial(
    _imported_when_named, "dynograd.memory", "dynograd.debug.memory_lines", ("snapshot", "tracking")
)
setattr(memory, "__getattr__", _above)  # noqa: B010
_override_protocol.when_first.append(_imported_when_called("dynograd.overrides.guards", "begin"))
_ops.namespace.append(functools.partial(_imported_when_called("dynograd.library", "place_of"), sys.modules[__name__]))
_overriding.public_function.append(_imported_when_called("dynograd.overrides.tables", "public_function_of"))
for _namespace, _module_name, _name in (
    (autograd, "dynograd.gradcheck", "gradcheck"),
    (autograd, "dynograd.gradcheck", "gradgradcheck"),
    (cuda, "dynograd.transforms.graphed_callables", "make_graphed_callables"),
):
    setattr(_namespace, _name, _imported_when_called(_module_name, _name))
    _signatures.find_here({_name: vars(_namespace)[_name]}, _namespace.__name__)
_tensor_parts.constructors.update(
    Parameter=_imported_when_called("dynograd.nn.parameter", "Parameter"),
    sparse=_imported_when_called("dynograd.sparse.making", "from_parts"),
    nested=_imported_when_called("dynograd.nested", "nested_tensor"),
    stepping=_imported_when_called("dynograd.debug.stepping", "step_backward"),
)
_embeddings.sparse_lookup[:] = [_imported_when_called("dynograd.sparse.lookups", "sparse_lookup")]
_sparse_methods.install_sparse_methods(lambda: importlib.import_module("dynograd.sparse.making"))

_LAZY = (
    "amp",
    "array_api",
    "backends",
    "data",
    "debug",
    "saving",
    "export",
    "fft",
    "func",
    "jit",
    "sparse",
    "ragged",
    "nested",
    "linalg",
    "nn",
    "optim",
    "profiler",
    "masked",
    "signal",
    "special",
    "transforms",
    "utils",
    "gradcheck",
    "overrides",
    "runs",
    "serialization",
    *"_C __config__ _dynamo _inductor _jit_internal _logging _prims_common _utils accelerator compiler cpu distributed distributions".split(),
    *"_higher_order_ops _subclasses functional futures fx hub library".split(),
    *"mps mtia multiprocessing onnx quasirandom random return_types serving storage testing torch_version types version xpu".split(),
)
_LAZY_NAMES = {
    "save": "saving.serialization",
    "load": "saving.serialization",
    "warmup": "tools.warming",
    "vmap": "func",
    "summary": "profiler.summaries",
    "visualize": "profiler.drawings",
    "explain": "debug.explaining",
}
_LAZY_NAMES |= dict.fromkeys(("autobatch", "batched", "cell"), "transforms.autobatch")
_LAZY_NAMES |= {"classes": "library", "compile": "compat.compiler"}
_LAZY_NAMES |= dict.fromkeys(("Run", "load_run", "save_run"), "runs")
_LAZY_NAMES |= {f"sparse_{_name}_tensor": "sparse.making" for _name in ("coo", "csr", "csc", "compressed")}
_LAZY_NAMES |= dict.fromkeys(("rrelu", "rrelu_"), "nn.randomized")
_LAZY_NAMES |= dict.fromkeys(
    ("RaggedTensor", "is_ragged", "ragged_from_padded", "ragged_like", "ragged_tensor"), "ragged"
)
_LAZY_NAMES |= {"spmm": "sparse.functions", "smm": "sparse.functions", "dsmm": "sparse.functions"}
_LAZY_NAMES |= dict.fromkeys(("GradScaler", "autocast", "clear_autocast_cache"), "amp")
_LAZY_NAMES |= dict.fromkeys("get_autocast_cpu_dtype set_autocast_cpu_dtype get_autocast_gpu_dtype".split(), "amp")
_LAZY_NAMES |= dict.fromkeys("set_autocast_gpu_dtype is_autocast_cpu_enabled set_autocast_cpu_enabled".split(), "amp")
_LAZY_NAMES |= {"binomial": "distributions.draws", "poisson": "distributions.draws", "conv_tbc": "nn.functional"}
_LAZY_NAMES |= dict.fromkeys(("DisableTorchFunction", "DisableTorchFunctionSubclass"), "interpreter.override_protocol")
_LAZY_NAMES |= {"OutOfMemoryError": "cuda", "Future": "compat.futures"}
_LAZY_NAMES |= {"Stream": "compat.accelerator", "Event": "compat.accelerator"}
for _name in ("autocast_enabled", "autocast_dtype", "autocast_cache_enabled"):
    _LAZY_NAMES |= {f"set_{_name}": "amp", f"get_{_name}" if _name == "autocast_dtype" else f"is_{_name}": "amp"}
# Of PyTorch's inner ops, those that programs and its own tests call as torch._name.
_INNER = dict.fromkeys(
    """_batch_norm_with_update _chunk_cat _log_softmax _log_softmax_backward_data _native_batch_norm_legit _safe_softmax _scaled_mm _softmax
    _softmax_backward_data _unsafe_index _unsafe_masked_index _unsafe_masked_index_put_accumulate""".split(),
    "compat.operators.aten_forms",
)
_ASSERTIONS = "SymBool SymFloat SymInt sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum".split()
_LAZY_NAMES |= dict.fromkeys(_ASSERTIONS, "tensor.assertions")
_INNER |= dict.fromkeys(
    """_assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with _check_type _check_value
    _check_with""".split(),
    "tensor.assertions",
)
_INNER |= dict.fromkeys(
    """_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _assert_async _cast_Long
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _grouped_mm _sample_dirichlet _segment_reduce
    _shape_as_tensor _standard_gamma get_device_module""".split(),
    "compat.inner.top_level",
)
_INNER |= dict.fromkeys(
    "TensorType ListType DictType TupleType OptionalType StringType IntType FloatType BoolType DeviceObjType".split(),
    "compat.jit",
)
_INNER |= {"ScriptModule": "compat.jit", "PyTorchFileReader": "compat.inner.rebuilding"}
_LAZY_NAMES |= {"native_dropout": "compat.operators.aten_forms"}
# What `dir` and completion show, and `import *` brings: of PyTorch's names those that are here (`base/listing.py`), and these.
_OWN = """RaggedTensor Run array_api autobatch batched cell clear_kernel_cache data debug errors explain get_printoptions is_batch_invariant is_quiet is_ragged
    kernel_cache_statistics load_run memory printoptions ragged ragged_from_padded ragged_like ragged_tensor runs save_run saving set_quiet summary transforms
    use_batch_invariant visualize warmup""".split()
__dir__ = _listing.lists(__name__, (*_OWN, "__all__"))


_signatures.show_plainly(globals())
_signatures.find_here(globals(), __name__)


def __getattr__(name: str) -> Any:
    """Sub-packages are imported when they are first named."""
    if name == "__all__":
        value = globals()[name] = [shown for shown in __dir__() if not shown.startswith("__")]
        return value
    if name in _LAZY or _import_paths.is_face(name):
        return importlib.import_module(f"dynograd.{name}")
    place = _LAZY_NAMES.get(name) or _INNER.get(name)
    if place is not None:
        value = globals()[name] = getattr(importlib.import_module(f"dynograd.{place}"), name)
        _signatures.show_plainly({name: value})
        _signatures.find_here({name: value}, __name__)
        return value
    why = _absent.absence_of(name) or _absent.absent_module(name)
    raise AttributeError(f"module 'dynograd' has no attribute {name!r}" + (f": {why}" if why else ""))


assert arrays is not None and cuda is not None and errors is not None and _graphs is not None
