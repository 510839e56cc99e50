"""`torch.testing._internal.common_utils.TestCase`, which packages derive their tests from: `assertEqual` compares tensors by their values."""

from __future__ import annotations

import numbers
import sys
import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = ["TestCase", "run_tests"]

run_tests = unittest.main


class TestCase(unittest.TestCase):
    """unittest's, but for `assertEqual` of tensors, arrays and numbers, which are close when `dynograd.testing.assert_close` says so.

    >>> from dynograd.testing._internal.common_utils import TestCase
    >>> TestCase().assertEqual({"loss": [dynograd.ones(2), 0.5]}, {"loss": [[1.0, 1.0], 0.5]})
    """

    def assertEqual(
        self,
        first: Any,
        second: Any,
        msg: str | Callable[[str], str] | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Fails unless both are equal: tensors and floating-point numbers within `atol` + `rtol` times their size, NaN to NaN, what lists and
        dicts hold one by one, and all else by `==`. A list beside a tensor is taken as one."""
        options = {
            "atol": atol,
            "rtol": rtol,
            "equal_nan": equal_nan,
            "check_dtype": exact_dtype,
            "check_device": exact_device,
            "check_layout": exact_layout,
            "check_stride": exact_stride,
            "msg": msg,
        }
        self._compare(first, second, options)

    def _compare(self, first: Any, second: Any, options: dict[str, Any]) -> None:
        text = options["msg"] if isinstance(options["msg"], str) else None
        if isinstance(first, (Tensor, numpy.ndarray)) or isinstance(second, (Tensor, numpy.ndarray)):
            pair = _as_tensor(first, second), _as_tensor(second, first)
            dynograd.testing.assert_close(*pair, **options)
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            self.assertSetEqual(set(first), set(second), text)
            for key in first:
                self._compare(first[key], second[key], options)
        elif _is_list(first) and _is_list(second):
            super().assertEqual(len(first), len(second), text)
            for pair in zip(first, second, strict=True):
                self._compare(*pair, options)
        elif _is_number(first) and _is_number(second):
            dynograd.testing.assert_close(first, second, **options | {"check_dtype": False})
        else:
            super().assertEqual(first, second, text)


def _as_tensor(value: Any, other: Any) -> Any:
    """A list or number beside a tensor as a tensor of its dtype; the dtype of a number is not compared."""
    if isinstance(value, numpy.ndarray):
        return creation.from_numpy(value)
    if isinstance(value, Tensor) or not (_is_number(value) or _is_list(value)):
        return value
    beside = other if isinstance(other, Tensor) else creation.from_numpy(other)
    return creation.tensor(value, dtype=beside.dtype, device=beside.device)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
