"""Layer, RMS, group, batch, instance and local response norm. See `rows.py`."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from tests.nn.rows import Row, error, generate

C = 4
BOTH = {"weight": (C,), "bias": (C,)}
RUNNING = {"running_mean": (C,), "running_var": (C,), "num_batches_tracked": ()}


def over(x, dims, eps):
    mean, var = x.mean(dims, keepdims=True), x.var(dims, keepdims=True)
    return (x - mean) / numpy.sqrt(var + eps)


def per_channel(p, x, dim=1):
    shape = [1] * x.ndim
    shape[dim] = -1
    if p.weight is not None:
        x = x * p.weight.reshape(shape)
    return x if p.bias is None else x + p.bias.reshape(shape)


def np_layer_norm(p, x):
    out = over(x, -1, 1e-5)
    out = out if p.weight is None else out * p.weight
    return out if p.bias is None else out + p.bias


def np_rms_norm(p, x, eps=None):
    eps = dg.finfo(p.dtype).eps if eps is None else eps
    return x / numpy.sqrt((x**2).mean(-1, keepdims=True) + eps) * p.weight


def np_group_norm(p, x):
    grouped = over(x.reshape(len(x), 2, -1), 2, 1e-5).reshape(x.shape)
    return per_channel(p, grouped)


def np_batch_norm(p, x):
    if p.training or p.running_mean is None:
        return per_channel(p, over(x, (0, *range(2, x.ndim)), 1e-5))
    shape = (-1, *[1] * (x.ndim - 2))
    return per_channel(p, (x - p.running_mean.reshape(shape)) / numpy.sqrt(p.running_var.reshape(shape) + 1e-5))


def np_instance_norm(p, x):
    if p.running_mean is None or p.training:
        return per_channel(p, over(x, tuple(range(2, x.ndim)), 1e-5))
    return np_batch_norm(p, x)


def np_response_norm(p, x):
    out = numpy.zeros_like(x)
    for c in range(C):
        near = x[:, max(0, c - 1) : c + 2]
        out[:, c] = x[:, c] / (1 + 0.1 * (near**2).sum(1) / 3) ** 0.75
    return out


def text(name, affine=True, bias=True, tracked=True, momentum=0.1):
    return f"{name}({C}, eps=1e-05, momentum={momentum}, affine={affine}, bias={bias}, track_running_stats={tracked})"


IMAGES = {1: (3, C, 5), 2: (3, C, 2, 3), 3: (3, C, 2, 2, 3)}
WITHIN = [
    Row("LayerNorm", (C,), shapes=[(3, C)], reference=np_layer_norm, parameters=BOTH,
        text="LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)",
        errors=[error(lambda layer: layer(dg.zeros(3, 5)), RuntimeError, "layer_norm", "5", "4")]),
    Row("LayerNorm", (C,), {"bias": False}, [(2, 3, C)], reference=np_layer_norm, parameters={"weight": (C,)},
        text="LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=False)", id="nobias"),
    Row("LayerNorm", (C,), {"elementwise_affine": False}, [(3, C)], reference=np_layer_norm,
        text="LayerNorm((4,), eps=1e-05, elementwise_affine=False, bias=False)", id="plain"),
    Row("LayerNorm", ([2, 3],), shapes=[(4, 2, 3)], parameters={"weight": (2, 3), "bias": (2, 3)}, id="two dims",
        reference=lambda p, x: over(x, (1, 2), 1e-5) * p.weight + p.bias,
        text="LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)"),
    Row("RMSNorm", (C,), {"eps": 1e-3}, [(2, 3, C)], reference=lambda p, x: np_rms_norm(p, x, 1e-3), parameters={"weight": (C,)},
        text="RMSNorm((4,), eps=0.001, elementwise_affine=True)",
        errors=[error(lambda layer: layer(dg.zeros(3, 5)), RuntimeError, "rms_norm", "5", "4")]),
    Row("RMSNorm", (C,), shapes=[(3, C)], reference=np_rms_norm, parameters={"weight": (C,)}, id="eps of the dtype",
        text="RMSNorm((4,), eps=None, elementwise_affine=True)"),
    Row("GroupNorm", (2, C), shapes=[(3, C, 5)], reference=np_group_norm, parameters=BOTH,
        text="GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
        errors=[
            error(lambda layer: nn.GroupNorm(3, 4), ValueError, "divisible", "4", "3"),
            error(lambda layer: layer(dg.zeros(3, 6, 5)), RuntimeError, "group_norm", "6"),
        ]),
    Row("GroupNorm", (2, C), {"affine": False}, [(3, C)], reference=np_group_norm, id="plain",
        text="GroupNorm(2, 4, eps=1e-05, affine=False, bias=False)"),
    Row("LocalResponseNorm", (3, 0.1), shapes=[(2, C, 3)], reference=np_response_norm,
        text="LocalResponseNorm(3, alpha=0.1, beta=0.75, k=1.0)"),
]  # fmt: skip

BATCH = [
    Row(f"BatchNorm{rank}d", (C,), shapes=[shape], reference=np_batch_norm, parameters=BOTH, buffers=RUNNING,
        text=text(f"BatchNorm{rank}d"),
        errors=[
            error(lambda layer: layer(dg.zeros(4)), ValueError, "BatchNorm", "got 1D"),
            error(lambda layer, shape=shape: layer(dg.zeros(3, C + 1, *shape[2:])), RuntimeError, "num_features (4)", "5"),
        ])
    for rank, shape in IMAGES.items()
]  # fmt: skip
BATCH += [
    Row("BatchNorm1d", (C,), shapes=[(5, C)], reference=np_batch_norm, parameters=BOTH, buffers=RUNNING, id="2D",
        errors=[error(lambda layer: layer(dg.zeros(1, C)), ValueError, "more than 1 value per channel", "[1, 4]")]),
    Row("BatchNorm2d", (C,), {"affine": False, "momentum": None}, [IMAGES[2]], reference=np_batch_norm, buffers=RUNNING, id="plain",
        text=text("BatchNorm2d", False, False, momentum=None)),
    Row("BatchNorm2d", (C,), {"track_running_stats": False, "bias": False}, [IMAGES[2]], reference=np_batch_norm, id="untracked",
        parameters={"weight": (C,)}, text=text("BatchNorm2d", bias=False, tracked=False)),
    Row("SyncBatchNorm", (C,), shapes=[IMAGES[2]], reference=np_batch_norm, parameters=BOTH, buffers=RUNNING,
        text=text("SyncBatchNorm")),
]  # fmt: skip
INSTANCE = [
    Row(f"InstanceNorm{rank}d", (C,), shapes=[shape], reference=np_instance_norm,
        text=text(f"InstanceNorm{rank}d", False, False, False),
        errors=[error(lambda layer: layer(dg.zeros(4)), ValueError, "InstanceNorm", "got 1D")])
    for rank, shape in IMAGES.items()
]  # fmt: skip
INSTANCE += [
    Row("InstanceNorm2d", (C,), {"affine": True, "track_running_stats": True}, [IMAGES[2]], reference=np_instance_norm,
        parameters=BOTH, buffers=RUNNING, text=text("InstanceNorm2d"), id="tracked",
        errors=[error(lambda layer: layer(dg.zeros(3, 5, 2, 2)), ValueError, "num_features", "4", "5")]),
    Row("InstanceNorm1d", (C,), shapes=[(C, 5)], reference=lambda p, x: over(x, 1, 1e-5), id="single"),
]  # fmt: skip

ROWS = WITHIN + BATCH + INSTANCE
test_rows = generate(ROWS)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d, nn.SyncBatchNorm])
def test_layers_without_weights_and_statistics_take_any_number_of_channels(layer):
    x = dg.randn(4, 5, 6)
    plain = layer(3, affine=False, track_running_stats=False)
    assert plain(x).tolist() == layer(5, affine=False, track_running_stats=False)(x).tolist()
    with pytest.raises(ValueError, match="num_features"):
        layer(3, affine=False, track_running_stats=True)(x)


def test_running_statistics_follow_the_batches():
    layer = nn.BatchNorm1d(2, momentum=0.3)
    mean, var = numpy.zeros(2), numpy.ones(2)
    for seed in range(3):
        x = numpy.random.default_rng(seed).normal(2, 3, (6, 2))
        layer(dg.from_numpy(x).float())
        mean, var = 0.7 * mean + 0.3 * x.mean(0), 0.7 * var + 0.3 * x.var(0, ddof=1)
    numpy.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5)
    numpy.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 3


def test_momentum_none_averages_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    batches = [dg.tensor([[0.0], [2.0]]), dg.tensor([[5.0], [7.0]]), dg.tensor([[9.0], [9.0]])]
    for batch in batches:
        layer(batch)
    assert layer.running_mean.item() == pytest.approx((1 + 6 + 9) / 3)


def test_evaluation_leaves_running_statistics_alone():
    layer = nn.BatchNorm2d(3).eval()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer(dg.randn(2, 3, 4, 4))
    assert all(bool((value == before[name]).all()) for name, value in layer.state_dict().items())


def test_reset_running_stats():
    layer = nn.BatchNorm1d(2)
    layer(dg.randn(4, 2))
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0, 0] and layer.running_var.tolist() == [1, 1]
    assert layer.num_batches_tracked.item() == 0
    layer.weight.data.fill_(3)
    layer.reset_parameters()
    assert layer.weight.tolist() == [1, 1]


def test_old_state_dicts_without_a_count_load():
    layer = nn.BatchNorm1d(2)
    state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
    assert repr(layer.load_state_dict(state)) == "<All keys matched successfully>"


def test_convert_sync_batchnorm_keeps_parameters_and_statistics():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sequential(nn.BatchNorm2d(2)), nn.ReLU()).eval()
    model[1][0].running_mean.fill_(0.5)
    x = dg.randn(2, 1, 3, 3)
    expected, weight = model(x), model[1][0].weight
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1][0], nn.SyncBatchNorm) and converted[1][0].weight is weight
    assert dg.equal(converted(x), expected)
