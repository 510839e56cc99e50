"""Views whose arguments were seen before are made without the op's function: the same elements, memory, history and errors."""

import numpy
import pytest

import dynograd
from dynograd.ops.readers import set_quick_ways_aside

CALLS = {
    "view": (lambda x: x.view(6, 4), lambda a: a.reshape(6, 4)),
    "view with -1": (lambda x: x.view(-1, 6), lambda a: a.reshape(-1, 6)),
    "view of a size": (lambda x: x.view(x.shape), lambda a: a),
    "reshape_as": (lambda x: x.reshape_as(dynograd.zeros(4, 6)), lambda a: a.reshape(4, 6)),
    "ravel": (lambda x: x.ravel(), lambda a: a.reshape(-1)),
    "flatten first": (lambda x: x.flatten(0, 1), lambda a: a.reshape(6, 4)),
    "flatten last": (lambda x: x.flatten(-2), lambda a: a.reshape(2, 12)),
    "squeeze no 1": (lambda x: x.squeeze(0), lambda a: a),
    "squeeze dims": (lambda x: x.unsqueeze(1).squeeze((1, 2)), lambda a: a),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute a tuple": (lambda x: x.permute((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "permute dims=": (lambda x: x.permute(dims=(2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "permute from the end": (lambda x: x.permute(0, -1, 1), lambda a: a.transpose(0, 2, 1)),
    "mT": (lambda x: x.mT, lambda a: a.transpose(0, 2, 1)),
    "mH": (lambda x: x.mH, lambda a: a.transpose(0, 2, 1)),
    "H": (lambda x: x[0].H, lambda a: a[0].T),
    "adjoint": (lambda x: x.adjoint(), lambda a: a.transpose(0, 2, 1)),
    "select": (lambda x: x.select(-1, -2), lambda a: a[..., -2]),
    "expand in front": (lambda x: x.expand(3, 2, 3, 4), lambda a: numpy.broadcast_to(a, (3, 2, 3, 4))),
    "expand with -1": (lambda x: x[:, :1].expand(-1, 3, -1), lambda a: numpy.repeat(a[:, :1], 3, 1)),
    "expand to the same": (lambda x: x.expand(2, 3, 4), lambda a: a),
    "expand_as": (lambda x: x[0].expand_as(x), lambda a: numpy.broadcast_to(a[0], (2, 3, 4))),
    "broadcast_to": (lambda x: x[0].broadcast_to((5, 3, 4)), lambda a: numpy.broadcast_to(a[0], (5, 3, 4))),
    "chunk unevenly": (lambda x: x.chunk(3, 2)[1], lambda a: a[..., 2:4]),
    "unbind the middle": (lambda x: x.unbind(1)[2], lambda a: a[:, 2]),
    "unbind the last": (lambda x: x.unbind(-1)[3], lambda a: a[..., 3]),
    "tensor_split at": (lambda x: x.tensor_split((1, 3), 2)[1], lambda a: a[..., 1:3]),
    "tensor_split backwards": (lambda x: x.tensor_split((3, 1), 2)[2], lambda a: a[..., 1:]),
    "hsplit": (lambda x: x.hsplit(3)[1], lambda a: a[:, 1:2]),
    "hsplit at": (lambda x: x.hsplit((1, 2))[2], lambda a: a[:, 2:]),
    "vsplit": (lambda x: x.vsplit(2)[1], lambda a: a[1:]),
    "dsplit": (lambda x: x.dsplit(2)[1], lambda a: a[..., 2:]),
}
STRETCHED = ("expand in front", "expand with -1", "expand_as", "broadcast_to")


@pytest.fixture(params=[False, True], ids=["quick", "general"], autouse=True)
def way(request):
    change = 1 if request.param else 0
    set_quick_ways_aside(change)
    yield
    set_quick_ways_aside(-change)


@pytest.mark.parametrize("layout", ["rows", "turned"])
@pytest.mark.parametrize("name", CALLS)
def test_again(name, layout):
    call, reference = CALLS[name]
    a = numpy.random.default_rng(1).normal(size=(2, 3, 4))

    def fresh():
        if layout == "rows":
            return dynograd.tensor(a)
        return dynograd.tensor(a.transpose(2, 1, 0).copy()).permute(2, 1, 0)

    x = fresh()
    copies = layout == "turned" and name.startswith(("view", "reshape", "ravel", "flatten"))
    if copies and name.startswith("view") and name != "view of a size":
        pytest.skip("no view")
    for _ in range(3):
        result = call(x)
        expected = reference(a)
        assert result.shape == expected.shape
        assert (result.numpy() == expected).all()
        leaf = x.detach().requires_grad_()
        weights = numpy.arange(1.0, 1 + expected.size).reshape(expected.shape)
        (call(leaf) * dynograd.tensor(weights)).sum().backward()
        places = reference(numpy.arange(24).reshape(2, 3, 4)).reshape(-1)
        gradient = numpy.zeros(24)
        numpy.add.at(gradient, places, weights.reshape(-1))
        assert (leaf.grad.numpy().reshape(-1) == gradient).all()
        if not copies and name not in STRETCHED:  # a view: what is written there, with its history, is in the base
            scale = dynograd.tensor(2.0, dtype=dynograd.float64, requires_grad=True)
            base = fresh()
            call(base).mul_(2.0)
            assert base.sum().item() == pytest.approx(a.sum() + expected.sum())
            if not name.startswith(("unbind", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit")):
                base = fresh()
                call(base).mul_(scale)
                base.sum().backward()
                assert scale.grad.item() == pytest.approx(expected.sum())


def test_view_as_dtype_of_the_same_width():
    x = dynograd.tensor([1.0, -2.0])
    for _ in range(2):
        assert x.view(dynograd.int32).tolist() == [1065353216, -1073741824]
        assert x.view(dtype=dynograd.int32).t().tolist() == [1065353216, -1073741824]
        assert x.view(dynograd.int16).shape == (4,)
        with pytest.raises(RuntimeError, match="divisible"):
            dynograd.zeros(3).view(dynograd.float64)


def test_as_strided_from_an_offset():
    x = dynograd.arange(12.0)
    for _ in range(2):
        assert x.as_strided((2, 2), (4, 1), 3).tolist() == [[3.0, 4.0], [7.0, 8.0]]
        assert x[2:].as_strided((2, 2), (4, 1), 3).tolist() == [[3.0, 4.0], [7.0, 8.0]]
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.as_strided((2, 2), (9, 1), 3)


def test_wrong_arguments_after_right_ones():
    x = dynograd.zeros(2, 3)
    for _ in range(2):
        x.expand(4, 2, 3), x.permute(1, 0), x.flatten(0, 1), x.select(0, 1), x.unbind(1)
        for call, words in (
            (lambda: x.expand(4, 3, 3), "must match the existing size at dimension 1"),
            (lambda: x.permute(1, 1), "duplicate dims"),
            (lambda: x.flatten(0, 2), "out of range"),
            (lambda: x.select(0, 2), "index 2 out of range"),
            (lambda: x.select(2, 0), "out of range"),
            (lambda: x.unbind(2), "out of range"),
            (lambda: x.hsplit(2), "not divisible"),
            (lambda: x.view(4), "invalid for input of size 6"),
            (lambda: x[0].mT, "matrices"),
        ):
            with pytest.raises((RuntimeError, IndexError), match=words):
                call()


def test_take_with_and_without_history():
    x = dynograd.arange(6.0).reshape(2, 3)
    index = dynograd.tensor([[5, -6], [1, 1]])
    assert x.take(index).tolist() == [[5.0, 0.0], [1.0, 1.0]]
    x.requires_grad_()
    x.take(index).sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(IndexError, match="tried to access index 6"):
        x.detach().take(dynograd.tensor([6]))


def _calls():
    """Every op of the top level, with one tensor and with two."""
    names = [name for name in sorted(vars(dynograd)) if hasattr(getattr(dynograd, name), "op")]
    return [(name, count) for name in names for count in (1, 2)]


@pytest.mark.parametrize("kind", [dynograd.float32, dynograd.complex64, dynograd.int64, dynograd.bool], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)], ids=str)
def test_results_are_arrays_never_numpys_scalars(kind, shape):
    wrong, checked = set(), 0
    for name, count in _calls():
        function, operand = getattr(dynograd, name), dynograd.ones(shape, dtype=kind)
        for _ in range(2):  # the first call writes the shortcut
            try:
                result = function(*[operand] * count)
            except Exception:
                break
            for element in result if isinstance(result, (tuple, list)) else (result,):
                if type(element) is dynograd.Tensor:
                    checked += 1
                    if type(element.array) is not numpy.ndarray:
                        wrong.add(name)
    assert not wrong and checked > 100
