"""Every benchmark row runs on dynograd and gives finite numbers, the same as its NumPy floor; nothing here looks at a clock."""

import json
import math

import pytest

import dynograd
from benchmarks import __main__ as program
from benchmarks import compare, fresh, machine, report
from benchmarks.rows import ROWS
from benchmarks.sides import RowFailed, Side
from benchmarks.timing import Stopwatch
from benchmarks.workload import Workload, fingerprint


@pytest.fixture(scope="module")
def side():
    made = Side("dynograd", "dynograd", threads=1)
    yield made
    made.close()


@pytest.mark.parametrize("name", ROWS)
def test_row_runs_and_agrees_with_its_floor(name):
    row = ROWS[name]
    workload = row.build(dynograd)
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
    assert result.ratio_range[0] <= result.ratio <= result.ratio_range[1]


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


@pytest.mark.parametrize("kind", ["peak", "slope", "first"])
def test_fresh_process_measures(kind):
    reading = fresh.measure(fresh.FreshRow("tiny", kind, "", "linear.train"), "dynograd", threads=1, steps=20)
    assert math.isfinite(reading["value"])


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
        (["gru*", "lstm"], ["lstm", "gru", "gru.packed"]),
        (["fresh"], list(fresh.FRESH)),
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


def test_fingerprint_tells_positions_apart():
    a, b = fingerprint(dynograd.tensor([1.0, 2.0])), fingerprint(dynograd.tensor([2.0, 1.0]))
    assert a[0] == b[0] and a[1] != b[1]


def test_report_shows_ratio_budget_and_a_wrong_result():
    result = compare.Result("add", "overhead", budget=0.9, difference=0.5, floor=1e-6)
    result.samples = {"dynograd": [2e-6, 2e-6, 3e-6], "torch": [4e-6, 4e-6]}
    result.over = {"dynograd": 1.0, "torch": 3.0}
    result.ratio, result.ratio_range = 2.0, (1.5, 2.5)
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
