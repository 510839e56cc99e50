"""Initial weights come from PyTorch's distributions: Kolmogorov and Smirnov's test of two samples, for every init and every layer.

Seeds are fixed, so the outcome is too. Values that are constant or take few values are compared as they are.
"""

import numpy
import pytest
import torch

import dynograd

scipy_stats = pytest.importorskip("scipy.stats")

INITS = [
    ("uniform_", {"a": -1.0, "b": 3.0}),
    ("normal_", {"mean": 1.0, "std": 0.2}),
    ("trunc_normal_", {}),
    ("trunc_normal_", {"mean": 0.5, "std": 0.5, "a": -0.4, "b": 1.0}),
    ("xavier_uniform_", {"gain": 1.5}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {"a": 0.3, "mode": "fan_out"}),
    ("kaiming_uniform_", {"nonlinearity": "relu"}),
    ("kaiming_normal_", {"nonlinearity": "tanh"}),
    ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "selu"}),
    ("orthogonal_", {"gain": 2.0}),
    ("sparse_", {"sparsity": 0.3}),
    ("constant_", {"val": 0.7}),
    ("ones_", {}),
    ("zeros_", {}),
    ("eye_", {}),
]
LAYERS = [
    ("Linear", (120, 100)),
    ("Bilinear", (20, 15, 30)),
    ("Conv1d", (30, 40, 5)),
    ("Conv2d", (30, 40, 3)),
    ("Conv3d", (10, 20, 3)),
    ("ConvTranspose1d", (30, 40, 5)),
    ("ConvTranspose2d", (30, 40, 3)),
    ("ConvTranspose3d", (10, 20, 3)),
    ("Embedding", (120, 100, 0)),
    ("EmbeddingBag", (120, 100)),
    ("RNN", (50, 40, 2)),
    ("LSTM", (50, 40, 1, True, False, 0.0, True, 20)),
    ("GRU", (50, 40)),
    ("RNNCell", (50, 40)),
    ("LSTMCell", (50, 40)),
    ("GRUCell", (50, 40)),
    ("MultiheadAttention", (60, 3)),
    ("TransformerEncoderLayer", (32, 2, 64)),
    ("TransformerDecoderLayer", (32, 2, 64)),
    ("Transformer", (16, 2, 1, 1, 32)),
    ("AdaptiveLogSoftmaxWithLoss", (40, 200, [20, 80])),
    ("BatchNorm2d", (50,)),
    ("InstanceNorm1d", (50, 1e-5, 0.1, True)),
    ("GroupNorm", (5, 50)),
    ("LayerNorm", (50,)),
    ("RMSNorm", (50,)),
    ("PReLU", (30,)),
    ("LinearCrossEntropyLoss", (40, 60)),
]


def assert_alike(mine, theirs, what):
    mine, theirs = (numpy.asarray(element, "float64").reshape(-1) for element in (mine, theirs))
    assert mine.size == theirs.size, what
    if len(set(theirs.tolist())) <= 2:
        numpy.testing.assert_allclose(numpy.sort(mine), numpy.sort(theirs), err_msg=what)
    elif mine.size >= 30:
        result = scipy_stats.ks_2samp(mine, theirs)
        assert result.pvalue > 1e-3, f"{what}: {result}"
        assert abs(mine).max() <= abs(theirs).max() * (1.5 if mine.size < 1000 else 1.3), what


@pytest.mark.parametrize(("name", "options"), INITS, ids=lambda one: str(one))
def test_inits(name, options):
    dynograd.manual_seed(3), torch.manual_seed(4)
    mine = getattr(dynograd.nn.init, name)(dynograd.empty(150, 100), **options)
    theirs = getattr(torch.nn.init, name)(torch.empty(150, 100), **options)
    assert_alike(mine.numpy(), theirs.numpy(), name)


def test_dirac_is_the_same():
    for shape, groups in (((4, 2, 3), 2), ((3, 5, 3, 4), 1), ((4, 4, 3, 3, 2), 4)):
        mine = dynograd.nn.init.dirac_(dynograd.empty(*shape), groups)
        assert mine.tolist() == torch.nn.init.dirac_(torch.empty(*shape), groups).tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "args"), LAYERS, ids=[name for name, _ in LAYERS])
def test_layers(name, args):
    dynograd.manual_seed(5), torch.manual_seed(6)
    ours, theirs = getattr(dynograd.nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, mine), (_, value) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert_alike(mine.detach().numpy(), value.detach().numpy(), f"{name}.{key}")


def test_the_same_seed_gives_the_same_weights():
    result = []
    for seed in (7, 7, 8):
        dynograd.manual_seed(seed)
        result.append(dynograd.nn.Linear(5, 4).weight.tolist())
    assert result[0] == result[1] != result[2]
