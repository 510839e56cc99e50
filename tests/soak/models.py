"""The models that are trained for long, interrupted, and run out of memory: programs of other tests and rows of benchmarks, by name.

`MODELS[name]()` gives a `Model`: its step takes the number of the step, which says the sizes of its batch too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy

import dynograd as torch
import tests.plans.larger_programs  # noqa: F401 (enters its programs)
from benchmarks.rows import dynamic, graphs, tagging
from benchmarks.workload import generator
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans import sized_programs
from tests.plans.programs import PROGRAMS, batch

F = nn.functional
ROUND = 20
"""After so many steps the sizes of batches come again."""


@dataclass
class Model:
    """A program that trains.

    Attributes:
        step: what is run again and again, with the number of the step.
        things: modules and optimizers, whose state says what a step begins with.
        compiled: the functions in it that are compiled.
        warm: steps before the first one that is interrupted; the default is three rounds, so that what is compiled is walked.
    """

    step: Callable[[int], Any]
    things: list[Any] = field(default_factory=list)
    compiled: list[Compiled] = field(default_factory=list)
    warm: int = 3 * ROUND


MODELS: dict[str, Callable[[], Model]] = {}


def _of_program(name: str, compiles: bool) -> Callable[[], Model]:
    def make() -> Model:
        compiled: list[Compiled] = []
        step, watched = PROGRAMS[name](_compiler(compiled, compiles))
        return Model(step, list(watched.things), compiled)  # type: ignore[attr-defined]

    return make


def _of_sizes(name: str, compiles: bool) -> Callable[[], Model]:
    """Lengths of 3 to 60, another one in each step of a round, and 4 to 6 rows."""

    def make() -> Model:
        compiled: list[Compiled] = []
        step, watched, arguments = sized_programs.PROGRAMS[name](_compiler(compiled, compiles))

        def on_sizes(n: int) -> Any:
            place = n % ROUND
            return step(*arguments(numpy.random.default_rng(n), 3 + place * 7 % ROUND * 3, 4 + place % 3))

        return Model(on_sizes, watched(), compiled)

    return make


def _compiler(compiled: list[Compiled], compiles: bool) -> Callable[[Any], Any]:
    def compile(function: Any) -> Any:
        compiled.append(Compiled(function, always=True, exact=True))
        return compiled[-1]

    return compile if compiles else lambda function: function


def _of_row(build: Callable[[Any], Any]) -> Callable[[], Model]:
    def make() -> Model:
        workload = build(torch)
        return Model(lambda n: workload.step())

    return make


def _trees() -> Model:
    """A Tree-LSTM cell over trees of 2 to 12 leaves, three in a batch, in a scope of autobatch."""
    model = dynamic.tree_model(torch, True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    random = generator(5)
    forest = [[dynamic.random_tree(random, int(random.integers(2, 13))) for _ in range(3)] for _ in range(ROUND)]
    label = torch.tensor(1)

    def step(n: int) -> Any:
        optimizer.zero_grad()
        with torch.autobatch(always=True):
            loss = sum(F.cross_entropy(model(tree), label) for tree in forest[n % ROUND])
        loss.backward()
        optimizer.step()
        return loss

    return Model(step, [model, optimizer])


def _packed_gru() -> Model:
    gru, head = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 3)
    model = nn.ModuleList([gru, head])
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def step(n: int) -> Any:
        random = numpy.random.default_rng(n % ROUND)
        rows = [batch(n, int(length), 6, seed=k) for k, length in enumerate(random.integers(1, 30, 5))]
        _, last = gru(nn.utils.rnn.pack_sequence(rows, enforce_sorted=False))
        loss = F.cross_entropy(head(last[0]), batch(n, 5, classes=3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Model(step, [model, optimizer])


def _autocast() -> Model:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def step(n: int) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(batch(n, 2 + n % ROUND, 6)), batch(n, 2 + n % ROUND, classes=3))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return Model(step, [model, optimizer, scaler])


def _sparse_embedding() -> Model:
    table, head = nn.Embedding(500, 8, sparse=True), nn.Linear(8, 3)
    optimizers = [torch.optim.SparseAdam(table.parameters(), lr=1e-3), torch.optim.SGD(head.parameters(), lr=1e-2)]

    def step(n: int) -> Any:
        words = batch(n, 4, 3 + n % ROUND, classes=500)
        loss = F.cross_entropy(head(table(words).mean(1)), batch(n, 4, classes=3))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss

    return Model(step, [table, head, *optimizers])


def _pictures() -> Model:
    """Convolutions over pictures of 8 to 12 rows and columns."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(4),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(n: int) -> Any:
        loss = F.cross_entropy(model(batch(n, 4, 1, 8 + n % 5, 8 + n % 4)), batch(n, 4, classes=10))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Model(step, [model, optimizer])


class Samples:
    """Rows of different lengths, made in the worker."""

    def __len__(self) -> int:
        return 4 * ROUND

    def __getitem__(self, index: int) -> Any:
        return batch(index, 1 + index % 7, 6), index % 3


def _ragged_batches(samples: list[Any]) -> Any:
    return torch.ragged_tensor([row for row, _ in samples]), torch.tensor([label for _, label in samples])


def _loader(workers: int = 2) -> Model:
    """Batches of ragged rows from two workers that stay; a new epoch begins after each round."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(
        Samples(), 4, collate_fn=_ragged_batches, num_workers=workers, persistent_workers=True
    )
    epoch: list[Any] = []

    def step(n: int) -> Any:
        if n % ROUND == 0 or not epoch or epoch[0] != os.getpid():
            epoch[:] = [os.getpid(), iter(loader)]
        rows, labels = next(epoch[1])
        loss = F.cross_entropy(model(rows).mean(1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Model(step, [model, optimizer])


for _name, _program in {
    "perceptron": "classifier",
    "adversaries": "adversaries",
    "autoencoder": "variational",
    "meta-learning": "inner_loop",
    "checkpoints": "checkpointed",
    "packed LSTM": "packed_sequences",
    "policy gradients": "policy_gradients",
    "experts": "mixtures_of_experts",
}.items():
    MODELS[_name] = _of_program(_program, False)
for _name, _program in {
    "convolution over time": "convolution_over_time",
    "LSTM": "lstm",
    "GRU language model": "gru_language_model",
    "transformer": "transformer",
    "ragged rows": "ragged",
}.items():
    MODELS[_name] = _of_sizes(_program, False)
MODELS["autocast"] = _autocast
MODELS["packed GRU"] = _packed_gru
MODELS["sparse embedding"] = _sparse_embedding
MODELS["trees, autobatch"] = _trees
MODELS["graph convolution"] = _of_row(lambda torch: graphs.gcn(torch, 200, 1000))
MODELS["pictures"] = _pictures
MODELS["CRF"] = _of_row(lambda torch: tagging.training(torch, 5))
MODELS["loader, 2 workers"] = _loader
for _name, _program in {
    "compiled perceptron": "classifier",
    "compiled experts": "mixtures_of_experts",
}.items():
    MODELS[_name] = _of_program(_program, True)
MODELS["compiled LSTM"] = _of_sizes("lstm", True)
MODELS["compiled transformer"] = _of_sizes("transformer", True)
MODELS["compiled ragged rows"] = _of_sizes("ragged", True)
