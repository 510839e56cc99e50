"""Memory of tensors: `resize_`, `set_`, storages, what views share, and memory that other processes see."""

import multiprocessing
import sys
from importlib import import_module

import numpy
import pytest

import dynograd
from dynograd.tensor.storages import TypedStorage, UntypedStorage

tensor, zeros, arange = dynograd.tensor, dynograd.zeros, dynograd.arange


def test_resize_within_the_memory_shares_it():
    x = arange(6)
    address, view = x.data_ptr(), x[2:4]
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0, 1], [2, 3]] and x.data_ptr() == address
    view[0] = 9
    assert x.tolist() == [[0, 1], [9, 3]]
    assert x.resize_((6,)).tolist() == [0, 1, 9, 3, 4, 5]  # what lay beyond is still there
    assert x.resize_(0).shape == (0,)
    assert x.resize_(6).tolist() == [0, 1, 9, 3, 4, 5]


def test_resize_beyond_the_memory_keeps_values_and_views():
    x = arange(4)
    row, other = x[1:3], x.view(2, 2)
    x.resize_(100)
    assert x.shape == (100,) and x[:4].tolist() == [0, 1, 2, 3]
    row[0] = 7
    assert x[1].item() == 7 and other.tolist() == [[0, 7], [2, 3]]


def test_a_view_that_grows_takes_its_base_along():
    x = arange(4)
    row = x[2:]
    row.resize_(50)
    row[0] = 9
    assert x.tolist() == [0, 1, 9, 3]
    assert row.storage_offset() == 2 and x.untyped_storage() == row.untyped_storage()


def test_nobody_is_looked_for_on_memory_without_bytes(monkeypatch):
    """To ask the garbage collector takes longer the more objects there are: programs write `arange(n, out=x.data.new())` in loops."""
    monkeypatch.setattr(import_module("dynograd.tensor.storages"), "_sharing", None)
    empty = zeros(3).data.new()
    assert dynograd.arange(4, out=empty) is empty and empty.tolist() == [0, 1, 2, 3]


def test_resize_of_another_layout():
    x = arange(6).view(2, 3).t()
    assert x.resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]]  # the same shape: nothing changes
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    image = zeros(0).resize_(1, 2, 3, 3, memory_format=dynograd.channels_last)
    assert image.is_contiguous(memory_format=dynograd.channels_last)
    assert zeros(2).resize_as_(zeros(3, 3)).shape == (3, 3)
    assert arange(4).resize(2, 2).shape == (2, 2)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: zeros(2, requires_grad=True).resize_(3), ["resize_", "require grad", "reshape"]),
        (lambda: zeros(2).resize_(-1), ["resize_", "negative", "(-1,)"]),
        (lambda: zeros(2).resize_(2, memory_format=dynograd.channels_last), ["resize_", "4 dimensions", "got 1"]),
        (lambda: zeros(2).resize_(2**40, 2**40), ["resize_", "overflow", "1099511627776"]),
        (lambda: zeros(2).set_(arange(3)), ["set_", "int64", "float32"]),
        (lambda: zeros(2).set_(zeros(3).untyped_storage(), 2, (2,)), ["set_", "16 bytes", "12 bytes"]),
        (lambda: zeros(2).set_(zeros(3).untyped_storage(), 0, (2,), (1, 1)), ["set_", "mismatch in length"]),
        (lambda: zeros(4).untyped_storage()[16], ["UntypedStorage", "index 16", "size 16"]),
        (lambda: zeros(4).untyped_storage().copy_(zeros(2).untyped_storage()), ["copy_", "16", "8"]),
        (lambda: tensor([1.0], requires_grad=True).apply_(abs), ["apply_", "requires grad", "detach"]),
    ],
)
def test_mistakes(call, words):
    with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_storage_that_a_tensor_needs_does_not_shrink():
    x = zeros(4)
    with pytest.raises(RuntimeError, match=r"needs 16 bytes of this storage, got 8"):
        x.untyped_storage().resize_(8)
    x.resize_(0)
    storage = x.untyped_storage()
    assert storage.resize_(0).nbytes() == 0
    assert x.resize_(2).shape == (2,)


READS = [
    lambda x: x + 1,
    lambda x: x.exp(),
    lambda x: x == x,
    lambda x: x.sum(),
    lambda x: x @ x.T,
    lambda x: x.softmax(0),
    lambda x: dynograd.cat([x, x]),
    lambda x: x.clone(),
    lambda x: x.double(),
    lambda x: x.tolist(),
    lambda x: x[0, 1].item(),
    lambda x: repr(x),
    lambda x: x.numpy() + 1,
    lambda x: x.fill_(1),
    lambda x: x.mul_(2),
    lambda x: x.copy_(zeros(2, 3)),
    lambda x: dynograd.save({"x": x}, "unwritten.pt"),
]


@pytest.mark.parametrize("number", range(len(READS)))
def test_memory_that_was_given_back_cannot_be_read_or_written(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = zeros(2, 3)
    x.untyped_storage().resize_(0)
    with pytest.raises(
        RuntimeError, match=r"the memory of this tensor was given back by untyped_storage\(\).resize_\(0\)"
    ):
        READS[number](x)


def test_memory_that_was_given_back_can_be_had_again():
    x = arange(6.0).reshape(2, 3).clone()
    row, old = x[1], x.data_ptr()
    x.untyped_storage().resize_(0)
    assert (x.shape, row.shape, x.stride(), str(row.device)) == ((2, 3), (3,), (3, 1), "cpu")
    assert x.untyped_storage().nbytes() == row.untyped_storage().nbytes() == 0 != old
    x.untyped_storage().resize_(24)
    x.copy_(arange(6.0).reshape(2, 3))
    assert row.tolist() == [3, 4, 5]
    hidden = dynograd.ones(3, requires_grad=True) * 2
    with dynograd.no_grad():
        hidden.untyped_storage().resize_(0)
        hidden.set_(dynograd.full((3,), 5.0))
    assert hidden.tolist() == [5, 5, 5] and hidden.requires_grad


def test_set_():
    source = arange(6.0)
    x = zeros(0).set_(source)
    x[0] = 9
    assert source[0].item() == 9 and x.data_ptr() == source.data_ptr()
    assert zeros(0).set_(source.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert zeros(0).set_(source.storage(), 2, (2,)).tolist() == [2, 3]
    assert zeros(3).set_().shape == (0,)


@pytest.mark.parametrize("shape", [(6,), (300, 400)])
def test_views_share_a_storage(shape):
    x = dynograd.rand(shape)
    for view in (x[1:], x.t() if x.ndim == 2 else x.view(2, 3), x.detach(), x.expand(2, *shape)):
        assert view.untyped_storage() == x.untyped_storage()
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
        assert hash(view.untyped_storage()) == hash(x.untyped_storage())
    assert x.clone().untyped_storage() != x.untyped_storage()
    assert x.untyped_storage().nbytes() == x.nbytes
    assert x[1:]._base is x and x._base is None and x[1:]._is_view() and not x._is_view()


def test_storages_of_bytes():
    x = tensor([1, 258], dtype=dynograd.int16)
    storage = x.untyped_storage()
    assert len(storage) == storage.size() == storage.nbytes() == 4 and storage.element_size() == 1
    assert storage.tolist() == list(storage) == [1, 0, 2, 1] and storage[2] == storage[-2] == 2
    storage[0] = 5
    assert x.tolist() == [5, 258]
    storage[:2] = 0
    assert x.tolist() == [0, 258]
    copy = storage.clone()
    storage.fill_(0)
    assert x.tolist() == [0, 0] and copy.tolist() == [0, 0, 2, 1]
    storage.copy_(copy)
    assert x.tolist() == [0, 258]
    assert storage.device.type == "cpu" and not storage.is_cuda and storage.untyped() is storage
    assert dynograd.is_storage(storage) and not dynograd.is_storage(x)
    assert UntypedStorage(3).nbytes() == 3 and UntypedStorage([1, 2]).tolist() == [1, 2]
    assert "4 bytes" in repr(storage)


def test_typed_storages():
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    storage = x.t().storage()
    assert len(storage) == storage.size() == 4 and storage.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert storage.element_size() == 4 and storage.nbytes() == 16 and storage.data_ptr() == x.data_ptr()
    storage[3] = 9.0
    assert x[1, 1].item() == 9.0 and storage[3] == 9.0 and storage[1:3].tolist() == [2.0, 3.0]
    assert storage.untyped() == x.untyped_storage() and storage == x.storage()
    assert storage.clone().fill_(1.0).tolist() == [1.0] * 4 and x[0, 1].item() == 2.0
    assert TypedStorage([1, 2], dtype=dynograd.int32).tolist() == [1, 2]
    assert TypedStorage(2, dtype=dynograd.int64).nbytes() == 16
    storage.resize_(6)
    assert len(storage) == 6
    storage[0] = 5.0
    assert x[0, 0].item() == 5.0
    with pytest.raises(AttributeError, match="untyped"):
        storage.nothing  # noqa: B018


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6.0)[::2],
        numpy.arange(6.0)[::-1],
        numpy.arange(6.0).reshape(2, 3).T,
        numpy.asfortranarray(numpy.ones((2, 3))),
        numpy.frombuffer(bytearray(24)),
        numpy.zeros((0, 3)),
        numpy.array(1.0),
    ],
)
def test_storages_of_arrays_of_others(array):
    x = dynograd.from_numpy(array)
    storage = x.untyped_storage()
    item = x.element_size()
    first, reach = storage.data_ptr(), sum((size - 1) * abs(step) for size, step in zip(array.shape, array.strides))
    if array.size:
        low = x.data_ptr() + sum(min((size - 1) * step, 0) for size, step in zip(array.shape, array.strides))
        assert first <= low and low + reach + item <= first + storage.nbytes()
    assert len(storage.tolist()) == storage.nbytes()


def _writes(x):
    x[0] = 5.0
    x.untyped_storage()[4:8] = 0


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_shared_memory_is_seen_by_forked_processes():
    x = tensor([1.0, 2.0, 3.0])
    row = x[1:]
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and row.is_shared()
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address
    child = multiprocessing.get_context("fork").Process(target=_writes, args=(x,))
    child.start()
    child.join()
    assert x.tolist() == [5.0, 0.0, 3.0] and row.tolist() == [0.0, 3.0]


def test_modules_share_their_parameters():
    layer = dynograd.nn.Linear(2, 2)
    before = layer.weight.tolist()
    layer.share_memory()
    assert layer.weight.is_shared() and layer.weight.tolist() == before
    layer(dynograd.ones(1, 2)).sum().backward()
    dynograd.optim.SGD(layer.parameters(), 0.1).step()
    assert layer.weight.is_shared()


def test_apply_and_map():
    assert tensor([[1.0, 2.0]]).t().apply_(lambda x: x * 10).tolist() == [[10.0], [20.0]]
    assert tensor([1, 2]).map_(tensor([3, 4]), lambda x, y: x * y).tolist() == [3, 8]
    assert tensor([1, 2]).map_(tensor(5), max).tolist() == [5, 5]


def test_a_write_through_a_storage_is_seen_by_backward():
    x, w = tensor([1.0, 2.0]), tensor([1.0, 1.0], requires_grad=True)
    y = (x * w).sum()
    x.untyped_storage().fill_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_resize_as_keeps_the_order_of_channels():
    last = zeros(2, 3, 2, 2).contiguous(memory_format=dynograd.channels_last)
    assert zeros(24).resize_as_(last, memory_format=dynograd.preserve_format).stride() == last.stride()
    assert zeros(24).resize_as_(last).stride() == (12, 4, 2, 1)


def test_memory_without_elements_has_no_address():
    x = zeros(5)
    assert zeros(0).data_ptr() == x[2:2].data_ptr() == 0 != x.data_ptr()
