"""`dynograd.warmup()`: compiles the kernels of common programs ahead of time, several at once, into the cache on disk.

Each program below takes a few training steps with a small and a large batch, so that the serial and the parallel form of its
kernels are made. Numba compiles one function at a time in a process; so the programs run in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from dynograd import nn, optim
from dynograd.kernels.build import kernel_cache, threads

__all__ = ["PROGRAMS", "warmup"]

dynograd: Any = sys.modules["dynograd"]  # the public names: these are users' programs

PROGRAMS: dict[str, Callable[[], None]] = {}


def warmup(*programs: str, processes: int | None = None) -> dict[str, Any]:
    """Compiles the kernels that common programs use, so that a first training step does not wait for the compiler.

    Takes one to two minutes the first time and a few seconds later, when all is on disk. Not needed: a kernel is
    otherwise compiled when it is first called, in 0.2 to 0.6 s.

    Args:
        programs: names from `dynograd.warming.PROGRAMS` ("mlp", "conv", "recurrent", "transformer", "elementwise",
            "indexing"); all when none is given.
        processes: how many compile at once; as many as `get_num_threads()` by default.
    Returns:
        `compiled` and `loaded`, the numbers of kernels that had to be compiled or were on disk, and `seconds`.
    Raises:
        ValueError: a program that does not exist.
        RuntimeError: a program failed; its output is in the message.

    >>> sorted(dynograd.warmup("nothing"))
    ['compiled', 'loaded', 'seconds']
    """
    chosen = list(programs) or [name for name in PROGRAMS if name != "nothing"]
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        raise ValueError(f"warmup: no program is called {unknown[0]!r}. Programs: {', '.join(PROGRAMS)}.")
    start = time.perf_counter()
    if kernel_cache.folder() is None or processes == 0:
        counts = _run_here(chosen)
    else:
        counts = _run_beside(chosen, min(processes or threads.get_num_threads(), len(chosen)))
    return {**counts, "seconds": round(time.perf_counter() - start, 1)}


def _run_here(chosen: list[str]) -> dict[str, int]:
    before = kernel_cache.statistics()
    for name in chosen:
        PROGRAMS[name]()
    after = kernel_cache.statistics()
    return {what: after[what] - before[what] for what in ("compiled", "loaded")}


def _run_beside(chosen: list[str], processes: int) -> dict[str, int]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    waiting, running, total = list(chosen), [], {"compiled": 0, "loaded": 0}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                command = [sys.executable, "-c", f"from dynograd.warming import _tell; _tell({waiting[0]!r})"]
                child = subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
                running.append((waiting.pop(0), child))
            name, child = running.pop(0)
            output, _ = child.communicate()
            if child.returncode:
                raise RuntimeError(f"warmup: the program {name!r} failed:\n{output.strip()}")
            compiled, loaded = output.split()[-2:]
            total["compiled"] += int(compiled)
            total["loaded"] += int(loaded)
    finally:
        for _, child in running:
            child.kill()
            child.communicate()
    return total


def _tell(name: str) -> None:
    """In a process of its own: runs a program and prints how many kernels were compiled and loaded."""
    counts = _run_here([name])
    print(counts["compiled"], counts["loaded"])


# --- programs ----------------------------------------------------------------------------------------------------------------


def _program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__.strip("_")] = function
    return function


def _train(model: Any, inputs: list[Any], loss_of: Callable[[Any], Any], optimizer_name: str = "AdamW") -> None:
    optimizer = getattr(optim, optimizer_name)(model.parameters(), lr=1e-3)
    for x in inputs:
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model(x)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def _class_loss(output: Any) -> Any:
    classes = dynograd.zeros(output.shape[0], *output.shape[2:], dtype=dynograd.int64)
    return dynograd.nn.functional.cross_entropy(output, classes)


@_program
def _nothing() -> None:
    """For trying `warmup` out."""


@_program
def _mlp() -> None:
    for optimizer in ("AdamW", "Adam", "SGD"):
        model = nn.Sequential(
            nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)
        )
        _train(model, [dynograd.randn(4, 512), dynograd.randn(512, 512)], _class_loss, optimizer)


@_program
def _conv() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    _train(model, [dynograd.randn(2, 3, 16, 16), dynograd.randn(32, 3, 32, 32)], _class_loss, "SGD")
    model.eval()
    with dynograd.no_grad():
        model(dynograd.randn(32, 3, 32, 32))


@_program
def _recurrent() -> None:
    class Reader(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.words, self.layer = nn.Embedding(1000, 64), layer
            self.out = nn.Linear(128, 50)

        def forward(self, words: Any) -> Any:
            lengths = dynograd.arange(words.shape[1], 0, -1).clamp(min=1).expand(words.shape[0], -1)[:, 0]
            inputs = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True)
            outputs, _ = self.layer(inputs)
            return self.out(outputs.data)

    for layer in (nn.LSTM, nn.GRU):
        model = Reader(layer(64, 64, batch_first=True, bidirectional=True))
        batches = [dynograd.zeros(size, 20, dtype=dynograd.int64) for size in (2, 64)]
        _train(model, batches, _class_loss, "Adam")


@_program
def _transformer() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True, activation="gelu")
    model = nn.Sequential(layer, nn.LayerNorm(64), nn.Linear(64, 100))
    for size in (2, 32):
        _train(model, [dynograd.randn(size, 64, 64)], lambda output: _class_loss(output.flatten(0, 1)))
    query = dynograd.randn(8, 4, 128, 16, requires_grad=True)
    dynograd.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()


@_program
def _elementwise() -> None:
    names = "exp log sqrt tanh sigmoid abs neg sin cos rsqrt square".split()
    for size in (100, 10_000, 300_000):
        x = dynograd.rand(size, requires_grad=True)
        for name in names:
            getattr(dynograd, name)(x).sum().backward()
        for function in ("relu", "gelu", "silu", "elu", "leaky_relu", "softplus"):
            getattr(dynograd.nn.functional, function)(x).sum().backward()
        (x * x + x / 2 - x).mean().backward()
        dynograd.where(x > 0.5, x, -x).clamp(0, 1).var().backward()


@_program
def _indexing() -> None:
    for rows in (10, 5_000):
        table = dynograd.rand(rows, 64, requires_grad=True)
        index = dynograd.arange(rows)
        dynograd.zeros(rows, 64).index_add(0, index, table[index]).sum().backward()
        table.cumsum(0).max(1).values.sum().backward()
        dynograd.cat([table, table]).transpose(0, 1).contiguous().sum().backward()
        table.topk(3, 1).values.sum().backward()
        table.sort(1).values.mean().backward()
