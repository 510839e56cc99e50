"""Every row of tests/ops once more on the device: values, gradients, strides and empty inputs against the CPU.

In emulation fewer dtypes are tried, because a launch takes a millisecond or two there.
"""

from functools import partial

import numpy
import pytest

import dynograd
from dynograd.arrays import CudaArray, cuda_arrays
from dynograd.cuda import driver
from dynograd.interpreter.differentiation import grad
from dynograd.kernels import kernel
from dynograd.kernels.build.through_host_cuda import through_host
from dynograd.tensor.tensor import Tensor, wrap
from tests.ops.arguments import (
    FLOATS,
    TOLERANCES,
    Subject,
    as_tuple,
    converted,
    draw,
    floating,
    strided_arguments,
    wants_of,
    widened,
)
from tests.ops.tables import all_rows, title_of
from tests.support.cases import run_all

TRIED = ("float32", "bfloat16", "int64", "bool", "complex64") if driver.is_emulated() else None


# Rows that name the CPU, or add NumPy's arrays to what they are given.
ELSEWHERE = ("to_device", "to", "type", "cpu", "linalg_cholesky", "linalg_cholesky_ex", "cholesky")


def checks_of(row):
    """(name, check) of what is tried of a row."""
    subject = Subject(row)
    if not subject.has_tensors or row.name in ELSEWHERE:
        return
    names = [name for name in row.dtypes if TRIED is None or name in TRIED] or list(row.dtypes[:1])
    if not names:
        return
    first = next((name for name in names if name in FLOATS), None)
    differentiable = first and subject.differentiable and any(wants_of(row, draw(row))) and row.reference is not None
    # Of a composed op the kernels are those of other rows: in emulation it is run once less, and strides are left to theirs.
    few = driver.is_emulated() and subject.inner is not None and subject.inner.kind == "composed" and differentiable
    for name in names:
        if not (few and name == first):
            yield name, partial(check_forward, subject, name)
    if row.strided and row.reference is not None and not few:
        yield "strided", partial(check_strided, subject, first or names[0])
    if differentiable:
        yield "gradient", partial(check_gradient, subject, first)


def on_device(array):
    """A tensor on the device with the array's strides as far as they are not negative."""
    if not array.size or array.flags.c_contiguous:
        return wrap(cuda_arrays.from_numpy(array, 0))
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    back = [int(axis) for axis in numpy.argsort(order)]
    spaced = numpy.zeros([2 * size for size in array.transpose(order).shape], array.dtype)
    place = tuple(slice(None, None, 2) for _ in array.shape)
    spaced[place] = array.transpose(order)
    return wrap(cuda_arrays.from_numpy(spaced, 0)[place].transpose(back))


def same(results, expected, name, row):
    results, expected = as_tuple(results), as_tuple(expected)
    assert len(results) == len(expected)
    if isinstance(row.tolerance, dict):
        rtol, atol = row.tolerance.get(name, TOLERANCES.get(name, (0, 0)))
    else:
        rtol, atol = (2 * part * row.tolerance for part in TOLERANCES.get(name, TOLERANCES["float32"]))
    for element, want in zip(results, expected, strict=True):
        if not isinstance(want, Tensor):
            assert element == want
            continue
        assert type(element.array) is CudaArray or not want.array.ndim, "the result is not on the device"
        assert (tuple(element.shape), element.dtype) == (tuple(want.shape), want.dtype)
        if row.reference is not None:
            got = element.detach().cpu().array
            numpy.testing.assert_allclose(widened(got), widened(want.detach().array), rtol=rtol, atol=atol)


def check_forward(subject, name):
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    same(subject.run(arrays.map(on_device)), subject.run(arrays.map(wrap)), name, subject.row)


def check_strided(subject, name):
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    strided = next(iter(strided_arguments(arrays)))
    same(subject.run(strided.map(on_device)), subject.run(strided.map(wrap)), name, subject.row)


def check_gradient(subject, name):
    """Values of a recorded call, and its gradients."""
    row = subject.row
    arrays = draw(row).map(lambda array: converted(array, name))
    values, results = [], []
    for make in (on_device, lambda array: wrap(array.copy())):
        flags = iter(wants_of(row, arrays))
        tensors = arrays.map(make)
        leaves = []
        for tensor in tensors.leaves():
            if floating(tensor) and next(flags):
                tensor._requires_grad = True
                leaves.append(tensor)
        values.append(subject.run(tensors))
        outputs = [each for each in as_tuple(values[-1]) if isinstance(each, Tensor) and each.requires_grad]
        argument = [
            make(numpy.linspace(0.5, 1.5, output.array.size).reshape(output.array.shape).astype(output.array.dtype))
            for output in outputs
        ]
        results.append(grad(outputs, leaves, argument, allow_unused=True) if outputs else [])
    same(*values, name, row)
    for element, want in zip(*results, strict=True):
        assert (element is None) == (want is None)
        if want is not None:
            assert type(element.array) is CudaArray
            numpy.testing.assert_allclose(widened(element.cpu().array), widened(want.array), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("title", "row"),
    [pytest.param(title := f"{family}-{title_of(row)}", row, id=title) for family, row in all_rows() if row.dtypes],
)
def test_on_the_device(title, row):
    run_all(title, list(checks_of(row)))


def test_what_has_no_kernel_is_computed_on_the_host_and_says_so():
    x = dynograd.randn(4, 8).cuda()
    computed = through_host("half_transform", kernel("ffts", "half_transform", 0))
    with pytest.warns(UserWarning, match="half_transform: has no kernel for GPUs. It is computed on the CPU"):
        result = computed(x.array, (1,), "backward")
    assert type(result) is CudaArray and result.shape == (4, 5)
    computed(x.array, (1,), "backward")  # once is enough


pytestmark = pytest.mark.filterwarnings("ignore:.*has no kernel for GPUs:UserWarning")
