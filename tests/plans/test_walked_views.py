"""Views in walks: the call that a step remembers leads to it again, and no other call does."""

from __future__ import annotations

import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled

VIEWS = {
    "view": lambda h, k: h.view(2, -1),
    "view as a tuple": lambda h, k: h.view((h.shape[0] // 2, -1)),
    "permute": lambda h, k: h.permute(1, 0),
    "permute by a list": lambda h, k: h.permute([1, 0]),
    "keywords": lambda h, k: torch.transpose(h, dim0=0, dim1=1),
    "last rows": lambda h, k: h[-2:],
    "all but the last": lambda h, k: h[:-1, 1:],
    "half": lambda h, k: h[: h.shape[0] // 2],
    "unsqueezed": lambda h, k: h.unsqueeze(0)[0].unsqueeze(-1).squeeze(-1),
    "narrow": lambda h, k: h.narrow(0, 1, h.shape[0] - 2),
    "flatten": lambda h, k: h.flatten(),
    "movedim": lambda h, k: h.movedim(0, -1),
    "split": lambda h, k: h.split(2)[1],
    "another place each time": lambda h, k: h[k % 4],
    "another shape each time": lambda h, k: h.reshape(*[(-1, 2), (2, -1), (1, -1)][k % 3]),
    "a truth or a number": lambda h, k: h[(True, 1, 0)[k % 3]],
    "behind a write": lambda h, k: h.mul_(2).t().contiguous().view(-1),
    "written": lambda h, k: h.t()[1:].add_(3).t(),
}


@pytest.mark.parametrize("gradient", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("lengths", [(8,), (8, 12), (6, 8, 10, 12, 14, 16)], ids=len)
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_those_of_eager_mode(name, lengths, gradient):
    view = VIEWS[name]

    weight = torch.tensor([1.0, -2.0, 3.0, 0.5], requires_grad=gradient)

    def program(x, k):
        weight.grad = None
        h = x * weight
        y = view(h, k)
        y = (y + 1).exp() * y
        if gradient:
            y.sum().backward()
        return y

    compiled = Compiled(program, always=True, dynamic=True)
    for call in range(24):
        length = lengths[call % len(lengths)]
        sides = []
        for function in (compiled, program):
            x = torch.linspace(-1, 1, 4 * length).reshape(length, 4)
            y = function(x, call)
            grad = weight.grad.numpy().copy() if gradient else None
            sides.append((y.detach().numpy().copy(), grad, y.shape, y.stride()))
        (y, grad, *layout), (expected, expected_grad, *expected_layout) = sides
        assert layout == expected_layout
        assert y == pytest.approx(expected, rel=1e-6)
        assert not gradient or grad == pytest.approx(expected_grad, rel=1e-6)
    assert compiled.walked


def test_a_step_remembers_the_call_of_a_view():
    compiled = Compiled(lambda x: (x * 2).permute(1, 0).exp()[1:, :-1].sum(), always=True)
    for _ in range(4):
        compiled(torch.ones(3, 4))
    steps = [step for step in compiled.walk.paths[0].steps if step.event.entry.op.view]
    assert [step.call[1:3] for step in steps] == [((1, 0), 3), (((slice(1, None), slice(None, -1)),), 2)]


GIVEN = {
    "rows": lambda: torch.randn(4, 3),
    "every second row": lambda: torch.randn(8, 3)[::2],
    "some columns": lambda: torch.randn(4, 6)[:, 2:5],
    "turned": lambda: torch.randn(3, 4).t(),
    "stretched": lambda: torch.randn(1, 3).expand(4, 3),
    "turned columns": lambda: torch.randn(5, 4)[1:4].t(),
}
PARTS = {
    "turned": lambda x: x.t(),
    "a part": lambda x: x[1:, :2],
    "a row": lambda x: x[2],
    "detached": lambda x: x.detach()[1:],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", GIVEN)
def test_views_of_arguments_are_their_memory(name, part):
    compiled = Compiled(lambda x: (PARTS[part](x), (x * 2).sum()), always=True)
    for _ in range(5):
        x = GIVEN[name]()
        view, _ = compiled(x)
        expected = PARTS[part](x)
        assert view.data_ptr() == expected.data_ptr()
        assert view.shape == expected.shape and view.stride() == expected.stride()
        x.data[2] = 7.0
        assert torch.equal(view, expected)
    assert compiled.walked
