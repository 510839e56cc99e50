"""Every benchmark row runs on dynograd and gives finite numbers, the same as its NumPy floor; nothing here looks at a clock."""

import json
import math
import shutil
import types
from functools import partial

import pytest

import dynograd
from benchmarks import __main__ as program
from benchmarks import answers, compare, fresh, machine, report, timing, workload, wrk
from benchmarks.kernel import Kernel, draw, forward, with_backward
from benchmarks.limits import MIB, Limits, best_time, copy_rate, measure_limits, sgemm_rate
from benchmarks.rows import ROWS
from benchmarks.sides import ROOT, RowFailed, Side
from benchmarks.timing import Stopwatch
from benchmarks.worker import Worker
from benchmarks.workload import Workload, fingerprint
from dynograd.utils.programs import UsageError

LONG = {"gpt", "resnet20", "resnet20.channels_last", "varlen.bilstm", "varlen.bilstm.padded", "varlen.gru"}


@pytest.fixture(scope="module")
def side():
    created = Side("dynograd", "dynograd", threads=1)
    yield created
    created.close()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in ROWS]
)
def test_row_runs_and_agrees_with_its_floor(name):
    row = ROWS[name]
    workload = (row.small or row.build)(dynograd)
    checksum = workload.checksum()
    assert checksum and all(map(math.isfinite, checksum))
    if row.floor:
        assert compare.differ(checksum, row.floor().checksum()) <= compare.TOLERANCE
    workload.step()


@pytest.mark.parametrize("name", ["chain.4x4.backward", "mlp", "sentiment.batch8"])
def test_checksum_is_the_same_each_time(name):
    assert ROWS[name].build(dynograd).checksum() == ROWS[name].build(dynograd).checksum()


def test_worker_times_a_row_beside_its_floor(side):
    result = compare.compare_steps(ROWS["add"], [side], rounds=2, seconds=0.002)
    assert not result.errors
    assert result.agrees and result.difference is not None
    assert len(result.samples["dynograd"]) >= 2
    assert result.floor > 0 and "dynograd" in result.over


def test_two_workers_give_a_ratio_for_each_round(side):
    again = Side("dynograd again", "dynograd", threads=1)
    try:
        result = compare.compare_steps(ROWS["view"], [side, again], rounds=2, seconds=0.002)
    finally:
        again.close()
    middle, least, greatest = result.ratios["dynograd again"]
    assert least <= middle <= greatest


def test_a_ratio_above_one_means_that_the_first_side_is_faster():
    result = compare.Result("r", "kernels")
    sides = [Side(label, label, threads=1) for label in ("own", "peer", "failed")]
    compare.set_ratios(result, sides, {"own": [1.0, 1.0, 2.0], "peer": [3.0, 4.0, 4.0]})
    assert result.ratios == {"peer": (3.0, 2.0, 4.0)}


def test_a_worker_outlives_a_row_that_fails(side):
    with pytest.raises(RowFailed, match="KeyError"):
        side.ask("build", name="no such row", seconds=0.002, with_floor=False)
    assert side.ask("describe")["numpy"]


def test_a_library_that_cannot_be_imported_is_told():
    lost = Side("lost", "no_such_library", threads=1)
    try:
        result = compare.compare_steps(ROWS["add"], [lost], rounds=1, seconds=0.002)
    finally:
        lost.close()
    assert "no_such_library" in result.errors["lost"]
    assert "add: lost failed: ModuleNotFoundError" in report.report(
        {"date": "today"}, [result], ["lost"], markdown=False
    )


@pytest.mark.parametrize("kind", ["peak", "slope"])
def test_fresh_process_measures(kind):
    reading = fresh.measure(fresh.FreshRow("tiny", kind, "", "linear.train"), "dynograd", threads=1, steps=20)
    assert math.isfinite(reading["value"])


@pytest.mark.slow
def test_a_first_step_is_cold_or_warm_and_its_time_has_parts(monkeypatch):
    """A row whose step compiles: a cold process does, one with the folder that it has filled does not."""
    monkeypatch.setattr(fresh, "_filled", {})
    monkeypatch.setattr(fresh, "_cold_parts", {})
    warm, cold = (fresh.FreshRow("tanh", "first", "s", "tanh.65536", cold) for cold in (False, True))
    shared = {"process", "program", "import", "import of Numba", "writing functions", "loading kernels"}
    compiling = {"compiling, front end", "compiling, LLVM"}
    assert fresh.parts_of(warm, "dynograd", threads=1).keys() == shared
    cold_parts = fresh.parts_of(cold, "dynograd", threads=1)  # of the process that filled the folder
    assert cold_parts.keys() == shared | compiling and min(cold_parts.values()) >= 0
    assert list(fresh._filled) == ["tanh.65536"]
    assert fresh.measure(warm, "dynograd", threads=1, steps=1)["value"] > 0
    assert fresh.parts_of(warm, "numpy", threads=1) == {}


def test_parts_within_parts_are_not_counted_twice(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0, 10.0])
    monkeypatch.setattr(fresh.time, "perf_counter", lambda: next(now))
    clock = fresh.PartsClock()
    with clock.part("a"), clock.part("b"):
        pass
    assert clock.totals() == {"program": 1.0, "a": 2.0 + 4.0, "b": 3.0}


def test_every_start_has_a_cold_and_a_warm_row():
    cold, warm = ([row for row in fresh.FRESH.values() if row.group == group] for group in ("cold", "warm"))
    assert [row.name for row in cold] == [f"{row.name}.cold" for row in warm] and len(warm) == 6
    assert (
        {row.row for row in warm} <= set(ROWS) and all(row.cold for row in cold) and not any(row.cold for row in warm)
    )


def test_the_parts_of_a_start_are_a_table():
    result = compare.Result(
        "first.mlp", "warm", details={"own": [{"value": 2.0}, {"parts": {"import": 1.5, "step": 0.5}}]}
    )
    text = report.report({"machine": "x"}, [result], ["own"], markdown=False)
    assert "first.mlp, own" in text and "1.50 s" in text and "500 ms" in text
    assert report.starts_of([compare.Result("r", "warm")], False) == ""


def test_every_plan_has_a_cold_and_a_warm_row():
    cold, warm = (
        [row for row in fresh.FRESH.values() if row.group == "plans" and row.cold is cold] for cold in (True, False)
    )
    assert [row.name for row in cold] == [f"{row.name}.cold" for row in warm] and {row.row for row in warm} <= set(ROWS)


def test_a_plan_is_timed_apart_from_its_steps(monkeypatch):
    ticks = iter([0.0, 0.5, 1.0, 1.1, 2.0, 4.1, *[5.0, 5.1] * 5])
    monkeypatch.setattr(fresh.time, "perf_counter", lambda: next(ticks))
    assert fresh.time_of_plan(lambda: None) == pytest.approx(0.5 + 0.1 + 2.1 - 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("model", answers.MODELS)
def test_a_saved_program_answers_in_a_new_process(model, monkeypatch):
    monkeypatch.setattr(answers, "_saved", {})
    assert fresh.measure(fresh.FRESH[f"answer.{model}"], "dynograd", threads=1, steps=1)["value"] > 0


def test_import_time_is_measured():
    assert fresh.measure(fresh.FRESH["import"], "dynograd", threads=1, steps=1)["value"] > 0


def test_program_prints_a_table_and_writes_json(tmp_path, capsys):
    file = tmp_path / "figures.json"
    arguments = ["add", "module.call", "--peer", "none", "--rounds", "1", "--seconds", "0.002", "--threads", "1"]
    assert program.main([*arguments, "--markdown", "--json", str(file)]) == 0
    text = capsys.readouterr().out
    assert "| add |" in text and "| module.call |" in text and "OPENBLAS_CORETYPE" in text
    assert [result["name"] for result in json.loads(file.read_text())["results"]] == ["add", "module.call"]


@pytest.mark.parametrize(
    "patterns, names",
    [
        (["mlp"], ["mlp"]),
        (["sentiment*", "mlp"], ["mlp", "sentiment", "sentiment.padded", "sentiment.batch8"]),
        (["matmul.64", "vae"], ["vae", "matmul.64"]),
        (
            ["fresh"],
            [
                "import",
                "answer.words",
                "answer.words.ragged",
                "memory.mlp",
                "memory.sentiment",
                "memory.lenet",
                "memory.resnet20",
                "memory.lstm",
                "memory.gpt",
                "slope.mlp",
                "slope.sentiment",
            ],
        ),
        (["warm"], ["first.mlp", "first.convnet", "first.sentiment", "first.gpt", "first.trees", "first.gcn"]),
    ],
)
def test_rows_are_chosen_by_name_group_and_pattern(patterns, names):
    assert [row.name for row in program.chosen_rows(patterns, {**ROWS, **fresh.FRESH})] == names


def test_an_unknown_row_is_an_error_that_lists_the_rows():
    with pytest.raises(ValueError, match=r"no row is called 'mpl'.*mlp"):
        program.chosen_rows(["mpl"], ROWS)


def test_timed_counts_are_whole_cycles():
    taken = []
    watch = Stopwatch(Workload(lambda: taken.append(1), list, cycle=3), seconds=1e-4)
    assert watch.count % 3 == 0
    assert watch.turn() and len(taken) % 3 == 0


@pytest.mark.parametrize(
    "a, b, difference",
    [
        ([2.0, 0.0], [2.0, 0.0], 0.0),
        ([2.0, 0.0], [2.0, 0.2], 0.1),
        ([1.0, 0.0], [math.nan, 0.0], math.inf),
        ([], [1.0, 1.0], math.inf),
    ],
)
def test_differ_is_relative_to_the_root_mean_square(a, b, difference):
    assert compare.differ(a, b) == pytest.approx(difference)


@pytest.mark.parametrize(
    "moved, flops, least",
    [
        (MIB, 0, (MIB / 100e9, "bytes")),
        (2 * MIB, 0, (2 * MIB / 20e9, "bytes")),
        (900 * MIB, 0, (900 * MIB / 20e9, "bytes")),
        (100, 1000, (1e-8, "flops")),
    ],
)
def test_the_limit_is_what_takes_longer(moved, flops, least):
    seconds, by = Limits({MIB: 100e9, 64 * MIB: 20e9}, sgemm=100e9).least_time(moved, flops)
    assert (pytest.approx(seconds), by) == least


def test_limits_are_measured():
    assert copy_rate(MIB, threads=2) > 0 and copy_rate(8 * MIB, threads=2) > 0 and sgemm_rate(8) > 0


def test_limits_that_cannot_be_measured_are_an_error():
    with pytest.raises(RowFailed, match="argument threads: expected at least 1, got 0"):
        measure_limits(threads=0)


def test_best_time_repeats_what_is_short():
    counts = []
    assert best_time(lambda repeats: counts.append(repeats) or sum(range(100 * repeats))) > 0
    assert counts[-1] > 1


def test_a_kernel_states_what_it_moves_and_computes():
    x, y = draw(dynograd, (4, 5), (4, 5))
    alone = forward(dynograd, Kernel(dynograd.mul, (x, y), flops=7))
    assert (alone.moved, alone.flops) == (3 * 80, 7)
    both = with_backward(dynograd, Kernel(dynograd.mul, (x, y), flops=7))
    assert (both.moved, both.flops) == (2 * 160 + 2 * 80 + 160, 21)
    stated = with_backward(dynograd, Kernel(dynograd.mul, (x, y), leaves=(x,), backward_moved=3, backward_flops=2))
    assert (stated.moved, stated.flops) == (3, 2)


def test_the_compiling_side_passes_functions_through_the_compiler(monkeypatch):
    monkeypatch.setattr(workload, "_compilers", [])
    seen = []
    assert workload.compiled(abs) is abs
    workload.use_compiler(lambda function: seen.append(function) or function, whole_steps=False)
    ROWS["mlp.small"].build(dynograd).step()
    assert len(seen) == 1


def test_the_compiling_side_takes_part_only_where_a_row_compiles(side):
    compiling = Side("compiled", "dynograd", threads=1, compiles=True)
    assert not ROWS["add"].compiles and not ROWS["optimizer.adamw"].compiles and ROWS["mlp"].compiles
    result = compare.compare_steps(ROWS["add"], [side, compiling], rounds=1, seconds=0.002)
    assert list(result.samples) == ["dynograd"] and compiling.process is None


def test_a_row_may_be_compiled_by_one_library_alone():
    row = ROWS["dynamic.trees_25"]
    assert [row.takes(*side) for side in [("dynograd", True), ("torch", True), ("torch", False)]] == [True, False, True]


def test_everywhere_every_training_step_is_compiled():
    everywhere = ["dynamic.trees_25", "optimizer.adamw", "mlp.batch4"]
    assert all(ROWS[name].takes("torch", True, everywhere=True) for name in everywhere)
    assert not any(ROWS[name].takes("torch", True, everywhere=True) for name in ["add", "data.text.0"])


@pytest.mark.parametrize(
    "name, passed",
    [("mlp.small", 1), ("optimizer.zero_grad", 1), ("dynamic.one_tree", 1), ("lstm.by_hand", 1)],
)
def test_a_step_of_which_nothing_is_compiled_is_compiled_whole(monkeypatch, name, passed):
    for names in ("_compilers", "_whole", "_rest", "_parts"):
        monkeypatch.setattr(workload, names, [])
    seen = []
    library = types.ModuleType("another")
    library.__getattr__ = partial(getattr, dynograd)
    library.compile = lambda function, **settings: seen.append(settings) or function
    worker = Worker(library, compiles=True, everywhere=True, dynamic=False)
    worker.build(name, 0.001, with_floor=False)
    assert seen == [{"dynamic": False}] * passed


def test_an_answer_that_does_not_come_is_not_waited_for_forever():
    side = Side("dynograd", "dynograd", threads=1, patience=0.01)
    try:
        with pytest.raises(RowFailed, match="not ready within 0.01 s"):
            side.ask("build", name="resnet20", seconds=0.1, with_floor=False)
        assert side.process is None
    finally:
        side.close()


def test_compile_adds_a_side():
    options = program.parser().parse_args(["--compile", "--peer", "dynograd"])
    sides = program.chosen_sides(options)
    assert [side.label for side in sides] == ["dynograd", "dynograd again", "dynograd.compile"]
    assert [side.compiles for side in sides] == [False, False, True]
    options = program.parser().parse_args(["--compile", "--peer", "none"])
    sides = program.chosen_sides(options)
    assert [(side.label, side.compiles) for side in sides] == [("dynograd", False), ("dynograd.compile", True)]
    options = program.parser().parse_args(
        ["--compile", "--everywhere", "--dynamic", "no", "--patience", "7", "--peer", "none"]
    )
    plain, compiling = program.chosen_sides(options)
    assert (plain.everywhere, plain.dynamic, plain.patience) == (False, "", None)
    assert (compiling.everywhere, compiling.dynamic, compiling.patience) == (True, "no", 7.0)


def test_ratios_over_the_compiled_side_have_a_mean_of_their_own():
    labels = ["dynograd", "torch", "dynograd.compile", "torch.compile"]
    sides = [Side(label, label.partition(".")[0], threads=1) for label in labels]
    compiled, plain = compare.Result("mlp", "training"), compare.Result("optimizer.sgd", "training")
    compare.set_ratios(
        compiled, sides, {"dynograd": [2.0], "torch": [4.0], "dynograd.compile": [1.0], "torch.compile": [3.0]}
    )
    compare.set_ratios(plain, sides, {"dynograd": [2.0], "torch": [2.0]})
    assert {peer: middle for peer, (middle, *_) in compiled.compiled_ratios.items()} == {
        "torch": 4.0,
        "torch.compile": 3.0,
    }
    text = report.report({"date": "today"}, [compiled, plain], labels, markdown=False)
    assert "torch / dynograd: geometric mean 1.41 over 2 rows" in text
    assert "torch / dynograd.compile: geometric mean 2.00 over 2 rows" in text  # the optimizer as it is
    assert "torch.compile / dynograd.compile: geometric mean 3.00 over 1 rows" in text


def test_another_checkout_is_timed_with_the_rows_of_this_one(tmp_path, capfd):
    package = tmp_path / "dynograd"
    shutil.copytree(ROOT / "dynograd", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "version.py").write_text((package / "version.py").read_text() + "print('the other one', flush=True)\n")
    options = program.parser().parse_args(["--against", str(tmp_path), "--threads", "1"])
    sides = program.chosen_sides(options)
    try:
        result = compare.compare_steps(ROWS["add"], sides, rounds=1, seconds=0.002)
    finally:
        for side in sides:
            side.close()
    assert list(result.samples) == ["dynograd", "dynograd before"] and result.agrees
    assert capfd.readouterr().err.count("the other one") == 1
    assert sides[1].only_package is None


def test_another_checkout_must_be_one(tmp_path, capsys):
    with pytest.raises(SystemExit):
        program.main(["add", "--against", str(tmp_path)])
    assert f"there is no dynograd/__init__.py in {tmp_path}" in capsys.readouterr().err


def test_disturbed_samples_are_left_out_unless_all_are(monkeypatch):
    waits = iter([0.0, 1.0] + [1.0] * 1000)
    watch = Stopwatch(Workload(lambda: None, list), seconds=1e-3)
    monkeypatch.setattr(timing, "waited_for_cores", lambda: next(waits))
    assert len(watch.turn()) <= timing.SAMPLES and watch.calm
    growing = iter(range(10**6))
    monkeypatch.setattr(timing, "waited_for_cores", lambda: next(growing))
    assert watch.turn() and not watch.calm


def test_a_disturbed_round_is_taken_again(monkeypatch):
    monkeypatch.setattr(compare, "PAUSE_WHEN_DISTURBED", 0)
    calm = iter([False, True, *[False] * 100])

    class Disturbed:
        label = "a"

        def ask(self, do):
            return {"samples": [1.0], "floor": [], "calm": next(calm)}

    result = compare.Result("r", "kernels")
    turns, _ = compare.take_turns([Disturbed()], 2, result)
    assert len(turns["a"]) == 2 and result.disturbed == 1
    assert "r: disturbed by other programs in 1 rounds" in report.report({"date": ""}, [result], ["a"], markdown=False)


def test_a_worker_that_fails_in_its_turn_leaves_the_others():
    class Failing:
        label = "b"

        def ask(self, do):
            raise RowFailed("out of memory")

    result = compare.Result("r", "kernels")
    turns, _ = compare.take_turns([Failing()], 2, result)
    assert turns == {"b": []} and result.errors == {"b": "out of memory"}


def test_report_shows_the_limit_and_each_peer():
    result = compare.Result("exp", "kernels", difference=0.0, limit=1e-3, limited_by="bytes")
    result.samples = {"dynograd": [2e-3], "torch": [4e-3], "torch.compile": [1e-2]}
    result.ratios = {"torch": (2.0, 2.0, 2.0), "torch.compile": (5.0, 5.0, 5.0)}
    text = report.report({"date": "today"}, [result], ["dynograd", "torch", "torch.compile"], markdown=True)
    assert "| 2.00 (2.00–2.00) | 5.00 (5.00–5.00) | 1.00 ms, bytes | 50 % | 25 % | 10 % | yes |" in text
    assert "torch.compile / dynograd: geometric mean 5.00 over 1 rows" in text


def test_fingerprint_tells_positions_apart():
    a, b = fingerprint(dynograd.tensor([1.0, 2.0])), fingerprint(dynograd.tensor([2.0, 1.0]))
    assert a[0] == b[0] and a[1] != b[1]


def test_report_shows_ratio_budget_and_a_wrong_result():
    result = compare.Result("add", "overhead", budget=0.9, difference=0.5, floor=1e-6)
    result.samples = {"dynograd": [2e-6, 2e-6, 3e-6], "torch": [4e-6, 4e-6]}
    result.over = {"dynograd": 1.0, "torch": 3.0}
    result.ratios = {"torch": (2.0, 1.5, 2.5)}
    text = report.report({"date": "today"}, [result], ["dynograd", "torch"], markdown=True)
    timings = "2.00 µs (2.00 µs–3.00 µs) | 4.00 µs (4.00 µs–4.00 µs) | 2.00 (1.50–2.50)"
    expected = f"| add | {timings} | 1.00 µs | 1.00 | 3.00 | 0.9 MISSED | NO, 0.5 |"
    assert expected in text
    assert "add: results differ by 0.5" in text


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (1.5, "s", "1.50 s"),
        (0.0123, "s", "12.3 ms"),
        (4.5e-7, "s", "450 ns"),
        (0.0, "s", "0.00 ns"),
        (12.34, "MiB", "12.3 MiB"),
    ],
)
def test_quantity(value, unit, text):
    assert report.quantity(value, unit) == text


def test_the_machine_is_described():
    described = machine.describe_machine(2)
    assert described["threads"] == "2" and "OPENBLAS_CORETYPE" in described["environment"] and described["processor"]
    assert described["transparent huge pages"]


def test_waiting_for_a_core_is_read():
    assert machine.waited_for_cores() >= 0


SAID_BY_WRK = """Running 3s test @ http://127.0.0.1:8000
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     9.42ms    2.11ms  23.65ms   79.71%
    Req/Sec     6.81k   402.58     7.44k    70.00%
  20325 requests in 3.01s, 2.81MB read
"""


@pytest.mark.parametrize(
    ("more", "lost"),
    [
        ("", 0),
        ("  Socket errors: connect 1, read 2, write 3, timeout 4\n", 10),
        ("  Non-2xx or 3xx responses: 7\n", 7),
        ("  Socket errors: connect 0, read 2, write 0, timeout 0\n  Non-2xx or 3xx responses: 7\n", 9),
    ],
)
def test_what_wrk_says_is_read(more, lost):
    text = f"{SAID_BY_WRK}{more}Requests/sec:   6752.49\nTransfer/sec:      0.93MB\n"
    assert wrk.sent(text, busy=0.5) == wrk.Sent(20325, 6752.49, lost, 0.5)


def test_a_machine_without_wrk_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no program wrk"):
        wrk.send("http://127.0.0.1:1", "/score", [b"{}"], clients=1, seconds=1)
