"""Numbers that must be whole, truth values, and tensors that are None: refused with the name of the argument and what it was."""

import numpy
import pytest

import dynograd
from dynograd import ones
from dynograd.nn import functional as F

WHOLE = {
    "tril diagonal": lambda value: dynograd.tril(ones(3, 3), value),
    "topk k": lambda value: dynograd.topk(ones(3, 3), value),
    "kthvalue k": lambda value: dynograd.kthvalue(ones(3), value),
    "rot90 k": lambda value: dynograd.rot90(ones(3, 3), value),
    "cov correction": lambda value: dynograd.cov(ones(3, 3), correction=value),
    "round decimals": lambda value: dynograd.round(ones(3), decimals=value),
    "polygamma n": lambda value: dynograd.polygamma(value, ones(3)),
    "eye m": lambda value: dynograd.eye(2, value),
    "randint_like low": lambda value: dynograd.randint_like(ones(3), value, 9),
    "randint high": lambda value: dynograd.randint(0, value, (3,)),
    "avg_pool2d divisor_override": lambda value: F.avg_pool2d(ones(1, 2, 2), 2, divisor_override=value),
    "embedding_bag padding_idx": lambda value: F.embedding_bag(ones(1, 2).long(), ones(3, 2), padding_idx=value),
}
TRUTH = {
    "sum keepdim": lambda value: ones(2, 2).sum(0, keepdim=value),
    "max keepdim": lambda value: dynograd.max(ones(2, 2), 0, value),
    "mean keepdim": lambda value: dynograd.mean(ones(2, 2), (0, 1), value),
    "argmax keepdim": lambda value: ones(2, 2).argmax(0, value),
}
TENSORS = {
    "positive input": lambda: dynograd.positive(None),
    "resolve_conj input": lambda: dynograd.resolve_conj(None),
    "resolve_neg input": lambda: dynograd.resolve_neg(None),
    "feature_alpha_dropout input": lambda: F.feature_alpha_dropout(None),
    "multi_head_attention_forward in_proj_weight": lambda: attended(in_proj_weight=None),
    "_safe_softmax self": lambda: dynograd.ops.aten._safe_softmax(None, 0),
}
PAIRS = {
    "batch_norm running_mean running_var": lambda: F.batch_norm(ones(2, 2), None, ones(2), training=True),
    "instance_norm running_var running_mean": lambda: F.instance_norm(ones(2, 2, 2), ones(2), None),
    "bias_k bias_v both None": lambda: attended(bias_k=ones(1, 1, 2)),
}


def attended(bias_k=None, **given):
    x, in_proj_weight = ones(3, 1, 2), given.get("in_proj_weight", ones(6, 2))
    return F.multi_head_attention_forward(
        x, x, x, 2, 1, in_proj_weight, None, bias_k, None, False, 0.0, ones(2, 2), None
    )


def rows(table):
    return pytest.mark.parametrize(
        ("words", "call"), table.items(), ids=[element.replace(" ", "-") for element in table]
    )


@rows(WHOLE)
@pytest.mark.parametrize("again", [False, True])  # the second call of a function may go a shorter way
def test_numbers_that_must_be_whole(words, call, again):
    name = words.split()[1]
    for value in (1.5, "2"):
        for _ in range(1 + again):
            with pytest.raises(TypeError, match=rf"argument '{name}' must be an int, not \w+ \({value!r}\)"):
                call(value)
    for value in (1, numpy.int32(1), dynograd.tensor(1)):
        call(value)


@rows(TRUTH)
def test_truth_values(words, call):
    who, name = words.split()
    for value in (1.5, "False", None, 2):
        for _ in range(2):
            with pytest.raises(TypeError, match=rf"{who}\(\): argument '{name}' must be a bool, not \w+ \({value!r}\)"):
                call(value)
    for value in (True, numpy.True_, 1):
        assert getattr(call(value), "values", call(value)) is not None


@rows(TENSORS)
def test_tensors_that_are_missing(words, call):
    with pytest.raises(TypeError, match=rf"argument '{words.split()[1]}' must be Tensor, not NoneType \(None\)"):
        call()


@rows(PAIRS)
def test_what_comes_in_pairs(words, call):
    with pytest.raises(ValueError, match="both be None or neither be None") as caught:
        call()
    assert all(word in str(caught.value) for word in words.split())
