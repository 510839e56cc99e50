"""Which compiled kernels come late: `python -m tools.late_kernels [programs ...]`.

Each program makes a step at one size, the same step again, and steps at other sizes (batch, length). Listed is what was needed first
at these: a kernel that lies in the cache or in a pack costs some milliseconds there, one that is compiled costs seconds in the middle
of a run. A second step that needs anything is a fault.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import dynograd as dg
from dynograd import nn, optim
from dynograd.kernels.build import compiling_numba

__all__ = ["PROGRAMS", "SIZES", "late_kernels", "main"]

F = nn.functional
Step = Callable[[int, int], Any]
SIZES = [(8, 12), (3, 5), (1, 1), (2, 40), (32, 20), (64, 33), (128, 7), (17, 64)]
PROGRAMS: dict[str, Callable[[], Step]] = {}


def late_kernels(
    step: Step, sizes: Iterable[tuple[int, int]]
) -> tuple[list[str], list[str], dict[str, tuple[int, int]]]:
    """Names of the kernels of a step at the first size, of the second such step, and of the others with the size that needed them."""
    first, *others = sizes
    with _noted() as names:
        step(*first)
        in_first = len(names)
        step(*first)
        in_second = len(names)
        late: dict[str, tuple[int, int]] = {}
        for size in others:
            before = len(names)
            step(*size)
            for name in names[before:]:
                late.setdefault(name, size)
    return names[:in_first], names[in_first:in_second], late


@contextmanager
def _noted() -> Iterator[list[str]]:
    """The kernels that are loaded or compiled meanwhile."""
    names: list[str] = []
    load = compiling_numba._KernelCache.load_overload

    def noting(self: Any, signature: Any, target_context: Any) -> Any:
        entry = load(self, signature, target_context)
        place = f"{self._function.__module__.removeprefix('dynograd.kernels.')}.{self._function.__qualname__}"
        kinds = str(signature).replace(", aligned=True", "")
        names.append(f"{place}{kinds if len(kinds) < 90 else kinds[:87] + '...'}{'' if entry else ' COMPILED'}")
        return entry

    compiling_numba._KernelCache.load_overload = noting  # type: ignore[method-assign]
    try:
        yield names
    finally:
        compiling_numba._KernelCache.load_overload = load  # type: ignore[method-assign]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.late_kernels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", help=f"all of them unless named: {', '.join(PROGRAMS)}")
    chosen = parser.parse_args(arguments).programs or list(PROGRAMS)
    if len(chosen) > 1:  # in a process each, or one would find what another has loaded
        for name in chosen:
            subprocess.run([sys.executable, "-m", "tools.late_kernels", name], check=True)
        return
    (name,) = chosen
    first, second, late = late_kernels(PROGRAMS[name](), SIZES)
    compiled = sum([kernel.endswith("COMPILED") for kernel in late])
    print(f"{name}: {len(first)} in the first step, {len(second)} in the second, {len(late)} late, {compiled} compiled")
    for kernel in second:
        print(f"    second step  {kernel}")
    for kernel, size in late.items():
        print(f"    {size!s:12} {kernel}")


# --- the programs --------------------------------------------------------------------------------------------------------------


def _program(make: Callable[..., Step], **rows: Any) -> Callable[..., Step]:
    name = make.__name__.strip("_")
    PROGRAMS.update({f"{name}_{row}": partial(make, *values) for row, values in rows.items()} or {name: make})
    return make


def _normal(*shape: int) -> Any:
    return dg.tensor(np.random.standard_normal(shape).astype(np.float32))


def _whole(high: int, *shape: int) -> Any:
    return dg.tensor(np.random.randint(0, high, shape))


def _trained(module: nn.Module, loss_of: Callable[[int, int], Any], optimizer: Any = None) -> Step:
    parameters = list(module.parameters())
    optimizer = optimizer or optim.AdamW(parameters, 1e-3)

    def step(batch: int, length: int) -> None:
        optimizer.zero_grad()
        loss = loss_of(batch, length)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        loss.item()

    return step


def _then_evaluated(module: nn.Module, train: Step, *shape: int) -> Step:
    def step(batch: int, length: int) -> None:
        module.train()
        train(max(batch, 2), length)
        module.eval()
        with dg.no_grad():
            module(_normal(batch, *shape))

    return step


@_program
def _mlp() -> Step:
    layers = nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.LayerNorm(64), nn.Linear(64, 10)
    model = nn.Sequential(*layers)
    return _trained(model, lambda batch, length: F.cross_entropy(model(_normal(batch, 20)), _whole(10, batch)))


@_program
def _convnet() -> Step:
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )
    optimizer = optim.SGD(model.parameters(), 0.01, momentum=0.9)
    train = _trained(
        model, lambda batch, length: F.cross_entropy(model(_normal(batch, 3, 16, 16)), _whole(10, batch)), optimizer
    )
    return _then_evaluated(model, train, 3, 16, 16)


@_program
def _batchnorm() -> Step:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    return _then_evaluated(model, _trained(model, lambda batch, length: model(_normal(batch, 8)).pow(2).mean()), 8)


def _recurrent(kind: str, form: str) -> Step:
    layer, head = getattr(nn, kind)(8, 16, batch_first=True), nn.Linear(16, 4)

    def loss_of(batch: int, length: int) -> Any:
        lengths = np.random.randint(1, length + 1, batch)
        lengths[0] = length
        if form == "ragged":
            hidden = layer(dg.ragged_tensor([_normal(int(steps), 8) for steps in lengths]))[0].values
        elif form == "packed":
            packed = nn.utils.rnn.pack_padded_sequence(
                _normal(batch, length, 8), dg.tensor(lengths), batch_first=True, enforce_sorted=False
            )
            hidden = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]
        else:
            hidden = layer(_normal(batch, length, 8))[0]
        scores = head(hidden).reshape(-1, 4)
        return F.cross_entropy(scores, _whole(4, len(scores)))

    return _trained(nn.ModuleList([layer, head]), loss_of)


for _kind in ("LSTM", "GRU"):
    for _form in ("packed", "padded", "ragged"):
        PROGRAMS[f"{_kind.lower()}_{_form}"] = partial(_recurrent, _kind, _form)


@_program
def _attention() -> Step:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)

    def loss_of(batch: int, length: int) -> Any:
        mask = dg.tensor(np.arange(length)[None] >= np.random.randint(1, length + 1, batch)[:, None])
        causal = _normal(batch, 2, length, 16).requires_grad_()
        return (
            layer(_normal(batch, length, 32), src_key_padding_mask=mask).pow(2).mean()
            + F.scaled_dot_product_attention(causal, causal, causal, is_causal=True).sum()
        )

    return _trained(layer, loss_of)


@_program
def _decoding() -> Step:
    """A transformer that attends to all tokens so far, of which there are more and more."""
    layer = nn.MultiheadAttention(32, 4, batch_first=True)

    def step(batch: int, length: int) -> None:
        with dg.no_grad():
            tokens = _normal(batch, 1, 32)
            for _ in range(length):
                attended, _ = layer(tokens[:, -1:], tokens, tokens, need_weights=False)
                tokens = dg.cat([tokens, attended], 1)

    return step


@_program
def _embedding_and_losses() -> Step:
    table, head = nn.Embedding(50, 16, padding_idx=0), nn.Linear(16, 50)

    def loss_of(batch: int, length: int) -> Any:
        x = table(_whole(50, batch, length)).mean(1)
        scores, target = head(x), _normal(batch, 16)
        logarithms = F.log_softmax(scores, 1)
        return (
            F.cross_entropy(scores, _whole(50, batch), label_smoothing=0.1)
            + F.nll_loss(logarithms, _whole(50, batch))
            + F.mse_loss(x, target)
            + F.smooth_l1_loss(x, target)
            + F.binary_cross_entropy_with_logits(x, (target > 0).float())
            + F.kl_div(logarithms, F.softmax(_normal(batch, 50), 1), reduction="batchmean")
        )

    return _trained(nn.ModuleList([table, head]), loss_of)


@_program
def _scatters_and_segments() -> Step:
    def step(batch: int, length: int) -> None:
        x, rows = _normal(batch, length).requires_grad_(), _whole(max(batch // 2, 1), batch)
        places = _whole(length, batch, length)
        y = dg.zeros(batch, length).index_add(0, rows, x) + dg.zeros(batch, length).scatter_add(1, places, x)
        y = y.sum() + x[rows].sum() + x.gather(1, places).sum() + x.masked_fill(x > 0, 0.0).sum()
        y.backward()
        ragged = dg.ragged_tensor([_normal(1 + row % length, 4) for row in range(batch)])
        ragged.sum(1), ragged.mean(1), ragged.softmax(1)

    return step


@_program
def _sorts_and_scans() -> Step:
    def step(batch: int, length: int) -> None:
        x = _normal(batch, length).requires_grad_()
        parts = x.sort(1)[0], x.topk(min(3, length), 1)[0], x.max(1)[0], x.median(1)[0], x.cumsum(0), x.cumsum(1)
        sum([part.sum() for part in parts]).backward()
        dg.unique(_whole(9, batch)), x.argsort(0), x.argmax(1)

    return step


@_program
def _pooling() -> Step:
    def step(batch: int, length: int) -> None:
        x, y = _normal(batch, 4, 16, 16).requires_grad_(), _normal(batch, 4, max(length, 4)).requires_grad_()
        pooled = F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.max_pool1d(y, 2), F.interpolate(x, scale_factor=2)
        sum([part.sum() for part in pooled]).backward()

    return step


def _trees(with_cell: bool) -> Step:
    """Trees of other shapes in each step."""
    cell, leaf = nn.LSTMCell(8, 8), nn.Embedding(30, 8)

    def folded(leaves: int) -> tuple[Any, Any]:
        if leaves <= 1:
            x = leaf(dg.tensor(int(np.random.randint(30))))
            return (cell(x) if with_cell else (x, x)) if leaves else (x, x)
        cut = np.random.randint(1, leaves)
        (left, memory), (right, other) = folded(cut), folded(leaves - cut)
        return cell(left, (right, memory + other)) if with_cell else (dg.tanh(left * right), memory + other)

    def loss_of(batch: int, length: int) -> Any:
        with dg.autobatch():
            return sum([sum(folded(1 + tree % max(length // 2, 1))).sum() for tree in range(batch)])

    return _trained(nn.ModuleList([cell, leaf]) if with_cell else leaf, loss_of)


_program(_trees, ops=(False,), cells=(True,))


@_program
def _beam_search() -> Step:
    cell, table, head = nn.LSTMCell(8, 16), nn.Embedding(20, 8), nn.Linear(16, 20)

    def step(batch: int, length: int) -> None:
        with dg.no_grad():
            width = min(batch, 8)
            scores, state, tokens = dg.zeros(width), (dg.zeros(width, 16), dg.zeros(width, 16)), _whole(20, width)
            sequences = tokens[:, None]
            for _ in range(length):
                state = cell(table(tokens), state)
                scores, places = (F.log_softmax(head(state[0]), 1) + scores[:, None]).reshape(-1).topk(width)
                parents, tokens = places // 20, places % 20
                sequences = dg.cat([sequences[parents], tokens[:, None]], 1)
                state = state[0][parents], state[1][parents]

    return step


@_program
def _optimizers() -> Step:
    parameters = [nn.Parameter(_normal(16, 16)), nn.Parameter(_normal(16))]
    names = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam".split()
    optimizers = [getattr(optim, name)(parameters, 1e-3) for name in names]

    def step(batch: int, length: int) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
            (_normal(batch, 16) @ parameters[0] + parameters[1]).pow(2).sum().backward()
            optimizer.step()

    return step


if __name__ == "__main__":
    main()
