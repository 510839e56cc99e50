"""Operators of ai.onnx.ml, as the converters of scikit-learn write them: linear models, scalers, encoders, forests."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import dynograd, tensor_of
from dynograd.tensor.tensor import Tensor

ML = "ai.onnx.ml"


def transformed(scores: Tensor, post_transform: str) -> Tensor:
    if post_transform == "LOGISTIC":
        return dynograd.sigmoid(scores)
    if post_transform == "SOFTMAX":
        return dynograd.softmax(scores, -1)
    if post_transform != "NONE":
        raise OnnxError(
            f"onnx.load: post_transform {post_transform} is not known here. Expected NONE, LOGISTIC or SOFTMAX."
        )
    return scores


def labels_at(places: Any, ints: Any, strings: Any) -> Tensor:
    if strings:
        return numpy.array([text.decode() if isinstance(text, bytes) else text for text in strings], object)[
            places.numpy()
        ]
    return dynograd.tensor(ints, dtype=dynograd.int64)[places]


def decided(scores: Any, ints: Any, strings: Any, post_transform: str) -> tuple:
    """Labels and scores; a single column is the second of two classes."""
    count = len(strings or ints)
    if scores.shape[1] == 1 and count == 2:
        chance = transformed(scores, post_transform)
        middle = 0.5 if post_transform == "LOGISTIC" else 0.0
        labels = labels_at((chance[:, 0] > middle).to(dynograd.int64), ints, strings)
        return labels, dynograd.cat([1 - chance if middle else -chance, chance], 1)
    return labels_at(dynograd.argmax(scores, 1), ints, strings), transformed(scores, post_transform)


@operator("LinearRegressor", domain=ML)
def linear_regressor(
    x: Tensor, *, coefficients: Any, intercepts: Any = None, post_transform: str = "NONE", targets: int = 1
) -> Tensor:
    w = dynograd.tensor(coefficients).reshape(targets, -1)
    y = x.float() @ w.T
    return transformed(y if not intercepts else y + dynograd.tensor(intercepts), post_transform)


@operator("LinearClassifier", domain=ML, outputs=2)
def linear_classifier(
    x: Tensor, *, coefficients: Any, intercepts: Any = None, classlabels_ints: Any = None,
    classlabels_strings: Any = None, multi_class: int = 0, post_transform: str = "NONE",
) -> tuple:  # fmt: skip
    width = x.shape[1]
    scores = x.float() @ dynograd.tensor(coefficients).reshape(-1, width).T
    scores = scores if not intercepts else scores + dynograd.tensor(intercepts)
    return decided(scores, classlabels_ints, classlabels_strings, post_transform)


@operator("Scaler", domain=ML)
def scaler(x: Tensor, *, offset: Any, scale: Any) -> Tensor:
    return (x.float() - dynograd.tensor(offset)) * dynograd.tensor(scale)


@operator("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    x = x.float()
    if norm == "MAX":
        length = dynograd.amax(abs(x), -1, keepdim=True)
    else:
        length = dynograd.linalg.vector_norm(x, {"L1": 1, "L2": 2}[norm], -1, keepdim=True)
    return x / dynograd.where(length == 0, dynograd.ones_like(length), length)


@operator("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@operator("Imputer", domain=ML)
def imputer(
    x: Tensor, *, imputed_value_floats: Any = None, imputed_value_int64s: Any = None,
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Tensor:  # fmt: skip
    if not x.dtype.is_floating_point:
        return dynograd.where(x == replaced_value_int64, dynograd.tensor(imputed_value_int64s), x)
    missing = dynograd.isnan(x) if replaced_value_float != replaced_value_float else x == replaced_value_float
    return dynograd.where(missing, dynograd.tensor(imputed_value_floats, dtype=x.dtype), x)


@operator("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x: Tensor, places: Tensor) -> Tensor:
    if isinstance(x, numpy.ndarray):
        return x[..., places.numpy().reshape(-1)]
    return dynograd.index_select(x.reshape(1, -1) if x.ndim == 1 else x, -1, places.reshape(-1))


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(*xs: Tensor, inputdimensions: Any = None) -> Tensor:
    return dynograd.cat([x.float() for x in xs], 1)


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _flat(values: Any) -> list:
    """Keys or values of a table: of attributes, or of a tensor."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return [_text(value) for value in values]


@operator("LabelEncoder", domain=ML, since=2)
def label_encoder(
    x: Tensor, *, keys_floats: Any = None, keys_int64s: Any = None, keys_strings: Any = None, keys_tensor: Any = None,
    values_floats: Any = None, values_int64s: Any = None, values_strings: Any = None, values_tensor: Any = None,
    default_float: float = 0.0, default_int64: int = -1, default_string: str = "_Unused", default_tensor: Any = None,
) -> Tensor:  # fmt: skip
    keys = next(_flat(part) for part in (keys_floats, keys_int64s, keys_strings, keys_tensor) if part is not None)
    values: Any
    default: Any
    dtype: Any
    if values_strings is not None or isinstance(values_tensor, numpy.ndarray):
        values, default, dtype = values_strings if values_tensor is None else values_tensor, default_string, object
    elif values_tensor is not None:
        values, default, dtype = values_tensor, 0, values_tensor.numpy().dtype
    elif values_floats is not None:
        values, default, dtype = values_floats, default_float, numpy.float32
    else:
        values, default, dtype = values_int64s, default_int64, numpy.int64
    if default_tensor is not None:
        default = _flat(default_tensor.reshape(-1))[0]
    values = _flat(values)
    table = {"nan" if key != key else key: value for key, value in zip(keys, values)}
    words = _flat(x.reshape(-1))
    results = [table.get("nan" if word != word else word, default) for word in words]
    return tensor_of(numpy.array(results, dtype).reshape(tuple(x.shape)))


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(x: Tensor, *, cats_int64s: Any = None, cats_strings: Any = None, zeros: int = 1) -> Tensor:
    classes = _flat(cats_int64s if cats_strings is None else cats_strings)
    words = _flat(x.reshape(-1))
    unknown = [word for word in words if word not in classes]
    if unknown and not zeros:
        raise OnnxError(f"OneHotEncoder: {unknown[0]!r} is none of its {len(classes)} classes.")
    rows = numpy.array([[float(word == label) for label in classes] for word in words], numpy.float32)
    return tensor_of(rows.reshape(*x.shape, len(classes)))


@operator("ZipMap", domain=ML)
def zip_map(x: Tensor, *, classlabels_int64s: Any = None, classlabels_strings: Any = None) -> list:
    labels = _flat(classlabels_int64s if classlabels_strings is None else classlabels_strings)
    return [dict(zip(labels, row)) for row in x.tolist()]
