"""Runs of several ranks: parts of each on the disk, one commit, and going on with another number of ranks."""

import hashlib
import os
import warnings

import pytest

import dynograd
from dynograd import distributed, nn
from dynograd.base import files
from dynograd.data import DataLoader, DistributedSampler, TensorDataset
from dynograd.distributed import VirtualShards
from dynograd.errors import CheckpointError, NonFiniteError
from dynograd.nn.parallel import DistributedDataParallel
from dynograd.optim import ZeroRedundancyOptimizer
from dynograd.runs import shards as run_shards

EPOCHS, BATCHES = 2, 5


class Stop(Exception):
    pass


def build(folder, zero=False, sampler=False, **options):
    dynograd.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1)))
    kind = dynograd.optim.AdamW
    optimizer = (
        ZeroRedundancyOptimizer(model.parameters(), kind, lr=0.01) if zero else kind(model.parameters(), lr=0.01)
    )
    data = TensorDataset(dynograd.arange(160.0).view(40, 4) / 100)
    options = {"save_every": 2, "extra": {"losses": []}} | options
    if sampler:
        loader = DataLoader(data, 8 // distributed.get_world_size(), sampler=DistributedSampler(data))
    else:
        loader = DataLoader(data, 8, shuffle=True, generator=dynograd.Generator().manual_seed(5))
    path = None if folder is None else os.path.join(folder, "run.safetensors")
    return dynograd.Run(path, model=model, optimizer=optimizer, loader=loader, **options)


def train(folder, stop_at=None, shards=None, **options):
    run = build(folder, **options)
    model, optimizer = run.parts["model"], run.parts["optimizer"]
    cut = None if shards is None else VirtualShards(model, shards)
    with run:
        for _ in run.epochs(EPOCHS):
            for (x,) in run.steps():
                if run.step == stop_at:
                    raise Stop
                optimizer.zero_grad()
                losses = []
                for part in [x] if cut is None else cut.of(x):
                    loss = model(part).square().mean()
                    loss.backward()
                    losses.append(loss)
                optimizer.step()
                run.extra["losses"].append(loss.item() if cut is None else cut.mean(losses))
    return digest(model), run.extra["losses"], run.step


def digest(model):
    arrays = [value.detach().numpy().tobytes() for name, value in model.state_dict().items() if "running" not in name]
    return hashlib.sha256(b"".join(arrays)).hexdigest()


def stopped(folder, at, ranks, **options):
    with pytest.raises(Stop):
        distributed.simulate(train, str(folder), at, ranks=ranks, **options)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("ranks", [(1, 2, 4), (4, 1, 2), (2, 4, 1)])
def test_a_run_goes_on_with_another_number_of_ranks(tmp_path, ranks, zero):
    (whole,) = distributed.simulate(train, None, shards=4, ranks=1)
    stopped(tmp_path, 3, ranks[0], shards=4, zero=zero)
    stopped(tmp_path, 7, ranks[1], shards=4, zero=zero)
    results = distributed.simulate(train, str(tmp_path), shards=4, zero=zero, ranks=ranks[2])
    assert results == [results[0]] * ranks[2] and results[0][2] == EPOCHS * BATCHES
    assert results[0] == whole
    parts = os.listdir(tmp_path / "run.safetensors.shards") if ranks[2] > 1 else []
    assert len(parts) == (ranks[2] if ranks[2] > 1 else 0)
    assert (ranks[2] > 1) == (tmp_path / "run.safetensors.shards").exists()


@pytest.mark.parametrize("zero", [False, True])
def test_each_rank_goes_on_with_its_own_samples(tmp_path, zero):
    whole = distributed.simulate(train, None, sampler=True, zero=zero, ranks=2)
    stopped(tmp_path, 5, 2, sampler=True, zero=zero)
    again = distributed.simulate(train, str(tmp_path), sampler=True, zero=zero, ranks=2)
    assert [result[0] for result in again] == [result[0] for result in whole]
    assert again[0][1] == whole[0][1]  # of the first rank


def test_states_that_differ_are_not_given_to_another_number_of_ranks(tmp_path):
    def program(ranks):
        dynograd.manual_seed(distributed.get_rank())
        return dynograd.save_run(tmp_path / "run.safetensors", step=1)

    distributed.simulate(program, 2, ranks=2)
    with pytest.raises(
        CheckpointError, match="saved by 2 processes, each with another state of 'random', and there are 3"
    ):
        distributed.simulate(lambda: dynograd.load_run(tmp_path / "run.safetensors"), ranks=3)
    seeds = distributed.simulate(
        lambda: dynograd.load_run(tmp_path / "run.safetensors") and dynograd.initial_seed(), ranks=2
    )
    assert seeds == [0, 1]


def test_tensors_are_divided_among_the_ranks(tmp_path):
    def program():
        dynograd.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.BatchNorm1d(64))
        model[2].running_mean.fill_(distributed.get_rank())
        dynograd.save_run(tmp_path / "run.safetensors", model=model, step=1)
        with dynograd.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        saved = dynograd.load_run(tmp_path / "run.safetensors", model=model)
        return saved.step, model[0].weight.abs().sum().item(), model[2].running_mean.sum().item()

    results = distributed.simulate(program, ranks=3)
    assert len(set(results)) == 1 and results[0][0] == 1 and results[0][1] > 0 and results[0][2] == 0
    sizes = [path.stat().st_size for path in sorted((tmp_path / "run.safetensors.shards").iterdir())]
    assert len(sizes) == 3 and sizes[0] > 16000 and sizes[1] > 16000
    with open(tmp_path / "run.safetensors", "rb") as file:
        assert len(file.read()) < 6000


def broken_at(monkeypatch, rank, what):
    """Makes the disk full for a rank while it writes its part, or the first one while it writes the commit."""
    write = files.write_atomically

    def full(path, content, who="save"):
        if distributed.get_rank() == rank and (".shards" in str(path)) == (what == "part"):
            raise CheckpointError(f"could not write {path!r}: No space left on device")
        write(path, content, who)

    monkeypatch.setattr(run_shards, "write_atomically", full)
    monkeypatch.setattr(run_shards.serialization, "write_atomically", full)


@pytest.mark.parametrize(("rank", "what"), [(0, "part"), (1, "part"), (0, "commit")])
def test_a_disk_that_is_full_for_one_rank_leaves_the_old_run(tmp_path, monkeypatch, rank, what):
    path = tmp_path / "run.safetensors"

    def save(step):
        dynograd.save_run(path, model=nn.Linear(3, 3), step=step)

    distributed.simulate(save, 1, ranks=2)
    before = sorted(os.listdir(tmp_path / "run.safetensors.shards"))
    told = []

    def program():
        try:
            save(2)
        except CheckpointError as error:
            told.append(str(error))

    with monkeypatch.context() as patch:
        broken_at(patch, rank, what)
        distributed.simulate(program, ranks=2)
    assert len(told) == 2 and all("No space left on device" in text for text in told)
    assert any(f"rank {rank} has failed" in text for text in told)
    assert sorted(os.listdir(tmp_path / "run.safetensors.shards")) == before
    assert distributed.simulate(lambda: dynograd.load_run(path).step, ranks=2) == [1, 1]
    distributed.simulate(save, 3, ranks=2)
    assert dynograd.load_run(path).step == 3


def test_the_last_and_the_best_with_their_parts(tmp_path):
    folder = tmp_path / "all"

    def program():
        for step, score in enumerate([0.7, 0.9, 0.8, 0.6]):
            dynograd.save_run(folder, model=nn.Linear(2, 2), step=step, score=score, keep_last=1, keep_best=1)

    distributed.simulate(program, ranks=2)
    assert len(os.listdir(folder)) == 4 and len(dynograd.runs.saved_runs(folder)) == 2
    assert dynograd.load_run(folder, best="max").step == 1
    newest = dynograd.runs.saved_runs(folder)[0]
    part = os.path.join(newest + ".shards", os.listdir(newest + ".shards")[0])
    os.unlink(part)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert dynograd.load_run(folder).step == 1
    assert "saved by 2 processes, and the part" in str(told[0].message)


@pytest.mark.parametrize("while_ranks_ask_each_other", [False, True])
def test_one_rank_that_is_told_to_stop_stops_all(tmp_path, while_ranks_ask_each_other):
    def program():
        run = build(str(tmp_path), save_every=None, save_seconds=1e9, sampler=True)
        ask = run._ranks.largest

        def asked(call, values):
            answers = ask(call, values)
            if run.step == 2 and distributed.get_rank() == 1:
                run._stop.signal = dynograd.runs.run.signal.SIGTERM
            return answers

        if while_ranks_ask_each_other:
            run._ranks.largest = asked
        try:
            with run:
                for _ in run.epochs(EPOCHS):
                    for _ in run.steps():
                        if run.step == 2 and distributed.get_rank() == 1 and not while_ranks_ask_each_other:
                            run._stop.signal = dynograd.runs.run.signal.SIGTERM
        except SystemExit as error:
            return error.code, run.step

    assert distributed.simulate(program, ranks=2) == [(143, 3)] * 2
    assert distributed.simulate(lambda: build(str(tmp_path), sampler=True).step, ranks=2) == [3, 3]


def test_all_go_back_when_one_has_nan():
    def program():
        model = DistributedDataParallel(nn.Linear(4, 1))
        data = [dynograd.ones(2, 4) for _ in range(6)]
        if distributed.get_rank() == 1:
            data[4][0, 0] = -1.0
        optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
        with dynograd.Run(None, model=model, optimizer=optimizer, snapshot_every=2) as run:
            for _ in run.epochs(1):
                for x in run.steps(data):
                    loss = model(x.log()).mean()
                    if not run.check(loss):
                        continue
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

    with pytest.raises(NonFiniteError):
        distributed.simulate(program, ranks=2)


def test_a_job_that_is_started_again_continues_though_it_began_anew(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    stopped(tmp_path, 3, 1)

    def resumed(count, began):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(count))
        monkeypatch.setenv("DYNOGRAD_BEGAN", str(began))
        return distributed.simulate(lambda: build(str(tmp_path), fresh=True).resumed, ranks=1)[0]

    saved = os.path.getmtime(path)
    assert [resumed(0, saved - 9), resumed(1, saved - 9), resumed(1, saved + 9)] == [False, True, False]


def test_save_run_is_called_by_all():
    def program():
        if distributed.get_rank() == 0:
            dynograd.save_run("never.safetensors", step=1)
        else:
            distributed.barrier()

    with pytest.raises(dynograd.errors.RankError, match="save_run of 'never.safetensors'"):
        distributed.simulate(program, ranks=2)
    assert not os.path.exists("never.safetensors")
