"""The CTC loss on a GPU against the CPU."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.nn import functional as F
from tests.gpu.twins import on_device

LOW = -numpy.inf


def drawn(steps, count, classes, labels, dtype="float32", seed=0):
    rng = numpy.random.default_rng(seed)
    x = rng.normal(size=(steps, count, classes))
    x = (x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))).astype(dtype)
    return x, rng.integers(1, classes, (count, labels))


def compared(x, targets, inputs, lengths, blank=0, zero_infinity=False, turned=False):
    """Losses and gradients of the kernels of both backends."""
    from dynograd.kernels.loss import ctc_cpu, ctc_cuda

    inputs, lengths = numpy.array(inputs), numpy.array(lengths)
    arguments = x, targets, inputs, lengths
    mine = [on_device(argument) for argument in arguments]
    if turned:
        mine[0] = on_device(numpy.ascontiguousarray(x.transpose(1, 0, 2))).transpose((1, 0, 2))
    g = numpy.linspace(1, 2, x.shape[1]).astype(x.dtype)
    expected, *extras = ctc_cpu.ctc_forward(*arguments, blank, zero_infinity)
    result, *own = ctc_cuda.ctc_forward(*mine, blank, zero_infinity)
    slope = ctc_cpu.ctc_backward(g, *arguments, *extras, blank, zero_infinity)
    own_slope = ctc_cuda.ctc_backward(on_device(g), *mine, *own, blank, zero_infinity)
    assert result.dtype == expected.dtype and own_slope.dtype == slope.dtype and own_slope.shape == slope.shape
    near = {"float32": 3e-6, "float64": 1e-12}[str(x.dtype)]
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=near, atol=near)
    numpy.testing.assert_allclose(own_slope.numpy(), slope, rtol=10 * near, atol=3 * near)


FORMS = [
    dict(inputs=[9, 5, 7], lengths=[4, 2, 0]),
    dict(inputs=[9, 0, 0], lengths=[1, 0, 2]),
    dict(inputs=[4, 3, 9], lengths=[4, 4, 4], zero_infinity=True),
    dict(inputs=[4, 3, 9], lengths=[4, 4, 4]),
    dict(inputs=[9, 5, 7], lengths=[4, 2, 0], turned=True),
    dict(inputs=[9, 9, 9], lengths=[4, 3, 2], blank=2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_kernels_agree(form, dtype):
    x, targets = drawn(9, 3, 5, 4, dtype)
    targets[0], targets[2] = [3, 3, 1, 3], [4, 4, 4, 1]
    compared(x, targets, **form)


def test_labels_that_are_the_blank_and_classes_without_a_chance():
    """PyTorch takes both; a target with blanks is aligned as if these were labels."""
    x, targets = drawn(9, 3, 5, 4)
    targets[1] = [0, 1, 0, 0]
    x[:, 2, 1:3] = LOW
    targets[2] = [3, 4, 3, 3]
    compared(x, targets, [9, 9, 9], [4, 3, 4])


@pytest.mark.parametrize("labels, steps", [(31, 70), (40, 90), (0, 3)])
def test_more_states_than_a_warp_and_more_than_threads(labels, steps, monkeypatch):
    from dynograd.kernels.loss import ctc_simt

    monkeypatch.setattr(ctc_simt, "MOST", {4: 32, 8: 32})
    x, targets = drawn(steps, 2, 4, labels)
    compared(x, targets, [steps, max(steps - 9, 1)], [labels, labels * 3 // 4])


def test_forms_of_the_arguments_on_a_gpu():
    x, targets = drawn(7, 3, 5, 3, "float64")
    cpu, gpu = (dynograd.tensor(x, device=device, requires_grad=True) for device in ("cpu", "cuda"))
    flat = numpy.concatenate([targets[0, :3], targets[1, :1], targets[2, :2]])
    expected = F.ctc_loss(cpu, dynograd.tensor(targets), (7, 6, 5), (3, 1, 2))
    (slope,) = grad(expected, cpu)
    tensor = dynograd.tensor
    for labels, inputs, lengths in [
        (tensor(targets, device="cuda"), (7, 6, 5), (3, 1, 2)),
        (tensor(targets, device="cuda"), tensor([7, 6, 5], device="cuda"), tensor([3, 1, 2], device="cuda")),
        (tensor(flat, device="cuda"), tensor([7, 6, 5]), tensor([3, 1, 2], device="cuda")),
    ]:
        result = F.ctc_loss(gpu, labels, inputs, lengths)
        assert result.item() == pytest.approx(expected.item(), rel=1e-12)
        assert (grad(result, gpu)[0].cpu() - slope).abs().max() < 1e-12


def test_labels_out_of_range_are_reported_and_read_nothing():
    x = dynograd.zeros(4, 2, 3, device="cuda").log_softmax(-1)
    targets = dynograd.tensor([[1, 2], [7, 1]], device="cuda")
    with pytest.raises(IndexError, match="ctc_loss: targets: index 7"):
        F.ctc_loss(x, targets, dynograd.tensor([4, 4], device="cuda"), dynograd.tensor([2, 2], device="cuda")).item()
    with pytest.raises(IndexError, match="ctc_loss: input_lengths: index 9"):
        F.ctc_loss(
            x, targets[:, :1] * 0, dynograd.tensor([4, 9], device="cuda"), dynograd.tensor([1, 1], device="cuda")
        ).item()
