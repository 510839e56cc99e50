"""Operators on strings, which are NumPy arrays of objects."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import tensor_of
from dynograd.tensor.tensor import Tensor


def _mapped(function: Any, *arrays: numpy.ndarray) -> numpy.ndarray:
    """An array of objects: the function of each element."""
    rows = numpy.broadcast_arrays(*arrays)
    results = numpy.empty(rows[0].shape, object)
    for place in numpy.ndindex(results.shape):
        results[place] = function(*(row[place] for row in rows))
    return results


@operator("StringConcat")
def string_concat(x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
    return _mapped(lambda first, second: first + second, x, y)


@operator("RegexFullMatch")
def regex_full_match(x: numpy.ndarray, *, pattern: str = "") -> Tensor:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise OnnxError(
            f"RegexFullMatch: the pattern {pattern!r} is none of Python's ({error}). Write it in the syntax of re."
        ) from None
    return tensor_of(_mapped(lambda text: expression.fullmatch(text) is not None, x).astype(bool))


@operator("StringSplit", outputs=2)
def string_split(x: numpy.ndarray, *, delimiter: str = "", maxsplit: int | None = None) -> tuple[numpy.ndarray, Tensor]:
    parts = _mapped(lambda text: text.split(delimiter or None, -1 if maxsplit is None else maxsplit), x)
    counts = _mapped(len, parts).astype(numpy.int64)
    words = numpy.full((*x.shape, int(counts.max(initial=0))), "", object)
    for place in numpy.ndindex(x.shape):
        words[place][: counts[place]] = parts[place]
    return words, tensor_of(counts)


def _plain(text: str) -> str:
    """The text without accents."""
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


@operator("StringNormalizer")
def string_normalizer(
    x: numpy.ndarray, *, case_change_action: str = "NONE", is_case_sensitive: int = 0, locale: str = "",
    stopwords: Any = None,
) -> numpy.ndarray:  # fmt: skip
    change = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}[case_change_action]
    stops = {word if is_case_sensitive else word.casefold() for word in _texts(stopwords or [])}

    def kept(text: str) -> str:
        words = [
            word for word in _plain(text).split(" ") if (word if is_case_sensitive else word.casefold()) not in stops
        ]
        return change(" ".join(words))

    words = [word for word in _mapped(kept, x).ravel() if word] or [""]
    return numpy.array(words if x.ndim == 1 else [words], object)


def _texts(values: Any) -> list:
    return [value.decode() if isinstance(value, bytes) else value for value in values]


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Tensor | numpy.ndarray, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
    ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None, weights: Any = None,
) -> Tensor:  # fmt: skip
    pool = _texts(pool_strings) if pool_int64s is None else list(pool_int64s)
    columns: dict[tuple, int] = {}
    for length, (start, end) in enumerate(zip(ngram_counts, [*ngram_counts[1:], len(pool)]), 1):
        for first in range(start, end, length):
            column = ngram_indexes[len(columns)]
            columns[(length, *pool[first : first + length])] = column
    rows = x.tolist() if x.ndim == 2 else [x.tolist()]
    counts = numpy.zeros((len(rows), max(ngram_indexes) + 1), numpy.float32)
    for row, items in zip(counts, rows):
        for length in range(min_gram_length, max_gram_length + 1):
            for step in range(1, 2 if length == 1 else max_skip_count + 2):
                for first in range(len(items) - (length - 1) * step):
                    column = columns.get((length, *items[first : first + (length - 1) * step + 1 : step]))
                    if column is not None:
                        row[column] += 1
    factors = numpy.float32(1) if weights is None else numpy.array(weights, numpy.float32)
    if mode != "TF":
        counts = (counts > 0) * factors if mode == "IDF" else counts * factors
    return tensor_of((counts if x.ndim == 2 else counts[0]).astype(numpy.float32))
