"""save_run and load_run: everything comes back, rotation keeps what it says, and a damaged file is passed over."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import CheckpointError, StateDictError
from dynograd.runs import StopRequests, saved_runs, shards
from dynograd.runs.random_states import global_state, set_global_state
from dynograd.runs.ranks import Ranks


def parts_of(seed):
    dg.manual_seed(seed)
    model = {"net": nn.Linear(2, 3), "heads": [nn.Linear(3, 1), nn.Linear(3, 2)]}
    weights = [*model["net"].parameters(), *model["heads"][0].parameters()]
    optimizer = [dg.optim.Adam(weights, lr=0.1), dg.optim.SGD(model["heads"][1].parameters(), lr=0.2, momentum=0.9)]
    scheduler = dg.optim.lr_scheduler.ExponentialLR(optimizer[0], 0.5)
    loss = model["heads"][0](model["net"](dg.ones(1, 2))).sum() + model["heads"][1](dg.ones(1, 3)).sum()
    loss.backward()
    for element in (*optimizer, scheduler):
        element.step()
    generators = {
        "dynograd": dg.Generator().manual_seed(seed),
        "numpy": numpy.random.default_rng(seed),
        "state": numpy.random.RandomState(seed),
        "python": random.Random(seed),
        "philox": numpy.random.Generator(numpy.random.Philox(seed)),
    }
    return dict(
        model=model, optimizer=optimizer, scheduler=scheduler, scaler=dg.amp.GradScaler("cpu"), generator=generators
    )


def numbers_of(parts):
    model, generators = parts["model"], parts["generator"]
    values = [parameter.tolist() for part in (model["net"], *model["heads"]) for parameter in part.parameters()]
    values += [repr(part.state_dict()) for part in parts["optimizer"]] + [repr(parts["scheduler"].state_dict())]
    values += [
        generators["dynograd"].state(),
        generators["numpy"].random(3).tolist(),
        generators["state"].rand(3).tolist(),
    ]
    return [
        *values,
        generators["python"].random(),
        generators["philox"].normal(size=2).tolist(),
        repr(parts["scaler"].state_dict()),
    ]


def test_everything_comes_back(tmp_path):
    saved, other = parts_of(1), parts_of(2)
    extra = {"epoch": 3, "history": [0.5, float("inf")], "best": dg.ones(2), "words": {"a": 1}}
    path = dg.save_run(tmp_path / "x", **saved, extra=extra, step=7, score=0.25)
    result = dg.load_run(tmp_path / "x", **other)
    assert numbers_of(saved) == numbers_of(other)
    assert (result.step, result.score, result.path) == (7, 0.25, path)
    assert result.parts == ("model", "optimizer", "scheduler", "scaler", "generator")
    assert result.extra.pop("best").tolist() == [1.0, 1.0]
    assert repr(result.extra) == repr({"epoch": 3, "history": [0.5, float("inf")], "words": {"a": 1}})


def draws():
    return dg.rand(2).tolist(), random.random(), random.gauss(0, 1), numpy.random.standard_normal(), numpy.random.rand()


def test_global_generators_come_back(tmp_path):
    random.gauss(0, 1), numpy.random.standard_normal()  # each keeps a second normal number now
    dg.save_run(tmp_path / "x")
    expected = draws()
    assert draws() != expected
    dg.load_run(tmp_path / "x")
    assert draws() == expected
    dg.load_run(tmp_path / "x", random=False)
    assert draws() != expected


def test_numpys_global_generator_of_another_kind(tmp_path):
    state, bits = global_state(), numpy.random.get_bit_generator()
    try:
        numpy.random.set_bit_generator(numpy.random.PCG64(1))
        dg.save_run(tmp_path / "x")
        expected = numpy.random.rand()
        numpy.random.set_bit_generator(numpy.random.MT19937(1))
        dg.load_run(tmp_path / "x")
        assert numpy.random.rand() == expected
        state["numpy"]["state"]["bit_generator"] = "os.system"
        with pytest.raises(CheckpointError, match=r"was a 'os\.system', known are MT19937"):
            set_global_state(state)
    finally:
        numpy.random.set_bit_generator(bits)


def test_the_model_alone_can_be_read_by_others(tmp_path):
    from safetensors.numpy import load_file

    model = nn.Linear(2, 1)
    dg.save_run(tmp_path / "x", model=model, average=nn.Linear(1, 1))
    assert load_file(tmp_path / "x")["model.weight"].tolist() == model.weight.tolist()
    assert dg.load_run(tmp_path / "x", average=nn.Linear(1, 1)).parts == ("model", "average")


def test_rotation_keeps_the_last_and_the_best(tmp_path):
    folder = tmp_path / "run"
    for step, score in enumerate([0.3, 0.9, None, 0.8, 0.1, 0.2]):
        dg.save_run(folder, extra=step, step=10 * step, score=score, keep_last=2, keep_best=2)
    assert [os.path.basename(run) for run in saved_runs(folder)] == [
        "save-000006-step-50.safetensors",
        "save-000005-step-40.safetensors",
        "save-000004-step-30.safetensors",
        "save-000002-step-10.safetensors",
    ]
    assert dg.load_run(folder).extra == 5
    assert dg.load_run(folder, best="max").extra == 1
    assert dg.load_run(folder, best="min").extra == 4
    dg.save_run(folder, extra=9, step=5)  # a folder stays one, and the newest is the last that was written
    assert dg.load_run(folder).extra == 9 and len(saved_runs(folder)) == 5


def test_scores_in_trees_too_long_for_the_header(tmp_path, monkeypatch):
    monkeypatch.setattr("dynograd.saving.checkpoint_files._LONGEST_TREE", 10)
    for score in (1, 3, 2):
        dg.save_run(tmp_path, extra=score, score=score, keep_last=1, keep_best=1)
    assert dg.load_run(tmp_path, best="max").extra == 3 and len(saved_runs(tmp_path)) == 2


def test_lower_is_better(tmp_path):
    for score in (0.5, 0.1, 0.7, 0.6):
        dg.save_run(tmp_path, extra=score, score=score, keep_last=1, keep_best=1, best="min")
    assert [dg.load_run(run).extra for run in saved_runs(tmp_path)] == [0.6, 0.1]


def damage(path):
    raw = bytearray(Path(path).read_bytes())
    raw[len(raw) // 2] ^= 1
    Path(path).write_bytes(raw)


def test_a_damaged_newest_file_is_passed_over(tmp_path):
    for step in range(3):
        dg.save_run(tmp_path, extra=step, step=step, keep_last=3)
    damage(saved_runs(tmp_path)[0])
    with pytest.warns(UserWarning, match=r"is damaged.*Trying the one before"):
        assert dg.load_run(tmp_path).extra == 1
    for run in saved_runs(tmp_path)[1:]:
        damage(run)
    with (
        pytest.warns(UserWarning),
        pytest.raises(CheckpointError, match=r"none of the 3 files in .* is whole; the newest"),
    ):
        dg.load_run(tmp_path)


def test_what_does_not_fit(tmp_path):
    path = tmp_path / "x"
    model = nn.Linear(1, 1)
    with pytest.raises(FileNotFoundError, match=r"nothing is saved at .*x'.*begin with save_run"):
        dg.load_run(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError, match="nothing is saved"):
        dg.load_run(tmp_path / "folder")
    dg.save(model.state_dict(), path)
    with pytest.raises(CheckpointError, match=r"not of save_run\. Read it with dynograd\.load"):
        dg.load_run(path)
    dg.save_run(path, model=[model, model])
    before = model.weight.tolist()
    with pytest.raises(CheckpointError, match=r"has no 'optimizer', only 'model'\. Save it too"):
        dg.load_run(path, model=[model, model], optimizer=dg.optim.SGD(model.parameters(), lr=1.0))
    with pytest.raises(CheckpointError, match=r"model is a list of \[0\], but .* holds a list of \[0, 1\]"):
        dg.load_run(path, model=[model])
    with pytest.raises(CheckpointError, match=r"model is a dict of \['a'\], but .* holds a list"):
        dg.load_run(path, model={"a": model})
    with pytest.raises(StateDictError, match="size mismatch|shape") as caught:
        dg.load_run(path, model=[nn.Linear(2, 1), model])
    assert any("while load_run gave model.0 (Linear) its state" in note for note in caught.value.__notes__)
    assert model.weight.tolist() == before
    dg.save_run(path, generator=random.Random(1))
    with pytest.raises(
        CheckpointError, match=r"expected the state of a numpy.*Generator, got that of a generator of kind 'python'"
    ):
        dg.load_run(path, generator=numpy.random.default_rng())


def test_a_newer_version(tmp_path, monkeypatch):
    monkeypatch.setattr("dynograd.runs.saving._VERSION", 5)
    dg.save_run(tmp_path / "x")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"version 5 of runs, this dynograd reads 1\. Update"):
        dg.load_run(tmp_path / "x")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (dict(model=3), TypeError, r"model is a int, which has no state_dict\(\).*as extra="),
        (dict(optimizer=[print]), TypeError, r"optimizer\.0 is a builtin_function_or_method"),
        (dict(extra=lambda: 1), TypeError, "not data"),
        (dict(step=-1), ValueError, "expected step >= 0 or None, got -1"),
        (dict(score=float("nan")), ValueError, "expected a finite number as score, got nan"),
        (dict(keep_last=0), ValueError, "expected keep_last >= 1 or None, got 0"),
        (dict(keep_best=1, best="most"), ValueError, "expected 'max' or 'min', got 'most'"),
        (dict(run=1), ValueError, "the name 'run' is taken"),
    ],
)
def test_what_save_run_refuses(tmp_path, given, error, words):
    with pytest.raises(error, match=words):
        dg.save_run(tmp_path / "x", **given)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not make the folder"):
        dg.save_run(tmp_path / "file" / "run", keep_last=1)


def test_requests_to_stop():
    import signal

    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("before"))
    try:
        with StopRequests() as stop:
            assert not stop
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop and stop.signal == signal.SIGTERM and not heard
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == ["before"], "a second one does what it did before"
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == ["before"] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_child_is_ended_by_the_signal():
    import signal

    with StopRequests():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def forged(path, change):
    """The run as a checkpoint with another content."""
    content = dg.load(path)
    change(content)
    dg.save(content, path)


def replaced(*places, value=3):
    def change(content):
        for place in places[:-1]:
            content = content[place]
        if value is None:
            del content[places[-1]]
        else:
            content[places[-1]] = value

    return change


FORGED = {
    "no step": (replaced("run", "step", value=None), "is a checkpoint, but not of save_run"),
    "no generators": (replaced("random"), "expected the states of the random generators"),
    "no generator of Python": (replaced("random", "python", value=None), "expected the states of the random generators .*KeyError"),
    "a number as a generator": (replaced("random", "python"), "expected the state of a"),
    "a number as NumPy's": (replaced("random", "numpy"), "expected the states of the random generators"),
    "an unknown generator of NumPy": (replaced("random", "numpy", "state", "bit_generator", value="os"), "was a 'os'"),
    "habits that are none": (replaced("random", "habits", value={"scopes": [3]}), "expected the states of the random generators"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), FORGED.values(), ids=FORGED)
def test_runs_that_nobody_saved(tmp_path, change, words):
    dg.save_run(tmp_path / "run", model=nn.Linear(2, 1), step=3)
    forged(tmp_path / "run", change)
    with pytest.raises(CheckpointError, match=words):
        dg.load_run(tmp_path / "run", model=nn.Linear(2, 1))


FORGED_PARTS = {
    "no list of parts": (replaced("run", "shards"), "what it says of its parts cannot be read"),
    "a number as a part": (replaced("run", "shards", 0), "names the part '3', which is none"),
    "a part elsewhere": (replaced("run", "shards", 0, value="../000001-00000-of-00001.safetensors"), "names the part '../"),
    "a part that is missing": (replaced("run", "shards", 0, value="000009-00000-of-00001.safetensors"), "is missing. Copy the folder"),
    "no tree": (replaced("tree", value=None), "what it says of its parts cannot be read .KeyError"),
    "no JSON": (replaced("tree", value="["), "what it says of its parts cannot be read .JSONDecodeError"),
    "another tree": (replaced("tree", value='{"kind": "dict", "items": []}'), "there is no place for the state|lack 'random' or 'extra'"),
    "a state of its own that no part has": (replaced("run", "own", "kind"), "what it says of its parts cannot be read .KeyError"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), FORGED_PARTS.values(), ids=FORGED_PARTS)
def test_runs_of_parts_that_nobody_saved(tmp_path, change, words):
    about = {"version": 1, "step": 3, "score": None}
    shards.write_shards(os.fspath(tmp_path / "run"), Ranks(), {"model": nn.Linear(2, 1)}, global_state(), None, about)
    assert dg.load_run(tmp_path / "run", model=nn.Linear(2, 1)).step == 3
    forged(tmp_path / "run", change)
    with pytest.raises(CheckpointError, match=words):
        dg.load_run(tmp_path / "run", model=nn.Linear(2, 1))
