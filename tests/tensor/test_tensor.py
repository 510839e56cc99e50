"""Tensor: what it answers about itself, conversions to Python and NumPy, copies."""

from __future__ import annotations

import copy
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd.errors import DeviceError


def test_shape_and_memory():
    x = dg.zeros(2, 3, dtype=dg.float64)
    assert x.shape == (2, 3) and isinstance(x.shape, dg.Size) and x.size(-1) == 3 and x.size() == x.shape
    assert (x.ndim, x.dim(), x.numel(), len(x), x.element_size(), x.nbytes) == (2, 2, 6, 2, 8, 48)
    assert x.stride() == (3, 1) and x.stride(0) == 3 and x[1].storage_offset() == 3
    assert x.is_contiguous() and not x.t().is_contiguous() and x.data_ptr() == x.view(-1).data_ptr()
    assert repr(x.shape) == "dynograd.Size([2, 3])" and x.shape.numel() == 6 and x.shape[:1] + (5,) == (2, 5)
    with pytest.raises(IndexError, match=r"range of \[-2, 1\], but got 2"):
        x.size(2)


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((0, 4, 6), (24, 6, 1)), ((4, 0, 6), (6, 6, 1)), ((4, 6, 0), (6, 1, 1)), ((3, 0), (1, 1)), ((0,), (1,))],
)
def test_strides_of_empty_tensors_are_those_of_full_ones(shape, strides):
    x = dg.empty(shape)
    for same in (x, x.clone(), x + 1, dg.zeros_like(x), x.detach()):
        assert same.stride() == strides and same.stride(0) == strides[0] and same.is_contiguous()


def test_kind_and_place():
    x = dg.ones(1)
    assert x.is_floating_point() and not x.is_complex() and x.is_signed() and not x.is_cuda and x.is_cpu
    assert x.device == dg.device("cpu") and str(x.device) == "cpu" and dg.is_tensor(x) and not dg.is_tensor(1)


@pytest.mark.skipif(dg.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu():
    x = dg.ones(1)
    assert dg.cuda.device_count() == 0
    with pytest.raises(DeviceError, match=r"no CUDA device is available.*device='cpu'"):
        x.cuda()
    with pytest.raises(DeviceError, match="to: no CUDA device is available"):
        x.to("cuda:1")


def test_devices_by_name():
    assert dg.device("cuda", 1) == dg.device("cuda:1") == dg.device(1) and dg.device(dg.device("cpu")).index is None
    assert repr(dg.device("cuda:0")) == "device(type='cuda', index=0)" and str(dg.device("cuda:0")) == "cuda:0"
    for bad in ("gpu", "cuda:x"):
        with pytest.raises(RuntimeError, match="device: expected"):
            dg.device(bad)


def test_one_element_becomes_a_number():
    x = dg.tensor([2.5])
    assert x.item() == 2.5 and float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5
    assert [10, 20, 30][dg.tensor(1)] == 20 and f"{dg.tensor(3.14159):.2f}" == "3.14"
    with pytest.raises(RuntimeError, match=r"a Tensor with 2 elements cannot be converted to Scalar \(shape \(2,\)\)"):
        dg.ones(2).item()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(dg.ones(2))
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        bool(dg.ones(0))
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        [1, 2][dg.tensor(1.0)]


def test_iteration():
    assert [row.tolist() for row in dg.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert 3 in dg.tensor([1, 3]) and 4 not in dg.tensor([1, 3])
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(dg.tensor(1))
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(dg.tensor(1))


def test_numpy_shares_memory_and_refuses_history():
    x = dg.zeros(2)
    x.numpy()[0] = 3
    assert x.tolist() == [3.0, 0.0] and numpy.asarray(x).dtype == numpy.float32
    assert numpy.exp(x).shape == (2,) and numpy.array(x, dtype=numpy.float64).dtype == numpy.float64
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\)"):
        dg.ones(1, requires_grad=True).numpy()
    assert dg.ones(1, requires_grad=True).numpy(force=True).tolist() == [1.0]


def test_numpy_operands_mix_with_tensors():
    x = dg.ones(2)
    assert isinstance(numpy.ones(2) + x, dg.Tensor) and isinstance(x * numpy.float32(2), dg.Tensor)
    assert (numpy.float64(2) * x).tolist() == [2.0, 2.0] and (2 - x).tolist() == [1.0, 1.0]
    assert (
        (2 / (x * 4)).tolist() == [0.5, 0.5] and (3**x).tolist() == [3.0, 3.0] and (5 % (x * 3)).tolist() == [2.0, 2.0]
    )


def test_wrong_operands_are_told():
    for call in (lambda: dg.ones(2) + "a", lambda: dg.exp("a"), lambda: dg.matmul(dg.ones(2, 2), 3)):
        with pytest.raises(TypeError, match="must be Tensor"):
            call()


def test_deepcopy_and_pickle():
    x = dg.ones(2, requires_grad=True)
    x.grad = dg.ones(2)
    x.mark = "kept"
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.tolist() == [1.0, 1.0] and other.requires_grad and other.mark == "kept"
        assert other.data_ptr() != x.data_ptr()
    assert copy.deepcopy(x).grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        copy.deepcopy(x * 2)
    other = pickle.loads(pickle.dumps(x * 2))
    assert other.tolist() == [2.0, 2.0] and other.requires_grad and other.is_leaf


def test_copies_of_parameters_and_modules_start_without_gradients():
    layer = dg.nn.Linear(2, 1)
    layer.weight.note = "dropped, as in PyTorch"
    layer(dg.ones(1, 2)).sum().backward()
    other = copy.deepcopy(layer)
    assert layer.weight.grad is not None and other.weight.grad is None and not hasattr(other.weight, "note")
    other(dg.ones(1, 2)).sum().backward()
    assert other.weight.grad.tolist() == [[1.0, 1.0]] and other.bias.grad.tolist() == [1.0]


def test_one_deepcopy_keeps_what_shares_memory_together():
    x = dg.arange(6.0)
    first, last, turned, wide = copy.deepcopy([x[:4], x[3:], x.view(2, 3).t(), x[2:3].expand(3)])
    first.fill_(9.0)
    assert last.tolist() == [9.0, 4.0, 5.0] and turned.tolist() == [[9.0, 9.0], [9.0, 4.0], [9.0, 5.0]]
    assert turned.stride() == (1, 3) and wide.stride() == (0,) and wide.tolist() == [9.0] * 3
    assert last.storage_offset() == 3 and x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    y, storage = copy.deepcopy([x, x.untyped_storage()])
    assert y.data_ptr() == storage.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_the_slots_of_subclasses(copied):
    assert copied(dg.nn.Buffer(dg.ones(1), persistent=False)).persistent is False


def test_conversions_keep_or_copy():
    x = dg.ones(2)
    assert x.to(dg.float32) is x and x.to("cpu") is x and x.to(x) is x and x.cpu() is x
    assert x.to(dg.float32, copy=True) is not x and x.to("cpu", dg.float64).dtype is dg.float64
    assert (
        x.to(other=dg.ones(1, dtype=dg.int64)).dtype is dg.int64
        and x.type_as(dg.ones(1, dtype=dg.float16)).dtype is dg.half
    )
    kinds = {
        "double": dg.float64,
        "half": dg.float16,
        "long": dg.int64,
        "int": dg.int32,
        "bool": dg.bool,
        "byte": dg.uint8,
    }
    for name, dtype in kinds.items():
        assert getattr(x, name)().dtype is dtype
    with pytest.raises(TypeError, match="expected a dtype, a device or a Tensor"):
        x.to(3.5)
    with pytest.raises(TypeError, match="unexpected arguments"):
        x.to(typo=1)


def test_subclasses_and_attributes():
    class Named(dg.Tensor):
        pass

    x = dg.ones(2).as_subclass(Named) if hasattr(dg.Tensor, "as_subclass") else Named([1.0, 1.0])
    assert isinstance(x, Named) and (x + 1).tolist() == [2.0, 2.0]
    y = dg.ones(1)
    y.anything = 3
    assert y.anything == 3


def test_repr_shows_values_and_history():
    x = dg.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    assert repr(dg.ones(1, dtype=dg.float64)) == "tensor([1.], dtype=dynograd.float64)"


def test_size_and_stride_take_axis():
    x = dg.zeros(2, 3)
    assert x.size(axis=1) == x.size(1) == 3 and x.stride(axis=0) == x.stride(0) == 3
    assert x.size() == (2, 3) and x.stride() == (3, 1)


def test_complex_numbers_without_an_imaginary_part_become_numbers():
    assert (int(dg.tensor(2 + 0j)), float(dg.tensor([-1.5 + 0j]))) == (2, -1.5)
    for convert in (int, float):
        with pytest.raises(
            RuntimeError, match=rf"{convert.__name__}\(\): \(2\+1j\) cannot be converted without its imag"
        ):
            convert(dg.tensor(2 + 1j))


def test_format_of_one_number_is_that_of_the_number():
    x = dg.tensor(0.5, requires_grad=True)
    assert f"{x}" == f"{x * 1}" == format(x) == "0.5" and f"{x:.2f}" == "0.50" and f"{dg.tensor(True)}" == "True"
    assert f"{x!s}" == str(x) == "tensor(0.5000, requires_grad=True)" and f"{dg.tensor([1])}" == "tensor([1])"
    assert f"{dg.nn.Parameter(x)}".startswith("Parameter") and f"{dg.zeros((), device='meta')}".startswith("tensor(")
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{dg.zeros(1):.2f}"


def test_size_takes_axis_in_other_kinds_of_tensors():
    assert dg.ragged_tensor([[1.0], [2.0, 3.0]]).size(axis=0) == 2
    assert dg.func.vmap(lambda x: x * x.stride(axis=0))(dg.ones(2, 3, 4)).tolist() == (dg.ones(2, 3, 4) * 4).tolist()
    with dg.autobatch():
        assert (dg.ones(2, 3) * 2).size(axis=1) == 3
