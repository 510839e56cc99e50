"""What PyTorch has and this library only has the name of, in one table: what each name answers, and a sentence that says why.

Modules fill their namespace from it (`names`); those that have nothing else (`MODULES`) are made of it when they are imported.
"""

from __future__ import annotations

import ast
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from dynograd.base import stub_texts
from dynograd.base.signatures import annotations_of, without_private
from dynograd.errors import DeviceError, NoEffectWarning, user_level

__all__ = ["MODULES", "OPTIONS", "TABLE", "Settings", "function", "names", "settings", "warn_once"]

MODULES = {
    "_dynamo._trace_wrapped_higher_order_op": "The name of it that packages import.",
    "_inductor.utils": "The names of it that programs import.",
    "_jit_internal": "`torch._jit_internal`: marks of scripted programs, which change nothing.",
    "_prims_common": "The name of it that packages import.",
    "backends.cpu": "`torch.backends.cpu`: what the processor can do is found out by the compiler of kernels.",
    "mps": "`torch.mps`: there is no support for these devices, and programs that ask are told so.",
    "mtia": "`torch.mtia`: there is no support for these devices, and programs that ask are told so.",
    "xpu": "`torch.xpu`: there is no support for these devices, and programs that ask are told so.",
}

# The kinds of rows; a class of errors in their place is a refusal: the function of the row says what is refused, its sentence the way out.
CONSTANT = "A constant"  # the answer is true here: False of `is_available`, nothing done where there is nothing to do
MARKER = "Gives back what it gets"  # as PyTorch's does where nothing is being translated
WARNS = "Gives back what it gets and warns, once"  # what a program asks for does not happen
SETTINGS = "Options that can be set and read"  # in `OPTIONS`; others are errors


class _Nothing:
    """A context manager and decorator that changes nothing."""

    def __call__(self, function: Any) -> Any:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def _cpu_capability() -> str:
    """The widest vectors of this processor, by PyTorch's names: programs ask, for instance, whether bytes are resized as bytes."""
    from llvmlite.binding import get_host_cpu_features

    features = get_host_cpu_features()
    wide = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "fma")
    if all([features.get(name, False) for name in wide]):
        return "AVX512"
    return "AVX2" if features.get("avx2", False) and features.get("fma", False) else "DEFAULT"


# fmt: off
_EAGER = "nothing is translated: Python runs as it is written."
_UNTRANSLATED = "nothing is translated: what it gets comes back as it is and runs as the Python that it is. Leave the call out."
_UNTRACED = "nothing is traced: what it gets comes back as it is, and is not called with the example. Leave the call out."
_UNCOMPILED = "nothing is translated: what it gets comes back and runs eagerly, as it is written; kernels are compiled one by one, unasked."
_SAID = f"{_UNCOMPILED} Leave the call out, or say so with disable=True."
_KEPT = "kernels that were compiled are kept on disk, unasked; records are made anew in each process."
_UNGUARDED = "there are no guards to choose from: ops compare themselves with the record, and mode='replay' asks all of its own."
_UNEXPORTED = "nothing is traced by it."
_BY_FX = "Trace with dynograd.fx.symbolic_trace, or make a graph of a record: dynograd.fx.from_record(compile(f).graph())."
_UNUSED = "Options of PyTorch 2.13 are known, and change nothing here: leave the line out."
_TF32 = "allow_tf32 acts; the others are remembered, and change nothing: leave the line out."
_NO_XPU = "there are no XPU devices here."
_NO_MPS = "there are no MPS devices here."
_ASK_MPS = "Ask mps.is_available(), which is False, before; use device='cpu'."
_NO_MTIA = "there are no MTIA devices here."
_ASK_XPU = "Ask xpu.is_available(), which is False, before; use device='cuda' or 'cpu'."
_CODE = "Clone the repository, look at it and import it; load its weights with load(path) from a safetensors file."
_NO_SCRIPT = "there is no TorchScript here, scripted modules are the Python objects themselves."
_NO_ARCHIVE = (
    "Where PyTorch is installed, save the weights (safetensors.torch.save_file(module.state_dict(), path)), then load(path) here and "
    "build the module from its class."
)


def _downloads(name: Any) -> str:
    return f"nothing is downloaded (asked for {name!r})."


# Path below `dynograd` -> kind, function (None: it is written where its path says, and only warns by this table), sentence.
TABLE: dict[str, tuple[Any, Callable[..., Any] | None, str]] = {
    "compiler.allow_in_graph": (MARKER, lambda fn: fn, _EAGER),
    "compiler.assume_constant_result": (MARKER, lambda fn: fn, _EAGER),
    "compiler.disable": (MARKER, lambda fn=None, recursive=True, *, reason=None: (lambda fn: fn) if fn is None else fn, _EAGER),
    "compiler.cudagraph_mark_step_begin": (CONSTANT, lambda: None, "no graph is captured unasked."),
    "compiler.config": (SETTINGS, None, _UNUSED),
    "compiler.load_cache_artifacts": (CONSTANT, lambda serialized_artifacts: None, _KEPT),
    "compiler.load_compiled_function": (NotImplementedError, lambda file, *, f_globals=None, external_data=None: "records are not written to files.",
        "Compile the function again: kernels that it needs are kept on disk."),
    "compiler.nested_compile_region": (MARKER, lambda fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None:
        (lambda fn: fn) if fn is None else fn, _EAGER),
    "compiler.save_cache_artifacts": (CONSTANT, lambda: None, _KEPT),
    "compiler.set_enable_guard_collectives": (CONSTANT, lambda enabled: False, "each process compares its own records."),
    "compiler.keep_portable_guards_unsafe": (CONSTANT, lambda guard_entries: [], _UNGUARDED),
    "compiler.keep_tensor_guards_unsafe": (CONSTANT, lambda guard_entries, keep_parameters=False: [], _UNGUARDED),
    "compiler.skip_all_guards_unsafe": (CONSTANT, lambda guard_entries: [], _UNGUARDED),
    "compiler.skip_guard_on_all_nn_modules_unsafe": (CONSTANT, lambda guard_entries: [], _UNGUARDED),
    "compiler.skip_guard_on_globals_unsafe": (CONSTANT, lambda guard_entries: [], _UNGUARDED),
    "compiler.skip_guard_on_inbuilt_nn_modules_unsafe": (CONSTANT, lambda guard_entries: [], _UNGUARDED),
    "compiler.substitute_in_graph": (MARKER, lambda original_fn, *, can_constant_fold_through=False, skip_signature_check=False: lambda fn: fn, _EAGER),
    "compiler.is_dynamo_compiling": (CONSTANT, lambda: False, _EAGER),

    "_dynamo.config": (SETTINGS, None, _UNUSED),
    "_dynamo.disable": (MARKER, lambda fn=None, recursive=True, *, reason=None, wrapping=True: (lambda fn: fn) if fn is None else fn, _EAGER),
    "_dynamo.allow_in_graph": (MARKER, lambda fn: fn, _EAGER),
    "_dynamo.assume_constant_result": (MARKER, lambda fn: fn, _EAGER),
    "_dynamo.disallow_in_graph": (MARKER, lambda fn: fn, _EAGER),
    "_dynamo.forbid_in_graph": (MARKER, lambda fn: fn, _EAGER),
    "_dynamo.graph_break": (CONSTANT, lambda msg="": None, _EAGER),
    "_dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex": (CONSTANT, lambda: _Nothing(), "indices that vmap batches need no help."),
    "_dynamo.allow_c_slot": (MARKER, lambda tp, *, tp_hash=True, tp_richcompare=True: tp, _EAGER),
    "_dynamo.disable_nested_graph_breaks": (MARKER, lambda fn=None: (lambda fn: fn) if fn is None else fn, _EAGER),
    "_dynamo.dont_skip_tracing": (MARKER, lambda fn=None: (lambda fn: fn) if fn is None else fn, _EAGER),
    "_dynamo.error_on_graph_break": (CONSTANT, lambda error_on_graph_break: _Nothing(), "compile(fullgraph=True) makes it an error."),
    "_dynamo.export": (NotImplementedError, lambda f, *args, **kwargs: _UNEXPORTED, _BY_FX),
    "_dynamo.is_dynamo_disable_recursive": (CONSTANT, lambda method: None, _EAGER),
    "_dynamo.lookup_backend": (NotImplementedError, lambda compiler_fn: "backends get graphs of PyTorch's tracer, which there are not.", _BY_FX),
    "_dynamo.nonstrict_trace": (MARKER, lambda traceable_fn: traceable_fn, _EAGER),
    "_dynamo.override_cudagraphs": (CONSTANT, lambda fwd=None, bwd=None: _Nothing(), "graphs are captured wherever they can be."),
    "_dynamo.override_optimization_hint": (CONSTANT, lambda x, val: None, "sizes are numbers here."),
    "_dynamo.register_backend": (MARKER, lambda compiler_fn=None, name=None, tags=(): (lambda fn: fn) if compiler_fn is None else compiler_fn,
        "compile takes none but its own."),
    "_dynamo.replay": (NotImplementedError, lambda filename: f"{filename} would be a note of PyTorch's tracer.", _BY_FX),
    "_dynamo.reset_recompile_user_contexts": (CONSTANT, lambda: None, _EAGER),
    "_dynamo.run": (MARKER, lambda fn=None: (lambda fn: fn) if fn is None else fn, _EAGER),
    "_dynamo.set_recursion_limit": (CONSTANT, lambda limit: None, "Python's own holds."),
    "_dynamo.skip_frame": (CONSTANT, lambda msg="": None, _EAGER),
    "_dynamo.step_unsupported": (CONSTANT, lambda msg="": None, _EAGER),
    "_dynamo.substitute_in_graph": (MARKER, lambda original_fn, *, can_constant_fold_through=False, skip_signature_check=False, is_embedded_type=False:
        lambda fn: fn, _EAGER),
    "_dynamo.mark_static_address": (CONSTANT, lambda t, guard=True: None, "no address is remembered."),
    "_dynamo.utils.is_compile_supported": (CONSTANT, lambda device_type: device_type in (None, "cpu", "cuda"), "compile records steps on both."),
    "_inductor.config": (SETTINGS, None, _UNUSED),

    "jit.script": (WARNS, lambda obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None: obj, _UNTRANSLATED),
    "jit.script_method": (WARNS, lambda fn: fn, _UNTRANSLATED),
    "jit.trace": (WARNS, lambda func, example_inputs=None, *args, **kwargs: func, _UNTRACED),
    "jit.trace_module": (WARNS, lambda mod, inputs, *args, **kwargs: mod, _UNTRACED),
    "jit.freeze": (WARNS, lambda mod, preserved_attrs=None, optimize_numerics=True: mod, _UNTRANSLATED),
    "jit.optimize_for_inference": (WARNS, lambda mod, other_methods=None: mod, _UNTRANSLATED),
    "jit.annotate": (MARKER, lambda the_type, the_value: the_value, _EAGER),
    "jit._overload": (MARKER, lambda func: func, _EAGER),
    "jit._overload_method": (MARKER, lambda func: func, _EAGER),
    "jit._script_if_tracing": (MARKER, lambda fn: fn, _EAGER),
    "jit._drop": (MARKER, lambda fn: fn, _EAGER),
    "jit.export": (MARKER, lambda fn: fn, _EAGER),
    "jit.ignore": (MARKER, lambda drop=False, **kwargs: drop if callable(drop) else lambda fn: fn, _EAGER),
    "jit.interface": (MARKER, lambda obj: obj, _EAGER),
    "jit.optimized_execution": (MARKER, lambda should_optimize: _Nothing(), _EAGER),
    "jit.script_if_tracing": (MARKER, lambda fn: fn, _EAGER),
    "jit.unused": (MARKER, lambda fn: fn, _EAGER),
    "jit.is_scripting": (CONSTANT, lambda: False, _EAGER),
    "jit.is_tracing": (CONSTANT, lambda: False, _EAGER),
    "jit.save": (NotImplementedError, lambda m, f, _extra_files=None: _NO_SCRIPT, "Use save(module.state_dict(), path) and keep the class."),
    "jit.load": (NotImplementedError, lambda f, map_location=None, _extra_files=None, _restore_shapes=False:
        f"{f} would be a TorchScript archive, which is not read.", _NO_ARCHIVE),

    "hub.load": (NotImplementedError, lambda repo_or_dir, *args, **kwargs: _downloads(repo_or_dir), _CODE),
    "hub.list": (NotImplementedError, lambda github, *args, **kwargs: _downloads(github), _CODE),
    "hub.help": (NotImplementedError, lambda github, *args, **kwargs: _downloads(github), _CODE),
    "hub.download_url_to_file": (NotImplementedError, lambda url, *args, **kwargs: _downloads(url), "Download the file yourself."),

    "xpu.is_available": (CONSTANT, lambda: False, _NO_XPU),
    "xpu.is_initialized": (CONSTANT, lambda: False, _NO_XPU),
    "xpu.is_bf16_supported": (CONSTANT, lambda including_emulation=True: False, _NO_XPU),
    "xpu.device_count": (CONSTANT, lambda: 0, _NO_XPU),
    "xpu.memory_allocated": (CONSTANT, lambda device=None: 0, _NO_XPU),
    "xpu.max_memory_allocated": (CONSTANT, lambda device=None: 0, _NO_XPU),
    "xpu.empty_cache": (CONSTANT, lambda: None, _NO_XPU),
    "xpu.synchronize": (CONSTANT, lambda device=None: None, _NO_XPU),
    "xpu.manual_seed": (CONSTANT, lambda seed: None, _NO_XPU),
    "xpu.manual_seed_all": (CONSTANT, lambda seed: None, _NO_XPU),
    "xpu.current_device": (DeviceError, lambda: _NO_XPU, _ASK_XPU),
    "xpu.set_device": (DeviceError, lambda device: _NO_XPU, _ASK_XPU),
    "xpu.get_device_name": (DeviceError, lambda device=None: _NO_XPU, _ASK_XPU),
    "xpu.get_device_capability": (DeviceError, lambda device=None: _NO_XPU, _ASK_XPU),
    "xpu.get_device_properties": (DeviceError, lambda device=None: _NO_XPU, _ASK_XPU),

    "distributed.rpc.api._require_initialized": (MARKER, lambda func: func, "what it marks refuses when it is called."),
    "mps.is_available": (CONSTANT, lambda: False, _NO_MPS),
    "mps.device_count": (CONSTANT, lambda: 0, _NO_MPS),
    "mps.current_allocated_memory": (CONSTANT, lambda: 0, _NO_MPS),
    "mps.driver_allocated_memory": (CONSTANT, lambda: 0, _NO_MPS),
    "mps.recommended_max_memory": (CONSTANT, lambda: 0, _NO_MPS),
    "mps.empty_cache": (CONSTANT, lambda: None, _NO_MPS),
    "mps.synchronize": (CONSTANT, lambda: None, _NO_MPS),
    "mps.manual_seed": (CONSTANT, lambda seed: None, _NO_MPS),
    "mps._is_in_bad_fork": (CONSTANT, lambda: False, _NO_MPS),
    "xpu._is_in_bad_fork": (CONSTANT, lambda: False, _NO_XPU),
    "mps.seed": (CONSTANT, lambda: None, _NO_MPS),
    "mps.get_rng_state": (DeviceError, lambda device="mps": _NO_MPS, _ASK_MPS),
    "mps.set_rng_state": (DeviceError, lambda new_state, device="mps": _NO_MPS, _ASK_MPS),
    "mtia.is_available": (CONSTANT, lambda: False, _NO_MTIA),
    "mtia.device_count": (CONSTANT, lambda: 0, _NO_MTIA),
    "mtia.empty_cache": (CONSTANT, lambda: None, _NO_MTIA),
    "mtia.synchronize": (CONSTANT, lambda device=None: None, _NO_MTIA),
    "mtia.manual_seed": (CONSTANT, lambda seed: None, _NO_MTIA),
    "mtia.current_device": (DeviceError, lambda: _NO_MTIA, "Ask mtia.is_available(), which is False, before."),
    "xpu.get_rng_state": (DeviceError, lambda device=None: _NO_XPU, _ASK_XPU),
    "xpu.set_rng_state": (DeviceError, lambda new_state, device=None: _NO_XPU, _ASK_XPU),
    "xpu.get_rng_state_all": (CONSTANT, lambda: [], _NO_XPU),  # noqa: PIE807
    "xpu.set_rng_state_all": (CONSTANT, lambda new_states: None, _NO_XPU),
    "xpu.mem_get_info": (DeviceError, lambda device=None: _NO_XPU, _ASK_XPU),
    "xpu.memory_reserved": (CONSTANT, lambda device=None: 0, _NO_XPU),
    "xpu.reset_peak_memory_stats": (CONSTANT, lambda device=None: None, _NO_XPU),
    "xpu.is_current_stream_capturing": (CONSTANT, lambda: False, _NO_XPU),
    "onnx.register_custom_op_symbolic": (CONSTANT, lambda symbolic_name, symbolic_fn, opset_version: None, "nothing is exported by it."),
    "onnx.symbolic_helper.parse_args": (MARKER, lambda *arg_descriptors: lambda fn: fn, _EAGER),
    "onnx.symbolic_helper.quantized_args": (MARKER, lambda *arg_q_descriptors, **options: lambda fn: fn, _EAGER),
    "_C._jit_set_profiling_mode": (CONSTANT, lambda mode: False, _EAGER),
    "_C._jit_set_profiling_executor": (CONSTANT, lambda mode: False, _EAGER),
    "_C._jit_override_can_fuse_on_cpu": (CONSTANT, lambda override: None, _EAGER),
    "_C._jit_override_can_fuse_on_gpu": (CONSTANT, lambda override: None, _EAGER),
    "_C._jit_set_texpr_fuser_enabled": (CONSTANT, lambda enabled: None, _EAGER),
    "_C._jit_set_nvfuser_enabled": (CONSTANT, lambda enabled: None, _EAGER),
    "_C._jit_set_nvfuser_guard_mode": (CONSTANT, lambda mode: None, _EAGER),
    "_C._jit_can_fuse_on_cpu": (CONSTANT, lambda: False, _EAGER),
    "_C._jit_can_fuse_on_gpu": (CONSTANT, lambda: False, _EAGER),
    "_jit_internal._copy_to_script_wrapper": (MARKER, lambda fn: fn, _EAGER),
    "_jit_internal.is_scripting": (CONSTANT, lambda: False, _EAGER),
    "_jit_internal.unused": (MARKER, lambda fn: fn, _EAGER),
    "_jit_internal.ignore": (MARKER, lambda drop=False, **kwargs: drop if callable(drop) else lambda fn: fn, _EAGER),
    "_jit_internal.export": (MARKER, lambda fn: fn, _EAGER),
    "_jit_internal._overload": (MARKER, lambda func: func, _EAGER),
    "_jit_internal._overload_method": (MARKER, lambda func: func, _EAGER),
    "_jit_internal.boolean_dispatch": (MARKER, lambda arg_name, arg_index, default, if_true, if_false, module_name, func_name: if_false, _EAGER),
    "_prims_common.is_contiguous_or_false": (CONSTANT, lambda a, memory_format=None: a.is_contiguous(), "sizes are numbers here."),
    "_subclasses.fake_tensor.is_fake": (CONSTANT, lambda x: False, "tensors without memory are those of device meta."),
    "_inductor.utils.fresh_cache": (CONSTANT, lambda cache_entries=None, dir=None, delete=True: _Nothing(), _KEPT),
    "_inductor.utils.fresh_inductor_cache": (CONSTANT, lambda cache_entries=None, dir=None, delete=True: _Nothing(), _KEPT),
    "_inductor.cudagraph_mark_step_begin": (CONSTANT, lambda: None, "no graph is captured unasked."),
    "backends.cpu.get_cpu_capability": (CONSTANT, _cpu_capability, "kernels are compiled for the processor that runs them."),

    "cpu.is_available": (CONSTANT, lambda: True, "programs run on it."),
    "cpu.device_count": (CONSTANT, lambda: 1, "all processors are one device."),
    "cpu.current_device": (CONSTANT, lambda: "cpu", "there is one, without a number."),
    "cpu.synchronize": (CONSTANT, lambda device=None: None, "results on the CPU are there when a call returns."),

    "backends.cudnn": (SETTINGS, None, _TF32),
    "backends.cuda": (SETTINGS, None, "Switches of attention are remembered, and change nothing: there is one implementation."),
    "backends.cuda.matmul": (SETTINGS, None, _TF32),
    "backends.mkldnn": (SETTINGS, None, "There is no oneDNN here, its options change nothing: leave the line out."),
    "backends.mkl": (SETTINGS, None, "It has no options: leave the line out."),
    "backends.mps": (SETTINGS, None, "It has no options: leave the line out."),
    "backends.opt_einsum": (SETTINGS, None, "einsum finds its order itself: leave the line out."),
    "backends.quantized": (SETTINGS, None, "There are no quantized tensors: leave the line out."),
    "backends.openmp": (SETTINGS, None, "It has no options: leave the line out."),

    "autograd.grad_mode.set_multithreading_enabled": (MARKER, lambda mode: _Nothing(), "backward runs on the calling thread, its kernels on all processors."),
    "multiprocessing.set_sharing_strategy": (WARNS, None, "the name is remembered; tensors are sent as copies, whichever it is. Leave the call out."),
    "set_flush_denormal": (CONSTANT, lambda mode: False, "how the processor treats denormal numbers is left as it is."),
}
# fmt: on


def warn_once(path: str) -> None:
    """Says what a row of the table does not do, the first time in this process."""
    if path not in _warned:
        _warned.add(path)
        warnings.warn(f"{path}: {TABLE[path][2]}", NoEffectWarning, stacklevel=user_level())


_warned: set[str] = set()


@functools.cache
def function(path: str) -> Any:
    """The function of a row."""
    kind, answer, sentence = TABLE[path]
    assert answer is not None, f"{path} is written where its path says"
    module, _, name = path.rpartition(".")
    answer.__qualname__ = name  # what Python says of wrong arguments
    call = (
        answer if kind in (CONSTANT, MARKER) else _warning(path, answer) if kind is WARNS else _refusing(path, answer)
    )
    call.__name__ = call.__qualname__ = name
    call.__module__ = f"dynograd.{module}".rstrip(".")
    call.__doc__ = stub_texts.explained(path, kind, kind is WARNS, answer, sentence)
    if any(parameter.startswith("_") for parameter in annotations_of(call)):
        without_private(call)
    return call


def _warning(path: str, answer: Callable[..., Any]) -> Any:
    @functools.wraps(answer)
    def call(*args: Any, **kwargs: Any) -> Any:
        value = answer(*args, **kwargs)
        if not kwargs.get("disable"):
            warn_once(path)
        return value

    return call


def _refusing(path: str, answer: Callable[..., Any]) -> Any:
    error, _, way_out = TABLE[path]

    @functools.wraps(answer)
    def call(*args: Any, **kwargs: Any) -> Any:
        raise error(f"{path}: {answer(*args, **kwargs)} {way_out}")

    return call


def names(module: str) -> dict[str, Any]:
    """What the table has directly in `module`, by name."""
    rows = {path.rpartition(".")[2]: path for path in TABLE if path.rpartition(".")[0] == module}
    values = {name: settings(path) for name, path in rows.items() if TABLE[path][0] is SETTINGS}
    return values | {name: function(path) for name, path in rows.items() if TABLE[path][1] is not None}


class Settings(ModuleType):
    """Options that can be set and read, with PyTorch's defaults. Names that are no option of PyTorch's are errors."""

    def __init__(self, path: str) -> None:
        super().__init__(f"dynograd.{path}", f"{SETTINGS}: {TABLE[path][2]}" if path in TABLE else None)
        self.__dict__.update(_read(OPTIONS[path]))

    def __getattr__(self, name: str) -> Any:
        import difflib  # costs more than the tables of this file

        path = self.__name__.partition(".")[2]
        known = [option for option in {*self.__dict__, *dir(type(self))} if not option.startswith("_")]
        nearest = ", ".join(difflib.get_close_matches(name, known))
        row = path if path in TABLE else path.rpartition(".")[0]
        raise AttributeError(f"{path}: no option {name!r}.{nearest and f' Nearest: {nearest}.'} {TABLE[row][2]}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            getattr(self, name)
        super().__setattr__(name, value)

    def patch(self, arg1: Any = None, arg2: Any = None, **changes: Any) -> Any:
        """Sets options in a block or a function: `patch("name", value)`, `patch({"name": value})` or `patch(name=value)`."""
        return _patched(self, ({arg1: arg2} if isinstance(arg1, str) else arg1 or {}) | changes)


@contextmanager
def _patched(options: Settings, changes: dict[str, Any]) -> Iterator[None]:
    owners = {path: functools.reduce(getattr, path.split(".")[:-1], options) for path in changes}
    before = {path: getattr(owner, path.rpartition(".")[2]) for path, owner in owners.items()}
    try:
        for path, owner in owners.items():
            setattr(owner, path.rpartition(".")[2], changes[path])
        yield
    finally:
        for path, owner in owners.items():
            setattr(owner, path.rpartition(".")[2], before[path])


def settings(path: str, kind: type[Settings] = Settings) -> Any:
    """The options of a row and of those below it, importable under their path; the same at each call."""
    if f"dynograd.{path}" not in sys.modules:
        options = sys.modules[f"dynograd.{path}"] = kind(path)
        for below in OPTIONS:
            if below.rpartition(".")[0] == path:
                options.__dict__[below.rpartition(".")[2]] = settings(below)
    return sys.modules[f"dynograd.{path}"]


def _read(text: str) -> Iterator[tuple[str, Any]]:
    """Options with their values: in the text, each `value:` is that of the names behind it."""
    value = ""
    for word in text.split():
        if word.endswith(":"):
            value = word[:-1]
        else:
            yield word, ast.literal_eval(value)


# The options of PyTorch 2.13 with its defaults (None where they are folders or counts of a machine).
_CUTLASS = """
False: enable_debug_info use_fast_math cutlass_epilogue_fusion_enabled cutlass_tma_only generate_test_runner cutlass_hash_with_compile_cmd
upload_to_binary_remote_cache binary_remote_cache_force_write True: cutlass_prescreening use_binary_remote_cache enable_caching_codegen None: cutlass_dir
cutlass_max_profiling_configs cutlass_op_allowlist_regex cutlass_op_denylist_regex '-O1': compile_opt_level [1,2,4,8]: cutlass_max_profiling_swizzle_options
(2,1,1): cutlass_dynamic_cluster_shape cutlass_dynamic_cluster_fallback 1: cutlass_backend_min_gemm_size '0': cutlass_instantiation_level 'all':
cutlass_enabled_ops
"""
# fmt: off
OPTIONS = {
    "backends.cuda": "",
    "backends.cuda.matmul": """
True: allow_fp16_reduced_precision_reduction allow_fp16_reduced_precision_reduction_split_k allow_bf16_reduced_precision_reduction
allow_bf16_reduced_precision_reduction_split_k False: allow_fp16_accumulation
""",
    "backends.cudnn": "True: enabled False: benchmark deterministic 10: benchmark_limit",
    "backends.mkl": "",
    "backends.mkldnn": "True: enabled False: deterministic None: allow_tf32 'none': fp32_precision",
    "backends.mps": "",
    "backends.openmp": "",
    "backends.opt_einsum": "True: enabled 'auto': strategy",
    "backends.quantized": "'none': engine []: supported_engines",
    "compiler.config": """
None: job_id pgo_extra_read_key pgo_extra_write_key log_file_name '': cache_key_tag dynamic_sources dynamic_values unbacked_sources False:
force_disable_caches force_cudagraph_gc verbose capture_scalar_outputs capture_dynamic_output_shape_ops fail_on_recompile_limit_hit
allow_unspec_int_on_nn_module enable_cpp_symbolic_shape_guards wrap_top_frame True: dynamic_shapes assume_static_by_default automatic_dynamic_shapes
skip_tensor_guards_with_matching_dict_tags 8: recompile_limit 256: accumulated_recompile_limit (): reorderable_logging_functions
""",
    "_dynamo.config": """
False: verbose verify_correctness leaf_function_validate_outputs leaf_function_check_escaped_gradients generate_pycode fail_on_recompile_limit_hit
fail_on_cache_limit_hit specialize_int specialize_float automatic_dynamic_exclusion_guard log_graph_in_out_metadata allow_ignore_mark_dynamic prepare_freezing
suppress_errors replay_record_enabled disable cprofile dynamo_profiler repro_forward_only repro_ignore_non_fp capture_scalar_outputs
capture_dynamic_output_shape_ops prefer_deferred_runtime_asserts_over_guards force_unspec_int_unbacked_size_like_on_torchrec_kjt allow_unspec_int_on_nn_module
do_not_emit_runtime_asserts dont_skip_tracing optimize_ddp_lazy_compile skip_guards_on_constant_func_defaults use_recursive_dict_tags_for_guards
raise_on_unsafe_aot_autograd force_compile_during_fx_trace allow_rnn error_on_recompile trace_autograd_ops use_numpy_random_stream
enable_cpp_symbolic_shape_guards enable_trace_unittest enable_trace_load_build_class nested_graph_breaks error_on_dynamo_callback_in_fullgraph_compiled_code
install_free_tensors use_graph_deduplication track_nodes_for_deduplication graph_deduplication_lint allow_empty_graphs debug_force_nested_calls
debug_force_graph_break_on_leaf_return debug_disable_compile_counter record_compile_time_instruction_count cudagraph_backend_keep_input_mutation
cudagraph_backend_support_input_mutation only_allow_pt2_compliant_ops capture_profiler_record_function fake_tensor_cache_crosscheck_enabled caching_precompile
strict_precompile compiled_autograd skip_fwd_side_effects_in_bwd_under_checkpoint enable_compiler_collectives enable_p2p_compilation
constant_fold_autograd_profiler_enabled wrap_top_frame enable_invoke_subgraph_regional_compile inline_invoke_subgraph True: replay_side_effects
skip_code_recursive_on_recompile_limit_hit skip_code_recursive_on_cache_limit_hit dynamic_shapes use_lazy_graph_module assume_static_by_default
automatic_dynamic_shapes force_parameter_static_shapes force_nn_module_property_static_shapes guard_nn_modules guard_nn_modules_using_dict_tags
rewrite_assert_with_torch_assert same_two_models_use_fp64 optimize_ddp skip_torchrec use_lamba_guard_for_object_aliasing skip_fsdp_guards
skip_nnmodule_hook_guards skip_no_tensor_aliasing_guards_on_parameters skip_tensor_guards_with_matching_dict_tags assume_dunder_attributes_remain_unchanged
raise_on_ctx_manager_usage error_on_nested_jit_trace error_on_nested_fx_trace capture_sparse_compute report_guard_failures trace_numpy enable_cpp_guard_manager
enable_trace_contextlib enable_faithful_generator_behavior inline_inbuilt_nn_modules install_free_tensors_for_export enable_cpp_framelocals_guard_eval
issue_3_13_0_warning capture_autograd_function capture_func_transforms log_compilation_metrics fake_tensor_cache_enabled fake_tensor_disable_inference_mode
enable_dynamo_decompositions graph_break_on_nn_param_ctor inline_torch_dispatch_torch_compile automatic_dynamic_local_pgo run_gc_after_compile
record_runtime_overhead enable_aot_compile inline_single_use_invoke_subgraph None: log_file_name dead_code_elimination repro_after base_dir debug_dir_root
automatic_dynamic_remote_pgo pt2_compile_id_prefix invalidate_compile_context_weakrefs '': debug_backend_override debug_inductor_config_override
debug_dynamo_config_override 1: minimum_call_count 'info': side_effect_replay_policy 8: recompile_limit cache_size_limit 256: accumulated_recompile_limit
accumulated_cache_size_limit max_saved_pointers_for_recursive_dict_tags_check 'dynamic': automatic_dynamic_shapes_mark_as (): traceable_tensor_subclasses
nontraceable_tensor_subclasses reorderable_logging_functions ignore_logging_functions ignore_logger_methods {}: skipfiles_inline_module_allowlist
compiled_autograd_kwargs_override {'torch._decomp','torch._prims','torch._refs','torch.distributions','torch.testing'}:
allowed_functions_module_string_ignorelist 2: repro_level 0.001: repro_tolerance 'float64': numpy_default_float 'complex128': numpy_default_complex 'int64':
numpy_default_int
""",
    "_inductor.config": """
False: can_inplace_pad_graph_input debug verbose_progress remote_gemm_autotune_cache force_disable_caches unsafe_skip_cache_dynamic_shape_guards cpp_wrapper
cpp_wrapper_build_separate fx_wrapper dce nan_asserts runtime_triton_nan_asserts memory_planning use_fast_math epilogue_fusion_with_atomic_add
epilogue_fusion_first epilogue_fusion_user_defined_triton_kernel b2b_gemm_pass efficient_conv_bn_eval_fx_passes is_predispatch group_fusion
force_fuse_int_mm_with_mul reorder_for_compute_comm_overlap reorder_for_peak_memory_debug dedup_reduce_scatters runtime_estimations_mms_benchmark
distributed_max_autotune_gemm pipeline_max_autotune_gemm use_torch_profiler_benchmarker max_autotune max_autotune_pointwise max_autotune_gemm
incremental_autotune max_autotune_prune_choices_based_on_shared_mem triton_disable_device_detection max_autotune_allow_flexible_layouts
nvgemm_supplement_configs fallback_by_default selective_decompose cutedsl_enable_autotuning autotune_fallback_to_aten search_autotune_cache save_args
autotune_in_subproc autotune_multi_device coordinate_descent_tuning coordinate_descent_check_all_directions run_jit_post_compile_hook force_layout_optimization
cache_sdpa_constraint warn_mix_layout fallback_random align_random_eager fallback_embedding_bag_byte_unpack assume_unaligned_fallback_output aggressive_fusion
debug_fusion benchmark_fusion force_pointwise_cat comment_origin conv_1x1_as_mm deterministic batch_invariant benchmark_kernel always_keep_tensor_constants
do_not_emit_runtime_assertions compute_all_bounds combo_kernels benchmark_combo_kernel combo_kernel_per_subkernel_blocks combo_kernels_pointwise_only
debug_index_asserts is_nightly_or_source developer_warnings log_tlparse partitioned_scatter_enabled static_launch_user_defined_triton_kernels
strict_static_cuda_launcher strict_static_triton_launcher keep_static_cubin_raw pad_channels_last pad_dynamic_shapes expand_dimension_for_pointwise_nodes
pad_outputs force_shape_pad permute_fusion profiler_mark_wrapper_call generate_intermediate_hooks debug_ir_traceback profile_bandwidth
profile_bandwidth_with_do_bench_using_profiling disable_cpp_codegen freezing freezing_discard_parameters decompose_mem_bound_mm wrap_inductor_compiled_regions
assume_aligned_inputs assume_32bit_indexing unsafe_ignore_unsupported_triton_autotune_args enable_linear_binary_folding annotate_training
enable_autograd_for_aot emulate_precision_casts True: inplace_padding enable_auto_functionalized_v2 disable_progress fx_graph_cache
bundle_triton_into_fx_graph_cache non_blocking_remote_cache_write autotune_local_cache cpp_cache_precompile_headers online_softmax apply_gumbel_max_trick
static_weight_shapes size_asserts scalar_asserts alignment_asserts pick_loop_orders inplace_buffers allow_buffer_reuse benchmark_harness epilogue_fusion
prologue_fusion pattern_matcher split_cat_fx_passes batch_fusion reorder_for_locality dynamic_scale_rblock keep_addmm_fused_for_half_dtypes use_mixed_mm
reorder_for_peak_memory use_experimental_benchmarker max_autotune_report_choices_stats graph_partition use_dce use_pre_grad_passes use_joint_graph_passes
use_post_grad_passes layout_optimization keep_output_stride delay_realize_cheap_outputs implicit_fallbacks loop_ordering_after_fusion
loop_reindexing_after_fusion loop_index_inversion_in_fusion benchmark_epilogue_fusion split_reductions constant_and_index_propagation assert_indirect_indexing
combo_kernel_foreach_dynamic_shapes combo_kernel_autotune_grouping joint_graph_constant_folding optimize_scatter_upon_const_tensor worker_suppress_logging
quiesce_async_compile_pool use_static_cuda_launcher use_static_triton_launcher use_fast_triton_launcher use_launch_metadata_schema shape_padding
comprehensive_padding disable_padding_cpu bw_outputs_user_visible enable_caching_generated_triton_templates write_are_deterministic_algorithms_enabled
emulate_precision_casts_on_saved_tensors None: worker_log_path fx_graph_remote_cache autotune_remote_cache bundled_autotune_remote_cache
post_grad_custom_pre_pass post_grad_custom_post_pass custom_partitioner_fn joint_custom_pre_pass joint_custom_post_pass pre_grad_custom_pass
reorder_prefetch_limit bucket_all_gathers_fx_bucket_size_determinator bucket_reduce_scatters_fx_bucket_size_determinator
bucket_all_reduces_fx_bucket_size_determinator intra_node_bw inter_node_bw cudagraph_policy realize_opcount_threshold realize_acc_reads_threshold
realize_acc_reads_size_threshold inductor_choices_class max_fusion_unique_io_buffers combo_kernel_peak_memory_increase_gb add_pre_grad_passes
remove_pre_grad_passes compile_threads global_cache_dir profile_bandwidth_output 300: precompilation_timeout_seconds {}: unsafe_marked_cacheable_functions
pre_grad_fusion_options post_grad_fusion_options autotune_lookup_table 'needs_fixed_stride_order': triton_kernel_default_layout_constraint 'intermediates':
memory_pool {'pre_grad':False,'precision':0.0001,'num_iterations':1,'requires_optimizer':True}: fx_passes_numeric_check 'heuristic': mixed_mm_choice []:
reorder_for_compute_comm_overlap_passes custom_should_partition_ops cudagraph_unsafe_unbacked_ops multi_kernel_hints external_matmul 0:
size_threshold_for_succ_based_strategy min_num_split compile_worker_wait_timeout 'none': bucket_all_gathers_fx bucket_reduce_scatters_fx bucket_all_reduces_fx
'default': bucket_all_gathers_bucket_mode bucket_reduce_scatters_bucket_mode estimate_op_runtime pre_grad_pass_timing 50.0: cpu_gpu_bw 25:
inductor_default_autotune_warmup 100: inductor_default_autotune_rep 10: autotune_num_choices_displayed score_fusion_memory_threshold kernel_name_max_ops
'ATEN,TRITON,CPP': max_autotune_gemm_backends 5: nvgemm_max_profiling_configs 'ATEN,TRITON': max_autotune_conv_backends 'ATEN':
max_autotune_conv_bwd_weight_backends max_autotune_conv_bwd_input_backends 'DEFAULT': max_autotune_gemm_search_space max_autotune_flex_search_space
autoheuristic_log_path 8192: unbacked_symint_fallback 60.0: max_autotune_subproc_result_timeout_seconds 0.0: max_autotune_subproc_graceful_timeout_seconds
max_autotune_subproc_terminate_timeout_seconds 50: collective_benchmark_nruns realize_cpu_opcount_threshold 30.0: collective_benchmark_timeout 1:
coordinate_descent_search_radius max_epilogue_benchmarked_choices combo_kernels_autotune combo_kernel_allow_mixed_sizes '1': layout_opt_default 4:
realize_reads_threshold 12: realize_cpu_acc_reads_threshold '': enabled_metric_tables disabled_passes profile_bandwidth_regex torchinductor_worker_logpath 64:
max_fusion_size max_fusion_buffer_group_pairwise_attempts 1.1: min_overlap_ratio 8: max_complex_pointwise_cat_inputs max_pointwise_cat_inputs
unroll_reductions_threshold combo_kernel_max_num_nodes 250: combo_kernel_max_num_args 0.05: combo_kernel_peak_memory_pct_threshold -1:
combo_kernel_max_distance 'subprocess': worker_start_method 16777216: small_memory_access_threshold 2: partitioned_scatter_min_partitions 128:
partitioned_scatter_max_partitions padding_alignment_bytes 0.1: partitioned_scatter_memory_budget 60: quiesce_async_compile_time 1024: padding_stride_threshold
600: file_lock_timeout 'cpp': cpu_backend 'triton': cuda_backend xpu_backend 'pallas': tpu_backend
""",
    "_inductor.config.cpp": """
False: dynamic_threads enable_kernel_profile enable_unsafe_math_opt_flag enable_grouped_gemm_template enable_concat_linear use_decompose_tanh
use_small_dequant_buffer force_inline_kernel True: no_redundant_loops weight_prepack fallback_scatter_reduce_sum enable_tiling_heuristics enable_loop_tail_vec
use_constexpr_for_int_array None: simdlen march vec_isa_ok gemm_cache_blocking gemm_thread_factors -1: threads 512: min_chunk_size (None,'g++'): cxx
'original_aten': descriptive_names 16: max_horizontal_fusion_size 'off': enable_floating_point_contract_flag 1: gemm_max_k_slices 1024:
use_two_step_variance_threshold
""",
    "_inductor.config.triton": """
False: cudagraphs cudagraph_skip_dynamic_graphs cudagraph_trees_history_recording cudagraph_trees_objgraph force_cudagraph_sync force_cudagraphs_warmup
cudagraph_or_error fast_path_cudagraph_asserts skip_cudagraph_warmup debug_sync_graph debug_sync_kernel dense_indexing prefer_nd_tiling
autotune_with_sample_inputs tile_reductions native_matmul unique_user_kernel_names decompose_sort_ops cooperative_reductions force_cooperative_reductions
store_cubin use_block_ptr use_tensor_descriptor enable_persistent_tma_matmul enable_template_tma_store enable_tma_load_for_template_epilogue skip_l1_cache
enable_pdl mix_order_reduction_autotune_split_size mix_order_reduction_non_strict_mode nested_reduction proton_profiling True: cudagraph_trees
slow_path_cudagraph_asserts cudagraph_support_input_mutation reorder_for_reducing_graph_partitions coalesce_tiling_analysis autotune_pointwise
autotune_cublasLt tiling_prevents_pointwise_fusion tiling_prevents_reduction_fusion unique_kernel_names persistent_reductions divisible_by_16
emit_pointer_range_32 transpose_discontiguous_tensor_descriptor codegen_upcast_to_fp32 mix_order_reduction mix_order_reduction_allow_multi_stages
proton_group_by_sm proton_split_invocations proton_per_cta_occupancy dynamic_disable_pipelining None: cudagraph_capture_sizes max_tiles
autotune_at_compile_time mix_order_reduction_split_size proton_output_dir 0: cudagraph_min_partition_size multi_kernel 128: cudagraph_unexpected_rerecord_limit
8: cudagraph_dynamic_shape_warn_limit 1.1: cudagraph_partition_memory_budget 'original_aten': descriptive_names 1024: use_two_step_variance_min_numel 32768:
use_two_step_variance_threshold 256: min_split_scan_rblock 16: spill_threshold 10: num_decompose_k_splits mix_order_reduction_max_reads 32:
decompose_k_threshold 1: mix_order_reduction_initial_xblock {}: debug_dump_kernel_inputs 3: max_kernel_dump_occurrences
""",
    "_inductor.config.aot_inductor": """
False: autotune_per_kernel_alloc debug_compile debug_symbols use_runtime_constant_folding force_mmap_weights package dump_aoti_minifier allow_stack_allocation
use_minimal_arrayref_interface weight_use_caching_allocator enable_lto True: enable_frame_pointer enable_line_tables use_consts_asm_build dynamic_linkage
raise_error_on_ignored_optimization check_lowerbound package_constants_in_so precompile_headers link_libtorch None: filtered_kernel_names package_cpp_only
package_constants_on_disk_format embed_kernel_binary emit_multi_arch_kernel model_name_for_generated_files custom_op_libs cross_target_platform
aoti_shim_library aoti_shim_library_path '': output_path serialized_in_spec serialized_out_spec 'O1': compile_wrapper_opt_level '0':
debug_intermediate_value_printer {}: metadata presets custom_ops_to_c_shims 2: repro_level
""",
    "_inductor.config.cutlass": _CUTLASS,
    "_inductor.config.cuda": _CUTLASS + " False: enable_cuda_lto enable_ptxas_info None: arch version cuda_cxx 5: nvgemm_max_profiling_configs",
    "_inductor.config.trace": """
False: enabled save_real_tensors debug_log info_log graph_diagram draw_orig_fx_graph compile_profile log_autotuning_results True: fx_graph fx_graph_transformed
ir_pre_fusion ir_post_fusion output_code None: debug_dir dot_graph_shape log_url_for_graph_xform upload_tar 'svg': graph_diagram_format
orig_fx_graph_diagram_format 0: provenance_tracking_level
""",
}
# fmt: on
