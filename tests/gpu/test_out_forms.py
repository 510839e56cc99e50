"""`out=`, storages and refused writes with tensors on a GPU."""

import pytest

import dynograd

ones, empty = dynograd.ones, dynograd.empty


def test_out_is_written_in_its_memory():
    a, b, c = dynograd.arange(6.0, device="cuda"), ones(6, device="cuda"), empty(6, device="cuda")
    address = c.data_ptr()
    assert dynograd.add(a, b, out=c) is c
    assert c.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] and c.data_ptr() == address
    assert dynograd.add(a, b, out=a).tolist() == c.tolist()
    assert dynograd.exp(a * 0, out=empty(0, device="cuda")).tolist() == [1.0] * 6
    assert dynograd.sum(b, out=empty((), device="cuda")).item() == 6


def test_several_results_and_new_tensors():
    values, indices = empty(0, device="cuda"), empty(0, dtype=dynograd.int64, device="cuda")
    dynograd.sort(dynograd.tensor([2.0, 1.0], device="cuda"), out=(values, indices))
    assert values.tolist() == [1.0, 2.0] and indices.tolist() == [1, 0]
    assert dynograd.arange(2, out=values.resize_(0)).device.type == "cuda"
    assert dynograd.randn(2, out=values).device.type == "cuda"


def test_out_on_another_device():
    b = ones(3, device="cuda")
    for out, x in ((empty(3), b), (empty(3, device="cuda"), b.cpu())):
        for call in (lambda: dynograd.add(x, x, out=out), lambda: dynograd.softmax(x, 0, out=out)):  # noqa: B023
            with pytest.raises(RuntimeError, match="same device, but got out on c"):
                call()


def test_storages():
    x = dynograd.arange(4.0, device="cuda")
    view = x[2:]
    assert view.untyped_storage() == x.untyped_storage() and view.storage_offset() == 2
    assert view.storage().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    x.resize_(40)
    view[0] = 9.0
    assert x[:4].tolist() == [0.0, 1.0, 9.0, 3.0]
    assert x.is_shared() and x.share_memory_() is x
    assert empty(0, device="cuda").set_(x.untyped_storage(), 1, (2,)).tolist() == [1.0, 9.0]


def test_refused_writes():
    x = dynograd.arange(6.0, device="cuda")
    for call in (
        lambda: x[:1].expand(6).add_(1),
        lambda: x[:1].expand(6).copy_(x),
        lambda: dynograd.exp(x, out=x[:1].expand(6)),
    ):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call()
    for call in (
        lambda: x[1:].add_(x[:-1]),
        lambda: dynograd.add(x[1:], x[:-1], out=x[1:]),
        lambda: x[1:].copy_(x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor"):
            call()
    with pytest.raises(RuntimeError, match="overflow"):
        empty(2**40, 2**40, device="cuda")
