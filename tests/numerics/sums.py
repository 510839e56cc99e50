"""Errors of sums and of what is made of them, beside PyTorch's: in units of u times what bounds them (u is half the distance from 1 to the next number).

A sum of n numbers has the bound sum |x|, one after the other costs up to n units, pairwise up to log2(n). A result that is only rounded has at most
one unit. Inputs: normal numbers, positive ones, pairs that cancel, and numbers far from 0 (10,000 and normal ones around it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

import dynograd

__all__ = ["INPUTS", "ROWS", "UNITS", "Row", "error_of"]

UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8}
_SEEDS = 3


def _normal(draw: Any, n: int) -> np.ndarray:
    return draw.standard_normal(n)


def _positive(draw: Any, n: int) -> np.ndarray:
    return draw.uniform(0, 1, n)


def _cancelling(draw: Any, n: int) -> np.ndarray:
    half = draw.standard_normal(n // 2) * np.exp(draw.uniform(-4, 4, n // 2))
    return draw.permutation(np.concatenate([half, -half, np.ones(n - 2 * (n // 2))]))


def _far(draw: Any, n: int) -> np.ndarray:
    return 1e4 + draw.standard_normal(n)


INPUTS = {"normal": _normal, "positive": _positive, "cancelling": _cancelling, "far": _far}


@dataclass
class Row:
    """An op on a vector of n numbers: `function(library, x)`, its value in float64 and what bounds its error."""

    name: str
    function: Callable[[Any, Any], Any]
    exact: Callable[[np.ndarray], Any]
    bound: Callable[[np.ndarray], Any]
    inputs: tuple[str, ...] = ("normal", "positive", "cancelling")
    lengths: tuple[int, ...] = (1_000, 100_000, 10_000_000)
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


def _size(x: np.ndarray) -> Any:
    return np.abs(x).sum()


def _columns(x: Any) -> Any:
    return x.reshape(-1, 8)


def _rows(x: Any) -> Any:
    return x.reshape(8, -1)


def _own(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """The bound of what is relative to the value itself."""
    return lambda x: np.abs(function(x))


def _at_least_one(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    return lambda x: np.maximum(np.abs(function(x)), 1.0)


def _layer_norm(x: np.ndarray) -> np.ndarray:
    rows = _rows(x)
    return (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)


def _batch_norm(x: np.ndarray) -> np.ndarray:
    columns = _columns(x)
    return (columns - columns.mean(0)) / np.sqrt(columns.var(0) + 1e-5)


def _group_norm(x: np.ndarray) -> np.ndarray:
    groups = x.reshape(1, 2, -1)
    return ((groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)).reshape(1, 8, -1)


def _rms_norm(x: np.ndarray) -> np.ndarray:
    rows = _rows(x)
    return rows / np.sqrt((rows**2).mean(1, keepdims=True) + 1e-5)


def _products(x: np.ndarray) -> np.ndarray:
    return _rows(x) @ _rows(x)[::-1].T


def _convolved(x: np.ndarray) -> np.ndarray:
    """Windows of 5 of 8 channels, with the first numbers as weights."""
    image, weights = x.reshape(8, -1), x[:320].reshape(8, 8, 5)
    windows = np.lib.stride_tricks.sliding_window_view(image, 5, 1)
    return np.einsum("clk,ock->ol", windows, weights, optimize=True)[None]


def _square_image(x: np.ndarray) -> np.ndarray:
    side = int(np.sqrt(x.size / 64))
    image, weights = x[: 64 * side * side].reshape(64, side, side), x[: 4 * 64 * 9].reshape(4, 64, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    return np.einsum("chwij,ocij->ohw", windows, weights, optimize=True)[None]


def _conv2d(library: Any, x: Any) -> Any:
    side = int(np.sqrt(x.shape[0] / 64))
    return library.nn.functional.conv2d(
        x[: 64 * side * side].reshape(1, 64, side, side), x[: 4 * 64 * 9].reshape(4, 64, 3, 3)
    )


def _weight_gradient(library: Any, x: Any) -> Any:
    weight = library.zeros((1, 1, 3), dtype=x.dtype).requires_grad_()
    library.nn.functional.conv1d(x.reshape(1, 1, -1), weight).sum().backward()
    return weight.grad


def _sums_of_windows(x: np.ndarray) -> np.ndarray:
    return np.array([x[: x.size - 2].sum(), x[1 : x.size - 1].sum(), x[2:].sum()]).reshape(1, 1, 3)


def _classes(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = x[: x.size // 10 * 10].reshape(-1, 10)
    return rows, np.arange(rows.shape[0]) % 10


def _entropy(x: np.ndarray) -> np.ndarray:
    rows, labels = _classes(x)
    return (special.logsumexp(rows, axis=1) - rows[np.arange(labels.size), labels]).mean()


def _cross_entropy(library: Any, x: Any) -> Any:
    rows = x[: x.shape[0] // 10 * 10].reshape(-1, 10)
    return library.nn.functional.cross_entropy(rows, library.arange(rows.shape[0]) % 10)


def _bias_gradient(library: Any, x: Any) -> Any:
    bias = library.zeros(8, dtype=x.dtype).requires_grad_()
    (_columns(x) + bias).backward(_columns(x))
    return bias.grad


def _embedding_gradient(library: Any, x: Any) -> Any:
    table = library.zeros((3, 8), dtype=x.dtype).requires_grad_()
    rows = _columns(x)
    library.nn.functional.embedding(library.arange(rows.shape[0]) % 3, table).backward(rows)
    return table.grad


def _thirds(x: np.ndarray) -> np.ndarray:
    return np.stack([_columns(x)[start::3].sum(0) for start in range(3)])


def _index_add(library: Any, x: Any) -> Any:
    rows = _columns(x)
    return library.zeros((3, 8), dtype=x.dtype).index_add(0, library.arange(rows.shape[0]) % 3, rows)


_MIDDLE = (1_000, 100_000, 1_000_000)
_FAR = ("normal", "positive", "far")

ROWS = [
    Row("sum", lambda _, x: x.sum(), np.sum, _size),
    Row("sum, dim 0", lambda _, x: _columns(x).sum(0), lambda x: _columns(x).sum(0), lambda x: np.abs(_columns(x)).sum(0)),
    Row("sum, dim 1", lambda _, x: _rows(x).sum(1), lambda x: _rows(x).sum(1), lambda x: np.abs(_rows(x)).sum(1)),
    Row("mean", lambda _, x: x.mean(), np.mean, lambda x: np.abs(x).mean()),
    Row("norm", lambda library, x: library.linalg.vector_norm(x), np.linalg.norm, _own(np.linalg.norm)),
    Row("norm, 1", lambda library, x: library.linalg.vector_norm(x, 1), _size, _size, lengths=_MIDDLE),
    Row("var", lambda _, x: x.var(), lambda x: x.var(ddof=1), _own(np.var), _FAR),
    Row("var, dim 0", lambda _, x: _columns(x).var(0), lambda x: _columns(x).var(0, ddof=1), lambda x: _columns(x).var(0), _FAR),
    Row("var, dim 1", lambda _, x: _rows(x).var(1), lambda x: _rows(x).var(1, ddof=1), lambda x: _rows(x).var(1), _FAR),
    Row("logsumexp", lambda _, x: x.logsumexp(0), special.logsumexp, _at_least_one(special.logsumexp)),
    Row("softmax", lambda _, x: x.softmax(0), special.softmax, _own(special.softmax), ("normal", "positive")),
    Row("log_softmax", lambda _, x: x.log_softmax(0), special.log_softmax, _at_least_one(special.log_softmax)),
    Row(
        "layer_norm", lambda library, x: library.nn.functional.layer_norm(_rows(x), (x.shape[0] // 8,)),
        _layer_norm, _at_least_one(_layer_norm), _FAR, _MIDDLE,
    ),
    Row(
        "rms_norm", lambda library, x: library.nn.functional.rms_norm(_rows(x), (x.shape[0] // 8,), eps=1e-5),
        _rms_norm, _at_least_one(_rms_norm), _FAR, _MIDDLE,
    ),
    Row(
        "batch_norm", lambda library, x: library.nn.functional.batch_norm(_columns(x), None, None, training=True),
        _batch_norm, _at_least_one(_batch_norm), _FAR, _MIDDLE,
    ),
    Row(
        "group_norm", lambda library, x: library.nn.functional.group_norm(x.reshape(1, 8, -1), 2),
        _group_norm, _at_least_one(_group_norm), _FAR, _MIDDLE,
    ),
    Row(
        "cumsum", lambda _, x: x.cumsum(0), np.cumsum, lambda x: np.abs(x).cumsum(), lengths=_MIDDLE,
    ),
    Row("cumsum, dim 0", lambda _, x: _columns(x).cumsum(0), lambda x: _columns(x).cumsum(0), lambda x: np.abs(_columns(x)).cumsum(0), lengths=_MIDDLE),
    Row("dot", lambda library, x: library.dot(x, x.flip(0)), lambda x: x @ x[::-1], lambda x: np.abs(x) @ np.abs(x[::-1])),
    Row("matmul", lambda _, x: _rows(x) @ _rows(x).flip(0).T, _products, lambda x: _products(np.abs(x))),
    Row(
        "conv1d", lambda library, x: library.nn.functional.conv1d(x.reshape(1, 8, -1), x[:320].reshape(8, 8, 5)),
        _convolved, lambda x: _convolved(np.abs(x)), lengths=_MIDDLE,
    ),
    Row("conv2d", _conv2d, _square_image, lambda x: _square_image(np.abs(x)), lengths=(10_000, 100_000)),
    Row("conv1d, gradient of weight", _weight_gradient, _sums_of_windows, lambda x: _sums_of_windows(np.abs(x)), lengths=_MIDDLE),
    Row("gradient of a bias", _bias_gradient, lambda x: _columns(x).sum(0), lambda x: np.abs(_columns(x)).sum(0), lengths=_MIDDLE),
    Row("gradient of an embedding", _embedding_gradient, _thirds, lambda x: _thirds(np.abs(x)), lengths=_MIDDLE),
    Row("index_add", _index_add, _thirds, lambda x: _thirds(np.abs(x)), lengths=_MIDDLE),
    Row("mse_loss", lambda library, x: library.nn.functional.mse_loss(x, x.flip(0)), lambda x: ((x - x[::-1]) ** 2).mean(), _own(lambda x: ((x - x[::-1]) ** 2).mean())),
    Row("l1_loss", lambda library, x: library.nn.functional.l1_loss(x, x.flip(0)), lambda x: np.abs(x - x[::-1]).mean(), lambda x: np.abs(x - x[::-1]).mean()),
    Row("cross_entropy", _cross_entropy, _entropy, _own(_entropy)),
    Row(
        "binary_cross_entropy_with_logits",
        lambda library, x: library.nn.functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype)),
        lambda x: np.logaddexp(0, -np.abs(x)).mean(), _own(lambda x: np.logaddexp(0, -np.abs(x)).mean()),
    ),
]  # fmt: skip


def error_of(row: Row, kind: str, length: int, dtype: str, library: Any = dynograd) -> float:
    """The largest error over some inputs, in units of u times the bound."""
    worst = 0.0
    for seed in range(_SEEDS if length < 1_000_000 else 1):
        narrow = INPUTS[kind](np.random.default_rng(seed), length).astype(
            {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}[dtype]
        )
        x = narrow.astype(np.float64)
        result = (
            row.function(library, library.tensor(x).to(getattr(library, dtype))).detach().to(library.float64).numpy()
        )
        error = np.abs(result - row.exact(x)) / np.maximum(row.bound(x), 1e-300)
        worst = max(worst, float(np.max(error)) / UNITS[dtype])
    return worst
