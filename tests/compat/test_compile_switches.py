"""What programs call around `compile` in PyTorch's words: options, backends, `_dynamo`, `_inductor`, `_logging`."""

import logging

import numpy
import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled


def half(x):
    return (x * 0.5).sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"triton.cudagraphs": True, "max_autotune": True},
        {"epilogue_fusion": False, "max-autotune": True},
        {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
        {"trace.graph_diagram": True, "cpp.threads": 3},
        torch._inductor.list_mode_options("max-autotune"),
    ],
)
def test_options_of_inductor_are_accepted(options):
    compiled = torch.compile(half, options=options)
    assert isinstance(compiled, Compiled) and compiled(torch.ones(4)).item() == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_autotun": True}, "Unexpected optimization option max_autotun, .* nearest: max_autotune"),
        ({"triton.cudagrphs": True}, "option triton.cudagrphs, .* nearest: triton.cudagraphs"),
        ({"max_autotune": 1}, "Unexpected type of attr max_autotune, got int should be bool"),
    ],
)
def test_others_are_errors(options, words):
    with pytest.raises(RuntimeError, match=words):
        torch.compile(half, options=options)


def test_modes_have_options():
    for mode in torch._inductor.list_mode_options():
        assert isinstance(torch.compile(half, mode=mode), Compiled)
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast, should be one of: default"):
        torch._inductor.list_mode_options("fast")


def test_the_default_backend():
    assert torch.compiler.get_default_backend() == "inductor" and "eager" in torch.compiler.list_backends(())
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compile(half) is half and isinstance(torch.compile(half, backend="inductor"), Compiled)
    finally:
        torch.compiler.set_default_backend(None)
    assert isinstance(torch.compile(half), Compiled)
    with pytest.raises(ValueError, match="set_default_backend: expected a backend out of cudagraphs, .* got 'tvm'"):
        torch.compiler.set_default_backend("tvm")


def test_explain_says_what_is_recorded():
    told = torch._dynamo.explain(half)(torch.ones(3))
    assert (told.graph_count, told.graph_break_count, told.op_count, told.ops_per_graph) == (1, 0, 2, [["mul", "sum"]])
    assert str(told).startswith("Graph Count: 1\nGraph Break Count: 0\nOp Count: 2\nBreak Reasons:\n")


def test_explain_says_why_not():
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g * 2)
        y.sum().backward()

    told = torch._dynamo.explain(hooked, torch.ones(3, requires_grad=True))
    assert told.graph_count == 0 and told.graph_break_count == len(told.break_reasons) == 1
    assert "hook" in told.break_reasons[0].reason and "test_compile_switches.py" in str(told)


def test_explain_takes_modules():
    for model in (torch.nn.Linear(2, 1), torch.compile(torch.nn.Linear(2, 1))):
        with torch.no_grad():
            assert torch._dynamo.explain(model)(torch.ones(1, 2)).ops_per_graph == [["linear"]]


def test_counters_count_from_where_they_are_cleared():
    counters = torch._dynamo.utils.counters
    counters.clear()
    assert not counters and counters["graph_break"] == {} and counters.get("stats", 3) == 3
    compiled = torch.compile(half)
    for _ in range(4):
        compiled(torch.ones(3, requires_grad=True))  # without gradients it would be left as it is written
    assert counters["frames"] == {"total": 4, "ok": 2}
    assert counters["stats"] == {"calls_captured": 2, "unique_graphs": 1} and "graph_break" not in counters
    assert dict(counters.items()).keys() == {"frames", "stats"} == set(counters)
    counters.clear()
    assert len(counters) == 0


def test_the_older_form_of_compile():
    for decorate in (
        torch._dynamo.optimize(),
        torch._dynamo.optimize("inductor", nopython=True),
        torch._dynamo.optimize_assert(),
    ):
        assert isinstance(decorate(half), Compiled)
    assert torch._dynamo.optimize_assert()(half).fullgraph
    assert isinstance(torch._inductor.compile(half, [], {"max_autotune": True}), Compiled)
    with torch._dynamo.patch_dynamo_config("cache_size_limit", 64):
        assert torch._dynamo.config.cache_size_limit == 64
    assert torch._dynamo.config.cache_size_limit == 8


def test_logs_of_torch_may_be_wanted():
    torch._logging.set_logs(dynamo=logging.DEBUG, graph_breaks=True, modules={"mine": logging.INFO})
    with pytest.raises(TypeError, match="unexpected keyword argument 'recompile'. Known are .*recompiles"):
        torch._logging.set_logs(recompile=True)


def test_warnings_that_come_once(caplog):
    logger = torch._logging.getArtifactLogger("mine", "graph")
    for _ in range(2):
        torch._logging.warning_once(logger, "slow %s", "here")
    assert [record.getMessage() for record in caplog.records] == ["slow here"]


def test_functions_of_numpy_take_tensors():
    both = torch.compiler.wrap_numpy(lambda x, n: {"flipped": numpy.flip(x), "top": [x.max(), n]})
    result = both(torch.tensor([1.0, 3.0]), 2)
    assert result["flipped"].tolist() == [3.0, 1.0] and result["top"][0].item() == 3 and result["top"][1] == 2
    with pytest.raises(RuntimeError):
        both(torch.ones(2, requires_grad=True), 2)
