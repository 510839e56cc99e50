"""Module: registration, iteration, state_dict, modes, hooks, text."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import StateDictError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.scale = nn.Parameter(dg.ones(3))
        self.register_buffer("seen", dg.zeros(1))
        self.register_buffer("scratch", dg.zeros(1), persistent=False)

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


NAMES = ["scale", "first.weight", "first.bias", "second.0.weight", "second.0.bias"]


def test_parameters_and_buffers_are_listed_by_name():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    assert len(list(net.parameters(recurse=False))) == 1


def test_shared_parameters_are_listed_once():
    net = Net()
    net.second[0].weight = nn.Parameter(dg.ones(3, 3))
    net.tied = net.second[0]
    names = [name for name, _ in net.named_parameters()]
    assert names == NAMES
    assert "tied.weight" in dict(net.named_parameters(remove_duplicate=False))


def test_attributes_move_between_kinds():
    net = Net()
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    net.extra = nn.Parameter(dg.ones(1))
    del net.extra
    assert not hasattr(net, "extra")
    net.thing = 3
    net.thing = nn.Linear(1, 1)
    assert "thing.weight" in net.state_dict()
    net.seen = dg.ones(1)
    assert net.state_dict()["seen"].item() == 1


def test_wrong_registrations_are_told():
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'Tensor' as parameter 'scale'.*nn.Parameter\(value\)"):
        net.scale = dg.ones(3)
    with pytest.raises(TypeError, match=r"cannot assign 'int' as child module 'first'"):
        net.first = 3
    with pytest.raises(TypeError, match=r"cannot assign 'int' as buffer 'seen'"):
        net.seen = 3
    with pytest.raises(KeyError, match="already exists"):
        net.register_parameter("forward", None)
    with pytest.raises(KeyError, match="cannot contain"):
        net.register_buffer("a.b", None)
    with pytest.raises(KeyError, match="empty string"):
        net.add_module("", nn.Identity())
    with pytest.raises(TypeError, match="not a Module subclass"):
        net.add_module("x", 3)
    with pytest.raises(TypeError, match="name should be a string"):
        net.register_buffer(3, None)
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("y", _non_leaf())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        net.nothing  # noqa: B018


def _non_leaf():
    created = nn.Parameter(dg.ones(1))
    created.requires_grad_(False)
    created.node, created._requires_grad = (dg.ones(1, requires_grad=True) * 2).node, True
    return created


def test_forgotten_super_init_is_told():
    class Bad(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Bad()


def test_a_missing_forward_is_told():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_train_and_eval_reach_every_module():
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    assert net.train().second[0].training
    with pytest.raises(ValueError, match="boolean"):
        net.train("yes")


def test_paths_lead_to_parts():
    net = Net()
    assert net.get_submodule("second.0") is net.second[0]
    assert net.get_parameter("second.0.weight") is net.second[0].weight
    assert net.get_buffer("seen") is net.seen
    for call in (net.get_submodule, net.get_parameter, net.get_buffer):
        with pytest.raises(AttributeError, match="second.9"):
            call("second.9.x" if call != net.get_submodule else "second.9")


def test_apply_visits_children_first():
    order = []
    Net().apply(lambda module: order.append(type(module).__name__))
    assert order == ["Linear", "Linear", "Tanh", "Sequential", "Net"]


def test_state_dict_shares_memory_and_loads_back():
    net, other = Net(), Net()
    state = net.state_dict()
    assert list(state) == [*NAMES[:1], "seen", *NAMES[1:]]
    assert not state["scale"].requires_grad
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    x = dg.ones(1, 2)
    assert other(x).tolist() == net(x).tolist()
    state["scale"].zero_()
    assert net.scale.sum().item() == 0


def test_missing_unexpected_and_misshapen_keys_are_all_named():
    net = Net()
    state = net.state_dict()
    before = net.first.bias.tolist()
    state["frist.bias"] = state.pop("first.bias")
    state["scale"] = dg.ones(4)
    with pytest.raises(StateDictError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    for words in (
        'Missing key(s) in state_dict: "first.bias"',
        'Unexpected key(s) in state_dict: "frist.bias"',
        "size mismatch for scale",
        "[4]",
        "[3]",
        "strict=False",
    ):
        assert words in text
    assert net.first.bias.tolist() == before
    state.pop("scale")
    result = net.load_state_dict(state, strict=False)
    assert result.unexpected_keys == ["frist.bias"] and result.missing_keys == ["scale", "first.bias"]
    assert 'did you mean "frist.bias"?' in text and 'did you mean "first.bias"?' in text
    with pytest.raises(TypeError, match="expected paths of tensors, got the key 3 in state_dict"):
        net.load_state_dict({3: dg.ones(1)})
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_assign_takes_the_given_tensors():
    net = Net()
    state = {name: dg.zeros(tuple(value.shape)) for name, value in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert isinstance(net.scale, nn.Parameter) and net.scale.array is state["scale"].array


def test_extra_state_is_saved_and_loaded():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    element, two = Counter(), Counter()
    element.count = 5
    two.load_state_dict(element.state_dict())
    assert two.count == 5


def test_deepcopy_and_pickle_keep_values_and_sharing():
    net = Net()
    net.tied = net.first
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.tied is other.first
        assert other.scale is not net.scale and other.scale.tolist() == net.scale.tolist()
        assert isinstance(other.scale, nn.Parameter) and other.scale.requires_grad
        assert other(dg.ones(1, 2)).tolist() == net(dg.ones(1, 2)).tolist()


def test_conversion_reaches_parameters_and_floating_buffers():
    net = Net()
    weight = net.first.weight
    net.register_buffer("count", dg.tensor(3))
    net.double()
    assert net.first.weight is weight and weight.dtype is dg.float64
    assert net.seen.dtype is dg.float64 and net.count.dtype is dg.int64
    assert net.to(dg.float32).scale.dtype is dg.float32
    assert net.to("cpu", dtype=dg.float16).scale.dtype is dg.float16
    with pytest.raises(RuntimeError, match=r"only accepts floating point.*int64"):
        net.to(dg.int64)
    with pytest.raises(RuntimeError, match="no CUDA device"):
        net.to("cuda")


def test_zero_grad_drops_or_zeroes():
    net = Net()
    net(dg.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0] * 3
    net.zero_grad()
    assert net.scale.grad is None


def test_requires_grad_can_be_frozen():
    net = Net().requires_grad_(False)
    assert not net(dg.ones(1, 2)).requires_grad


def test_text_shows_the_tree():
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (second): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=3, bias=True)\n"
        "    (1): Tanh()\n"
        "  )\n"
        ")"
    )


# --- hooks -----------------------------------------------------------------------------------------------------------------


def test_forward_hooks_see_and_replace():
    layer, seen = nn.Linear(1, 1, bias=False), []
    nn.init.ones_(layer.weight)
    pre = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    post = layer.register_forward_hook(lambda module, args, output: seen.append(args[0].item()) or output * 10)
    assert layer(dg.ones(1)).item() == 20 and seen == [2.0]
    pre.remove()
    post.remove()
    assert layer(dg.ones(1)).item() == 1 and not layer._hooked


def _assigned(layer, hook):
    layer._forward_hooks = OrderedDict({7: hook})


def _assigned_and_filled(layer, hook):
    layer._forward_hooks = OrderedDict()
    layer(dg.ones(1))
    layer._forward_hooks[7] = hook


@pytest.mark.parametrize(
    "hang",
    [
        lambda layer, hook: layer.register_forward_hook(hook),
        lambda layer, hook: layer._forward_hooks.update({7: hook}),
        lambda layer, hook: layer._forward_hooks.setdefault(7, hook),
        lambda layer, hook: layer._forward_hooks.__ior__({7: hook}),
        _assigned,
        _assigned_and_filled,
    ],
)
@pytest.mark.parametrize("same", [lambda layer: layer, copy.copy, copy.deepcopy])
def test_hooks_are_seen_however_they_came_there(hang, same):
    layer = nn.Identity()
    layer(dg.ones(1))  # notes that there are none
    other = same(layer)
    hang(other, lambda module, args, output: output * 10)
    assert other(dg.ones(1)).item() == 10
    other._forward_hooks.clear()
    assert other(dg.ones(1)).item() == 1


def test_a_module_that_shares_a_dict_has_hooks_of_its_own():
    layer = nn.Identity()
    layer(dg.ones(1))
    other = nn.Identity.__new__(nn.Identity)
    other.__dict__.update(layer.__dict__)
    other._forward_hooks = OrderedDict({0: lambda module, args, output: output * 10})
    assert [element(dg.ones(1)).item() for element in (layer, other, layer, other)] == [1, 10, 1, 10]
    del other.__dict__["_dynograd_ready"]  # as in files of earlier versions
    assert other(dg.ones(1)).item() == 10


def test_forward_hooks_with_kwargs_and_prepend():
    class Add(nn.Module):
        def forward(self, x, *, by=0):
            return x + by

    layer, order = Add(), []
    layer.register_forward_hook(lambda *args: order.append("first"))
    layer.register_forward_hook(lambda *args: order.append("second"), prepend=True)
    layer.register_forward_pre_hook(lambda module, args, kwargs: (args, {"by": 5}), with_kwargs=True)
    assert layer(dg.ones(1), by=1).item() == 6 and order == ["second", "first"]


def test_full_backward_hooks_get_both_sides_and_may_replace():
    layer, seen = nn.Linear(1, 1, bias=False), []
    nn.init.constant_(layer.weight, 3.0)

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].item(), grad_output[0].item()))
        return (grad_input[0] * 100,)

    handle = layer.register_full_backward_hook(hook)
    x = dg.ones(1, requires_grad=True)
    (layer(x) * 2).sum().backward()
    assert seen == [(6.0, 2.0)] and x.grad.tolist() == [600.0]
    handle.remove()
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 0,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [0.0]


def test_backward_hooks_want_tensors():
    class Named(nn.Linear):
        def forward(self, x):
            return {"output": super().forward(x)}

    layer, seen = Named(2, 1), []
    layer.register_full_backward_hook(lambda module, gi, go: seen.append(go))
    with pytest.warns(UserWarning, match="output should be a Tensor or a tuple of Tensors but received <class 'dict'>"):
        result = layer(dg.ones(1, 2))
    result["output"].sum().backward()
    assert seen == []


def test_backward_hooks_survive_in_place_ops_inside():
    class InPlace(nn.Module):
        def forward(self, x):
            return (x * 1).mul_(2)

    layer, seen = InPlace(), []
    layer.register_full_backward_hook(lambda module, gi, go: seen.append(gi[0].item()))
    layer(dg.ones(1, requires_grad=True)).sum().backward()
    assert seen == [2.0]


def test_global_hooks_run_for_every_module():
    seen = []
    handle = nn.module.hooks.register_module_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
    Net()(dg.ones(1, 2))
    handle.remove()
    Net()(dg.ones(1, 2))
    assert seen == ["Linear", "Linear", "Tanh", "Sequential", "Net"]


def test_state_dict_hooks():
    net = Net()

    def leave_out(module, state, prefix, meta):
        del state[prefix + "seen"]

    net.register_state_dict_post_hook(leave_out)
    state = net.state_dict()
    assert "seen" not in state
    other = Net()
    other.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="must return None"):
        other.state_dict()
    net.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *rest: state.setdefault(prefix + "seen", dg.ones(1))
    )
    seen = []
    net.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys.missing_keys))
    net.load_state_dict(state)
    assert net.seen.item() == 1 and seen == [[]]


def test_to_takes_a_dtype_a_device_or_a_tensor():
    net = Net()
    weight = net.first.weight
    for call, dtype in (
        (lambda: net.to(dg.float64), dg.float64),
        (lambda: net.to("cpu", dg.float32), dg.float32),
        (lambda: net.to(dg.zeros(1, dtype=dg.float64)), dg.float64),
        (lambda: net.to(device="cpu", dtype=dg.float16, non_blocking=True), dg.float16),
        (lambda: net.to("cpu"), dg.float16),
        (lambda: net.to(dg.device("cpu"), non_blocking=True), dg.float16),
    ):
        assert call() is net and net.first.weight.dtype is dtype and net.first.weight is weight
    with pytest.raises(TypeError, match=r"floating point or complex dtypes.*int64"):
        net.to(dg.int64)
    with pytest.raises(TypeError, match=r"expected a dtype, a device or a Tensor, got \[\]"):
        net.to([])


def test_a_reassigned_parameter_keeps_its_place():
    net = Net()
    net.scale = nn.Parameter(dg.zeros(3))
    net.first.weight = nn.Parameter(dg.zeros(3, 2))
    assert [name for name, _ in net.named_parameters()] == NAMES


def test_one_element_tensors_load_into_scalars():
    net = nn.Module()
    net.scalar = nn.Parameter(dg.tensor(1.0))
    net.load_state_dict({"scalar": dg.tensor([3.0])})
    assert net.scalar.item() == 3.0


def test_always_called_hooks_see_errors_too():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("here")

    layer, seen = Fails(), []
    layer.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    layer.register_forward_hook(lambda module, args, output: seen.append("never"))
    layer.register_forward_hook(lambda *args: 1 / 0, always_call=True)
    with pytest.raises(ValueError, match="here"), pytest.warns(UserWarning, match="ZeroDivisionError.*silenced"):
        layer(1)
    assert seen == [None]


def test_always_called_hooks_see_errors_of_hooks_before():
    layer, seen = nn.Identity(), []
    layer.register_forward_pre_hook(lambda module, args: 1 / 0)
    layer.register_forward_hook(lambda module, args, output: seen.append((args, output)), always_call=True)
    with pytest.raises(ZeroDivisionError):
        layer(1)
    assert seen == [((1,), None)]


def test_hooks_before_loading_do_not_keep_their_module_and_are_copied_with_it():
    seen = []
    layer = nn.Linear(1, 1)
    layer.register_load_state_dict_pre_hook(lambda module, *rest: seen.append(module))
    twin, gone = copy.deepcopy(layer), weakref.ref(layer)
    twin.load_state_dict(layer.state_dict())
    assert seen == [twin]
    collects = gc.isenabled()
    gc.disable()
    try:
        del layer
        assert gone() is None
    finally:
        if collects:
            gc.enable()


def test_hooks_of_all_modules():
    from dynograd.nn.modules import module as all_modules

    seen, x = [], dg.ones(1, 2, requires_grad=True)
    handles = [
        all_modules.register_module_forward_pre_hook(lambda module, args: seen.append("before")),
        all_modules.register_module_forward_hook(
            lambda module, args, kwargs, output: seen.append("after"), with_kwargs=True
        ),
        all_modules.register_module_full_backward_pre_hook(lambda module, grads: seen.append("back")),
        all_modules.register_module_full_backward_hook(lambda module, gi, go: seen.append("through")),
    ]
    layer = nn.Linear(2, 1)
    layer(x).sum().backward()
    assert seen == ["before", "after", "back", "through"]
    for handle in handles:
        handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 4


def test_registration_hooks_see_and_replace():
    from dynograd.nn.modules import module as all_modules

    seen = []
    handles = [
        all_modules.register_module_parameter_registration_hook(lambda module, name, one: seen.append(name)),
        all_modules.register_module_buffer_registration_hook(lambda module, name, one: dg.ones(2)),
        all_modules.register_module_module_registration_hook(lambda module, name, one: nn.Tanh()),
    ]
    model = nn.Module()
    model.register_buffer("held", dg.zeros(1))
    model.weight = nn.Parameter(dg.ones(1))
    model.act = nn.ReLU()
    for handle in handles:
        handle.remove()
    assert seen == ["weight"] and model.held.tolist() == [1, 1] and type(model.act) is nn.Tanh


def test_a_backward_hook_runs_when_an_input_got_no_gradient():
    class First(nn.Module):
        def forward(self, x, y):
            return x * 2, y * 3

    layer, seen = First(), []
    layer.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    x, y = dg.ones(1, requires_grad=True), dg.ones(1, requires_grad=True)
    layer(x, y)[0].sum().backward()
    ((gi, go),) = seen
    assert gi[0].item() == 2 and gi[1] is None and go[0].item() == 1 and go[1] is None


def test_submodules_are_set_by_path_and_compiled_calls_stand_in():
    net = Net()
    net.set_submodule("second.0", nn.Identity())
    assert isinstance(net.second[0], nn.Identity)
    with pytest.raises(AttributeError, match="no submodule 'third'"):
        net.set_submodule("third", nn.Tanh(), strict=True)
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", nn.Tanh())
    net.compile(mode="max-autotune", disable=True)
    assert net(dg.ones(1, 2)).shape == (1, 3) and copy.deepcopy(net)._compiled_call_impl is None
    with pytest.raises(TypeError, match="nn.Module takes no arguments, got 'size'"):
        nn.Module(size=3)


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer])
def test_a_derived_parameter_takes_arguments_of_its_own(kind):
    class Owned(kind):
        def __new__(cls, data, owner=None):
            tensor = kind.__new__(cls, data)
            tensor.owner = owner
            return tensor

    tensor = Owned(dg.ones(2), owner="me")
    assert tensor.owner == "me" and isinstance(tensor, kind) and tensor.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'owner'"):
        kind(dg.ones(2), owner="me")


def test_a_module_of_two_paths_comes_twice_when_asked():
    shared = nn.Tanh()
    model = nn.Sequential(shared, shared)
    assert len(list(model.modules())) == 2 and len(list(model.modules(remove_duplicate=False))) == 3


def test_a_prefix_of_all_names_is_told():
    net = nn.Linear(2, 1)
    state = {f"module.{name}": element for name, element in net.state_dict().items()}
    with pytest.raises(StateDictError, match=r"differ by the prefix 'module.': load \{k.removeprefix\('module.'\): v"):
        net.load_state_dict(state)
    from dynograd.nn.modules.utils import consume_prefix_in_state_dict_if_present

    consume_prefix_in_state_dict_if_present(state, "module.")
    net.load_state_dict(state)
