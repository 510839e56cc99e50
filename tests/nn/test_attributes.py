"""Parameters, buffers and children as attributes: the second read, by the note in the class, finds what the first one found."""

import copy
import pickle

import pytest

import dynograd
from dynograd import nn
from dynograd.nn.attributes import Registered


def made():
    """A class of its own with a module of it whose attributes have been read."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(2, 2), nn.Parameter(dynograd.ones(2))
            self.register_buffer("count", dynograd.zeros(1))
            self.register_parameter("bias", None)

    net = Net()
    for name in ("layer", "scale", "count", "bias"):
        assert getattr(net, name) is getattr(net, name)
    return net


def noted(kind):
    return sorted(name for name, element in vars(kind).items() if type(element) is Registered)


def put_in_dict(net, other):
    net._modules["layer"] = other
    return other


def put_past_registration(net, other):
    net.__dict__["layer"] = other
    return other


def put_plain(net, other):
    del net.layer
    net.layer = "no module"
    return "no module"


def put_parameter(net, other):
    del net.layer
    net.layer = other.weight
    return other.weight


def put_on_class(net, other):
    type(net).layer = property(lambda self: other)
    return other


@pytest.mark.parametrize("put", [put_in_dict, put_past_registration, put_plain, put_parameter, put_on_class])
def test_reads_see_changes(put):
    net, other = made(), nn.Linear(2, 2)
    assert noted(type(net)) == ["bias", "count", "layer", "scale"]
    expected = put(net, other)
    assert net.layer is expected and net.layer is expected
    assert made().layer is not expected


def test_what_is_gone_is_not_found():
    net = made()
    del net.layer, net._buffers["count"]
    for name in ("layer", "count"):
        with pytest.raises(AttributeError, match=f"'Net' object has no attribute '{name}'"):
            getattr(net, name)
        assert not hasattr(net, name) and name not in dir(net)
    assert net.bias is None and "bias" in dir(net)
    net.register_buffer("layer", dynograd.ones(1))
    assert net.layer is net._buffers["layer"]


def test_classes_show_no_attributes_of_their_modules():
    net = made()
    assert not hasattr(type(net), "layer")
    with pytest.raises(AttributeError, match="type object 'Net' has no attribute 'layer'"):
        type(net).layer  # noqa: B018
    assert "layer" not in vars(net)


def test_copies_have_their_own():
    net = nn.Linear(2, 2)
    assert net.weight is net.weight
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.weight is not net.weight and other.weight is other._parameters["weight"]


def test_a_derived_class_that_answers_itself_is_asked():
    net = made()

    class Answering(type(net)):
        def __getattr__(self, name):
            return "mine" if name == "layer" else super().__getattr__(name)

    assert Answering().layer == Answering().layer == "mine" and Answering().scale is not None
    assert net.layer is net._modules["layer"] and noted(type(net)) == noted(Answering) == []

    class Other(type(net)):
        pass

    other = Other()
    assert other.layer is other.layer and noted(Other) == ["layer"]


def test_class_attributes_go_first():
    net = made()

    class Mixin:
        layer = "of the class"

    class Both(type(net), Mixin):
        pass

    assert Both().layer == Both().layer == "of the class" and Both().scale.shape == (2,)
    assert net.layer is net._modules["layer"] and noted(type(net)) == ["bias", "count", "scale"]


@pytest.mark.parametrize("read_before", [True, False])
def test_a_base_that_comes_later_answers(read_before):
    """PEFT's layers: classes of a layer and of another base, whose property `layer` is that of the layer they wrap."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

    class Wrapping:
        layer = property(lambda self: "the wrapped one's")

    net = Net()
    if read_before:
        assert net.layer is net.layer and noted(Net) == ["layer"]

    class Middle(Net):
        pass

    class Wrapped(Middle, Wrapping):
        def __init__(self):
            nn.Module.__init__(self)

    assert net.layer is net.layer is net._modules["layer"]
    assert Wrapped().layer == "the wrapped one's" and noted(Net) == []


def test_made_up_names_are_not_noted_without_end():
    net = nn.ModuleDict({f"part{k}": nn.Identity() for k in range(300)})
    assert [getattr(net, f"part{k}") for k in range(300)] == list(net.values())
    assert len(noted(nn.ModuleDict)) <= 200


def test_a_bare_module_leaves_no_notes():
    net = nn.Module()
    net.layer = nn.Identity()
    assert net.layer is net.layer and noted(nn.Module) == []


FUNCTIONS = {
    "public": dynograd.conv2d,
    "op": dynograd.relu,
    "of nn.functional": nn.functional.gelu,
    "creating": dynograd.ones_like,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_library_in_a_class_are_no_methods(name):
    class Net(nn.Module):
        function, of_linear = FUNCTIONS[name], nn.Linear.forward
        weight, bias = dynograd.ones(1, 2), None

        def forward(self, *args, **kwargs):
            return self.function(*args, **kwargs)

    class Derived(Net):
        pass

    image, weight = dynograd.ones(1, 1, 2, 2), {"weight": dynograd.ones(1, 1, 2, 2)} if name == "public" else {}
    assert Derived.function is FUNCTIONS[name]
    assert Derived()(image, **weight).tolist() == FUNCTIONS[name](image, **weight).tolist()
    assert Derived().of_linear(image[0, 0]).tolist() == [[2.0], [2.0]]
