"""Killed anywhere, a run that is started again comes to the bits of one that was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dynograd as dg
from dynograd.errors import CheckpointError
from dynograd.runs.parts import size_of
from tests.support.runs_training import EPOCHS, STEPS_PER_EPOCH, build, digest, train

TESTS = Path(__file__).parent.parent
ALL_STEPS = EPOCHS * STEPS_PER_EPOCH


class Killed(BaseException):
    """Ends the loop as a kill does: what is not on the disk is lost."""


def killer(steps):
    def kill(step):
        if step in steps:
            raise Killed

    return kill


def train_until_killed(folder, step, **options):
    try:
        train(build(folder, **options), killer([step]))
    except Killed:
        return True
    return False


@pytest.fixture(scope="module")
def uninterrupted():
    return train(build(None))


def test_a_run_repeats(uninterrupted, tmp_path):
    assert train(build(tmp_path)) == uninterrupted
    assert train(build(tmp_path, fresh=True, save_every=2)) == uninterrupted


KILLS = st.lists(st.integers(0, ALL_STEPS - 1), min_size=1, max_size=3)
SAVE_EVERY = st.sampled_from([1, 2, 3, 5, None])


def check_kills(kills, save_every, uninterrupted, folder):
    for step in kills:
        train_until_killed(folder, step, save_every=save_every)
    run = build(folder, save_every=save_every)
    assert run.resumed == bool(os.listdir(folder))
    assert train(run) == uninterrupted
    assert (run.step, run.epoch) == (ALL_STEPS, EPOCHS)


@settings(max_examples=8)
@given(kills=KILLS, save_every=SAVE_EVERY)
def test_killed_at_any_steps_and_resumed(kills, save_every, uninterrupted, tmp_path_factory):
    check_kills(kills, save_every, uninterrupted, tmp_path_factory.mktemp("run"))


@pytest.mark.slow
@settings(max_examples=60)
@given(kills=KILLS, save_every=SAVE_EVERY)
def test_killed_at_many_steps_and_resumed(kills, save_every, uninterrupted, tmp_path_factory):
    check_kills(kills, save_every, uninterrupted, tmp_path_factory.mktemp("run"))


def started(folder, *options):
    """The finished process of the training program."""
    environment = os.environ | {"PYTHONPATH": str(TESTS.parent)}
    command = [sys.executable, "-m", "tests.support.runs_training", str(folder), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.fixture(scope="module")
def digest_of_whole(tmp_path_factory):
    """What a run that nobody killed prints last."""
    whole = started(tmp_path_factory.mktemp("whole"), "--save-every", 100)
    assert whole.returncode == 0, whole.stderr
    return whole.stdout.split()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "workers", "workers_then", "every"), [(7, 0, 2, 1), (4, 2, 0, 1), (9, 1, 2, 3), (14, 2, 1, 1)]
)
def test_a_killed_process_continues_with_another_number_of_workers(
    tmp_path, digest_of_whole, step, workers, workers_then, every
):
    killed = started(tmp_path, "--workers", workers, "--kill-at", step, "--save-every", every)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = started(tmp_path, "--workers", workers_then, "--save-every", every)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith(f"began at {step - step % every},")
    assert resumed.stdout.split()[-1] == digest_of_whole


@pytest.mark.slow
def test_sigterm_saves_after_the_step_that_is_running(tmp_path):
    asked = started(tmp_path, "--kill-at", 6, "--signal", int(signal.SIGTERM), "--save-every", 100)
    assert asked.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM; saved at step 7 in" in asked.stdout and not asked.stderr
    resumed = started(tmp_path, "--save-every", 100)
    assert resumed.stdout.startswith("began at 7,")
    (tmp_path / "a").mkdir()
    assert resumed.stdout.split()[-1] == started(tmp_path / "a").stdout.split()[-1]


def test_a_signal_inside_a_step_ends_the_run_after_it(tmp_path, uninterrupted, capfd):
    run = build(tmp_path)

    def ask(step):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        train(run, ask)
    assert caught.value.code == 128 + signal.SIGTERM and signal.getsignal(signal.SIGTERM) is before
    assert "saved at step 4" in capfd.readouterr().out
    assert train(build(tmp_path)) == uninterrupted


def test_sigint_can_be_asked_for(tmp_path, uninterrupted):
    def ask(step):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT; saved at step 1"):
        train(build(tmp_path, stop_on=(signal.SIGTERM, signal.SIGINT)), ask)
    assert train(build(tmp_path)) == uninterrupted


def test_a_finished_run_stays_finished_and_goes_on_with_more_epochs(tmp_path):
    first = build(tmp_path)
    train(first)
    again = build(tmp_path)
    weights = [parameter.tolist() for parameter in again.parts["model"].parameters()]
    train(again)
    assert (
        again.step == ALL_STEPS and [parameter.tolist() for parameter in again.parts["model"].parameters()] == weights
    )
    longer = build(tmp_path)
    assert train(longer, epochs=EPOCHS + 1) == train(build(None), epochs=EPOCHS + 1)
    longer.remove()
    assert os.listdir(tmp_path) == [] and not build(tmp_path).resumed


def test_steps_until(tmp_path, uninterrupted):
    run = build(tmp_path)
    for _ in run.epochs(EPOCHS):
        for _ in run.steps(until=3):
            pass
        break
    assert (run.step, run.batch, run.epoch) == (3, 3, 0)


def test_stopping_at_a_step_and_going_on(tmp_path, uninterrupted):
    """With `until` the epoch is left in its middle; the same process and another one go on there."""
    seen = []
    for until in (3, 7, 7, 12):
        run = build(tmp_path, save_every=100)
        with run:
            for _ in run.epochs(EPOCHS):
                seen += [x.sum().item() for x, _, _ in run.steps(until=until)]
                if run.step == until:
                    break
        assert run.step == until
    run = build(None)
    with run:
        for _ in run.epochs(EPOCHS):
            straight = [x.sum().item() for x, _, _ in run.steps(until=12)] if run.epoch == 0 else []
            assert straight == seen[: len(straight)]
    run = build(None)
    parts = [[x.sum().item() for x, _, _ in run.steps(until=until)] for until in (2, 4, 9)]
    assert [len(part) for part in parts] == [2, 2, 1] and [*parts[0], *parts[1], *parts[2]] == seen[:5]


def test_loaders_without_a_state_go_on_behind_the_last_batch(tmp_path):
    def numbers(stop_at=None):
        seen = []
        with dg.Run(tmp_path / "run", save_every=1) as run:
            for _ in run.epochs(2):
                for number in run.steps(range(4)):
                    if run.step == stop_at:
                        raise Killed
                    seen.append(number)
        return seen

    with pytest.raises(Killed):
        numbers(stop_at=6)
    assert numbers() == [2, 3]


@pytest.mark.parametrize(
    ("options", "took", "megabytes", "expected"),
    [
        (dict(), 0.0, 0, [50, 100, 150, 200]),  # each epoch
        (dict(save_every=70), 9.0, 900, [70, 140, 200]),  # what the program says, and the end
        (dict(save_seconds=10), 0.0, 0, [*range(10, 201, 10), 200]),  # and the end of the last epoch
        (dict(save_seconds=10), 1.0, 0, [10, 60, 110, 160, 200]),  # every 50 seconds, of which it takes one
        (dict(save_seconds=10, save_share=0.1), 1.0, 0, [*range(10, 201, 10), 200]),
        (dict(save_seconds=10, save_share=None), 9.0, 0, [*range(10, 201, 10), 200]),
        (dict(), 2.0, 0, [50, 150, 200]),  # at most each 100 seconds
        (dict(), 0.0, 700, [70, 140, 200]),  # at most each 70 seconds
        (dict(save_rate=20e6), 0.0, 700, [50, 100, 150, 200]),
        (dict(save_rate=None), 0.0, 7000, [50, 100, 150, 200]),
        (dict(save_seconds=10), 0.0, 300, [30, 60, 90, 120, 150, 180, 200]),
        (dict(save_seconds=10), 0.0, 9000, [200]),  # the first save is reckoned too
        (dict(keep_last=3), 9.0, 9000, [50, 100, 150, 200]),  # a folder has each epoch
    ],
)
def test_saving_by_time_and_its_share(options, took, megabytes, expected, tmp_path, monkeypatch):
    """Epochs of 50 steps of a second; a save takes `took` seconds and writes `megabytes`."""
    from dynograd.runs import run as module

    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "size_of", lambda state: megabytes * 1_000_000)
    monkeypatch.setattr(module.os.path, "getsize", lambda path: megabytes * 1_000_000)
    saves = []
    real = module.write_run

    def slow_write(*args, **options):
        clock[0] += took
        saves.append(run.step)
        return real(*args, **options)

    monkeypatch.setattr(module, "write_run", slow_write)
    with dg.Run(tmp_path / "run", **options) as run:
        for _ in run.epochs(4):
            for _ in run.steps(range(50)):
                clock[0] += 1.0
    assert saves == expected


def test_an_epoch_longer_than_a_minute_is_saved_within(tmp_path, monkeypatch):
    from dynograd.runs import run as module

    clock, saves = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "write_run", lambda *args, **options: saves.append(run.step) or os.devnull)
    with dg.Run(tmp_path / "run") as run:
        for _ in run.epochs(1):
            for _ in run.steps(range(200)):
                clock[0] += 1.0
    assert saves == [60, 120, 180, 200]


def test_the_size_of_what_is_saved_is_known_before():
    model = dg.nn.Linear(1000, 10, dtype=dg.float64)
    optimizer = dg.optim.Adam(model.parameters())
    model(dg.ones(1000, dtype=dg.float64)).sum().backward()
    optimizer.step()
    run = dg.Run(None, model=[model], optimizer=optimizer)
    assert 3 * 80_080 <= size_of(run._content()) <= 3 * 80_080 + 6000


def test_rotation_and_scores(tmp_path):
    with dg.Run(tmp_path / "run", extra={}, keep_last=1, keep_best=1) as run:
        for epoch in run.epochs(4):
            for _ in run.steps(range(2)):
                pass
            run.score = [0.5, 0.9, 0.1, 0.2][epoch]
    assert sorted(os.listdir(tmp_path / "run")) == ["save-000002-step-4.safetensors", "save-000004-step-8.safetensors"]
    assert dg.load_run(tmp_path / "run", best="max").score == 0.9
    assert dg.Run(tmp_path / "run").step == 8


def test_configurations_are_compared(tmp_path):
    with dg.Run(tmp_path / "run", config={"seed": 0, "size": [1, 2]}) as run:
        for _ in run.epochs(1):
            pass
    assert dg.Run(tmp_path / "run", config={"seed": 0, "size": [1, 2]}).resumed
    with pytest.raises(CheckpointError, match=r"begun with seed=0, now 1\. .*fresh=True"):
        dg.Run(tmp_path / "run", config={"seed": 1, "size": [1, 2]})
    assert not dg.Run(tmp_path / "run", config={"seed": 1}, fresh=True).resumed


def test_what_run_refuses(tmp_path):
    model = dg.nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"expected save_every >= 1, got 0"):
        dg.Run(None, save_every=0)
    with pytest.raises(ValueError, match=r"expected snapshots >= 1, got 0"):
        dg.Run(None, snapshots=0)
    with pytest.raises(ValueError, match=r"expected save_share in \(0, 1\], got 2.*2 % of the time"):
        dg.Run(None, save_share=2)
    with pytest.raises(ValueError, match=r"expected save_rate > 0, in bytes a second, got 0\. 10e6"):
        dg.Run(None, save_rate=0)
    with pytest.raises(ValueError, match=r"expected save_seconds >= 0, got -1"):
        dg.Run(None, save_seconds=-1)
    with pytest.raises(ValueError, match=r"no loader to iterate over"):
        list(dg.Run(None).steps())
    with pytest.raises(TypeError, match=r"model is a int, which has no state_dict\(\)"):
        dg.Run(None, model=3)
    dg.save_run(tmp_path / "x", model=model)
    with pytest.raises(CheckpointError, match=r"written by save_run.*load_run"):
        dg.Run(tmp_path / "x", model=model)
    assert "step=0" in repr(dg.Run(None))


# --- going back in memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back_at", [2, 5, 8, 11, 14])
@pytest.mark.parametrize("to", [0, 1, 4, 7])
def test_rewinding_repeats_the_same_steps(uninterrupted, back_at, to):
    run = build(None, snapshot_every=2, snapshots=20)
    done = []

    def rewind_once(step):
        if step == back_at and not done:
            done.append(run.rewind(min(to, step)))
            assert done == [min(to, step) // 2 * 2]

    assert train(run, rewind_once) == uninterrupted and done


@pytest.mark.parametrize("to", [2, 8])
def test_something_else_is_done_after_a_rewind(to):
    run = build(None, snapshot_every=2, snapshots=20)
    rates, optimizer = [], run.parts["optimizer"]

    def lower_rate():
        optimizer.param_groups[0]["lr"] = 1e-6

    def rewind_once(step):
        rates.append(optimizer.param_groups[0]["lr"])
        if step == 9 and len(rates) == 10:
            run.rewind(to, then=lower_rate)
            assert optimizer.param_groups[0]["lr"] == 1e-6

    train(run, rewind_once)
    assert rates[:10] == [0.05] * 4 + [pytest.approx(0.035)] * 4 + [pytest.approx(0.0245)] * 2
    assert rates[10] == 1e-6 and max(rates[10:]) < 2e-6


def test_rewinding_further_than_there_are_copies():
    run = build(None, snapshot_every=2, snapshots=2)
    train(run)
    with pytest.raises(
        ValueError, match=r"from which there is a copy, got 3; there are copies of steps 12, 14\..*snapshots="
    ):
        run.rewind(3)
    with pytest.raises(ValueError, match=r"copies of steps none"):
        build(None).rewind(0)


def test_copies_use_the_memory_of_dropped_ones():
    run = build(None, snapshot_every=1, snapshots=2)
    places = set()

    def look(step):
        for element in run._snapshots.held:
            places.add(element.content["states"]["model"]["first.weight"].data_ptr())

    train(run, look)
    assert len(places) <= 3


def test_copies_share_nothing_with_the_run():
    run = build(None, snapshot_every=5)
    list(zip(run.steps(), range(1)))
    kept = run._snapshots.held[0].content["states"]["model"]["first.weight"].tolist()
    with dg.no_grad():
        run.parts["model"].first.weight.zero_()
    assert run._snapshots.held[0].content["states"]["model"]["first.weight"].tolist() == kept != [[0.0] * 3] * 8
    run.rewind(0)
    assert run.parts["model"].first.weight.tolist() == kept
    assert digest(run) and numpy.isfinite(kept).all()
