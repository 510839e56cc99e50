"""`torch.ops.aten`: functions of ours under PyTorch's inner names, and what has only such a name."""

import copy
import math
import pickle

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F

aten = dynograd.ops.aten
close = dynograd.testing.assert_close


def test_names_and_overloads_find_our_functions():
    x = dynograd.tensor([[1.0, -2.0], [3.0, 4.0]])
    assert aten.add(x, x, alpha=2).tolist() == (3 * x).tolist()
    assert aten.add.Tensor(x, 1).tolist() == (x + 1).tolist()
    assert aten.sum.dim_IntList(x, [0], True).tolist() == [[4.0, 2.0]]
    assert aten.view.default(x, [4]).tolist() == [1, -2, 3, 4]
    assert aten.mul(self=x, other=2).tolist() == (2 * x).tolist()
    assert aten.linalg_det(x).item() == pytest.approx(10)
    assert aten.special_erf(x).tolist() == dynograd.erf(x).tolist()
    y = x.clone()
    assert aten.add_(y, 1) is y and y.tolist() == (x + 1).tolist()
    out = dynograd.empty(2, 2)
    assert aten.exp.out(x, out=out) is out
    assert (
        repr(aten.add) == "<OpOverloadPacket(op='aten.add')>"
        and repr(aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    )
    assert aten.add.Tensor.name() == "aten::add.Tensor" and aten.add is aten.add


@pytest.mark.parametrize("operator", [aten.add, aten.add.Tensor, dynograd.ops.dynograd.segment_sum], ids=str)
def test_copies_of_operators_are_themselves(operator):
    """A packet's copy asked its missing table of overloads without end."""
    assert copy.deepcopy({"op": operator})["op"] is operator and copy.copy(operator) is operator
    assert pickle.loads(pickle.dumps(operator)) is operator


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: aten.addd, "'aten' object has no attribute 'addd'. Did you mean"),
        (lambda: aten.add.Foo, "'aten.add' has no overload name 'Foo'"),
        (lambda: aten.gather_backward, "gather_backward"),
    ],
)
def test_unknown_names(call, words):
    with pytest.raises(AttributeError, match=words):
        call()


def test_slice_is_a_view():
    x = dynograd.arange(10.0).reshape(2, 5)
    assert aten.slice(x, 1, 1, -1, 2).tolist() == x[:, 1:-1:2].tolist()
    aten.slice(x, 0, 1).zero_()
    assert x[1].sum().item() == 0
    with pytest.raises(ValueError, match="step must be positive, got 0"):
        aten.slice(x, 0, 0, 1, 0)


def test_safe_softmax_of_a_row_of_minus_infinity_is_zero_and_so_is_its_gradient():
    x = dynograd.tensor([[-math.inf, -math.inf], [0.0, 0.0]], requires_grad=True)
    y = dynograd._safe_softmax(x, -1)
    assert y.tolist() == [[0, 0], [0.5, 0.5]]
    (g,) = dynograd.autograd.grad(y[:, 0].sum(), x)
    assert g.tolist() == [[0, 0], [0.25, -0.25]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_gradients_of_softmax_from_results(name):
    x = dynograd.randn(3, 4, requires_grad=True)
    g = dynograd.randn(3, 4)
    y = getattr(F, name)(x, 1)
    created = getattr(dynograd, f"_{name}_backward_data")(g, y, 1, dynograd.float32)
    close(created, dynograd.autograd.grad(y, x, g)[0])
    with pytest.raises(TypeError, match="input_dtype to be a dtype"):
        dynograd._softmax_backward_data(g, y, 1, 6)


def test_native_dropout_gives_its_mask():
    x = dynograd.ones(1000)
    y, mask = dynograd.native_dropout(x, 0.5, True)
    assert mask.dtype is dynograd.bool and y.tolist() == (mask * 2.0).tolist() and 300 < mask.sum().item() < 700
    assert dynograd.native_dropout(x, 0.5, False)[1].all()
    assert aten.native_dropout_backward(x, mask, 2.0).tolist() == y.tolist()
    same, everything = dynograd.native_dropout(x, 1.0, True)
    assert not same.any() and not everything.any()


def test_pooling_and_elementwise_gradients_are_those_of_autograd():
    x = dynograd.randn(1, 2, 6, 6, requires_grad=True)
    y, places = F.max_pool2d(x, 2, return_indices=True)
    g = dynograd.randn(*y.shape)
    close(
        aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places),
        dynograd.autograd.grad(y, x, g)[0],
    )
    with pytest.raises(RuntimeError, match="grad_output of the shape of indices"):
        aten.max_pool2d_with_indices_backward(g[..., 1:], x, 2, 2, 0, 1, False, places)
    g = dynograd.randn(1, 2, 6, 6)
    for name, function, argument in [
        ("gelu", F.gelu, x),
        ("silu", F.silu, x),
        ("sigmoid", dynograd.sigmoid, dynograd.sigmoid(x)),
        ("tanh", dynograd.tanh, dynograd.tanh(x)),
    ]:
        close(getattr(aten, f"{name}_backward")(g, argument), dynograd.autograd.grad(function(x), x, g)[0])
    close(aten.threshold_backward(g, x, 0.0), dynograd.autograd.grad(F.relu(x), x, g)[0])


def test_convolution_and_embedding_gradients_and_their_gradients():
    x, w = (
        dynograd.randn(2, 3, 5, 5, dtype=dynograd.float64, requires_grad=True),
        dynograd.randn(4, 3, 3, 3, dtype=dynograd.float64, requires_grad=True),
    )
    y = F.conv2d(x, w, None, padding=1)
    g = dynograd.randn(*y.shape, dtype=dynograd.float64, requires_grad=True)
    rest = [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    gx, gw, gb = aten.convolution_backward(g, x, w, *rest, [True, True, True])
    expected = dynograd.autograd.grad(y, (x, w), g, create_graph=True)
    close([gx, gw, gb], [*expected, g.sum([0, 2, 3])])
    close(dynograd.autograd.grad(gx.sum(), (g, w)), dynograd.autograd.grad(expected[0].sum(), (g, w)))
    assert aten.convolution_backward(g, x, w, *rest, [False, True, False])[::2] == (None, None)
    index = dynograd.tensor([0, 2, 2])
    assert aten.embedding_dense_backward(dynograd.ones(3, 2), index, 4, -1, False).tolist() == [
        [1, 1],
        [0, 0],
        [2, 2],
        [0, 0],
    ]


def test_masked_index_reads_and_adds_only_where_the_mask_says_so():
    x = dynograd.arange(6.0).requires_grad_()
    mask, index = dynograd.tensor([True, False, True]), dynograd.tensor([5, 99, 0])
    y = dynograd._unsafe_masked_index(x, mask, [index], -1)
    assert y.tolist() == [5, -1, 0]
    assert dynograd.autograd.grad(y.sum(), x)[0].tolist() == [1, 0, 0, 0, 0, 1]
    assert dynograd._unsafe_masked_index_put_accumulate(x, mask, [index], dynograd.ones(3) * 10).tolist() == [
        10,
        1,
        2,
        3,
        4,
        15,
    ]
    with pytest.raises(RuntimeError, match="no elements"):
        dynograd._unsafe_masked_index(x[:0], mask, [index], 0)


def test_chunk_cat():
    created = dynograd._chunk_cat([dynograd.arange(6.0).view(2, 3), dynograd.arange(2.0)], 0, 3)
    assert created.tolist() == [[0, 1, 2, 0], [3, 4, 5, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: dynograd._chunk_cat([x, x[0]], -1, 2), "non-negative dim when input tensors have different ndims"),
        (lambda x: dynograd._chunk_cat([x], 2, 2), "dim < ndim for all input tensors, got dim=2"),
        (lambda x: dynograd._chunk_cat([x, x[:1]], 1, 2), r"same sizes of 0,...,dim-1.*\(2, 3\), \(1, 3\)"),
        (lambda x: dynograd._chunk_cat([x], 0, 0), "positive num_chunks, got 0"),
        (lambda x: dynograd._chunk_cat([], 0, 1), "non-empty input tensor list"),
        (lambda x: dynograd._chunk_cat([x[:0]], 0, 1), "non-empty tensor"),
        (lambda x: dynograd._chunk_cat([x, x.double()], 0, 1), "same dtype"),
        (lambda x: dynograd._scaled_mm(x, x.T, x[0, 0], x[0, 0]), "Expected mat1 to be Float8 matrix got .*float32"),
        (lambda x: dynograd._scaled_mm(x[0].to(dynograd.float8_e4m3fn), x.to(dynograd.float8_e4m3fn), x, x), r"must be a matrix, got shape \(3,\)"),
        (lambda x: aten._flash_attention_forward(x, x, x, x, None, 1, 1, 0.0, False, False), "cum_seq_q is not supported"),
        (lambda x: aten._efficient_attention_forward(x, x, x, None, None, None, None, None, 0.0, 3), "custom_mask_type must be 0, 1 or 2, got 3"),
    ],
)  # fmt: skip
def test_refusals(call, words):
    with pytest.raises((RuntimeError, ValueError), match=words):
        call(dynograd.ones(2, 3))


F8 = dynograd.float8_e4m3fn


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: aten.native_dropout_backward(2.5, x, 1.0), r"native_dropout_backward\(\): argument 'grad_output' \(position 1\) must be Tensor, not float"),
        (lambda x: aten.slice("x", 0), "slice.*argument 'self' .*must be Tensor, not str"),
        (lambda x: aten.slice(x, 0, 0, 1, "x"), "slice.*argument 'step' .*must be int, not str"),
        (lambda x: dynograd._chunk_cat([x], 1.5, 2), "_chunk_cat.*argument 'dim' .*must be int, not float"),
        (lambda x: dynograd._batch_norm_with_update(x, x[0], 2.5, x[0], x[0], 0.1, 1e-5), "'bias' .*must be Tensor, not float"),
        (lambda x: dynograd._native_batch_norm_legit(x, None, None, True, 0.5, "x"), "argument 'eps' .*must be float, not str"),
        (lambda x: dynograd._native_batch_norm_legit(x, None, None, 2.5, x[0], True, 0.5, 0.1), "argument 'running_mean' .*must be Tensor, not float"),
        (lambda x: dynograd._unsafe_masked_index(x, x > 0, [], "x"), "argument 'fill' .*must be Number, not str"),
        (lambda x: dynograd._unsafe_masked_index_put_accumulate(x, (x > 0)[None], [x[0].long()], x), r"mask has shape \(1, 2, 3\).*\(2, 3\)"),
        (lambda x: dynograd._softmax_backward_data(x, x[0], 0, x.dtype), r"same size as output, got \(2, 3\) and \(3,\)"),
        (lambda x: dynograd._log_softmax_backward_data(x, x[0], 0, x.dtype), r"same size as output, got \(2, 3\) and \(3,\)"),
        (lambda x: aten._upsample_bilinear2d_aa(x, [2, 2], False), r"_upsample_bilinear2d_aa: expected an input of 4 dims, got shape \(2, 3\)"),
        (lambda x: aten._upsample_bilinear2d_aa(x[None, None], [-2, 2], False), r"must be 2 positive ints, got \(-2, 2\)"),
        (lambda x: aten._upsample_bilinear2d_aa(x[None, None], [2, 2], False, "x", 1.0), "scales must be positive numbers, got"),
        (lambda x: dynograd._scaled_mm(x.to(F8), x.T.to(F8), x[0, 0], 2.5), "argument 'scale_b' .*must be Tensor, not float"),
        (lambda x: dynograd._scaled_mm(x.to(F8), x.T.to(F8), x[0, 0].double(), x[0, 0]), "scale_a must be of float32, got .*float64"),
        (lambda x: dynograd._scaled_mm(x.to(F8), x.T.to(F8), x[0, 0], x[None]), r"scale_b must have at most 2 dims, got shape \(1, 2, 3\)"),
        (lambda x: aten.sigmoid_backward(x, x, out=x[:1, :1].expand(2, 3)), "sigmoid_backward.*more than one element"),
    ],
)  # fmt: skip
def test_arguments_of_other_kinds_are_refused(call, words):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=words):
        call(dynograd.ones(2, 3))


def test_scaled_mm():
    a = dynograd.ones(2, 16).to(dynograd.float8_e4m3fn)
    rows, columns = dynograd.tensor([[1.0], [2.0]]), dynograd.ones(1, 2)
    y = dynograd._scaled_mm(a, a.T, rows, columns, bias=dynograd.ones(2), out_dtype=dynograd.bfloat16)
    assert y.dtype is dynograd.bfloat16 and y.tolist() == [[17, 17], [33, 33]]


@pytest.mark.parametrize("causal", [0, 1, 2])
def test_inner_attention_is_attention(causal):
    q, k, v = dynograd.randn(2, 3, 2, 4), dynograd.randn(2, 5, 2, 4), dynograd.randn(2, 5, 2, 6)
    mask = numpy.ones((3, 5), bool) if not causal else numpy.tril(numpy.ones((3, 5), bool), 0 if causal == 1 else 2)
    expected = F.scaled_dot_product_attention(
        *(tensor.transpose(1, 2) for tensor in (q, k, v)), dynograd.from_numpy(mask)
    ).transpose(1, 2)
    result, sums, *_, length, _ = aten._efficient_attention_forward(
        q, k, v, None, None, None, None, None, 0.0, causal, True
    )
    close(result, expected)
    scores = (q.transpose(1, 2) @ k.transpose(1, 2).mT * 0.5).masked_fill(dynograd.from_numpy(~mask), -math.inf)
    close(sums, scores.logsumexp(-1))
    assert length == 3
    if causal != 1:
        close(aten._flash_attention_forward(q, k, v, None, None, 3, 5, 0.0, bool(causal), False)[0], expected)


def test_losses_take_numbers_for_reductions():
    x, y = dynograd.randn(4, 3), dynograd.tensor([0, 2, 1, 1])
    weight = dynograd.tensor([1.0, 2.0, 3.0])
    close(aten.nll_loss(x, y, weight, 2, 1), F.nll_loss(x, y, weight, ignore_index=1, reduction="sum"))
    close(aten.cross_entropy_loss(x, y, None, 0), F.cross_entropy(x, y, reduction="none"))
    close(aten.mse_loss(x, x * 2, 2), F.mse_loss(x, x * 2, reduction="sum"))
    close(aten.smooth_l1_loss(x, x * 2, 1, 0.5), F.smooth_l1_loss(x, x * 2, beta=0.5))
    close(aten.multi_margin_loss(x, y, 2, 0.5), F.multi_margin_loss(x, y, p=2, margin=0.5))


def test_resizing_and_padding():
    x = dynograd.randn(1, 2, 4, 6)
    close(aten.upsample_bilinear2d(x, [8, 3], True), F.interpolate(x, (8, 3), mode="bilinear", align_corners=True))
    close(aten.upsample_nearest2d.vec(x, None, [2.0, 2.0]), F.interpolate(x, scale_factor=2))
    close(aten.upsample_bicubic2d(x, [6, 9], False, 1.5, 1.5), F.interpolate(x, scale_factor=1.5, mode="bicubic"))
    close(aten._upsample_bilinear2d_aa(x, [2, 3], False), F.interpolate(x, (2, 3), mode="bilinear", antialias=True))
    close(aten._upsample_lanczos2d_aa(x, [2, 3], False), F.interpolate(x, (2, 3), mode="lanczos", antialias=True))
    close(aten.reflection_pad2d(x, [1, 1, 2, 0]), F.pad(x, (1, 1, 2, 0), "reflect"))


def test_batch_norms():
    x, ones = dynograd.randn(5, 3), dynograd.ones(3)
    mean, var = dynograd.zeros(3), dynograd.ones(3)
    out, save, rstd = dynograd._native_batch_norm_legit(x, ones, None, mean, var, True, 0.5, 1e-5)
    close(out, F.batch_norm(x, None, None, ones, None, True))
    close([save, mean], [x.mean(0), x.mean(0) / 2])
    again = dynograd._native_batch_norm_legit(x, ones, None, True, 0.1, 1e-5)
    close(again, (out, save, rstd))
    assert dynograd.ops.aten._batch_norm_with_update(x, ones, None, mean, var, 0.1, 1e-5)[3].dtype is dynograd.uint8
    outs = dynograd.empty(5, 3), dynograd.empty(3), dynograd.empty(3)
    assert dynograd._native_batch_norm_legit(x, ones, None, True, 0.1, 1e-5, out=outs)[0] is outs[0]


def test_small_ones():
    x = dynograd.tensor([-1.0, 2.0])
    close(aten.elu(x, 1.0, 2.0, 0.5), dynograd.where(x > 0, x, (x * 0.5).expm1()) * 2)
    assert aten.alias(x)._base is x or aten.alias(x).data_ptr() == x.data_ptr()
    assert aten._to_copy(x, dtype=dynograd.float64).dtype is dynograd.float64 and aten._to_copy(x) is not x
    assert aten.copy(dynograd.zeros(2, 2), x).tolist() == [[-1, 2], [-1, 2]]
    assert aten.index(x, [dynograd.tensor([1])]).tolist() == [2] and aten._unsafe_index(
        x[None], [None, dynograd.tensor([1])]
    ).tolist() == [[2]]
    close(aten._softmax(x.half(), 0, True), dynograd.softmax(x, 0))
    close(aten.softmax.int(x, 0, dynograd.float64), dynograd.softmax(x, 0, dtype=dynograd.float64))
    close(aten._log_softmax(x, 0, False), aten.log_softmax(x, 0))
    close(aten.log_sigmoid(x), F.logsigmoid(x))
