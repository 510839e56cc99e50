"""The table of names that are only names: what each row answers, warns of or refuses, and the options that can be set."""

import doctest
import functools
import importlib
import pickle
import types
import warnings

import pytest

import dynograd as torch
from dynograd.base import stubs
from dynograd.errors import DeviceError, NoEffectWarning

CALLED = [path for path, (_, answer, _) in stubs.TABLE.items() if answer is not None]
LAYER = torch.nn.Linear(2, 2)


def value_of(path):
    return functools.reduce(getattr, path.split("."), torch)


@pytest.mark.parametrize("path", stubs.TABLE)
def test_a_row_is_found_under_its_path(path):
    kind, answer, sentence = stubs.TABLE[path]
    above = path.rpartition(".")[0]
    if above.partition(".")[0] in (
        "onnx",
        "distributed",
    ):  # modules that are refused are imported when they are named in an import
        importlib.import_module(f"dynograd.{above}")
    assert sentence.endswith(".") and value_of(path) is not None
    if kind is stubs.SETTINGS:
        assert value_of(path) is importlib.import_module(f"dynograd.{path}") and sentence in value_of(path).__doc__
    elif answer is not None:
        assert value_of(path) is stubs.function(path) and sentence in value_of(path).__doc__
        assert pickle.loads(pickle.dumps(value_of(path))) is value_of(path)


def test_docstrings_say_arguments_and_results_and_their_examples_run(monkeypatch):
    monkeypatch.setattr(stubs, "_warned", set())  # the tests of warnings begin as if nothing had been called
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    names = {"dynograd": torch}
    for path in CALLED:
        if path.startswith(("_prims_common", "distributed")):
            continue  # a method; what takes a tensor of PyTorch's inner code
        importlib.import_module(f"dynograd.{path.rpartition('.')[0]}".rstrip("."))
        text = value_of(path).__doc__
        assert "\nReturns:" in text or "\nRaises:" in text, path
        if "." in path and stubs.function(path).__code__.co_argcount and stubs.TABLE[path][0] is not stubs.WARNS:
            assert "\nArgs:" in text or stubs.function(path).__code__.co_flags & 4, path
        said = []
        runner.run(doctest.DocTestParser().get_doctest(text, dict(names), path, None, 0), out=said.append)
        assert not said, said


@pytest.mark.parametrize("name", ["compiler", "cpu", "jit", *stubs.MODULES])
def test_modules_list_what_the_table_fills_in(name):
    module = importlib.import_module(f"dynograd.{name}")
    assert isinstance(module, types.ModuleType) and module.__doc__ and module is value_of(name)
    assert set(stubs.names(name)) <= set(module.__all__) <= set(dir(module)) | {"Final"}


@pytest.mark.parametrize(
    ("path", "arguments", "value"),
    [
        ("compiler.cudagraph_mark_step_begin", (), None),
        ("compiler.is_dynamo_compiling", (), False),
        ("compiler.load_cache_artifacts", (b"",), None),
        ("compiler.save_cache_artifacts", (), None),
        ("compiler.set_enable_guard_collectives", (True,), False),
        ("compiler.skip_all_guards_unsafe", ([],), []),
        ("_dynamo.utils.is_compile_supported", ("cpu",), True),
        ("_dynamo.utils.is_compile_supported", ("mps",), False),
        ("jit.is_scripting", (), False),
        ("jit.is_tracing", (), False),
        ("xpu.is_available", (), False),
        ("xpu.is_initialized", (), False),
        ("xpu.is_bf16_supported", (), False),
        ("xpu.device_count", (), 0),
        ("xpu.memory_allocated", (), 0),
        ("xpu.max_memory_allocated", (0,), 0),
        ("xpu.empty_cache", (), None),
        ("xpu.synchronize", (), None),
        ("xpu.manual_seed", (3,), None),
        ("xpu.manual_seed_all", (3,), None),
        ("cpu.is_available", (), True),
        ("cpu.device_count", (), 1),
        ("cpu.current_device", (), "cpu"),
        ("cpu.synchronize", (), None),
        ("set_flush_denormal", (True,), False),
    ],
)
def test_constants(path, arguments, value):
    assert stubs.TABLE[path][0] is stubs.CONSTANT
    answer = value_of(path)(*arguments)
    assert answer == value and type(answer) is type(value)


@pytest.mark.parametrize(
    ("mark", "value"),
    [
        (torch.compiler.disable, max),
        (torch.compiler.disable(recursive=False), max),
        (torch.compiler.allow_in_graph, max),
        (torch.compiler.assume_constant_result, max),
        (torch.compiler.nested_compile_region, max),
        (torch.compiler.nested_compile_region(max_reuse_entries=2), max),
        (torch.compiler.substitute_in_graph(min), max),
        (torch._dynamo.disable, max),
        (torch._dynamo.nonstrict_trace, max),
        (torch._dynamo.register_backend, max),
        (torch._dynamo.register_backend(name="mine"), max),
        (torch._dynamo.optimize(disable=True), LAYER),
        (torch._dynamo.optimize("eager"), LAYER),
        (torch._dynamo.disable(reason="slow"), max),
        (torch.jit.export, LAYER.forward),
        (torch.jit.unused, LAYER.forward),
        (torch.jit.ignore, max),
        (torch.jit.ignore(drop=True), max),
        (torch.jit.interface, int),
        (torch.jit.script_if_tracing, max),
        (functools.partial(torch.jit.annotate, list[int]), LAYER),
    ],
)
def test_markers_give_back_what_they_get(mark, value):
    assert mark(value) is value


@pytest.mark.parametrize(
    "block",
    [
        lambda: torch.jit.optimized_execution(False),
        lambda: importlib.import_module("dynograd.autograd.grad_mode").set_multithreading_enabled(False),
    ],
)
def test_blocks_that_change_nothing(block):
    with block():
        pass


@pytest.mark.parametrize(
    ("path", "call", "words"),
    [
        ("jit.script", lambda: torch.jit.script(LAYER), "nothing is translated: .* the Python that it is. Leave the call out"),
        ("jit.script_method", lambda: torch.jit.script_method(LAYER), "nothing is translated"),
        ("jit.trace", lambda: torch.jit.trace(LAYER, torch.zeros(1, 2)), "nothing is traced.* not called with the example"),
        ("jit.trace_module", lambda: torch.jit.trace_module(LAYER, {}, strict=False), "nothing is traced"),
        ("jit.freeze", lambda: torch.jit.freeze(LAYER), "nothing is translated"),
        ("jit.optimize_for_inference", lambda: torch.jit.optimize_for_inference(LAYER), "nothing is translated"),
        ("multiprocessing.set_sharing_strategy", lambda: torch.multiprocessing.set_sharing_strategy("file_descriptor") or LAYER,
         "the name is remembered; tensors are sent as copies"),
    ],
)  # fmt: skip
def test_what_does_not_happen_is_said_once(path, call, words):
    assert stubs.TABLE[path][0] is stubs.WARNS
    with pytest.warns(NoEffectWarning, match=rf"^{path}: {words}") as record:
        assert call() is LAYER
    assert record[0].filename == __file__
    assert call() is LAYER  # a second warning would be an error


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: torch.jit.script(), TypeError, r"script\(\) missing 1 required positional argument: 'obj'"),
        (lambda: torch.hub.load(), TypeError, r"load\(\) missing 1 required positional argument: 'repo_or_dir'"),
        (lambda: torch.xpu.is_available(1), TypeError, r"is_available\(\) takes 0 positional arguments but 1 was given"),
        (lambda: torch.jit.save(None, "f"), NotImplementedError, "jit.save: there is no TorchScript.*state_dict"),
        (lambda: torch.jit.load("model.pt"), NotImplementedError, "jit.load: model.pt .*not read.*safetensors"),
        (lambda: torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,)), NotImplementedError, "_make_wrapper_subclass: Tensor would be .*define __torch_function__"),
        (lambda: torch.ones(2, 2, 3).to_sparse_csr(), ValueError, "expected a matrix .2 sparse dims.*to_sparse.. and sparse_coo_tensor take any number of dims"),
        (lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 1], torch.ones(2, 3), size=(2, 2, 3)), ValueError, "a matrix without batch and dense dims.*sparse_coo_tensor takes any"),
        (lambda: torch.hub.load("a/b", "c"), NotImplementedError, "hub.load: nothing is downloaded .asked for 'a/b'.*Clone"),
        (lambda: torch.hub.list("a/b"), NotImplementedError, "hub.list: nothing is downloaded .asked for 'a/b'.*Clone"),
        (lambda: torch.hub.help("a/b", "c"), NotImplementedError, "hub.help: nothing is downloaded .asked for 'a/b'.*Clone"),
        (lambda: torch.hub.download_url_to_file("u", "f"), NotImplementedError, "hub.download_url_to_file: .*'u'.*Download the file"),
        (lambda: torch.xpu.current_device(), DeviceError, r"xpu.current_device: there are no XPU devices here. Ask xpu.is_available\(\)"),
        (lambda: torch.compiler.load_compiled_function("step.bin"), NotImplementedError, "records are not written.* kept on disk"),
        (lambda: torch._dynamo.export(LAYER), NotImplementedError, "nothing is traced by it. Trace with dynograd.fx"),
        (lambda: torch._dynamo.lookup_backend("inductor"), NotImplementedError, "graphs of PyTorch's tracer.*dynograd.fx"),
        (lambda: torch.xpu.set_device(0), DeviceError, "xpu.set_device: .*use device='cuda' or 'cpu'"),
        (lambda: torch.xpu.get_device_name(), DeviceError, "xpu.get_device_name: there are no XPU"),
        (lambda: torch.xpu.get_device_capability(), DeviceError, "xpu.get_device_capability: there are no XPU"),
        (lambda: torch.xpu.get_device_properties(0), DeviceError, "xpu.get_device_properties: there are no XPU"),
    ],
)  # fmt: skip
def test_refusals_name_the_way_out(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("compiler.config.recompile_limit", 8),
        ("_dynamo.config.cache_size_limit", 8),
        ("_dynamo.config.suppress_errors", False),
        ("_dynamo.config.numpy_default_float", "float64"),
        ("_inductor.config.max_autotune_gemm_backends", "ATEN,TRITON,CPP"),
        ("_inductor.config.triton.unique_kernel_names", True),
        ("_inductor.config.cpp.cxx", (None, "g++")),
        ("_inductor.config.cuda.cutlass_enabled_ops", "all"),
        ("backends.cudnn.benchmark", False),
        ("backends.cuda.matmul.allow_bf16_reduced_precision_reduction", True),
        ("backends.mkldnn.enabled", True),
    ],
)
def test_options_have_defaults_and_can_be_set(path, value):
    owner, _, name = path.rpartition(".")
    options = importlib.import_module("dynograd." + ".".join(owner.split(".")[:2]))
    assert options is value_of(".".join(owner.split(".")[:2]))
    assert value_of(path) == value
    with value_of(owner).patch(name, "other"):
        assert value_of(path) == "other"
    assert value_of(path) == value
    with pytest.raises(ZeroDivisionError), value_of(owner).patch({name: 3}):
        raise ZeroDivisionError
    assert value_of(path) == value


def test_options_are_set_in_a_function_and_in_sections():
    config = torch._inductor.config

    @config.patch({"triton.cudagraphs": True}, max_autotune=True)
    def both():
        return config.triton.cudagraphs, config.max_autotune

    assert both() == both() == (True, True)
    assert (config.triton.cudagraphs, config.max_autotune) == (False, False)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("_dynamo.config.cache_size_limt", "_dynamo.config: no option 'cache_size_limt'. Nearest: cache_size_limit, .* leave the line out"),
        ("_dynamo.config.zzz", "_dynamo.config: no option 'zzz'. Options of PyTorch 2.13 are known, and change nothing here"),
        ("_inductor.config.max_autotun", "_inductor.config: no option 'max_autotun'. Nearest: max_autotune"),
        ("_inductor.config.triton.cudagrphs", "_inductor.config.triton: no option 'cudagrphs'. Nearest: cudagraphs.* leave the line out"),
        ("backends.cudnn.benhcmark", "backends.cudnn: no option 'benhcmark'. Nearest: benchmark.* allow_tf32 acts"),
        ("backends.cuda.matmul.allow_tf3", "backends.cuda.matmul: no option 'allow_tf3'. Nearest: allow_tf32"),
        ("backends.cuda.nothing", "backends.cuda: no option 'nothing'. Switches of attention are remembered.* one implementation"),
        ("backends.mkldnn.enable", "backends.mkldnn: no option 'enable'. Nearest: enabled.* no oneDNN"),
        ("backends.mkl.threads", "backends.mkl: no option 'threads'. It has no options: leave the line out"),
        ("backends.mps.threads", "backends.mps: no option 'threads'. It has no options"),
        ("backends.openmp.threads", "backends.openmp: no option 'threads'. It has no options"),
    ],
)  # fmt: skip
def test_unknown_options_are_errors(path, words):
    owner, _, name = path.rpartition(".")
    assert not hasattr(value_of(owner), name)
    for use in (getattr, lambda options, name: setattr(options, name, 1)):
        with pytest.raises(AttributeError, match=words):
            use(value_of(owner), name)
    with pytest.raises(AttributeError, match=words), value_of(owner).patch({name: 1}):
        pass


def test_a_warning_that_is_an_error_is_raised_once():
    with pytest.raises(NoEffectWarning), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.script(LAYER)
    assert torch.jit.script(LAYER) is LAYER


@pytest.mark.parametrize(
    ("absent", "capability"),
    [((), "AVX512"), (("avx512vl",), "AVX2"), (("avx2", "avx512f"), "DEFAULT"), (("fma",), "DEFAULT")],
)
def test_the_processor_is_called_by_its_widest_vectors(absent, capability, monkeypatch):
    from llvmlite import binding

    names = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {name: name not in absent for name in names})
    assert torch.backends.cpu.get_cpu_capability() == capability


def test_precision_of_all_backends():
    """Nothing of the kind is only remembered: GPUs would compute otherwise than the program says."""
    backends = torch.backends
    switches = backends.cuda.matmul, backends.cudnn
    assert backends.fp32_precision == "none" and [switch.allow_tf32 for switch in switches] == [False, True]
    try:
        for word, allowed in (("tf32", [True, True]), ("ieee", [False, False]), ("none", [False, True])):
            backends.fp32_precision = word
            assert backends.fp32_precision == word and [switch.allow_tf32 for switch in switches] == allowed
        with pytest.raises(ValueError, match="fp32_precision: expected 'ieee', 'tf32' or 'none', got 'tf16'"):
            backends.fp32_precision = "tf16"
    finally:
        backends.fp32_precision = "none"


def test_arguments_are_cast_as_by_custom_fwd():
    x = torch.ones(2)
    cast = importlib.import_module("dynograd.amp.autocast_mode")._cast
    number, whole, inner = cast((x, x.long(), [x.double(), 3]), "cpu", torch.bfloat16)
    assert (number.dtype, whole.dtype, inner[0].dtype) == (torch.bfloat16, torch.int64, torch.float64)
