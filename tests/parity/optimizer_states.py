"""What the tests of optimizers share: states as arrays, compared, and given to the other library."""

import numpy as np
import pytest
import torch

import dynograd


def row_id(row):
    return row[0] + "-" + ",".join(f"{name}={value}" for name, value in row[1].items() if value and name != "lr")


def as_numpy(value):
    """With arrays for tensors; bfloat16 as float32."""
    if isinstance(value, (torch.Tensor, dynograd.Tensor)):
        value = value.detach()
        return (value.float() if "bfloat16" in str(value.dtype) else value).numpy().copy()
    if isinstance(value, dict):
        return {key: as_numpy(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(as_numpy(inner) for inner in value)
    return value


def as_tensors(value, lib):
    if isinstance(value, np.ndarray):
        return lib.tensor(value)
    if isinstance(value, dict):
        return {key: as_tensors(inner, lib) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_tensors(inner, lib) for inner in value]
    return value


def assert_same(one, other, tolerance, path=""):
    if isinstance(other, dict):
        assert list(one) == list(other), path
        for key in other:
            assert_same(one[key], other[key], tolerance, f"{path}.{key}")
    elif isinstance(other, (list, tuple)):
        assert type(one) is type(other) and len(one) == len(other), path
        for number, (mine, theirs) in enumerate(zip(one, other)):
            assert_same(mine, theirs, tolerance, f"{path}[{number}]")
    elif isinstance(other, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape, path
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=path)
    else:
        assert type(one) is type(other) and (one == other or one == pytest.approx(other, rel=1e-12)), path
