"""Ops over lists, and old top-level names."""

import pytest

import dynograd as torch

t = torch.tensor


def lists():
    return [t([1.0, 4.0]), t([[9.0]])], [t([2.0, 2.0]), t([[3.0]])]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_binary(name):
    element, two = lists()
    for other, each in ((two, two), (2.0, [2.0, 2.0]), ([2.0, 3.0], [2.0, 3.0])):
        expected = [getattr(torch, name)(a, b) for a, b in zip(element, each)]
        assert all(a.equal(b) for a, b in zip(getattr(torch, f"_foreach_{name}")(element, other), expected))
        changed = [a.clone() for a in element]
        assert getattr(torch, f"_foreach_{name}_")(changed, other) is changed
        assert all(a.equal(b) for a, b in zip(changed, expected))
    if name == "add":
        assert torch._foreach_add(element, two, alpha=2)[0].tolist() == [5.0, 8.0]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: torch._foreach_add([], []), "_foreach_add: .*at least one tensor, got none"),
        (lambda: torch._foreach_zero_([]), "_foreach_zero_: .*at least one tensor"),
        (lambda: torch._foreach_add(lists()[0], [t(1.0)]), "same number of tensors, got 2 and 1"),
        (lambda: torch._foreach_addcmul(*[lists()[0]] * 3, torch.ones(3)), "input of length 2 but got 3"),
    ],
)
def test_errors(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_others():
    element, two = lists()
    assert [x.tolist() for x in torch._foreach_sqrt(element)] == [[1.0, 2.0], [[3.0]]]
    assert torch._foreach_neg(element)[1].item() == -9
    torch._foreach_lerp_(element, two, 0.5)
    assert element[0].tolist() == [1.5, 3.0]
    torch._foreach_addcmul_(element, two, two, value=0.5)
    assert element[0].tolist() == [3.5, 5.0]
    torch._foreach_addcdiv_(element, two, two, value=-1.0)
    assert element[0].tolist() == [2.5, 4.0]
    assert torch._foreach_norm([t([3.0, 4.0])])[0].item() == 5
    torch._foreach_copy_(element, two)
    assert element[0].equal(two[0])
    torch._foreach_zero_(element)
    assert element[1].item() == 0
    with pytest.raises(RuntimeError, match="_foreach_add: .*same number of tensors, got 2 and 1"):
        torch._foreach_add(element, two[:1])


def test_old_names():
    assert torch.numel(torch.zeros(2, 3)) == 6
    torch.set_default_tensor_type(torch.DoubleTensor)
    assert torch.zeros(1).dtype == torch.float64
    torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.zeros(1).dtype == torch.float32
    for wrong in (torch.LongTensor, "torch.cuda.LongTensor", "FloatTenser", 3):
        with pytest.raises(TypeError, match="only floating-point types .* Use set_default_dtype"):
            torch.set_default_tensor_type(wrong)


def test_skip_init():
    assert torch.nn.utils.skip_init(torch.nn.Linear, 2, 3, bias=False).bias is None
    with pytest.raises(RuntimeError, match="Expected a Module; got 3"):
        torch.nn.utils.skip_init(3)
