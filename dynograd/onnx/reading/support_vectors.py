"""Support vector machines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.reading.ml import ML, decided, labels_at, transformed
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import dynograd, tensor_of
from dynograd.tensor.tensor import Tensor


def _kernel(x: Tensor, vectors: Tensor, kind: str, parameters: Any) -> Tensor:
    """(rows, vectors): the kernel of each row and each support vector."""
    gamma, constant, degree = parameters or (0.0, 0.0, 0.0)
    if kind == "RBF":
        return dynograd.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(-1))
    products = x @ vectors.T
    if kind == "LINEAR":
        return products
    if kind == "POLY":
        return (gamma * products + constant) ** int(degree)
    if kind == "SIGMOID":
        return dynograd.tanh(gamma * products + constant)
    raise OnnxError(f"onnx.load: the kernel {kind!r} is not known here. Expected LINEAR, POLY, RBF or SIGMOID.")


@operator("SVMRegressor", domain=ML)
def svm_regressor(
    x: Tensor, *, coefficients: Any, rho: Any, kernel_params: Any = None, kernel_type: str = "LINEAR",
    n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE", support_vectors: Any = None,
) -> Tensor:  # fmt: skip
    x, weights = x.float(), dynograd.tensor(coefficients)
    if n_supports:
        x = _kernel(x, dynograd.tensor(support_vectors).reshape(n_supports, -1), kernel_type, kernel_params)
    y = (x @ weights + rho[0])[:, None]
    return dynograd.where(y > 0, 1.0, -1.0) if one_class else transformed(y, post_transform)


def _coupled(pairs: numpy.ndarray) -> numpy.ndarray:
    """(rows, classes): the chances that agree best with those of class i against class j, (rows, i, j).

    Source: Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling, 2004, algorithm 2.
    """
    count = pairs.shape[-1]
    q = -pairs.swapaxes(1, 2) * pairs
    q[:, range(count), range(count)] = (pairs**2).sum(1)
    chances = numpy.full(pairs.shape[:2], 1 / count, pairs.dtype)
    for _ in range(max(100, count)):
        slopes = (q @ chances[..., None])[..., 0]
        total = (chances * slopes).sum(1)
        open_rows = (abs(slopes - total[:, None]).max(1) >= 0.005 / count)[:, None]
        if not open_rows.any():
            break
        updated = chances.copy()
        for place in range(count):
            own = q[:, place, place]
            step = (total - slopes[:, place]) / own
            updated[:, place] += step
            total = (total + step * (step * own + 2 * slopes[:, place])) / (1 + step) ** 2
            updated /= (1 + step)[:, None]
            slopes = (slopes + step[:, None] * q[:, place]) / (1 + step)[:, None]
        chances = numpy.where(open_rows, updated, chances)
    return chances


@operator("SVMClassifier", domain=ML, outputs=2)
def svm_classifier(
    x: Tensor, *, coefficients: Any, rho: Any, classlabels_ints: Any = None, classlabels_strings: Any = None,
    kernel_params: Any = None, kernel_type: str = "LINEAR", post_transform: str = "NONE", prob_a: Any = None,
    prob_b: Any = None, support_vectors: Any = None, vectors_per_class: Any = None,
) -> tuple:  # fmt: skip
    x, count = x.float(), len(classlabels_ints or classlabels_strings)
    if not vectors_per_class:
        scores = x @ dynograd.tensor(coefficients).reshape(count, -1).T + rho[0]
        return decided(scores, classlabels_ints, classlabels_strings, post_transform)
    ends = list(itertools.accumulate(vectors_per_class))
    weights = dynograd.tensor(coefficients).reshape(count - 1, ends[-1])
    values = _kernel(x, dynograd.tensor(support_vectors).reshape(ends[-1], -1), kernel_type, kernel_params)
    parts = [slice(end - size, end) for size, end in zip(vectors_per_class, ends)]
    pairs = list(itertools.combinations(range(count), 2))
    columns = [
        values[:, parts[i]] @ weights[j - 1, parts[i]] + values[:, parts[j]] @ weights[i, parts[j]] + rho[number]
        for number, (i, j) in enumerate(pairs)
    ]
    scores = dynograd.stack(columns, 1)
    won = numpy.array([(scores[:, number] > 0).numpy() for number in range(len(pairs))])
    votes = numpy.zeros((len(x), count), int)
    for (i, j), wins in zip(pairs, won):
        votes[:, i] += wins
        votes[:, j] += ~wins
    labels = labels_at(tensor_of(votes.argmax(1)), classlabels_ints, classlabels_strings)
    if prob_a:
        chances = numpy.zeros((len(x), count, count), numpy.float32)
        for number, (i, j) in enumerate(pairs):
            chance = dynograd.sigmoid(-(scores[:, number] * prob_a[number] + prob_b[number]))
            chances[:, i, j] = chance.detach().numpy().clip(1e-7, 1 - 1e-7)
            chances[:, j, i] = 1 - chances[:, i, j]
        return labels, transformed(tensor_of(_coupled(chances)), post_transform)
    scores = dynograd.cat([-scores, scores], 1) if count == 2 else scores
    return labels, transformed(scores, post_transform)
