"""The device "meta": modules of any size without memory, and how they get theirs."""

import copy
import pickle

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import ShapeError
from dynograd.nn.utils import skip_init

LAYERS = [
    ("Linear", (3, 4)),
    ("Bilinear", (2, 3, 4)),
    ("Conv2d", (3, 4, 3)),
    ("ConvTranspose1d", (3, 4, 3)),
    ("BatchNorm2d", (4,)),
    ("InstanceNorm1d", (4, 1e-5, 0.1, True, True)),
    ("GroupNorm", (2, 4)),
    ("LayerNorm", (4,)),
    ("RMSNorm", (4,)),
    ("Embedding", (5, 3, 1)),
    ("EmbeddingBag", (5, 3)),
    ("LSTM", (3, 4, 2)),
    ("GRUCell", (3, 4)),
    ("MultiheadAttention", (8, 2)),
    ("TransformerEncoderLayer", (8, 2)),
    ("PReLU", (3,)),
]


@pytest.mark.parametrize(("name", "args"), LAYERS, ids=[name for name, _ in LAYERS])
def test_layers_are_built_without_values(name, args):
    plain, layer = getattr(nn, name)(*args), getattr(nn, name)(*args, device="meta")
    assert all(each.is_meta for each in layer.state_dict().values())
    assert {key: each.shape for key, each in layer.state_dict().items()} == {
        key: each.shape for key, each in plain.state_dict().items()
    }
    with dg.device("meta"):
        assert all(parameter.is_meta for parameter in getattr(nn, name)(*args).parameters())
    layer.load_state_dict(plain.state_dict(), assign=True)
    for key, element in layer.state_dict().items():
        assert element.tolist() == plain.state_dict()[key].tolist()
    assert all(parameter.requires_grad for parameter in layer.parameters())


def test_a_model_larger_than_memory_has_sizes():
    layer = nn.Linear(1_000_000, 1_000_000, device="meta")
    assert sum(parameter.numel() for parameter in layer.parameters()) == 10**12 + 10**6
    assert layer.half().weight.dtype is dg.float16 and layer.weight.t().shape == (10**6, 10**6)


def test_to_empty_keeps_parameters_and_their_ties():
    with dg.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        model.register_buffer("place", dg.arange(3))
    weight = model[0].weight
    model.to_empty(device="cpu")
    assert model[0].weight is weight is model[1].weight and not weight.is_meta
    assert model.place.device.type == "cpu" and model.place.shape == (3,)
    nn.init.ones_(weight)
    nn.init.zeros_(model[0].bias), nn.init.zeros_(model[1].bias)
    assert model(dg.ones(1, 3)).tolist() == [[9.0, 9.0, 9.0]]
    assert not nn.Sequential(nn.Linear(2, 2)).to("meta")[0].weight.is_cpu
    parent = nn.Sequential(nn.Linear(2, 2, device="meta"))
    parent.to_empty(device="cpu", recurse=False)
    assert parent[0].weight.is_meta


def test_skip_init_draws_nothing():
    state = dg.get_rng_state()
    layer = skip_init(nn.Linear, 300, 200, bias=False)
    assert dg.get_rng_state().tolist() == state.tolist()
    assert layer.weight.shape == (200, 300) and layer.weight.is_cpu and layer.weight.requires_grad
    with pytest.raises(RuntimeError, match=r"must support a 'device' arg.*Sequential takes none.*to_empty"):
        skip_init(nn.Sequential)
    with pytest.raises(RuntimeError, match="Expected a Module; got"):
        skip_init(3)


def test_values_that_are_not_there_are_told():
    layer = nn.Linear(2, 3, device="meta")
    for call in (
        lambda: layer(dg.ones(1, 2)),
        lambda: layer.to("cpu"),
        lambda: layer.weight[0, 0].item(),
        lambda: layer.weight.tolist(),
        lambda: bool(layer.weight[0, 0]),
    ):
        with pytest.raises(NotImplementedError, match=r"device 'meta'(,.*| have) no values.*to_empty"):
            call()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        layer.weight.detach().numpy()
    with pytest.warns(
        UserWarning, match="for weight: copying from a checkpoint to a parameter on device meta does nothing"
    ):
        layer.load_state_dict({"weight": dg.ones(3, 2)}, strict=False)
    assert layer.weight.is_meta


def test_outlines_print_copy_and_compute():
    weight = nn.Linear(2, 3, device="meta").weight
    assert repr(weight) == "Parameter containing:\ntensor(..., device='meta', size=(3, 2), requires_grad=True)"
    assert repr((weight * 2).detach().long()) == "tensor(..., device='meta', size=(3, 2), dtype=dynograd.int64)"
    for element in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight)), weight.clone()):
        assert element.is_meta and element.shape == (3, 2) and element.stride() == (2, 1)
    assert pickle.loads(pickle.dumps(weight.detach().t())).stride() == (1, 2)
    assert (weight * dg.ones(4, 1, 1, device="meta") + 1).shape == (4, 3, 2)
    dg.ones(2).mul_(2)  # the code of a method is made for the arrays that come first
    assert weight.detach().t().mul_(2).fill_(3).uniform_().shape == (2, 3)
    for created in (
        dg.randn(2, 3, device="meta"),
        dg.arange(4, device="meta"),
        dg.eye(3, device="meta"),
        dg.tensor([1], device="meta"),
    ):
        assert created.is_meta
    assert dg.empty_like(dg.ones(2, 3).t(), device="meta").is_meta


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("layer", "options"),
    [
        ("Conv1d", {}),
        ("Conv2d", {"stride": 2, "padding": 1, "dilation": 2}),
        ("Conv2d", {"groups": 2}),
        ("Conv3d", {"padding": "same"}),
        ("ConvTranspose2d", {"stride": 2, "output_padding": 1}),
    ],
)
def test_convolutions_have_the_shapes_of_the_cpu(layer, options, channels_last):
    results = []
    for device in ("cpu", "meta"):
        convolution = getattr(dg.nn, layer)(4, 6, 3, device=device, **options)
        x = dg.zeros(2, 4, *[9] * int(layer[-2]), device=device)
        if channels_last and layer.endswith("2d"):
            x = x.to(memory_format=dg.channels_last)
        x.requires_grad_()
        y = convolution(x)
        y.sum().backward()
        results.append([(t.shape, t.stride()) for t in (y, x.grad, convolution.weight.grad, convolution.bias.grad)])
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((5, 1, 2, 3), (7, 3, 4)), ((0, 3), (3, 4))]
)
def test_products_have_the_shapes_of_the_cpu(shapes):
    products = [dg.zeros(shapes[0], device=device) @ dg.zeros(shapes[1], device=device) for device in ("cpu", "meta")]
    assert products[0].shape == products[1].shape and products[1].device.type == "meta"
    with pytest.raises(ShapeError, match="matmul"):
        dg.zeros(2, 3, device="meta") @ dg.zeros(2, 3, device="meta")


def test_what_is_too_large_to_compute_has_a_shape():
    x = dg.zeros(1 << 16, 1 << 13, device="meta")
    assert dg.nn.Linear(1 << 13, 1 << 14, device="meta")(x).shape == (1 << 16, 1 << 14)
    image = dg.zeros(64, 3, 4096, 4096, device="meta")
    assert dg.nn.Conv2d(3, 8, 3, device="meta")(image).shape == (64, 8, 4094, 4094)
    with pytest.raises(
        MemoryError, match=r"shape \(1099511627776, 1024\) has 4503599627370496 bytes, more than a process"
    ):
        dg.zeros(1 << 40, 1 << 10, device="meta")
