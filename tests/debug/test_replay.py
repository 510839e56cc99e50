"""`debug.replay`: a step comes out as it was, from copies, files and after the end; the run is where it was."""

from __future__ import annotations

import io

import numpy as np
import pytest

import dynograd as dg
from dynograd import debug, nn
from dynograd.data import DataLoader, TensorDataset
from dynograd.errors import CheckpointError


class Program:
    """A training program with dropout, shuffled batches, momentum and a schedule."""

    def __init__(self, path=None, **options):
        dg.manual_seed(4)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = dg.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.scheduler = dg.optim.lr_scheduler.StepLR(self.optimizer, 3)
        data = TensorDataset(dg.arange(30.0).reshape(10, 3) / 30, dg.arange(10.0))
        self.loader = DataLoader(data, batch_size=3, shuffle=True)
        parts = dict(model=self.model, optimizer=self.optimizer, scheduler=self.scheduler, loader=self.loader)
        self.run = dg.Run(path, **parts, **options)
        self.losses = []

    def train(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        loss = (self.model(x)[:, 0] - y).square().mean()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def go(self, epochs=3):
        for _ in self.run.epochs(epochs):
            for batch in self.run.steps():
                self.losses.append(self.train(batch))
        return self

    def weights(self):
        return [p.detach().numpy().copy() for p in self.model.parameters()]


@pytest.mark.parametrize("step", [0, 1, 4, 7, 11])
def test_from_copies_in_memory(step):
    program = Program(snapshot_every=3, snapshots=9).go()
    place, weights = repr(program.run), program.weights()
    assert debug.replay(program.run, step, program.train, debugger=debug.provenance()) == program.losses[step]
    assert repr(program.run) == place
    for before, after in zip(weights, program.weights(), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("step", [2, 5, 9])
def test_from_files_after_the_program_has_ended(tmp_path, step):
    losses = Program(tmp_path, save_every=2, keep_last=20).go().losses
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    another = Program(tmp_path, save_every=2, keep_last=20)
    assert another.run.resumed and another.run.step == 12
    assert debug.replay(another.run, step, another.train, debugger=debug.provenance()) == losses[step]
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files


def test_from_where_the_run_is_now():
    whole = Program().go()
    program = Program()
    assert debug.replay(program.run, 5, program.train, debugger=debug.provenance()) == whole.losses[5]
    assert program.go().losses == whole.losses


def test_it_stops_under_the_debugger_and_explains():
    program = Program(snapshot_every=4).go()
    answers = io.StringIO()
    debug.replay(program.run, 6, program.train, debugger=debug.stepping(stdin=io.StringIO("p op\nc\n"), stdout=answers))
    assert "'mean'" in answers.getvalue() and "loss = (self.model(x)[:, 0] - y).square().mean()" in answers.getvalue()


def test_the_step_that_check_names():
    def program(run_options):
        dg.manual_seed(1)
        w = dg.tensor([1.0], requires_grad=True)
        model = nn.ParameterList([w])
        optimizer = dg.optim.SGD(model.parameters(), lr=0.3)

        def train(x):
            optimizer.zero_grad()
            loss = (model[0] * x).log().sum()  # of a negative number one day
            loss.backward()
            optimizer.step()
            return loss

        return dg.Run(None, model=model, optimizer=optimizer, **run_options), train

    run, train = program(dict(snapshot_every=1, snapshots=20))
    with pytest.raises(dg.errors.NonFiniteError) as caught:
        for _ in run.epochs(1):
            for x in run.steps([dg.tensor([1.0])] * 20):
                run.check(train(x))
    step = caught.value.step
    for again, body in ((run, train), program({})):  # the one that was left in the middle of that step, and a new one
        loss = debug.replay(again, step, body, loader=[dg.tensor([1.0])] * 20, debugger=debug.provenance())
        assert dg.explain(loss).op == "log"


ERRORS = [
    (lambda program: debug.replay(program.run, -1, program.train), ValueError, "replay: expected step >= 0, got -1"),
    (
        lambda program: debug.replay(program.go().run, 3, program.train),
        CheckpointError,
        r"replay: expected a state at or before step 3; there are states of the steps \[12\]. Make the Run with keep_last= or snapshot_every=",
    ),
    (
        lambda program: debug.replay(program.run, 3, program.train, loader=[]),
        CheckpointError,
        "replay: expected to reach step 3 from step 0, but the loader gives no more batches at step 0",
    ),
]


@pytest.mark.parametrize("ask, error, message", ERRORS)
def test_errors(ask, error, message):
    with pytest.raises(error, match=message):
        ask(Program())


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'dynograd.debug' has no attribute 'x'"):
        _ = debug.x
