"""Views of rows with several ragged dims, and ragged sizes as arguments: what each row alone gives, and what is refused."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F

SIZES = [(4, 5), (2, 6), (4, 4)]


def images():
    return dynograd.ragged_tensor([dynograd.rand(4, *size, dtype=dynograd.float64) for size in SIZES])


# the same expression of the ragged x with shape (b, c, h, w), and of each row as a batch of one
SAME = """
x.view(b, c, -1)
x.view(b, c, h * w)
x.reshape(b, c, w * h)
x.view(b, 2, 2, h, w).transpose(1, 2).reshape(b, -1, h, w)
x.view(-1, c, h, w)
x.permute(0, 2, 3, 1)
x.permute(0, 2, 3, 1).reshape(b, -1, c)
x.transpose(2, 3) @ x
x.movedim(1, -1).flatten(1, 2)
x.flatten(2).transpose(1, 2).transpose(1, 2).view(b, c, h, w)
x.flatten(2).unflatten(2, (h, w))
x.flatten(1).unflatten(1, (c, h, w))
x.unflatten(1, (2, 2))
x.unflatten(2, (-1, 2))
x[:, :1].expand(-1, 3, -1, -1)
x[:, :1].expand(b, 3, h, w) * x[:, :3]
x.flatten(2).unflatten(2, (-1, 2))
x.flatten(2).unflatten(2, (2, -1))
F.interpolate(F.max_pool2d(x, 2), x.shape[2:], mode="bilinear")
F.interpolate(F.max_pool2d(x, 2), size=(h, 7))
torch.cat([F.interpolate(F.avg_pool2d(x, 2), (h, w)), x], 1)
""".strip().splitlines()


@pytest.mark.parametrize("text", SAME)
def test_a_row_is_the_row_alone(text):
    def run(x):
        b, c, h, w = x.shape
        return eval(text, {"F": F, "torch": dynograd, "x": x, "b": b, "c": c, "h": h, "w": w})

    x = images()
    result = run(x.requires_grad_())
    (g,) = dynograd.autograd.grad((result**3).sum(), x)
    for number, row in enumerate(x.detach().unbind()):
        alone = row[None].clone().requires_grad_()
        y = run(alone)
        assert result[number].shape == y.shape[1:]
        assert numpy.allclose(result[number].detach(), y[0].detach())
        assert numpy.allclose(g[number], dynograd.autograd.grad((y**3).sum(), alone)[0][0])


def test_ragged_sizes_that_are_the_same_for_all_give_ragged_rows():
    x = dynograd.ragged_tensor([dynograd.rand(4, 5, 6)] * 2, ragged_dims=(2, 3))
    b, c, _, _ = x.shape
    y = x.view(b, c, -1)
    assert dynograd.is_ragged(y) and y.lengths().tolist() == [30, 30]


ERRORS = [
    (lambda x: x.view(3, 5, -1), RuntimeError, "view", "(3, 5, -1)"),
    (lambda x: x.unflatten(3, (-1, 2)), RuntimeError, "unflatten", "-1, 2"),
    (lambda x: x.flatten(2).unflatten(2, (-1, 8)), RuntimeError, "row 0 has 20 elements", "(-1, 8)", "pad the rows"),
    (lambda x: x.flatten(2).unflatten(2, (5, 4)), RuntimeError, "row 1 has 12 elements", "One of the sizes must be -1"),
    (lambda x: x.unflatten(0, (3, 1)), NotImplementedError, "dim 0", "is the rows"),
    (lambda x: x.expand(-1, 8, -1, -1), NotImplementedError, "expand", "(-1, 8, -1, -1)", "dims of size 1"),
    (lambda x: F.interpolate(x, x[:2].shape[2:]), NotImplementedError, "interpolate", "of 2 rows", "there are 3"),
    (lambda x: x.shape[2] * 5, RuntimeError, "j2", "[4, 2, 4]"),
    (lambda x: x.shape[2] * x[:2].shape[2], RuntimeError, "j2", "[4, 2, 4]"),
]


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(case):
    call, kind, *words = case
    with pytest.raises(kind) as caught:
        call(images())
    for word in words:
        assert word in str(caught.value)
