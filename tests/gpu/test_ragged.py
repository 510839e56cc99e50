"""Ragged tensors on the GPU: what they give on the CPU, and everything beside them on that device."""

import numpy
import pytest

import dynograd
from dynograd import RaggedTensor, ragged_from_padded, ragged_tensor

F = dynograd.nn.functional


def rows(device):
    random = numpy.random.default_rng(0)
    created = [dynograd.from_numpy(random.normal(size=(count, 4)).astype(numpy.float32)) for count in (3, 1, 2)]
    return ragged_tensor(created).to(device)


def ones(x, *shape):
    return dynograd.ones(*shape, device=x.device)


def written(x):
    x = x.clone()
    x[:, :1] = 0
    x[[0, 2], [1, 0], 2] = 5
    x.transpose(1, 2)[:, 0] = 7
    return x


CALLS = {
    "arithmetic": lambda x: x * 2 + x,
    "each row its own": lambda x: x + ones(x, 3, 1, 4),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "max": lambda x: x.max(1).indices,
    "std": lambda x: x.std(1, unbiased=False),
    "any": lambda x: (x > 0).any(1),
    "whole numbers": lambda x: (x * 10).long().sum(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "sort": lambda x: x.sort(1).values,
    "flip": lambda x: x.flip(1),
    "first two": lambda x: x[:, :2],
    "last": lambda x: x[:, -1],
    "rows": lambda x: x[[2, 0]],
    "mask": lambda x: x[x > 0],
    "pairs": lambda x: x[[0, 2], [1, 0]],
    "written": written,
    "levels": lambda x: RaggedTensor(x, lengths=[2, 1]).sort(2).values,
    "levels of scores": lambda x: RaggedTensor(x @ x.transpose(1, 2), lengths=[2, 1]).sum(3),
    "images": lambda x: F.avg_pool2d((x @ x.transpose(1, 2)).unsqueeze(1), 3, 1, 1),
    "einsum": lambda x: dynograd.einsum("...d,de->...e", x, ones(x, 4, 2)),
    "cat": lambda x: dynograd.cat([x, x], 1),
    "padded": lambda x: x.to_padded(),
    "and back": lambda x: ragged_from_padded(x.to_padded(), x.lengths()),
    "linear": lambda x: F.linear(x, ones(x, 5, 4)),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "scores": lambda x: x @ x.transpose(1, 2),
    "weights": lambda x: (x @ x.transpose(1, 2)).softmax(2) @ x,
    "conv1d": lambda x: F.conv1d(x.transpose(1, 2), ones(x, 2, 4, 3), padding=1),
    "nonzero": lambda x: (x > 0).nonzero(),
    "double": lambda x: x.double(),
    "likes": lambda x: dynograd.full_like(x, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_cpu(name):
    expected, result = CALLS[name](rows("cpu")), CALLS[name](rows("cuda"))
    assert result.device.type == "cuda" and type(result) is type(expected) and result.dtype is expected.dtype
    if isinstance(expected, RaggedTensor):
        assert result.shape == expected.shape
        while isinstance(expected, RaggedTensor):
            expected, result = expected.values(), result.values()
    numpy.testing.assert_allclose(result.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_and_parts_are_there():
    x = rows("cuda").requires_grad_()
    (x.softmax(1) ** 2).sum().backward()
    y = rows("cpu").requires_grad_()
    (y.softmax(1) ** 2).sum().backward()
    assert x.grad.device.type == x.lengths.device.type == x.offsets().device.type == "cuda"
    numpy.testing.assert_allclose(x.grad.values().cpu().numpy(), y.grad.values().numpy(), rtol=1e-4, atol=1e-6)
    assert "device='cuda:0'" in repr(x)


def test_mixed_devices():
    with pytest.raises(RuntimeError, match="device"):
        rows("cuda") + rows("cpu")
    with pytest.raises(RuntimeError, match=r"row 1 on cuda:0"):
        ragged_tensor([dynograd.ones(1), dynograd.ones(1, device="cuda")])
    with pytest.raises(RuntimeError, match="offsets are on cuda:0"):
        RaggedTensor(dynograd.ones(2), offsets=dynograd.tensor([0, 2], device="cuda"))
