"""`nn.functional` against PyTorch: values, gradients of first and second order, dtypes, and which mistakes are errors.

A case is an expression over the arrays of `ARRAYS` that both libraries evaluate; floating arrays want gradients.
"""

import types
import warnings

import numpy
import pytest
import torch

import dynograd

RNG = numpy.random.default_rng(0)
FLOATS = {
    "x": RNG.normal(size=(6, 4)),
    "y": RNG.normal(size=(6, 4)),
    "z": RNG.normal(size=(6, 4)),
    "p": RNG.dirichlet([1.0] * 4, 6) * 0.98 + 0.005,
    "w": RNG.uniform(0.5, 2, 4),
    "b": RNG.normal(size=4),
    "s": RNG.normal(size=(2, 4, 6)),
    "m": RNG.permutation(2 * 4 * 5 * 6).reshape(2, 4, 5, 6) / 40 - 3,
    "v": RNG.permutation(2 * 4 * 3 * 4 * 3).reshape(2, 4, 3, 4, 3) / 40 - 3,
    "k1": RNG.normal(size=(4, 2, 3)),
    "k2": RNG.normal(size=(4, 4, 3, 2)),
    "k3": RNG.normal(size=(4, 4, 2, 2, 2)),
    "q": RNG.normal(size=(2, 4, 3, 5)),
    "k": RNG.normal(size=(2, 4, 6, 5)),
    "u": RNG.normal(size=(2, 4, 6, 2)),
    "table": RNG.normal(size=(7, 3)),
}
FIXED = {
    "labels": numpy.array([0, 3, -100, 1, 3, 2]),
    "named": numpy.array([0, 3, 1, 1, 3, 2]),
    "image_labels": RNG.integers(0, 4, (2, 6)),
    "signs": numpy.array([1, -1, 1, 1, -1, -1]),
    "sign_rows": RNG.choice([-1.0, 1.0], (6, 4)),
    "lists": numpy.array([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 0, 0, 0], [1, 2, 3, 0], [1, -1, -1, -1], [2, 0, -1, 1]]),
    "ids": numpy.array([[0, 2, 6], [2, 2, 5]]),
    "flat_ids": numpy.array([0, 2, 1, 2, 5]),
    "offsets": numpy.array([0, 2, 2]),
    "mask": RNG.integers(0, 2, (3, 6)) > 0,
    "running_mean": RNG.normal(size=4),
    "running_var": RNG.uniform(0.5, 2, 4),
}
FIXED["mask"][1] = False
REDUCTIONS = ("mean", "sum", "none")

CASES = [
    "F.softmax(x, 1)", "F.softmax(s, -2)", "F.log_softmax(x, 0)", "F.softmin(x, -1)",
    *[
        f"F.{call}, reduction='{reduction}')"
        for reduction in REDUCTIONS
        for call in (
            "cross_entropy(x, labels", "cross_entropy(x, labels, w.detach(), label_smoothing=0.1", "cross_entropy(x, p, w.detach()",
            "cross_entropy(s, image_labels, ignore_index=2", "cross_entropy(x, p, label_smoothing=0.2", "cross_entropy(x[0], named[0]",
            "nll_loss(x, labels", "nll_loss(x, labels, w.detach()", "nll_loss(s, image_labels, w.detach()", "nll_loss(x[1], named[1]",
            "mse_loss(x, y", "l1_loss(x, y", "smooth_l1_loss(x, y, beta=0.5", "smooth_l1_loss(x, y, beta=0.0", "huber_loss(x, y, delta=0.7",
            "binary_cross_entropy(p, p.flip(0), w.detach()", "binary_cross_entropy_with_logits(x, p",
            "binary_cross_entropy_with_logits(x, p, w.detach(), pos_weight=w.detach()",
            "kl_div(F.log_softmax(x, 1), p", "kl_div(x, y, log_target=True",
            "poisson_nll_loss(x, p", "poisson_nll_loss(p, w + x * x, log_input=False, full=True",
            "gaussian_nll_loss(x, y, p, full=True", "gaussian_nll_loss(x, y, p[:, 0]", "gaussian_nll_loss(x, y, p[:, :1], eps=0.2",
            "hinge_embedding_loss(x, sign_rows", "cosine_embedding_loss(x, y, signs, margin=0.1",
            "margin_ranking_loss(x, y, sign_rows, margin=0.2", "soft_margin_loss(x, sign_rows",
            "multilabel_soft_margin_loss(x, (y > 0).double(), w.detach()", "multi_margin_loss(x, named, margin=0.7, weight=w.detach()",
            "multi_margin_loss(x, named, p=2", "multilabel_margin_loss(x, lists", "triplet_margin_loss(x, y, z, swap=True",
            "triplet_margin_loss(x, y, z, p=3", "triplet_margin_with_distance_loss(x, y, z, margin=0.3",
        )
    ],
    "F.linear_cross_entropy(x, y, named)", "F.linear_cross_entropy(x, y, named, linear_bias=z[:, 0], weight=p[:, 0].detach(), reduction='sum')",
    "F.linear_cross_entropy(x, y, named, reduction='none', ignore_index=3, label_smoothing=0.1)", "F.linear_cross_entropy(x[0], y, named[0])",
    "F.linear_cross_entropy(x, s.transpose(1, 2), torch.stack([named % 2] * 6, 1))", "F.linear_cross_entropy(x, y[:4], p)",
    "F.kl_div(x, p, reduction='batchmean')", "F.mse_loss(x, y, weight=p)", "F.l1_loss(x, y, weight=p)", "F.huber_loss(x, y, weight=p)",
    "F.layer_norm(x, (4,))", "F.layer_norm(x, (4,), w, b)", "F.layer_norm(s, (4, 6), eps=0.1)", "F.rms_norm(x, (4,), w)", "F.rms_norm(s, (6,))",
    "F.batch_norm(x, None, None, w, b, True)", "F.batch_norm(m, running_mean, running_var, w, b)", "F.batch_norm(s, None, None, training=True)",
    "F.group_norm(m, 2, w, b)", "F.group_norm(x, 4)", "F.instance_norm(m, weight=w, bias=b)",
    "F.local_response_norm(m, 3, alpha=2.0, beta=0.6, k=0.4)", "F.local_response_norm(s, 2)", "F.normalize(x)", "F.normalize(s, 3.0, (0, 2))",
    "F.conv1d(s, k1, b, groups=2)", "F.conv1d(s, k1, b, stride=2, padding=2, dilation=2, groups=2)", "F.conv1d(s, k1, padding='same', groups=2)",
    "F.conv1d(s[0], k1, groups=2)", "F.conv2d(m, k2, b)", "F.conv2d(m, k2, b, (1, 2), (2, 0), (1, 2))", "F.conv2d(m, k2, padding='same')",
    "F.conv2d(m[0], k2, padding='valid')", "F.conv2d(m, k2[:, :1], groups=4)", "F.conv2d(m, k2[:, :, :1, :1], b, 2)",
    "F.conv3d(v, k3, b, (1, 2, 1), (0, 1, 0))", "F.conv_transpose1d(s, k1, stride=3, padding=1, output_padding=2, groups=2)",
    "F.conv_transpose1d(s, k1, dilation=3, output_padding=2)", "F.conv_transpose2d(m, k2, b, 2, (1, 0), (1, 0))", "F.conv_transpose2d(m[0], k2)",
    "F.conv_transpose3d(v, k3, b, (1, 2, 1))",
    "F.max_pool1d(s, 3, 2, 1)", "F.max_pool2d(m, 2)", "F.max_pool2d(m, (2, 3), (1, 2), ceil_mode=True)", "F.max_pool2d(m, 2, dilation=2)",
    "F.max_pool2d(m, 3, 2, 1, return_indices=True)[1]", "F.max_pool3d(v, 2, 1)", "F.avg_pool1d(s, 3, 2, 1)",
    "F.avg_pool2d(m, (2, 3), (1, 2), ceil_mode=True)", "F.avg_pool2d(m, 3, 2, 1, count_include_pad=False)", "F.avg_pool2d(m, 2, divisor_override=3)",
    "F.avg_pool3d(v, 2, 1, 1)", "F.adaptive_avg_pool1d(s, 4)", "F.adaptive_avg_pool2d(m, (2, None))", "F.adaptive_avg_pool3d(v, 2)",
    "F.adaptive_max_pool1d(s, 4)", "F.adaptive_max_pool2d(m, (2, 4))", "F.adaptive_max_pool3d(v, (2, 1, 2))", "F.lp_pool1d(s.exp(), 2, 3, 2)",
    "F.lp_pool2d(m.exp(), 3, 2)", "F.max_unpool2d(*F.max_pool2d(m, 2, return_indices=True), 2, output_size=(5, 6))",
    "F.max_unpool1d(*F.max_pool1d(s, 2, return_indices=True), 2)", "F.max_unpool3d(*F.max_pool3d(v, 2, 1, return_indices=True), 2, 1)",
    "F.embedding(ids, table)", "F.embedding(ids, table, padding_idx=2)", "F.embedding(ids, table, scale_grad_by_freq=True)",
    *[f"F.embedding_bag(ids, table, mode='{mode}')" for mode in ("sum", "mean", "max")],
    *[f"F.embedding_bag(flat_ids, table, offsets, mode='{mode}', padding_idx=2)" for mode in ("sum", "mean", "max")],
    "F.embedding_bag(ids, table, mode='sum', per_sample_weights=x[:2, :3])",
    "F.pad(s, (1, 2))", "F.pad(s, (-1, 2, 1, 0, 2, 2), value=1.5)",
    *[f"F.pad(m, (1, 2, 3, 0), mode='{mode}')" for mode in ("reflect", "replicate", "circular")], "F.pad(v, (1, 1, 0, 2, 1, 1), 'replicate')",
    *[
        f"F.interpolate(m, {size}, mode='{mode}'{corners})"
        for size in ("scale_factor=2", "(7, 4)", "scale_factor=(1.3, 0.7)")
        for mode, corners in (
            ("nearest", ""), ("nearest-exact", ""), ("bilinear", ""), ("bicubic", ""), ("area", ""), ("bilinear", ", align_corners=True"),
            ("bicubic", ", align_corners=True"),
        )
    ],
    "F.interpolate(s, 9, mode='linear')", "F.interpolate(v, (2, 5, 4), mode='trilinear')", "F.interpolate(s, scale_factor=1.7, recompute_scale_factor=True)",
    "F.scaled_dot_product_attention(q, k, u)", "F.scaled_dot_product_attention(q, k, u, mask)", "F.scaled_dot_product_attention(q, k, u, is_causal=True)",
    "F.scaled_dot_product_attention(q, k, u, mask.double(), scale=0.3)", "F.scaled_dot_product_attention(q, k[:, :2], u[:, :2], enable_gqa=True)",
    "F.pixel_shuffle(m, 2)", "F.pixel_unshuffle(m[:, :, :4], 2)", "F.channel_shuffle(m, 2)", "F.unfold(m, (2, 3), 1, (1, 0), (2, 1))",
    "F.fold(F.unfold(m, 2, padding=1), (5, 6), 2, padding=1)", "F.cosine_similarity(x, y)", "F.cosine_similarity(x, y[:1], dim=0)",
    "F.pairwise_distance(x, y, 3.0, keepdim=True)", "F.dropout(x, 0.5, False)", "F.dropout(x, 0.0)", "F.dropout2d(m, 1.0)", "F.alpha_dropout(x, 0.3)",
    "torch.cat(torch.lstm_cell(x, (y, z), *cell(16)), 1)", "torch.gru_cell(x, y, *cell(12))", "torch.rnn_tanh_cell(x, y, *cell(4))",
    "torch.rnn_relu_cell(x, y, *cell(4)[:2])",
    # functions of `torch.` whose arguments are not those of nn.functional
    "torch.embedding(table, ids, 2)", "torch.embedding(weight=table, indices=ids)", "torch.dropout(x, 0.5, False)", "torch.dropout(x, p=1.0, train=True)",
    "torch.alpha_dropout(x, 0.3, False)", "torch.feature_dropout(s, 0.0, True)", "torch.feature_alpha_dropout(s, 0.3, False)",
    "torch.dropout_(x * 1, 0.0, True)", "torch.alpha_dropout_(x * 1, 0.0, True)", "torch.feature_dropout_(s * 1, 1.0, True)",
    "torch.feature_alpha_dropout_(s * 1, 0.0, True)",
    "torch.batch_norm(x, w, b, running_mean, running_var, False, 0.1, 1e-5, True)", "torch.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False)",
    "torch.instance_norm(s, w, b, None, None, True, 0.1, 1e-5, True)", "torch.group_norm(s, 2, w, b, 1e-5, True)",
    "torch.convolution(s, k1, b, [2], [1], [1], False, [0], 2)", "torch.convolution(s, k1, None, [1], [1], [1], True, [0], 2)",
    "torch.binary_cross_entropy_with_logits(x, p.detach(), None, w.detach(), 0)",
    "torch.kl_div(x, p, 2)", "torch.kl_div(x, y, 0, log_target=True)", "torch.cosine_embedding_loss(x, y, signs, 0.1, 2)",
    "torch.hinge_embedding_loss(x, sign_rows, 1.0, 0)", "torch.margin_ranking_loss(x, y, sign_rows, 0.1, 2)",
    "torch.poisson_nll_loss(x, p, True, False, 1e-8, 1)", "torch.triplet_margin_loss(x, y, z, 1.0, 2.0, 1e-6, True, 0)",
    "F.linear(x, y, b[:1])", "F.linear(x, y, x[:, :1])",
    "torch.softmax(x, 1, torch.float32)", "x.log_softmax(1, torch.float32)",
]  # fmt: skip

MISTAKES = [
    "F.softmax(x, 2)", "F.cross_entropy(x, named + 1)", "F.cross_entropy(x, named[:5])", "F.cross_entropy(x, named.double())",
    "F.cross_entropy(x, named, w[:3])", "F.cross_entropy(x, named, label_smoothing=2.0)", "F.cross_entropy(x, named, reduction='most')",
    "F.nll_loss(x, named - 1)", "F.mse_loss(x, y[:, :3])", "F.binary_cross_entropy(p * 2, p)", "F.binary_cross_entropy(p, p[:2])",
    "F.gaussian_nll_loss(x, y, -p)", "F.smooth_l1_loss(x, y, beta=-1.0)", "F.huber_loss(x, y, delta=0.0)", "F.triplet_margin_loss(x, y, z, margin=0.0)",
    "F.cosine_embedding_loss(x, y, sign_rows)", "F.multi_margin_loss(x, named, p=3)", "F.layer_norm(x, (3,))", "F.batch_norm(x, None, None)",
    "F.batch_norm(x[:1], None, None, training=True)", "F.group_norm(m, 3)", "F.instance_norm(m[:, :, :1, :1])", "F.conv2d(s, k2)",
    "F.conv2d(m, k2[:, :3])", "F.conv2d(m, k2, b[:3])", "F.conv2d(m, k2, stride=0)", "F.conv2d(m, k2, padding=-1)", "F.conv2d(m, k2.float())",
    "F.conv2d(m, k2, padding='same', stride=2)", "F.conv_transpose2d(m, k2, output_padding=1)", "F.max_pool2d(m, 9)", "F.max_pool2d(m, 2, padding=2)",
    "F.avg_pool2d(m, 2, divisor_override=0)", "F.adaptive_avg_pool2d(x, 2)", "F.embedding(ids + 5, table)", "F.embedding(x, table)",
    "F.embedding_bag(flat_ids, table)", "F.pad(s, (1, 2, 3))", "F.pad(s, (9, 0), 'reflect')", "F.interpolate(m)", "F.interpolate(m, 2, mode='linear')",
    "F.interpolate(m, 2, align_corners=True)", "F.scaled_dot_product_attention(q, k[..., :2], u)", "F.pixel_shuffle(m, 3)", "F.fold(s, (9, 9), 2)",
    "F.unfold(m, 9)", "F.dropout(x, 1.5)", "F.cosine_similarity(x, y[:, :3])",
]  # fmt: skip


def libraries():
    return (torch, torch.nn.functional), (dynograd, dynograd.nn.functional)


def evaluate(library, functional, expression, kind="float64"):
    """(result, the floating leaves by name)."""
    make = torch.from_numpy if library is torch else dynograd.from_numpy
    leaves = {name: make(array.copy()).to(getattr(library, kind)).requires_grad_() for name, array in FLOATS.items()}
    fixed = {name: make(array.copy()) for name, array in FIXED.items()}

    def cell(rows):
        rng = numpy.random.default_rng(rows)
        return [
            make(rng.normal(size=shape)).to(getattr(library, kind))
            for shape in ((rows, 4), (rows, 4), (rows,), (rows,))
        ]

    names = {**leaves, **fixed, "F": functional, "torch": library, "cell": cell}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, names), leaves


def gradients(library, result, leaves, names, create_graph=False):
    used = [leaves[name] for name in names]
    return library.autograd.grad((result * result).sum(), used, create_graph=create_graph, allow_unused=True)


def arrays_of(tensors):
    return [None if tensor is None else tensor.detach().double().numpy() for tensor in tensors]


@pytest.mark.parametrize("expression", CASES)
def test_values_and_gradients(expression):
    actual = []
    for library, functional in libraries():
        result, leaves = evaluate(library, functional, expression)
        names = [name for name in FLOATS if name in expression]
        kept = types.SimpleNamespace(
            value=result.detach().numpy(), dtype=str(result.dtype).split(".")[-1], first=[], second=[]
        )
        actual.append(kept)
        if not result.requires_grad:
            continue
        first = gradients(library, result, leaves, names, create_graph=True)
        kept.first = arrays_of(first)
        total = sum((element * element).sum() for element in first if element is not None)
        if library is torch and not total.requires_grad:
            kept.second = None
            continue
        try:
            second = library.autograd.grad(total, [leaves[name] for name in names], allow_unused=True)
            kept.second = arrays_of(second)
        except (RuntimeError, NotImplementedError):
            assert library is torch  # some of PyTorch's ops have no second gradient
            kept.second = None
    theirs, ours = actual
    assert ours.dtype == theirs.dtype
    exact = ours.value.dtype != numpy.float32  # what asks for float32 may differ in its last bits
    numpy.testing.assert_allclose(ours.value, theirs.value, rtol=1e-7 if exact else 1e-6, atol=1e-9)
    close = 1e-6 if exact else 1e-5
    assert len(ours.first) == len(theirs.first)
    pairs = list(zip(ours.first, theirs.first, strict=True))
    if theirs.second is not None and expression not in OTHER_SECOND:
        pairs += zip(ours.second, theirs.second, strict=True)
    for mine, other in pairs:
        if mine is None or other is None:
            present = other if mine is None else mine
            assert present is None or not present.any()
        else:
            scale = max(1.0, numpy.abs(other).max(initial=0))
            numpy.testing.assert_allclose(mine, other, rtol=close, atol=close * 1e-2 * scale)


# PyTorch's second backward through a frequency-scaled embedding is not the transpose of its first
OTHER_SECOND = ["F.embedding(ids, table, scale_grad_by_freq=True)"]


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "expression",
    [
        case
        for case in CASES
        if not any(word in case for word in ("running_", "double()", "float32", "sign_rows", "return_indices"))
    ],
)
def test_dtype_and_precision(expression, kind):
    """PyTorch's own float64 is the measure; the result keeps the dtype, and its error is that of the dtype."""
    expected, _ = evaluate(*libraries()[0], expression)
    result, leaves = evaluate(*libraries()[1], expression, kind)
    assert result.dtype is getattr(dynograd, kind)
    expected = expected.detach().numpy()
    unit = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[kind]
    numpy.testing.assert_allclose(
        result.detach().double().numpy(), expected, rtol=unit, atol=unit * max(1.0, numpy.abs(expected).max())
    )
    if result.requires_grad:
        for name, part in zip(FLOATS, gradients(dynograd, result, leaves, FLOATS), strict=True):
            assert part is None or part.dtype is getattr(dynograd, kind), f"the gradient of {name} is {part.dtype}"


@pytest.mark.parametrize("expression", MISTAKES)
def test_mistakes_are_caught_by_pytorchs_except_clauses(expression):
    errors = []
    for library, functional in libraries():
        with pytest.raises((RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)) as caught:
            evaluate(library, functional, expression)
        errors.append(caught.value)
    theirs, ours = errors
    assert isinstance(ours, type(theirs)), (
        f"PyTorch raises {type(theirs).__name__}, dynograd {type(ours).__name__}: {ours}"
    )
