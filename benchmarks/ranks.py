"""Several processes: collectives and steps of DistributedDataParallel, dynograd over MPI beside torch over gloo; on GPUs both over NCCL.

`python -m benchmarks.ranks [--ranks 2] [--rounds 3] [--device cuda] [--markdown]` starts each library's processes in turns, one thread each, and prints
medians. `alone` is the same step in all processes at once without a group: what the others take of the machine is not counted as communication. `and a
barrier` is that with a wait for each other behind each step: the slower process of each step counts.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import time

import numpy

from benchmarks.rows.dynamic import forest, tree_model
from benchmarks.rows.language import FEATURES, LAYERS, TIME, gpt_model
from benchmarks.rows.mlp import BATCH, CLASSES, network
from benchmarks.rows.varlen import classifier, sequences
from benchmarks.sides import ROOT, environment
from benchmarks.workload import fill, generator, normal

__all__ = ["main"]

SIZES = {"4 KiB": 1 << 10, "64 KiB": 1 << 14, "1 MiB": 1 << 18, "25 MiB": 25 << 18, "100 MiB": 25 << 20}  # of float32
TREES = 25
_RESULT = "benchmarks.ranks: "


# ---------------------------------------------------------------- in each process


def _timed(distributed, step, finish, seconds=0.5, least=5):
    """Milliseconds of `step` and `finish`, which all processes begin together: the median."""
    times, end = [], None
    for _ in range(3):
        step()
    finish()
    while end is None or len(times) < end:
        distributed.barrier()
        start = time.perf_counter()
        step()
        finish()
        times.append(time.perf_counter() - start)
        if end is None:  # as often in all processes
            count = [max(least, int(seconds / max(times[0], 1e-6)))]
            distributed.broadcast_object_list(count, 0)
            end = min(count[0], 400)
    return statistics.median(times) * 1e3


def _steps(torch, rank, device):
    """Models, what they are called with, and their losses, by name."""
    cross_entropy = torch.nn.functional.cross_entropy
    random = generator(3 + rank)
    x, y = torch.from_numpy(normal(random, BATCH, 784)), torch.from_numpy(random.integers(0, CLASSES, BATCH)).to(device)
    yield "MLP 784-256-128-10", network(torch, 784, 256, 128, CLASSES), (x,), lambda scores: cross_entropy(scores, y)
    text = torch.from_numpy(random.integers(0, 256, (8, TIME + 1)))
    following = text[:, 1:].flatten().to(device)
    gpt = gpt_model(torch, LAYERS, FEATURES, 8, TIME)
    yield "GPT of 256", gpt, (text[:, :-1],), lambda scores: cross_entropy(scores.flatten(0, 1), following)
    tokens, lengths, labels = (torch.from_numpy(part) for part in sequences(random))
    labels = labels.to(device)
    bilstm = classifier(torch, torch.nn.LSTM, 128, True, "packed")
    yield "BiLSTM, 5 to 200 words", bilstm, (tokens, lengths), lambda scores: cross_entropy(scores, labels)


def _trees(torch):
    """The mean loss over trees, batched by op."""

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = tree_model(torch, False)

        def forward(self, examples):
            label = torch.tensor(1)
            with torch.autobatch():
                return sum(torch.nn.functional.cross_entropy(self.model(tree), label) for tree in examples) / len(
                    examples
                )

    return Loss()


def _placed(device, model, inputs):
    """The model and its inputs on a device; lengths of sequences stay on the CPU, where packing reads them."""
    return model.to(device), tuple([x if x.ndim == 1 else x.to(device) for x in inputs])


def _training(torch, model, inputs, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss_of(model(*inputs)).backward()
        optimizer.step()

    return step


def _waiting(distributed, step):
    def run():
        step()
        distributed.barrier()

    return run


def measure(torch, distributed, device, has_trees):
    """All figures of this library's processes."""
    rank, figures = distributed.get_rank(), {}
    finish = torch.cuda.synchronize if device.type == "cuda" else _nothing
    timed = functools.partial(_timed, distributed, finish=finish)
    if distributed.get_world_size() > 1:
        for name, count in SIZES.items():
            numbers = torch.from_numpy(numpy.full(count, 1e-30, numpy.float32)).to(device)
            figures[f"all_reduce of {name}"] = timed(functools.partial(distributed.all_reduce, numbers))
        for name, model, inputs, loss_of in _steps(torch, rank, device):
            fill(torch, model)
            model, inputs = _placed(device, model, inputs)
            alone = _training(torch, model, inputs, loss_of)
            figures[f"{name}: alone"] = timed(alone, seconds=1.0)
            figures[f"{name}: alone, and a barrier"] = timed(_waiting(distributed, alone), seconds=1.0)
            fill(torch, model)
            wrapped = torch.nn.parallel.DistributedDataParallel(model)
            figures[f"{name}: step"] = timed(_training(torch, wrapped, inputs, loss_of), seconds=1.0)
    if has_trees:
        model = _trees(torch)
        fill(torch, model)
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        step = _training(torch, wrapped, (forest(TREES),), lambda loss: loss)
        figures[f"{TREES} trees by ops, in each process"] = timed(step, seconds=2.0)
    return figures


def _nothing():
    pass


def _as_process(library, kind):
    torch = importlib.import_module(library)
    distributed = importlib.import_module(f"{library}.distributed")
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if kind == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if kind == "cuda" else "gloo")
    figures = measure(torch, distributed, device, library == "dynograd" and kind == "cpu")
    if distributed.get_rank() == 0:
        print(_RESULT + json.dumps(figures), flush=True)
    distributed.destroy_process_group()


# ---------------------------------------------------------------- the one that compares


def _job(library, ranks, device):
    module = {"dynograd": "dynograd.run", "torch": "torch.distributed.run"}[library]
    command = [
        sys.executable,
        "-m",
        module,
        f"--nproc-per-node={ranks}",
        "-m",
        "benchmarks.ranks",
        "--process",
        library,
        "--device",
        device,
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment(1), capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_RESULT)]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1].removeprefix(_RESULT))


def _medians(rounds):
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser("python -m benchmarks.ranks", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", default="torch", help="torch, or none")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="cuda: a GPU for each rank")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        _as_process(options.process, options.device)
        return
    sides = ["dynograd"] + ["torch"] * (options.peer != "none")
    rounds = {side: [] for side in sides}
    single = []
    for _ in range(options.rounds):
        for side in sides:
            rounds[side].append(_job(side, options.ranks, options.device))
        if options.device == "cpu":
            single.append(_job("dynograd", 1, "cpu"))
    table = {side: _medians(figures) for side, figures in rounds.items()}
    trees = f"{TREES} trees by ops, in each process"
    lines = [("", *(f"{side}, ms" for side in sides), "torch / dynograd")]
    for name in table["dynograd"]:
        values = [table[side].get(name) for side in sides]
        ratio = f"{values[1] / values[0]:.2f}" if len(values) > 1 and values[1] else ""
        lines.append((name, *("" if value is None else f"{value:.3g}" for value in values), ratio))
    if single:
        gain = options.ranks * _medians(single)[trees] / table["dynograd"][trees]
        lines.append((f"trees a second, of one process: {gain:.2f} times", *[""] * (len(sides) + 1)))
    if options.markdown:
        lines.insert(1, ("---",) * (len(sides) + 2))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
    else:
        print("\n".join(f"{line[0]:45}" + "".join(f"{text:>18}" for text in line[1:]) for line in lines))


if __name__ == "__main__":
    main()
