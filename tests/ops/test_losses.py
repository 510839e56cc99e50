"""Losses of predicted values against wanted ones."""

import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def reduced(loss, reduction="mean"):
    return {"mean": numpy.mean, "sum": numpy.sum, "none": lambda x: x}[reduction](loss)


def np_mse(input, target, reduction="mean", weight=None):
    loss = (input - target) ** 2
    if weight is not None:
        return (loss * weight).sum() / weight.sum()
    return reduced(loss, reduction)


def np_l1(input, target, reduction="mean", weight=None):
    loss = numpy.abs(input - target)
    if weight is not None:
        return (loss * weight).sum() / weight.sum()
    return reduced(loss, reduction)


def np_smooth_l1(input, target, reduction="mean", beta=1.0):
    distance = numpy.abs(input - target)
    return reduced(numpy.where(distance < beta, distance**2 / 2 / (beta or 1), distance - beta / 2), reduction)


def np_huber(input, target, reduction="mean", delta=1.0, weight=1.0):
    distance = numpy.abs(input - target)
    return reduced(weight * numpy.where(distance < delta, distance**2 / 2, delta * (distance - delta / 2)), reduction)


def np_kl_div(input, target, reduction="mean", log_target=False):
    loss = numpy.exp(target) * (target - input) if log_target else target * (numpy.log(target) - input)
    return loss.sum() / len(loss) if reduction == "batchmean" else reduced(loss, reduction)


def np_poisson(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    loss = numpy.exp(input) - target * input if log_input else input - target * numpy.log(input + eps)
    if full:
        stirling = target * numpy.log(target) - target + 0.5 * numpy.log(2 * math.pi * target)
        loss = loss + numpy.where(target > 1, stirling, 0)
    return reduced(loss, reduction)


def np_gaussian(input, target, var, full=False, eps=1e-6, reduction="mean"):
    var = numpy.maximum(var if numpy.ndim(var) in (0, input.ndim) else var[..., None], eps)
    loss = (numpy.log(var) + (input - target) ** 2 / var) / 2 + full * 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def three(rng):
    return [rng.normal(size=(3, 4)), rng.normal(size=(3, 4))]


x = dynograd.zeros(2, 3)
NOT_A_REDUCTION = error(lambda op: op(x, x, reduction="median"), ValueError, "median", "'mean', 'sum' or 'none'")
SIZES = error(lambda op: op(x, dynograd.zeros(2, 4)), RuntimeError, "(2, 3)", "(2, 4)", "do not broadcast")
WEIGHT = error(lambda op: op(x, x, weight=dynograd.zeros(3)), ValueError, "same size", "(3,)", "(2, 3)")

ROWS = [
    *[
        Row(
            f"nn.functional.{name}", reference, args=three, kwargs={"reduction": reduction}, id=reduction, errors=errors
        )
        for name, reference, errors in (
            ("mse_loss", np_mse, [NOT_A_REDUCTION, SIZES, WEIGHT]),
            ("l1_loss", np_l1, [NOT_A_REDUCTION, SIZES, WEIGHT]),
            (
                "smooth_l1_loss",
                np_smooth_l1,
                [SIZES, error(lambda op: op(x, x, beta=-1), RuntimeError, "negative", "beta", "-1")],
            ),
            (
                "huber_loss",
                np_huber,
                [SIZES, WEIGHT, error(lambda op: op(x, x, delta=0), RuntimeError, "delta", "got 0")],
            ),
        )
        for reduction in ("mean", "sum", "none")
    ],
    Row(
        "nn.functional.mse_loss",
        np_mse,
        args=three,
        kwargs=lambda rng: {"weight": rng.uniform(0.5, 1, (3, 4))},
        id="weight",
    ),
    Row(
        "nn.functional.l1_loss",
        np_l1,
        args=three,
        kwargs=lambda rng: {"weight": rng.uniform(0.5, 1, (3, 4))},
        id="weight",
    ),
    Row(
        "nn.functional.huber_loss",
        np_huber,
        args=three,
        kwargs=lambda rng: {"weight": rng.uniform(0.5, 1, (3, 4)), "delta": 0.7},
        id="weight",
    ),
    Row("nn.functional.smooth_l1_loss", np_smooth_l1, args=three, kwargs={"beta": 0.3}, id="beta"),
    Row("nn.functional.smooth_l1_loss", np_smooth_l1, args=three, kwargs={"beta": 0}, id="line"),
    Row(
        "nn.functional.kl_div",
        np_kl_div,
        args=lambda rng: [-rng.uniform(0.1, 2, (3, 4)), rng.uniform(0.1, 1, (3, 4))],
        kwargs={"reduction": "batchmean"},
        errors=[NOT_A_REDUCTION],
    ),
    Row(
        "nn.functional.kl_div",
        np_kl_div,
        args=lambda rng: [-rng.uniform(0.1, 2, (3, 4)), -rng.uniform(0.1, 2, (3, 4))],
        kwargs={"reduction": "sum", "log_target": True},
        id="logarithms",
    ),
    *[
        Row(
            f"nn.functional.{name}",
            reference,
            args=lambda rng: [
                rng.uniform(0.1, 0.9, (9, 500)),
                rng.uniform(0.1, 0.9, (9, 500)),
            ],  # a row of 4096 and a rest
            kwargs=kwargs,
            grad=[True, False],
            second=False,
            gradient_tolerance=(1e-3, 1e-6),
            strided=False,
            id=f"one-pass-{kwargs['reduction']}",
            covers=[f"{inner}_in_one_pass"],
        )
        for name, reference, inner, kwargs in (
            ("mse_loss", np_mse, "mse", {"reduction": "mean"}),
            ("l1_loss", np_l1, "l1", {"reduction": "sum"}),
            ("smooth_l1_loss", np_smooth_l1, "smooth_l1", {"reduction": "mean", "beta": 0.3}),
            ("huber_loss", np_huber, "huber", {"reduction": "sum", "delta": 0.2}),
            ("kl_div", np_kl_div, "kl_div", {"reduction": "batchmean"}),
            ("kl_div", np_kl_div, "kl_div_of_logarithms", {"reduction": "sum", "log_target": True}),
        )
    ],
    Row("nn.functional.poisson_nll_loss", np_poisson, args=three, errors=[NOT_A_REDUCTION]),
    Row(
        "nn.functional.poisson_nll_loss",
        np_poisson,
        args=lambda rng: [rng.uniform(0.5, 2, (3, 4)), rng.choice([0.5, 2.0, 3.0], (3, 4))],
        kwargs={"log_input": False, "full": True, "reduction": "sum"},
        id="full",
    ),
    Row(
        "nn.functional.gaussian_nll_loss",
        np_gaussian,
        args=lambda rng: [*three(rng), rng.uniform(0.5, 2, (3, 4))],
        kwargs={"full": True},
        errors=[
            error(lambda op: op(x, x, x - 1), ValueError, "negative", "-1.0"),
            error(lambda op: op(x, x, -1.0), ValueError, "negative", "-1.0"),
            error(lambda op: op(x, x, dynograd.ones(3)), ValueError, "incorrect size", "(3,)", "(2, 3)"),
        ],
    ),
    Row(
        "nn.functional.gaussian_nll_loss",
        np_gaussian,
        args=lambda rng: [*three(rng), rng.uniform(0.5, 2, 3)],
        kwargs={"reduction": "none"},
        id="by-row",
    ),
    Row(
        "nn.functional.gaussian_nll_loss",
        np_gaussian,
        args=lambda rng: [*three(rng), rng.uniform(0.5, 2, (3, 1))],
        id="column",
    ),
    Row("nn.functional.gaussian_nll_loss", np_gaussian, args=lambda rng: [*three(rng), 0.5], id="number"),
]
test_rows = generate(ROWS)


def test_pytorchs_old_switches_still_choose_the_reduction():
    element, two = dynograd.tensor([1.0, 3.0]), dynograd.zeros(2)
    assert F.l1_loss(element, two, size_average=False).item() == 4.0
    assert F.l1_loss(element, two, size_average=True).item() == 2.0
    assert F.l1_loss(element, two, reduce=False).tolist() == [1.0, 3.0]
    assert F.mse_loss(element, two, False, True).item() == 10.0


def test_a_target_of_another_size_is_broadcast_with_a_warning():
    with pytest.warns(UserWarning, match=r"target size \(\(2, 1\)\).*input size \(\(2,\)\)"):
        loss = F.mse_loss(dynograd.zeros(2), dynograd.ones(2, 1))
    assert loss.item() == 1.0


def test_kl_div_mean_says_what_it_divides_by():
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(dynograd.zeros(2, 2), dynograd.ones(2, 2))


def test_kl_div_of_a_certain_target_is_finite():
    target = dynograd.tensor([0.0, 1.0], requires_grad=True)
    loss = F.kl_div(dynograd.tensor([0.5, 0.5]).log(), target, reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert numpy.isfinite(target.grad[1].item())


def test_poisson_nll_of_zero_counts_has_finite_gradients():
    target = dynograd.zeros(2, requires_grad=True)
    F.poisson_nll_loss(dynograd.ones(2), target, full=True).backward()
    assert numpy.isfinite(target.grad.numpy()).all()


def test_small_variances_count_as_eps_and_keep_their_gradient():
    var = dynograd.tensor([1e-9], requires_grad=True)
    loss = F.gaussian_nll_loss(dynograd.zeros(1), dynograd.ones(1), var, eps=0.5)
    loss.backward()
    assert loss.item() == pytest.approx((math.log(0.5) + 2) / 2)
    assert var.grad.item() == pytest.approx((1 / 0.5 - 1 / 0.25) / 2)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(5,), (300, 7), (3, 4096), (8193,)])
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (F.mse_loss, {}),
        (F.l1_loss, {}),
        (F.smooth_l1_loss, {"beta": 0.3}),
        (F.huber_loss, {"delta": 0.4}),
        (F.binary_cross_entropy, {}),
        (F.binary_cross_entropy_with_logits, {}),
        (F.kl_div, {}),
        (F.kl_div, {"log_target": True}),
    ],
)
@pytest.mark.filterwarnings("ignore:reduction")
def test_one_pass_equals_the_losses_reduced(loss, options, shape, reduction):
    rng = numpy.random.default_rng(1)
    values, expected = rng.uniform(0.05, 0.95, (2, *shape)).astype(numpy.float32)
    target = dynograd.tensor(expected)
    x = dynograd.tensor(values, requires_grad=True)
    result = loss(x, target, reduction=reduction, **options)
    (result * 3).backward()
    exact = dynograd.tensor(values.astype(numpy.float64), requires_grad=True)
    each = loss(exact, target.double(), reduction="none", **options)
    (getattr(each, reduction)() * 3).backward()
    numpy.testing.assert_allclose(result.item(), getattr(each, reduction)().item(), rtol=3e-6)
    numpy.testing.assert_allclose(x.grad.numpy(), exact.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_one_pass_of_what_is_not_finite():
    x = dynograd.tensor([[0.0] * 300, [float("nan")] + [1.0] * 299, [float("inf")] * 300], requires_grad=True)
    target = dynograd.zeros(3, 300)
    for row, loss in ((1, F.mse_loss), (1, F.l1_loss), (1, F.huber_loss), (1, F.binary_cross_entropy_with_logits)):
        assert numpy.isnan(loss(x[row : row + 1].expand(1, 300), target[:1]).item())
    assert F.mse_loss(x[2], target[2]).item() == float("inf")
    assert F.binary_cross_entropy_with_logits(x[2].nan_to_num() * -1, target[2]).item() == 0.0


def test_one_pass_needs_the_target_constant():
    target = dynograd.rand(20, 30, requires_grad=True)
    x = dynograd.rand(20, 30, requires_grad=True)
    F.mse_loss(x, target).backward()
    numpy.testing.assert_allclose(x.grad.numpy(), -target.grad.numpy())


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_truth_values_are_targets(loss, reduction):
    scores, truths = dynograd.tensor([[0.5, -1.0], [2.0, 0.25]]), dynograd.tensor([[True, False], [False, True]])
    x, y = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    result, expected = loss(x, truths, reduction=reduction), loss(y, truths.float(), reduction=reduction)
    assert result.dtype is dynograd.float32
    assert result.tolist() == expected.tolist()
    result.sum().backward()
    expected.sum().backward()
    assert x.grad.tolist() == y.grad.tolist()
    assert (
        loss(truths, scores, reduction=reduction).tolist() == loss(truths.float(), scores, reduction=reduction).tolist()
    )


def test_the_huber_loss_has_the_dtype_of_its_input():
    x = dynograd.tensor([0.5, 3.0], requires_grad=True)
    loss = F.huber_loss(x, dynograd.zeros(2, dtype=dynograd.float64), reduction="none")
    loss.sum().backward()
    assert (loss.dtype, loss.tolist(), x.grad.tolist()) == (dynograd.float32, [0.125, 2.5], [0.5, 1.0])
    assert F.huber_loss(dynograd.ones(2, dtype=dynograd.float64), dynograd.ones(2)).dtype is dynograd.float64
