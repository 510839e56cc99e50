"""Tree ensembles: all trees take one step down at a time, for all rows."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.reading.ml import ML, decided, transformed
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import dynograd, tensor_of
from dynograd.tensor.tensor import Tensor

_COMPARISONS = {
    "BRANCH_LEQ": numpy.less_equal,
    "BRANCH_LT": numpy.less,
    "BRANCH_GTE": numpy.greater_equal,
    "BRANCH_GT": numpy.greater,
    "BRANCH_EQ": numpy.equal,
    "BRANCH_NEQ": numpy.not_equal,
}


def _leaves(x: Any, nodes: dict[str, Any]) -> tuple[numpy.ndarray, dict]:
    """(rows, trees) numbers of the leaves that the rows come to, and the number of each (tree, node)."""
    trees, ids, modes = nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"]
    number = {pair: place for place, pair in enumerate(zip(trees, ids))}
    steps = [
        [
            place if mode == "LEAF" else number[tree, child]
            for place, (tree, mode, child) in enumerate(zip(trees, modes, nodes[key]))
        ]
        for key in ("nodes_truenodeids", "nodes_falsenodeids")
    ]
    yes, no = (numpy.array(step) for step in steps)
    features, values = numpy.array(nodes["nodes_featureids"]), numpy.array(nodes["nodes_values"], numpy.float32)
    track = numpy.array(nodes.get("nodes_missing_value_tracks_true") or [0] * len(trees), bool)
    names = numpy.array(modes)
    unknown = {str(name) for name in names} - set(_COMPARISONS) - {"LEAF"}
    if unknown:
        raise OnnxError(f"onnx.load: nodes of a tree are of the kinds {unknown}, which are not known here.")
    roots = [number[tree, ids[trees.index(tree)]] for tree in dict.fromkeys(trees)]
    rows = x.detach().float().numpy()
    now = numpy.tile(roots, (len(rows), 1))
    for _ in range(len(trees) + 1):
        if (names[now] == "LEAF").all():
            return now, number
        data = numpy.take_along_axis(rows, features[now], 1)
        goes = numpy.isnan(data) & track[now]
        for name, compare in _COMPARISONS.items():
            goes |= (names[now] == name) & compare(data, values[now])
        now = numpy.where(goes, yes[now], no[now])
    raise OnnxError("onnx.load: a tree leads in a circle. Its file is damaged; export the model anew.")


def _scores(x: Tensor, nodes: dict, trees: Any, ids: Any, targets: Any, weights: Any, count: int, kind: str) -> Tensor:
    leaves, number = _leaves(x, nodes)
    table = numpy.zeros((len(number), count), numpy.float64)
    for tree, node, target, weight in zip(trees, ids, targets, weights):
        table[number[tree, node], target] += weight
    parts = table[leaves]  # (rows, trees, targets)
    reduce = {"SUM": numpy.sum, "AVERAGE": numpy.mean, "MIN": numpy.min, "MAX": numpy.max}[kind]
    return tensor_of(reduce(parts, axis=1).astype(numpy.float32))


@operator("TreeEnsembleRegressor", domain=ML)
def tree_regressor(
    x: Tensor, *, n_targets: int = 1, target_ids: Any, target_nodeids: Any, target_treeids: Any, target_weights: Any,
    nodes_featureids: Any, nodes_falsenodeids: Any, nodes_modes: Any, nodes_nodeids: Any, nodes_treeids: Any,
    nodes_truenodeids: Any, nodes_values: Any, nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Any = None, base_values: Any = None, aggregate_function: str = "SUM",
    post_transform: str = "NONE",
) -> Tensor:  # fmt: skip
    nodes = {name: value for name, value in locals().items() if name.startswith("nodes_")}
    scores = _scores(
        x, nodes, target_treeids, target_nodeids, target_ids, target_weights, n_targets, aggregate_function
    )
    return transformed(scores if not base_values else scores + dynograd.tensor(base_values), post_transform)


@operator("TreeEnsembleClassifier", domain=ML, outputs=2)
def tree_classifier(
    x: Tensor, *, class_ids: Any, class_nodeids: Any, class_treeids: Any, class_weights: Any, nodes_featureids: Any,
    nodes_falsenodeids: Any, nodes_modes: Any, nodes_nodeids: Any, nodes_treeids: Any, nodes_truenodeids: Any,
    nodes_values: Any, nodes_hitrates: Any = None, nodes_missing_value_tracks_true: Any = None,
    classlabels_int64s: Any = None, classlabels_strings: Any = None, base_values: Any = None,
    post_transform: str = "NONE",
) -> tuple:  # fmt: skip
    nodes = {name: value for name, value in locals().items() if name.startswith("nodes_")}
    labels = classlabels_strings or classlabels_int64s
    count = len(labels)
    scores = _scores(x, nodes, class_treeids, class_nodeids, class_ids, class_weights, count, "SUM")
    scores = scores if not base_values else scores + dynograd.tensor(base_values)
    if (count == 2 and set(class_ids) <= {0}) or (count == 2 and set(class_ids) <= {1}):  # one column of chances
        column = scores[:, max(class_ids) : max(class_ids) + 1]
        if post_transform == "NONE":
            scores = dynograd.cat([1 - column, column], 1)
        else:
            return decided(column, classlabels_int64s, classlabels_strings, post_transform)
    return decided(scores, classlabels_int64s, classlabels_strings, post_transform)


@operator("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(
    x: Tensor, *, tree_roots: Any, leaf_targetids: Any, leaf_weights: Tensor, nodes_featureids: Any,
    nodes_falseleafs: Any, nodes_falsenodeids: Any, nodes_modes: Tensor, nodes_splits: Tensor, nodes_trueleafs: Any,
    nodes_truenodeids: Any, nodes_hitrates: Any = None, nodes_missing_value_tracks_true: Any = None,
    membership_values: Any = None, aggregate_function: int = 1, n_targets: int = 1, post_transform: int = 0,
) -> Tensor:  # fmt: skip
    modes, splits, features = nodes_modes.numpy(), nodes_splits.detach().numpy(), numpy.array(nodes_featureids)
    children = [numpy.array(nodes_falsenodeids), numpy.array(nodes_truenodeids)]
    ends = [numpy.array(nodes_falseleafs, bool), numpy.array(nodes_trueleafs, bool)]
    track = numpy.array(nodes_missing_value_tracks_true or [0] * len(modes), bool)
    members = _members(modes, membership_values)
    rows = x.detach().numpy()
    now = numpy.tile(numpy.array(tree_roots), (len(rows), 1))
    done = numpy.zeros(now.shape, bool)
    for _ in range(len(modes) + 1):
        if done.all():
            break
        nodes = numpy.where(done, 0, now)
        data = numpy.take_along_axis(rows, features[nodes], 1)
        goes = numpy.isnan(data) & track[nodes]
        for code, compare in enumerate(_COMPARISONS.values()):
            goes |= (modes[nodes] == code) & compare(data, splits[nodes])
        for node, values in members.items():
            goes |= (nodes == node) & numpy.isin(data, values)
        at_end = numpy.where(goes, ends[1][nodes], ends[0][nodes])
        now = numpy.where(done, now, numpy.where(goes, children[1][nodes], children[0][nodes]))
        done |= at_end
    else:
        raise OnnxError("onnx.load: a tree leads in a circle. Its file is damaged; export the model anew.")
    weights, targets = leaf_weights.detach().numpy(), numpy.array(leaf_targetids)
    parts = numpy.where(targets[now][..., None] == numpy.arange(n_targets), weights[now][..., None], 0)
    combine = (numpy.mean, numpy.sum, numpy.min, numpy.max)[aggregate_function]
    scores = tensor_of(combine(parts, axis=1).astype(rows.dtype))
    return transformed(scores, ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[post_transform])


def _members(modes: numpy.ndarray, values: Any) -> dict[int, list[float]]:
    """The sets of the nodes that ask for membership; they stand one after the other, with NaN behind each."""
    sets: list[list[float]] = [[]]
    for value in [] if values is None else values.tolist():
        if value == value:
            sets[-1].append(value)
        else:
            sets.append([])
    places = numpy.flatnonzero(modes == len(_COMPARISONS))
    return {int(place): members for place, members in zip(places, sets)}
