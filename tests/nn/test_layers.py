"""Layers that map features, look up, drop, reshape, resample, pad and compare: one row each. See `rows.py`."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from tests.nn.references import np_windows
from tests.nn.rows import Row, error, generate


def np_bilinear(p, x1, x2):
    out = numpy.einsum("bi,kij,bj->bk", x1, p.weight, x2)
    return out if p.bias is None else out + p.bias


def np_cosine(p, x1, x2):
    return (x1 * x2).sum(1) / numpy.sqrt((x1**2).sum(1) * (x2**2).sum(1))


def np_pixel_shuffle(p, x):
    n, c, h, w = x.shape
    return x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


def np_unfold(p, x):
    result = np_windows(x, 2)  # N, C, h, w, 4
    return result.transpose(0, 1, 4, 2, 3).reshape(len(x), -1, result.shape[2] * result.shape[3])


def np_bags(p, indices, offsets):
    return numpy.stack([p.weight[bag].mean(0) for bag in numpy.split(indices, offsets[1:])])


def indices(*shape, rows=5):
    return lambda rng: [rng.integers(0, rows, shape)]


LINEAR = [
    Row("Identity", (54, "anything"), {"more": 1}, [(2, 3)], reference=lambda p, x: x, text="Identity()"),
    Row(
        "Linear",
        (3, 2),
        shapes=[(4, 3)],
        reference=lambda p, x: x @ p.weight.T + p.bias,
        out=(4, 2),
        text="Linear(in_features=3, out_features=2, bias=True)",
        parameters={"weight": (2, 3), "bias": (2,)},
        errors=[
            error(
                lambda layer: layer(dg.zeros(2, 4)),
                RuntimeError,
                "linear",
                "4 features",
                "(2, 4)",
                "wants 3",
                "Linear(4, 2)",
            ),
            error(lambda layer: layer([1.0, 2.0, 3.0]), TypeError, "linear", "input", "list"),
            error(lambda layer: layer(dg.zeros(2, 3, dtype=dg.float64)), RuntimeError, "float64", "float32"),
        ],
    ),
    Row(
        "Linear",
        (3, 2),
        shapes=[(3,)],
        reference=lambda p, x: x @ p.weight.T + p.bias,
        out=(2,),
        parameters={"weight": (2, 3), "bias": (2,)},
        id="vector",
    ),
    Row(
        "Linear",
        (3, 2),
        {"bias": False},
        [(2, 5, 3)],
        reference=lambda p, x: x @ p.weight.T,
        out=(2, 5, 2),
        text="Linear(in_features=3, out_features=2, bias=False)",
        parameters={"weight": (2, 3)},
        id="nobias",
    ),
    Row(
        "Bilinear",
        (3, 2, 4),
        shapes=[(5, 3), (5, 2)],
        reference=np_bilinear,
        out=(5, 4),
        text="Bilinear(in1_features=3, in2_features=2, out_features=4, bias=True)",
        parameters={"weight": (4, 3, 2), "bias": (4,)},
        errors=[error(lambda layer: layer(dg.zeros(5, 2), dg.zeros(5, 2)), RuntimeError, "ilinear", "3")],
    ),
    Row(
        "Bilinear",
        (3, 2, 4),
        {"bias": False},
        [(5, 3), (5, 2)],
        reference=np_bilinear,
        out=(5, 4),
        parameters={"weight": (4, 3, 2)},
        id="nobias",
    ),
]

LOOKUPS = [
    Row(
        "Embedding",
        (5, 3),
        inputs=indices(2, 4),
        reference=lambda p, x: p.weight[x],
        out=(2, 4, 3),
        text="Embedding(5, 3)",
        parameters={"weight": (5, 3)},
        errors=[
            error(lambda layer: layer(dg.tensor([1, 5])), IndexError, "embedding", "5"),
            error(lambda layer: layer(dg.tensor([1.0])), (RuntimeError, TypeError), "embedding"),
            error(lambda layer: nn.Embedding(5, 3, padding_idx=5), ValueError, "padding_idx", "5"),
            error(lambda layer: nn.Embedding(5, 3, _weight=dg.zeros(2, 3)), ValueError, "(2, 3)", "(5, 3)"),
            error(lambda layer: nn.Embedding.from_pretrained(dg.zeros(3)), ValueError, "2-dimensional", "(3,)"),
        ],
    ),
    Row(
        "Embedding",
        (5, 3),
        {"padding_idx": -1, "max_norm": 90.0, "norm_type": 1.0, "scale_grad_by_freq": True},
        inputs=indices(6),
        reference=lambda p, x: p.weight[x],
        parameters={"weight": (5, 3)},
        smooth=False,  # scaled gradients
        text="Embedding(5, 3, padding_idx=4, max_norm=90.0, norm_type=1.0, scale_grad_by_freq=True)",
        id="options",
    ),
    Row(
        "EmbeddingBag",
        (5, 3),
        inputs=lambda rng: [rng.integers(0, 5, 6), numpy.array([0, 2, 3])],
        reference=np_bags,
        out=(3, 3),
        text="EmbeddingBag(5, 3, mode='mean')",
        parameters={"weight": (5, 3)},
        errors=[error(lambda layer: layer(dg.tensor([1, 2])), ValueError, "offsets")],
    ),
    Row(
        "EmbeddingBag",
        (5, 3),
        {"mode": "sum", "max_norm": 90.0, "norm_type": 1.0, "scale_grad_by_freq": False, "padding_idx": 1},
        inputs=lambda rng: [numpy.array([[0, 1], [1, 4]])],
        reference=lambda p, x: p.weight[[0, 4]],
        parameters={"weight": (5, 3)},
        text="EmbeddingBag(5, 3, max_norm=90.0, norm_type=1.0, mode='sum', padding_idx=1)",
        id="sum",
    ),
]

SHAPES = [
    Row(
        "Flatten", shapes=[(2, 3, 4)], reference=lambda p, x: x.reshape(2, 12), text="Flatten(start_dim=1, end_dim=-1)"
    ),
    Row(
        "Flatten",
        (0, 1),
        shapes=[(2, 3, 4)],
        reference=lambda p, x: x.reshape(6, 4),
        text="Flatten(start_dim=0, end_dim=1)",
        id="dims",
    ),
    Row(
        "Unflatten",
        (1, (2, 3)),
        shapes=[(4, 6)],
        out=(4, 2, 3),
        reference=lambda p, x: x.reshape(4, 2, 3),
        text="Unflatten(dim=1, unflattened_size=(2, 3))",
        errors=[
            error(lambda layer: nn.Unflatten(1, 6), TypeError, "tuple of ints", "int"),
            error(lambda layer: nn.Unflatten(1, (2.0, 3)), TypeError, "float", "position 0"),
            error(lambda layer: layer(dg.zeros(4, 7)), RuntimeError, "unflatten", "7"),
        ],
    ),
    Row(
        "PixelShuffle",
        (2,),
        shapes=[(2, 8, 2, 3)],
        reference=np_pixel_shuffle,
        out=(2, 2, 4, 6),
        text="PixelShuffle(upscale_factor=2)",
        errors=[error(lambda layer: layer(dg.zeros(1, 3, 2, 2)), RuntimeError, "pixel_shuffle", "3")],
    ),
    Row(
        "PixelUnshuffle",
        (2,),
        shapes=[(1, 2, 4, 6)],
        out=(1, 8, 2, 3),
        text="PixelUnshuffle(downscale_factor=2)",
        errors=[error(lambda layer: layer(dg.zeros(1, 1, 3, 2)), RuntimeError, "pixel_unshuffle", "3")],
    ),
    Row(
        "ChannelShuffle",
        (2,),
        shapes=[(1, 4, 2, 2)],
        reference=lambda p, x: x[:, [0, 2, 1, 3]],
        text="ChannelShuffle(groups=2)",
    ),
    Row(
        "Upsample",
        (),
        {"scale_factor": 2},
        [(1, 2, 3)],
        reference=lambda p, x: x.repeat(2, 2),
        out=(1, 2, 6),
        text="Upsample(scale_factor=2.0, mode='nearest')",
    ),
    Row(
        "Upsample",
        ((4, 6),),
        {"mode": "bilinear"},
        [(1, 2, 2, 3)],
        out=(1, 2, 4, 6),
        text="Upsample(size=(4, 6), mode='bilinear')",
        id="bilinear",
    ),
    Row(
        "UpsamplingNearest2d",
        (),
        {"scale_factor": 2},
        [(1, 1, 2, 2)],
        reference=lambda p, x: x.repeat(2, 2).repeat(2, 3),
        text="UpsamplingNearest2d(scale_factor=2.0, mode='nearest')",
    ),
    Row(
        "UpsamplingBilinear2d",
        (3,),
        shapes=[(1, 1, 2, 2)],
        out=(1, 1, 3, 3),
        text="UpsamplingBilinear2d(size=3, mode='bilinear')",
        reference=lambda p, x: (
            numpy.stack([x[..., 0, :], x.mean(-2), x[..., 1, :]], -2) @ numpy.array([[1, 0.5, 0], [0, 0.5, 1]])
        ),
    ),
    Row(
        "Unfold",
        (2,),
        {"stride": 2},
        [(1, 2, 4, 4)],
        reference=np_unfold,
        out=(1, 8, 4),
        text="Unfold(kernel_size=2, dilation=1, padding=0, stride=2)",
    ),
    Row(
        "Fold",
        ((4, 4), 2),
        {"stride": 2},
        [(1, 8, 4)],
        out=(1, 2, 4, 4),
        text="Fold(output_size=(4, 4), kernel_size=2, dilation=1, padding=0, stride=2)",
    ),
    Row("CosineSimilarity", shapes=[(3, 4), (3, 4)], reference=np_cosine, out=(3,), text="CosineSimilarity()"),
    Row(
        "PairwiseDistance",
        shapes=[(3, 4), (3, 4)],
        reference=lambda p, a, b: numpy.sqrt(((a - b + 1e-6) ** 2).sum(1)),
        out=(3,),
        text="PairwiseDistance()",
    ),
    Row(
        "PairwiseDistance",
        (1,),
        {"keepdim": True},
        [(3, 4), (3, 4)],
        out=(3, 1),
        id="options",
        reference=lambda p, a, b: abs(a - b + 1e-6).sum(1, keepdims=True),
    ),
]

MODES = {"Reflection": "reflect", "Replication": "edge", "Circular": "wrap", "Zero": "constant"}
PADDING = [
    Row(f"{kind}Pad{rank}d", (1,), shapes=[(2, 2, 3, 4, 3)[: rank + 2]], text=f"{kind}Pad{rank}d({(1,) * 2 * rank})",
        reference=lambda p, x, rank=rank, mode=mode: numpy.pad(x, [(0, 0)] * 2 + [(1, 1)] * rank, mode=mode))
    for kind, mode in MODES.items()
    for rank in (1, 2, 3)
]  # fmt: skip
PADDING += [
    Row(
        "ConstantPad1d",
        ((0, 2), 3.5),
        shapes=[(2, 3)],
        text="ConstantPad1d(padding=(0, 2), value=3.5)",
        out=(2, 5),
        reference=lambda p, x: numpy.pad(x, [(0, 0), (0, 2)], constant_values=3.5),
    ),
    Row(
        "ConstantPad2d",
        ((1, 0, 2, -1), 3.5),
        shapes=[(2, 3, 3)],
        text="ConstantPad2d(padding=(1, 0, 2, -1), value=3.5)",
        reference=lambda p, x: numpy.pad(x[:, :-1], [(0, 0), (2, 0), (1, 0)], constant_values=3.5),
        errors=[error(lambda layer: nn.ConstantPad2d((1, 2), 0.0), ValueError, "ConstantPad2d", "4", "(1, 2)")],
    ),
    Row(
        "ConstantPad3d",
        (1, 3.5),
        shapes=[(1, 2, 2, 2)],
        text="ConstantPad3d(padding=(1, 1, 1, 1, 1, 1), value=3.5)",
        out=(1, 4, 4, 4),
    ),
]

DROPOUTS = [
    Row(name, (0.3,), shapes=[shape], reference=lambda p, x: x, random=True, text=f"{name}(p=0.3, inplace=False)",
        errors=[error(lambda layer: type(layer)(1.5), ValueError, "between 0 and 1", "1.5")])
    for name, shape in {"Dropout": (3, 4), "Dropout1d": (2, 3, 4), "Dropout2d": (2, 3, 4, 4), "Dropout3d": (2, 3, 2, 2, 2),
                        "AlphaDropout": (3, 4), "FeatureAlphaDropout": (2, 3, 4)}.items()
]  # fmt: skip

ROWS = LINEAR + LOOKUPS + SHAPES + PADDING + DROPOUTS
test_rows = generate(ROWS)


def test_dropout_in_training_keeps_the_mean_and_zeroes_a_share():
    x = dg.ones(100, 1000)
    out = nn.Dropout(0.25)(x)
    kept = out != 0
    assert abs(float(kept.float().mean()) - 0.75) < 0.01
    assert bool((out[kept] == dg.tensor(1 / 0.75)).all())


@pytest.mark.parametrize(
    ("name", "shape"), [("Dropout1d", (40, 50, 3)), ("Dropout2d", (40, 50, 3, 2)), ("Dropout3d", (40, 50, 1, 3, 2))]
)
def test_channel_dropout_drops_whole_channels(name, shape):
    out = getattr(nn, name)(0.5)(dg.ones(*shape)).reshape(2000, -1)
    assert bool(((out == 0).all(1) | (out == 2).all(1)).all())
    assert 0.4 < float((out[:, 0] == 0).float().mean()) < 0.6


def test_dropout_inplace_writes_into_its_input():
    x = dg.ones(1000)
    assert nn.Dropout(0.5, inplace=True)(x) is x
    assert float((x == 0).float().mean()) > 0.3


def test_padding_row_of_an_embedding_starts_at_zero_and_gets_no_gradient():
    layer = nn.Embedding(4, 2, padding_idx=1)
    assert layer.weight[1].tolist() == [0.0, 0.0]
    layer(dg.tensor([0, 1, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_embedding_from_pretrained_shares_and_freezes():
    table = dg.randn(4, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad and layer.weight.data_ptr() == table.data_ptr()
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_sparse_prints_and_gives_sparse_gradients():
    layer = nn.Embedding(4, 2, sparse=True)
    layer(dg.tensor([0, 0])).sum().backward()
    assert repr(layer) == "Embedding(4, 2, sparse=True)" and layer.weight.grad.to_dense().tolist() == [
        [2, 2],
        [0, 0],
        [0, 0],
        [0, 0],
    ]


def test_max_norm_shrinks_looked_up_rows_only():
    layer = nn.Embedding.from_pretrained(dg.full((3, 4), 2.0), max_norm=1.0)
    layer(dg.tensor([1]))
    assert layer.weight.norm(dim=1).tolist() == pytest.approx([4.0, 1.0, 4.0], abs=1e-5)


def test_fold_sums_what_unfold_cut():
    x = dg.randn(1, 2, 4, 4)
    cut = nn.Unfold(3, padding=1)
    count = nn.Fold((4, 4), 3, padding=1)(cut(dg.ones_like(x)))
    assert dg.allclose(nn.Fold((4, 4), 3, padding=1)(cut(x)), x * count, atol=1e-5)


def test_pixel_unshuffle_undoes_pixel_shuffle():
    x = dg.randn(2, 8, 3, 2)
    assert dg.equal(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)), x)


def test_linear_uses_a_weight_that_became_an_attribute():
    layer = nn.Linear(2, 2, bias=False)
    weight = layer.weight
    del layer.weight
    layer.weight = weight * 2
    x = dg.ones(1, 2)
    assert dg.allclose(layer(x), x @ (weight * 2).T)
