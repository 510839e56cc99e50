"""profiler: what is in a profile, and that nothing stays behind."""

from __future__ import annotations

import gzip
import json
import re

import pytest

import dynograd as dg
from dynograd.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def program():
    layer = dg.nn.Linear(4, 3)
    optimizer = dg.optim.SGD(layer.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        layer(dg.ones(2, 4)).tanh().sum().backward()
        optimizer.step()

    return step


def test_ops_nodes_ranges_and_modules_are_nested_as_they_ran():
    step = program()
    with profile(with_modules=True) as taken, record_function("mine"):
        step()
    events = taken.events()
    by_name = {event.name: event for event in events}
    assert {"mine", "linear", "tanh", "LinearBackward0", "Optimizer.step#SGD.step", "nn.Module: Linear"} <= set(by_name)
    assert by_name["linear"].cpu_parent is by_name["nn.Module: Linear"]
    assert by_name["nn.Module: Linear"].cpu_parent is by_name["mine"] and by_name["mine"].cpu_parent is None
    assert by_name["mine"].is_user_annotation and not by_name["linear"].is_user_annotation
    assert all(event.end >= event.start for event in events)
    assert sum(event.self_cpu_time_total for event in events) == pytest.approx(by_name["mine"].cpu_time_total)


def test_functions_are_what_they_were_afterwards():
    step = program()
    step()
    before = {
        name: entry.function.__code__
        for name, entry in dg.ops.op.registry.items()
        if hasattr(entry.function, "__code__")
    }
    with profile():
        step()
        dg.cosh(dg.ones(2))  # perhaps first used here
    after = {
        name: entry.function.__code__
        for name, entry in dg.ops.op.registry.items()
        if hasattr(entry.function, "__code__")
    }
    assert [name for name in before if before[name] is not after[name] and name != "cosh"] == []
    with profile() as again:
        dg.cosh(dg.ones(2))
    assert [average.key for average in again.key_averages()] == ["cosh"]
    assert dg.autograd.engine.observers == [] and not dg.profiler.ranges._telling.times


def test_shapes_memory_lines_and_operations():
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as taken:
        dg.ones(4, 8) @ dg.ones(8, 2)
    (event,) = [event for event in taken.events() if event.name == "matmul"]
    assert event.input_shapes == [[4, 8], [8, 2]] and event.memory == 32 and event.flops == 2 * 4 * 8 * 2
    assert "test_profiler.py" in event.stack[0] and "test_shapes_memory" in event.stack[0]
    table = taken.key_averages(group_by_input_shape=True, group_by_stack_n=1).table(sort_by="cpu_time_total")
    for word in (
        "Self CPU %",
        "# of Calls",
        "Input Shapes",
        "[[4, 8], [8, 2]]",
        "Source Location",
        "Total FLOPs",
        "32 B",
    ):
        assert word in table
    assert "Self CPU time total" in table
    table = taken.key_averages().table()  # the shapes of one of several calls would be wrong for the others
    assert "Input Shapes" not in table and "Source Location" not in table and "Total FLOPs" in table


def test_averages():
    with profile(record_shapes=True) as taken:
        for size in (2, 2, 3):
            dg.ones(size).exp()
    (element,) = taken.key_averages()
    assert (element.key, element.count) == ("exp", 3) and element.cpu_time == pytest.approx(element.cpu_time_total / 3)
    assert sorted(average.count for average in taken.key_averages(group_by_input_shape=True)) == [1, 2]
    assert taken.key_averages().total_average().count == 3
    with pytest.raises(ValueError, match="cannot sort by 'beauty'"):
        taken.key_averages().table(sort_by="beauty")


def test_a_schedule_gives_one_profile_per_cycle():
    ready = []
    step = program()
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(number) for number in range(3)] == [ProfilerAction.NONE, ProfilerAction.NONE, ProfilerAction.WARMUP]

    def note(taken):
        ready.append(
            (taken.step_num, [event.name for event in taken.events() if event.name.startswith("ProfilerStep")])
        )

    with profile(schedule=plan, on_trace_ready=note) as taken:
        for _ in range(12):
            step()
            taken.step()
    assert ready == [(5, ["ProfilerStep#3", "ProfilerStep#4"]), (9, ["ProfilerStep#7", "ProfilerStep#8"])]
    with pytest.raises(AssertionError, match="active > 0"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])


def test_files(tmp_path):
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as taken:
        dg.ones(1000).exp().sin()
    taken.export_chrome_trace(tmp_path / "trace.json")
    taken.export_chrome_trace(tmp_path / "trace.json.gz")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert [element["name"] for element in trace["traceEvents"]] == ["exp", "sin"]
    assert trace == json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    taken.export_stacks(tmp_path / "stacks.txt")
    assert "test_profiler.py" in (tmp_path / "stacks.txt").read_text()
    with pytest.raises(ValueError, match="metric should be one of"):
        taken.export_stacks(tmp_path / "stacks.txt", "beauty")
    with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "log"), "me")):
        dg.ones(2).exp()
    (written,) = (tmp_path / "log").iterdir()
    assert written.name.startswith("me.") and written.name.endswith(".pt.trace.json")


def test_a_flame_graph_has_backward_on_the_lines_of_forward(tmp_path):
    w = dg.ones(50, requires_grad=True)

    def forward():
        return (w * 2).exp().sum()

    with profile(with_stack=True) as taken:
        forward().backward()
    backward = [event for event in taken.events() if event.kind == "backward"]
    assert len(backward) == 3 and all(event.stack[0].endswith("): forward") for event in backward)
    taken.export_flame_graph(tmp_path / "step.svg")
    picture = (tmp_path / "step.svg").read_text()
    for name in ("ExpBackward0", "exp", "): forward", "100.0%"):
        assert name in picture
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="17"', picture)]
    assert widths[0] == 1200 and all(0 < width <= 1200 for width in widths)
    with profile() as taken:
        forward()
    with pytest.raises(
        ValueError,
        match=r"export_flame_graph: the profile has no lines of the program. Take it with profile\(with_stack=True\)",
    ):
        taken.export_flame_graph(tmp_path / "no.svg")


def test_it_goes_together_with_autocast_whichever_ends_first():
    x = dg.rand(4, 4)

    def dtypes():
        with dg.autocast("cpu"):
            inside = (x @ x).dtype
        return inside, (x @ x).dtype

    expected = (dg.bfloat16, dg.float32)
    with profile() as taken:
        assert dtypes() == expected
    assert "matmul" in [average.key for average in taken.key_averages()]
    first = profile()
    first.start()
    with dg.autocast("cpu"):
        first.stop()
        assert (x @ x).dtype is dg.bfloat16
    assert dtypes() == expected
    with dg.autocast("cpu"):
        first = profile()
        first.start()
    assert (x @ x).dtype is dg.float32
    first.stop()
    assert dtypes() == expected


def test_an_error_inside_ends_its_ranges():
    with profile() as taken:
        with pytest.raises(RuntimeError):
            dg.ones(2, 3) @ dg.ones(2, 3)
        dg.ones(2).exp()
    assert [event.cpu_parent for event in taken.events() if event.name == "exp"] == [None]


def test_the_older_interface():
    from dynograd.autograd import profiler

    with profiler.profile(record_shapes=True) as taken, profiler.record_function("mine"):
        dg.ones(2).exp()
    assert [average.key for average in taken.key_averages()] == ["mine", "exp"]
    assert taken.self_cpu_time_total > 0 and "exp" in taken.table(sort_by="self_cpu_time_total")
    with profiler.profile(enabled=False) as nothing:
        dg.ones(2).exp()
    assert not nothing.function_events
    with profiler.emit_nvtx(record_shapes=True):
        dg.ones(2).exp()

    @profiler.record_function("decorated")
    def function():
        return dg.ones(2).exp()

    with profiler.profile() as taken:
        function()
    assert [average.key for average in taken.key_averages()] == ["decorated", "exp"]
