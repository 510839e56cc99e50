"""Memory formats: strides as PyTorch's, kept by the layers of convolutional networks."""

import pickle

import numpy as np
import pytest

import dynograd as dg
from dynograd import nn


def test_strides_of_channels_last():
    x = dg.arange(120).reshape(2, 3, 4, 5)
    y = x.to(memory_format=dg.channels_last)
    assert y.stride() == (60, 1, 15, 3) and (y == x).all()
    assert y.is_contiguous(memory_format=dg.channels_last) and not y.is_contiguous()
    assert not x.is_contiguous(memory_format=dg.channels_last)
    assert y.contiguous().stride() == (60, 20, 5, 1)
    assert y.contiguous(memory_format=dg.channels_last) is y and y.to(memory_format=dg.channels_last) is y
    assert y.to(memory_format=dg.preserve_format) is y


def test_three_spatial_dims():
    y = dg.zeros(2, 3, 4, 5, 6).to(memory_format=dg.channels_last_3d)
    assert y.stride() == (360, 1, 90, 18, 3) and y.is_contiguous(memory_format=dg.channels_last_3d)
    assert not y.is_contiguous(memory_format=dg.channels_last)


def test_one_channel_is_both():
    x = dg.zeros(2, 1, 4, 5)
    assert x.is_contiguous() and x.is_contiguous(memory_format=dg.channels_last)


@pytest.mark.parametrize(
    "make",
    [
        dg.zeros_like,
        dg.ones_like,
        dg.empty_like,
        lambda x, **given: dg.full_like(x, 2.0, **given),
        lambda x, **given: x.clone(**given),
    ],
)
def test_copies_keep_the_format_unless_told(make):
    x = dg.zeros(2, 3, 4, 5)
    last = x.contiguous(memory_format=dg.channels_last)
    assert make(last).stride() == last.stride() and make(x).stride() == x.stride()
    assert make(last, memory_format=dg.contiguous_format).stride() == x.stride()
    assert make(x, memory_format=dg.channels_last).stride() == last.stride()


def test_empty():
    assert dg.empty(2, 3, 4, 5, memory_format=dg.channels_last).stride() == (60, 1, 15, 3)


def test_dtype_and_format_at_once():
    y = dg.zeros(2, 3, 4, 5).to(dg.float64, memory_format=dg.channels_last)
    assert y.dtype == dg.float64 and y.stride() == (60, 1, 15, 3)


def test_copy_is_a_copy():
    x = dg.zeros(2, 3, 4, 5).to(memory_format=dg.channels_last)
    assert x.to(memory_format=dg.channels_last, copy=True).data_ptr() != x.data_ptr()


def test_gradient_through_a_change_of_format():
    x = dg.randn(2, 3, 4, 5, requires_grad=True)
    weights = dg.randn(2, 3, 4, 5)
    (x.contiguous(memory_format=dg.channels_last) * weights).sum().backward()
    assert (x.grad == weights).all()


def test_network_keeps_channels_last():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
    )
    x = dg.randn(2, 3, 12, 10)
    expected = model(x)
    expected.sum().backward()
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model.to(memory_format=dg.channels_last)
    assert model[0].weight.is_contiguous(memory_format=dg.channels_last)
    y = x.to(memory_format=dg.channels_last)
    for layer in model:
        y = layer(y)
        assert y.is_contiguous(memory_format=dg.channels_last), layer
    y.sum().backward()
    assert dg.allclose(y, expected, atol=1e-5)
    for parameter, grad in zip(model.parameters(), grads, strict=True):
        assert dg.allclose(parameter.grad, grad, atol=1e-4)


def test_names():
    assert repr(dg.channels_last) == "dynograd.channels_last" and isinstance(dg.channels_last, dg.memory_format)
    assert pickle.loads(pickle.dumps(dg.channels_last)) is dg.channels_last


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dg.zeros(3, 4).to(memory_format=dg.channels_last), RuntimeError, "required rank 4 .* channels_last .* 2 dims"),
        (lambda: dg.zeros(1, 2, 3, 4).contiguous(memory_format=dg.channels_last_3d), RuntimeError, "rank 5 .* 4 dims"),
        (lambda: dg.zeros(1, 2, 3, 4).clone(memory_format="channels_last"), TypeError, "memory_format .* 'channels_last'"),
        (lambda: dg.zeros(3).contiguous(memory_format=dg.preserve_format), RuntimeError, "preserve memory format"),
    ],
)  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_sums_of_large_gradients_keep_the_layout():
    from dynograd.kernels.optim import gradients_cpu

    for one_last in (False, True):
        for other_last in (False, True):
            element, other = (np.random.rand(4, 32, 32, 32).astype(np.float32) for _ in range(2))
            expected = element + other
            if one_last:
                element = np.ascontiguousarray(element.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
            if other_last:
                other = np.ascontiguousarray(other.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
            result = gradients_cpu.add(element, other)
            assert np.array_equal(result, expected)
            assert result.strides == element.strides
            gradients_cpu.add_into(element, other)
            assert np.array_equal(element, expected)


def test_a_row_major_gradient_is_brought_into_the_layout_of_the_activations():
    x = dg.randn(4, 32, 32, 32).contiguous(memory_format=dg.channels_last).requires_grad_()
    inner = x * 2
    seen = []
    inner.register_hook(seen.append)
    g = dg.randn(4, 32, 32, 32)
    dg.relu(inner).backward(g)
    assert seen[0].is_contiguous(memory_format=dg.channels_last)
    assert dg.equal(seen[0], dg.where(x > 0, g, dg.zeros(())))


ROW_MAJOR = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean((0, 1), keepdim=True),
    "prod": lambda x: x.prod(1),
    "any": lambda x: (x > 0).any(1),
    "amax": lambda x: x.amax(1),
    "max": lambda x: x.max(1)[0],
    "std": lambda x: x.std(1),
    "norm": lambda x: x.norm(dim=1),
    "logsumexp": lambda x: x.logsumexp((0, 1), keepdim=True),
    "cat": lambda x: dg.cat([x, x]),
    "cat of another order": lambda x: dg.cat([x[:, :1].contiguous(), x], 1),
    "stack": lambda x: dg.stack([x, x], -1),
    "roll": lambda x: x.roll(1, 0),
    "gather": lambda x: x.gather(1, dg.zeros(4, 5, 3, 2, dtype=dg.int64)),
    "fft": lambda x: dg.fft.rfftn(x, dim=(1, 2)),
}


@pytest.mark.parametrize("name", ROW_MAJOR)
def test_results_of_turned_tensors_are_row_major(name):
    created = ROW_MAJOR[name](dg.rand(2, 3, 5, 4).permute(3, 2, 1, 0))
    assert created.is_contiguous()
    created.view(-1)


PERMUTED = dg.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)  # strides (1, 12, 4)
FIRST = dg.tensor([0])
KEEPING = {
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(x.dtype, copy=True),
    "zeros_like": dg.zeros_like,
    "rand_like": dg.rand_like,
    "randn_like": dg.randn_like,
    "randint_like": lambda x: dg.randint_like(x, 5),
    "flip": lambda x: x.flip(1),
    "sort": lambda x: x.sort(1, descending=True)[0],
    "argsort": lambda x: x.argsort(0),
    "complex": lambda x: dg.complex(x, x),
    "polar": lambda x: dg.polar(x, x),
    "index_fill": lambda x: x.index_fill(0, FIRST, 1.0),
    "index_fill of a tensor": lambda x: x.index_fill(0, FIRST, dg.tensor(1.0)),
    "index_put": lambda x: x.index_put((FIRST,), dg.ones(1, 2, 3)),
    "index_put of a mask": lambda x: x.index_put((x > 3,), dg.tensor(1.0)),
    "put": lambda x: x.put(FIRST, dg.ones(1)),
    "select_scatter": lambda x: x.select_scatter(dg.ones(2, 3), 0, 1),
    "slice_scatter": lambda x: x.slice_scatter(dg.ones(1, 2, 3), 0, 1, 2),
    "diagonal_scatter": lambda x: x.diagonal_scatter(dg.ones(3, 2)),
    "as_strided_scatter": lambda x: x.as_strided_scatter(dg.ones(2), (2,), (1,)),
}


@pytest.mark.parametrize("name", KEEPING)
def test_results_keep_the_order_of_the_dims(name):
    assert KEEPING[name](PERMUTED).stride() == (1, 12, 4)
    assert KEEPING[name](PERMUTED.contiguous()).stride() == (6, 3, 1)
    if "rand" not in name and "as_strided" not in name:
        assert (KEEPING[name](PERMUTED) == KEEPING[name](PERMUTED.contiguous())).all()


@pytest.mark.parametrize("name", sorted(KEEPING.keys() - {"as_strided_scatter"}))
def test_what_stands_at_several_indices_comes_out_row_major(name):
    x = dg.arange(3.0).expand(4, 2, 3)
    assert KEEPING[name](x).stride() == (6, 3, 1)


def test_order_of_dims_with_gaps_between_them():
    x = dg.zeros(6, 8, 10)[::2, ::2, ::2].transpose(0, 2)
    assert x.clone().stride() == (1, 5, 20) and dg.ones_like(x).stride() == (1, 5, 20)
    assert dg.zeros(0, 3).t().clone().stride() == (0, 1) or dg.zeros(0, 3).t().clone().is_contiguous()
    assert dg.randn(2, 3, 4, 5).permute(1, 0, 3, 2).clone(memory_format=dg.contiguous_format).stride() == (40, 20, 4, 1)


def test_draws_do_not_depend_on_the_order():
    created = []
    for x in (PERMUTED, PERMUTED.contiguous()):
        dg.manual_seed(0)
        created.append(dg.randn_like(x))
    assert (created[0] == created[1]).all()
    assert dg.randn_like(dg.zeros(2, 3, 4, 5), memory_format=dg.channels_last).stride() == (60, 1, 15, 3)


def test_contiguous_format_leaves_what_is_no_image_as_it_is():
    x = dg.zeros(2, 3).t()
    assert x.float(memory_format=dg.contiguous_format) is x and x.contiguous() is not x
    last = dg.zeros(2, 3, 4, 5).to(memory_format=dg.channels_last)
    assert last.to(memory_format=dg.contiguous_format).is_contiguous()


def test_gradients_through_copies_in_order():
    x = dg.randn(3, 2, dtype=dg.float64).t().requires_grad_()
    assert dg.autograd.gradcheck(lambda x: x.clone().sort(1)[0].flip(0).index_fill(0, FIRST, 2.0), (x,))
    assert dg.func.vmap(lambda x: x.clone() * 2)(PERMUTED.permute(2, 0, 1)).shape == (3, 4, 2)


OWN_ORDER = {
    "masked_fill of a vector": lambda x: x[0, 0].masked_fill(x[0].t().contiguous().t() > 3, 0.0),
    "batch_norm": lambda x: nn.functional.batch_norm(x, None, None, training=True),
    "batch_norm in evaluation": lambda x: nn.functional.batch_norm(x, dg.zeros(2), dg.ones(2)),
    "batch_norm of doubles": lambda x: nn.functional.batch_norm(x.double(), None, None, training=True),
    "mvlgamma": lambda x: (x + 5).mvlgamma(2),
    "softmax's gradient": lambda x: dg._softmax_backward_data(x, x, 0, x.dtype),
    "permute_copy": lambda x: dg.permute_copy(x, (0, 2, 1)),
    "rot90 by nothing": lambda x: x.rot90(4),
    "diag": lambda x: dg.diag(x[0, :, :2]),
    "index_copy": lambda x: x.index_copy(0, FIRST, dg.ones(1, 2, 3)),
    "scatter": lambda x: x.scatter(0, FIRST[None, None], 1.0),
}


@pytest.mark.parametrize("name", OWN_ORDER)
@pytest.mark.parametrize("x", [PERMUTED, dg.arange(24.0).reshape(4, 3, 2).mT], ids=["permuted", "transposed"])
def test_results_that_do_not_keep_the_order(name, x):
    created = OWN_ORDER[name](x)
    assert created.is_contiguous() and created.view(-1).tolist() == OWN_ORDER[name](x.contiguous()).flatten().tolist()


def test_diag_of_a_matrix_is_no_view():
    x = dg.zeros(2, 2)
    dg.diag(x).fill_(1.0)
    assert not x.any()


IMAGES = {
    "pad": lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
    "pad of channels": lambda x: nn.functional.pad(x, (0, 0, 0, 0, 1, 0)),
    "reflect": lambda x: nn.functional.pad(x, (1, 2, 0, 1), "reflect"),
    "replicate": lambda x: nn.functional.pad(x, (-1, 2, 0, 1), "replicate"),
    "nearest": lambda x: nn.functional.interpolate(x, scale_factor=2),
    "bilinear": lambda x: nn.functional.interpolate(x, (7, 3), mode="bilinear"),
    "antialias": lambda x: nn.functional.interpolate(x, (3, 3), mode="bilinear", antialias=True),
    "area": lambda x: nn.functional.interpolate(x, (3, 2), mode="area"),
    "avg_pool2d": lambda x: nn.functional.avg_pool2d(x, 2),
    "max_pool2d": lambda x: nn.functional.max_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: nn.functional.adaptive_avg_pool2d(x, (2, 3)),
    "adaptive_max_pool2d": lambda x: nn.functional.adaptive_max_pool2d(x, (2, 3)),
    "max_unpool2d": lambda x: nn.functional.max_unpool2d(
        *nn.functional.max_pool2d(x, 2, return_indices=True), 2, output_size=(4, 5)
    ),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_stay_channels_last(name):
    x = dg.randn(2, 3, 4, 5, dtype=dg.float64)
    last = x.to(memory_format=dg.channels_last).requires_grad_()
    created, expected = IMAGES[name](last), IMAGES[name](x)
    assert (
        created.is_contiguous(memory_format=dg.channels_last)
        and expected.is_contiguous()
        and not created.is_contiguous()
    )
    assert dg.allclose(created, expected, 1e-14, 1e-14)
    assert dg.autograd.gradcheck(IMAGES[name], (last,))


def test_volumes_stay_channels_last():
    x = dg.randn(2, 3, 4, 4, 4).to(memory_format=dg.channels_last_3d)
    for created in (nn.functional.max_pool3d(x, 2), nn.functional.interpolate(x, scale_factor=2, mode="trilinear")):
        assert created.is_contiguous(memory_format=dg.channels_last_3d) and not created.is_contiguous()
