"""Every layer against PyTorch's with the same weights: values, gradients, modes, state_dict, text, fields, starting values."""

import inspect
import itertools

import numpy
import pytest
import torch

import dynograd
from dynograd import nn
from tests.nn import test_activation, test_conv, test_layers, test_loss, test_normalization, test_pooling
from tests.nn.rows import Row, arrays_of, build

IMAGE = {1: (2, 4, 9), 2: (2, 4, 7, 8), 3: (1, 4, 4, 5, 6)}


def grid(**choices):
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]


def conv_grid():
    for rank, options in itertools.product(
        (1, 2, 3), grid(stride=[1, 2], padding=[0, 1], dilation=[1, 2], groups=[1, 2, 4])
    ):
        yield Row(f"Conv{rank}d", (4, 4, 2), options, [IMAGE[rank]])
        yield Row(f"ConvTranspose{rank}d", (4, 4, 3), options, [IMAGE[rank][:2] + (3,) * rank])
    for mode, padding in itertools.product(["zeros", "reflect", "replicate", "circular"], ["same", "valid", (2, 1)]):
        yield Row("Conv2d", (4, 2, (4, 3)), {"padding": padding, "padding_mode": mode}, [IMAGE[2]])


def pool_grid():
    for rank in (1, 2, 3):
        for options in grid(kernel_size=[2, 3], stride=[None, 1, 2], padding=[0, 1], ceil_mode=[False, True]):
            yield Row(f"MaxPool{rank}d", (), {**options, "return_indices": True}, [IMAGE[rank]])
            yield Row(f"AvgPool{rank}d", (), options, [IMAGE[rank]])
            yield Row(f"AvgPool{rank}d", (), {**options, "count_include_pad": False}, [IMAGE[rank]])
        for size in (1, 3, 4):
            yield Row(f"AdaptiveAvgPool{rank}d", (size,), shapes=[IMAGE[rank]])
            yield Row(f"AdaptiveMaxPool{rank}d", (size,), {"return_indices": True}, [IMAGE[rank]])
        for options in grid(norm_type=[1, 2, 3], kernel_size=[2], stride=[None, 1], ceil_mode=[False, True]):
            yield Row(f"LPPool{rank}d", (), options, [IMAGE[rank]], domain=(0.1, 2.0))


def norm_grid():
    shapes = {1: (5, 4, 3), 2: (3, 4, 3, 2), 3: (2, 4, 2, 2, 3)}
    for rank, options in itertools.product(
        (1, 2, 3),
        grid(affine=[True, False], track_running_stats=[True, False], momentum=[0.1, None, 0.7], bias=[True, False]),
    ):
        for kind in ("Batch", "Instance"):
            yield Row(f"{kind}Norm{rank}d", (4,), {**options, "eps": 1e-3}, [shapes[rank]])
    for options in grid(num_groups=[1, 2, 4], affine=[True, False], bias=[True, False]):
        yield Row("GroupNorm", (), {**options, "num_channels": 4}, [shapes[2]])
    for options in grid(normalized_shape=[(4,), (2, 4)], elementwise_affine=[True, False]):
        yield Row("LayerNorm", (), {**options, "bias": True, "eps": 1e-2}, [(3, 2, 4)])
        yield Row("RMSNorm", (), options, [(3, 2, 4)])
    for size in (1, 2, 3, 5):
        yield Row("LocalResponseNorm", (size, 0.3, 0.5, 2.0), shapes=[shapes[2]])


def resampling_grid():
    for mode, rank in [
        ("nearest", 1),
        ("nearest", 2),
        ("nearest", 3),
        ("linear", 1),
        ("bilinear", 2),
        ("bicubic", 2),
        ("trilinear", 3),
    ]:
        for options in grid(align_corners=[None] if mode == "nearest" else [False, True]):
            yield Row("Upsample", (), {"scale_factor": 2, "mode": mode, **options}, [IMAGE[rank]])
            yield Row("Upsample", (), {"size": 5, "mode": mode, **options}, [IMAGE[rank]])
    for options in grid(kernel_size=[2, (3, 2)], dilation=[1, 2], padding=[0, 1], stride=[1, 2]):
        yield Row("Unfold", (), options, [IMAGE[2]])
    yield Row("Fold", ((5, 6), (2, 3)), {"padding": 1, "stride": 2}, [(2, 12, 9)])


def loss_grid():
    size = (5, 4)
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss"):
        for how in ("mean", "sum", "none"):
            yield Row(name, (), {"reduction": how}, [size, size])
    for options in grid(log_input=[True, False], full=[True, False]):
        yield Row("PoissonNLLLoss", (), options, [size, size], domain=(0.5, 3.0))
    for how, full in itertools.product(("mean", "sum", "none"), (True, False)):
        yield Row("GaussianNLLLoss", (), {"reduction": how, "full": full}, [size] * 3, domain=(0.5, 2.0))
    for how, target in itertools.product(("mean", "sum", "none", "batchmean"), (True, False)):
        yield Row("KLDivLoss", (), {"reduction": how, "log_target": target}, [size, size], domain=(0.1, 0.9))
    weight = numpy.array([0.5, 1.0, 2.0, 0.25])
    for options in grid(
        weight=[None, weight], ignore_index=[-100, 1], reduction=["mean", "sum", "none"], label_smoothing=[0.0, 0.3]
    ):
        for shape in ((5, 4), (2, 4, 3), (2, 4, 2, 2), (4,)):
            targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
            yield Row(
                "CrossEntropyLoss",
                (),
                options,
                inputs=lambda rng, shape=shape, targets=targets: [
                    rng.normal(size=shape),
                    numpy.asarray(rng.integers(0, 4, targets)),
                ],
            )
            if len(shape) > 1 and options["ignore_index"] < 0:
                yield Row(
                    "CrossEntropyLoss",
                    (),
                    options,
                    inputs=lambda rng, shape=shape: [rng.normal(size=shape), rng.uniform(0, 1, shape)],
                )
        if not options.pop("label_smoothing"):
            yield Row(
                "NLLLoss", (), options, inputs=lambda rng: [rng.normal(size=(3, 4, 2)), rng.integers(0, 4, (3, 2))]
            )
    signs = lambda rng: numpy.sign(rng.normal(size=5))  # noqa: E731
    for how in ("mean", "sum", "none"):
        yield Row(
            "MarginRankingLoss",
            (0.2, None, None, how),
            inputs=lambda rng: [rng.normal(size=5), rng.normal(size=5), signs(rng)],
            constants=(2,),
        )
        yield Row(
            "HingeEmbeddingLoss",
            (0.5, None, None, how),
            inputs=lambda rng: [rng.normal(size=5), signs(rng)],
            constants=(1,),
        )
        yield Row(
            "CosineEmbeddingLoss",
            (0.2, None, None, how),
            inputs=lambda rng: [rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), signs(rng)],
            constants=(2,),
        )
        yield Row(
            "SoftMarginLoss", (None, None, how), inputs=lambda rng: [rng.normal(size=5), signs(rng)], constants=(1,)
        )
        for p, element in itertools.product((1, 2), (None, weight)):
            yield Row(
                "MultiMarginLoss",
                (p, 0.7, element, None, None, how),
                inputs=lambda rng: [rng.normal(size=(5, 4)), rng.integers(0, 4, 5)],
            )
        yield Row(
            "MultiLabelSoftMarginLoss",
            (weight, None, None, how),
            inputs=lambda rng: [rng.normal(size=(5, 4)), rng.integers(0, 2, (5, 4)).astype(float)],
            constants=(1,),
        )
        yield Row(
            "MultiLabelMarginLoss",
            (None, None, how),
            inputs=lambda rng: [rng.normal(size=(2, 4)), numpy.array([[3, 0, -1, 1], [0, 1, 2, 3]])],
        )
        for p, swap in itertools.product((1.0, 2.0), (True, False)):
            yield Row("TripletMarginLoss", (1.0, p, 1e-6, swap, None, None, how), shapes=[(5, 4)] * 3)
        yield Row("BCELoss", (weight, None, None, how), shapes=[size, size], domain=(0.1, 0.9))
        yield Row("BCEWithLogitsLoss", (weight, None, None, how, weight), shapes=[size, size], constants=(1,))


def other_grid():
    for bias, shape in itertools.product((True, False), ((3,), (2, 3), (2, 4, 3), (0, 3))):
        yield Row("Linear", (3, 5, bias), shapes=[shape])
    for options in grid(padding_idx=[None, 1], max_norm=[None, 0.5], scale_grad_by_freq=[False, True]):
        yield Row("Embedding", (5, 3), options, inputs=lambda rng: [rng.integers(0, 5, (3, 4))])
    for mode, last in itertools.product(("sum", "mean", "max"), (True, False)):
        yield Row(
            "EmbeddingBag",
            (5, 3),
            {"mode": mode, "include_last_offset": last},
            inputs=lambda rng, last=last: [rng.integers(0, 5, 6), numpy.array([0, 2, 2, 6] if last else [0, 2, 2])],
        )
    for dim in (0, 1, -1):
        yield Row("CosineSimilarity", (dim,), shapes=[(3, 4), (3, 4)])
        for name in ("Softmax", "LogSoftmax", "Softmin"):
            yield Row(name, (dim,), shapes=[(3, 4)])
    for p, keep in itertools.product((1.0, 2.0, 3.0), (True, False)):
        yield Row("PairwiseDistance", (p, 1e-3, keep), shapes=[(3, 4), (3, 4)])
    for name in ("Reflection", "Replication", "Circular", "Zero"):
        yield Row(f"{name}Pad2d", ((1, 2, 3, 0),), shapes=[IMAGE[2]])


TABLES = [test_layers, test_activation, test_normalization, test_conv, test_pooling, test_loss]
ROWS = [row for module in TABLES for row in module.ROWS]
for make in (conv_grid, pool_grid, norm_grid, resampling_grid, loss_grid, other_grid):
    ROWS += list(make())


def label(row):
    shown = [*map(str, row.args), *[f"{name}={value}" for name, value in row.kwargs.items()], row.id]
    return f"{row.name}({', '.join(shown)})".replace("\n", "")


def theirs(row, ours):
    """PyTorch's layer with the values of ours."""
    convert = lambda value: torch.from_numpy(value.copy()) if isinstance(value, numpy.ndarray) else value  # noqa: E731
    layer = getattr(torch.nn, row.name)(
        *map(convert, row.args), **{name: convert(value) for name, value in row.kwargs.items()}
    )
    layer.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in ours.state_dict().items()})
    return layer.double()


def run(library, row, layer, arrays):
    inputs = [library.from_numpy(numpy.array(array)) for array in arrays]
    leaves = [
        element.requires_grad_()
        for place, element in enumerate(inputs)
        if element.is_floating_point() and place not in row.constants
    ]
    called = [operand * 1.0 if operand.requires_grad else operand for operand in inputs]
    result = layer(*called)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    total = 0.0
    for output in outputs:
        if output.is_floating_point():
            factors = numpy.cos(numpy.arange(output.numel())).reshape(tuple(output.shape)) + 1.5
            total = total + (output * library.from_numpy(numpy.asarray(factors))).sum()
    if getattr(total, "requires_grad", False):
        total.backward()
    values = {f"output {place}": element for place, element in enumerate(outputs)}
    values |= {f"gradient of input {place}": element.grad for place, element in enumerate(leaves)}
    values |= {f"gradient of {name}": element.grad for name, element in layer.named_parameters()}
    values |= dict(layer.named_buffers())
    return {name: None if element is None else element.detach().numpy() for name, element in values.items()}


def same(results, wanted, atol=1e-9):
    assert list(results) == list(wanted)
    for name, element in results.items():
        other = wanted[name]
        if element is None or other is None:
            assert element is other, name
            continue
        assert element.shape == other.shape and element.dtype == other.dtype, (
            f"{name}: {element.shape} {element.dtype}, torch {other.shape} {other.dtype}"
        )
        numpy.testing.assert_allclose(element, other, atol=atol, rtol=1e-7, err_msg=name)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_values_and_gradients(row, training):
    if training and row.random:
        return
    ours = build(row).double()
    other = theirs(row, ours)
    arrays = arrays_of(row)
    result, expected = run(dynograd, row, ours.train(training), arrays), run(torch, row, other.train(training), arrays)
    same(result, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_text_state_and_fields(row):
    ours = build(row)
    other = theirs(row, ours).float()
    assert repr(ours) == repr(other)
    assert list(ours.state_dict()) == list(other.state_dict())
    for name, value in other.state_dict().items():
        assert tuple(ours.state_dict()[name].shape) == tuple(value.shape)
    fields = {name: value for name, value in vars(other).items() if not name.startswith("_") and not callable(value)}
    mine = {name: getattr(ours, name) for name in fields if hasattr(ours, name)}
    assert mine == {name: fields[name] for name in mine} and set(mine) >= set(fields) - {"transposed", "name"}
    back = {name: dynograd.from_numpy(value.numpy().copy()) for name, value in other.state_dict().items()}
    assert repr(ours.load_state_dict(back)) == "<All keys matched successfully>"


# --- starting values ---------------------------------------------------------------------------------------------------------

STARTS = [
    ("Linear", (300, 200)),
    ("Bilinear", (40, 30, 50)),
    ("Conv1d", (30, 60, 5)),
    ("Conv2d", (30, 60, 3)),
    ("Conv3d", (10, 20, 3)),
    ("ConvTranspose2d", (30, 60, 3)),
    ("Embedding", (300, 100)),
    ("EmbeddingBag", (300, 100)),
    ("LSTM", (50, 60)),
    ("GRU", (50, 60)),
    ("RNN", (50, 60)),
    ("LSTMCell", (50, 60)),
    ("BatchNorm2d", (50,)),
    ("LayerNorm", (50,)),
    ("PReLU", (3,)),
]


@pytest.mark.parametrize(("name", "args"), STARTS, ids=[name for name, _ in STARTS])
def test_starting_values_have_the_same_distribution(name, args):
    dynograd.manual_seed(0), torch.manual_seed(0)
    ours, other = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, mine), (_, value) in zip(ours.named_parameters(), other.named_parameters(), strict=True):
        mine, value = mine.detach().numpy(), value.detach().numpy()
        for moment in (numpy.std, lambda x: numpy.mean(numpy.abs(x)), lambda x: numpy.quantile(numpy.abs(x), 0.95)):
            assert moment(mine) == pytest.approx(moment(value), rel=10 / mine.size**0.5 + 1e-6), key
        assert numpy.abs(mine).max() == pytest.approx(numpy.abs(value).max(), rel=0.3)
        assert abs(mine.mean() - value.mean()) <= 6 * value.std() / mine.size**0.5 + 1e-9


INITS = [
    ("xavier_uniform_", {"gain": 1.5}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"a": 0.3, "mode": "fan_out"}),
    ("kaiming_normal_", {"nonlinearity": "relu"}),
    ("trunc_normal_", {"std": 0.5, "a": -0.4, "b": 1.0}),
    ("orthogonal_", {"gain": 2.0}),
    ("sparse_", {"sparsity": 0.3}),
    ("normal_", {"mean": 1.0, "std": 0.2}),
]


@pytest.mark.parametrize(("name", "options"), INITS, ids=[name for name, _ in INITS])
def test_inits_have_the_same_distribution(name, options):
    dynograd.manual_seed(0), torch.manual_seed(0)
    mine = getattr(nn.init, name)(dynograd.empty(200, 150), **options).numpy()
    value = getattr(torch.nn.init, name)(torch.empty(200, 150), **options).numpy()
    numpy.testing.assert_allclose(
        numpy.quantile(mine, [0.02, 0.25, 0.5, 0.75, 0.98]),
        numpy.quantile(value, [0.02, 0.25, 0.5, 0.75, 0.98]),
        atol=0.05 * value.std(),
    )
    assert mine.std() == pytest.approx(value.std(), rel=0.03)


# --- constructors and containers ---------------------------------------------------------------------------------------------


PARAMETERS = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")  # made by __new__


def classes():
    return sorted(
        name
        for name in nn.__all__
        if inspect.isclass(getattr(nn, name)) and hasattr(torch.nn, name) and name not in PARAMETERS
    )


@pytest.mark.parametrize("name", [kind for kind in classes() if kind not in ("RNN", "LSTM", "GRU", "Module")])
def test_constructors_take_the_same_arguments(name):
    ours, other = (inspect.signature(getattr(library, name).__init__).parameters for library in (nn, torch.nn))
    shown = [
        [
            (element, getattr(value.default, "__name__", value.default))
            for element, value in arguments.items()
            if element[0] != "_"
        ]
        for arguments in (ours, other)
    ]
    assert shown[0] == shown[1]


def model(library):
    L = library.nn
    return L.Sequential(
        L.ModuleList([L.Linear(2, 2), L.Linear(2, 2), L.ReLU(), L.Linear(2, 3), L.Sequential(), L.Sequential()]),
        L.ModuleDict({"b": L.Conv2d(1, 2, 3), "a": L.ModuleList()}),
        L.ParameterList([L.Parameter(library.zeros(2, 3)), library.zeros(1)]),
        L.ParameterDict({"z": L.Parameter(library.zeros(2)), "y": library.ones(1, 1)}),
        L.Sequential(L.LSTM(2, 3), L.Dropout(0.1)),
    )


def test_containers_print_and_name_alike():
    ours, other = model(dynograd), model(torch)
    assert repr(ours) == repr(other).replace("torch.", "dynograd.")
    assert list(ours.state_dict()) == list(other.state_dict())
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in other.named_modules()]
