"""MultiheadAttention, Transformer, weight_norm and spectral_norm against PyTorch's with the same weights."""

import itertools

import numpy
import pytest
import torch

import dynograd
from dynograd import nn

E, HEADS, B, L, S = 8, 2, 3, 4, 5


def same_weights(ours, theirs):
    theirs.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in ours.state_dict().items()})
    return ours.double(), theirs.double()


def tensors(library, *shapes):
    rng = numpy.random.default_rng(0)
    return [library.from_numpy(rng.normal(size=shape)).requires_grad_() for shape in shapes]


def check(results, wanted):
    for name, element in results.items():
        other = wanted[name]
        assert (element is None) == (other is None), name
        if element is not None:
            numpy.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), atol=1e-9, err_msg=name)


OPTIONS = [
    dict(zip(("bias", "add_bias_kv", "add_zero_attn", "batch_first"), values))
    for values in itertools.product([True, False], repeat=4)
] + [{"kdim": 3}, {"vdim": 5, "kdim": 7, "bias": False}]
MASKS = ["none", "keys", "square", "heads", "numbers", "both"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_multihead_attention(options, mask):
    ours, theirs = same_weights(
        nn.MultiheadAttention(E, HEADS, **options), torch.nn.MultiheadAttention(E, HEADS, **options)
    )
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    rng = numpy.random.default_rng(0)
    keys = numpy.arange(S) >= numpy.array([5, 3, 1])[:, None]
    square = rng.random((L, S)) < 0.5
    square[:, 0] = False
    heads = rng.random((B * HEADS, L, S)) < 0.5
    heads[..., 0] = False
    argument = {
        "keys": (keys, None),
        "square": (None, square),
        "heads": (None, heads),
        "numbers": (None, rng.normal(size=(L, S))),
    }
    padding, attn = argument.get(mask, (keys, square) if mask == "both" else (None, None))
    for weights, average in ((True, True), (True, False), (False, True)):
        outcomes = []
        for library, layer in ((dynograd, ours), (torch, theirs)):
            layer.zero_grad()
            order = (1, 0) if layer.batch_first else (0, 1)
            sizes = ((L, B)[order[0]], (L, B)[order[1]]), ((S, B)[order[0]], (S, B)[order[1]])
            q, k, v = tensors(library, (*sizes[0], E), (*sizes[1], layer.kdim), (*sizes[1], layer.vdim))
            masks = [None if element is None else library.from_numpy(element) for element in (padding, attn)]
            output, result = layer(q, k, v, masks[0], weights, masks[1], average)
            (output.sin().sum() + (0 if result is None else result.square().sum())).backward()
            values = {"output": output, "weights": result, "q": q.grad, "k": k.grad, "v": v.grad}
            outcomes.append(values | {name: element.grad for name, element in layer.named_parameters()})
        check(*outcomes)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [dict(zip(("batch_first", "norm_first", "activation", "bias"), values)) for values in itertools.product(
        [True, False], [True, False], ["relu", "gelu"], [True, False])],
    ids=str,
)  # fmt: skip
def test_transformer(options, training):
    args = (E, HEADS, 2, 2, 16, 0.0)
    ours, theirs = same_weights(nn.Transformer(*args, **options), torch.nn.Transformer(*args, **options))
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    outcomes = []
    for library, model in ((dynograd, ours), (torch, theirs)):
        model.train(training)
        src, tgt = tensors(library, *[(B, S, E), (B, L, E)] if model.batch_first else [(S, B, E), (L, B, E)])
        padding = library.from_numpy(numpy.arange(S) >= numpy.array([5, 3, 1])[:, None])
        mask = model.generate_square_subsequent_mask(L, dtype=library.float64)
        output = model(src, tgt, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        output.sin().sum().backward()
        outcomes.append(
            {"output": output, "src": src.grad, "tgt": tgt.grad}
            | {name: element.grad for name, element in model.named_parameters()}
        )
    check(*outcomes)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["MultiheadAttention", "Transformer"])
def test_starting_values_have_the_same_distribution(name):
    dynograd.manual_seed(0), torch.manual_seed(0)
    args = (64, 4) if name == "MultiheadAttention" else (64, 4, 1, 1, 128)
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, mine), (other_key, value) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert key == other_key
        mine, value = mine.detach().double().numpy(), value.detach().double().numpy()
        near = 6 / mine.size**0.5
        assert abs(mine).max() == pytest.approx(abs(value).max(), rel=near), key
        assert (mine**2).mean() == pytest.approx((value**2).mean(), rel=near), key


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [("Linear", (5, 4), (3, 5)), ("Conv1d", (5, 4, 2), (3, 5, 6)), ("ConvTranspose1d", (5, 4, 2), (3, 5, 6))],
)
@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_normed_weights(kind, name, args, shape):
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    getattr(nn.utils, kind)(ours), getattr(torch.nn.utils, kind)(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours, theirs = same_weights(ours, theirs)
    outcomes = []
    for library, layer in ((dynograd, ours), (torch, theirs)):
        (x,) = tensors(library, shape)
        layer(x)
        layer(x).sin().sum().backward()
        values = {key: element.grad for key, element in layer.named_parameters()} | dict(layer.named_buffers())
        outcomes.append(values | {"output": layer.eval()(x), "x": x.grad})
    check(*outcomes)
