"""Dropout. What is random has no reference: dtypes and errors are rows, the rest is said by name."""

import math

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate

NAMES = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
SHAPES = {"dropout": (3, 4), "dropout1d": (2, 3, 4), "dropout2d": (2, 3, 2, 2), "dropout3d": (2, 3, 1, 2, 2)}


def unchanged(input, p, training):
    return input


def seeded(name):
    """The function with the same mask at every call, so that it can be differentiated by differences."""

    def function(input, p, training):
        dynograd.manual_seed(5)
        return getattr(F, name)(input, p, training)

    return function


def masked(name):
    """The mask is read off the function itself at 1 and 0; the row then says that it is applied linearly, in every dtype."""

    def reference(input, p, training):
        apply = seeded(name)
        zero = apply(dynograd.zeros(input.shape, dtype=dynograd.float64), p, training).numpy()
        element = apply(dynograd.ones(input.shape, dtype=dynograd.float64), p, training).numpy()
        return input * (element - zero) + zero

    return reference


def seeded_sum(input, residual, p, training):
    dynograd.manual_seed(5)
    return F.dropout_add(input, residual, p, training)


def seeded_mask(shape, p):
    dynograd.manual_seed(5)
    return F.dropout(dynograd.ones(shape, dtype=dynograd.float64), p).numpy()


def errors_of(name):
    x = dynograd.zeros(SHAPES.get(name, (2, 3)))
    result = [
        error(lambda op: op(x, 1.5, True), ValueError, name, "probability has to be between 0 and 1", "1.5"),
        error(lambda op: op(x, -0.1, True), ValueError, name, "-0.1"),
    ]
    if name == "dropout1d":
        result.append(
            error(
                lambda op: op(dynograd.zeros(2, 2, 2, 2), 0.5, True),
                RuntimeError,
                name,
                "2D or 3D",
                "4D",
                "(2, 2, 2, 2)",
            )
        )
    elif name not in ("dropout", "alpha_dropout"):
        result.append(error(lambda op: op(dynograd.zeros(2), 0.5, True), RuntimeError, name, "at least 2 dims", "(2,)"))
    return result


ROWS = [
    *[
        Row(
            f"nn.functional.{name}",
            unchanged,
            shapes=[SHAPES.get(name, (3, 4))],
            kwargs={"p": 0.5, "training": False},
            method=False,
            errors=errors_of(name),
        )
        for name in NAMES
    ],
    *[
        Row(
            f"nn.functional.{name}",
            masked(name),
            shapes=[SHAPES.get(name, (3, 4))],
            kwargs={"p": 0.4, "training": True},
            function=seeded(name),
            id="training",
            tolerance=2,
            ones=False,
            covers=["dropout_again"],
        )
        for name in NAMES
    ],
    Row(
        "nn.functional.dropout_add",
        lambda input, residual, p, training: input + residual,
        shapes=[(3, 4), (3, 4)],
        kwargs={"p": 0.5, "training": False},
        errors=[error(lambda op: op(dynograd.zeros(2), dynograd.zeros(2), 1.5), ValueError, "dropout_add", "1.5")],
    ),
    Row(
        "nn.functional.dropout_add",
        lambda input, residual, p, training: input * seeded_mask(input.shape, p) + residual,
        shapes=[(12, 40), (12, 40)],
        kwargs={"p": 0.4, "training": True},
        function=seeded_sum,
        id="training",
        tolerance=2,
        ones=False,
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_p_is_dropped_and_the_mean_stays(p):
    y = F.dropout(dynograd.ones(40000), p)
    assert sorted(set(y.tolist())) == pytest.approx([0.0, 1 / (1 - p)])
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=0.01)


def test_certain_probabilities():
    x = dynograd.ones(5)
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).tolist() == [0.0] * 5
    assert F.alpha_dropout(x, 1.0, True).tolist() == [0.0] * 5
    assert F.dropout(x, 0.5, training=False) is x


def test_the_seed_decides_and_each_call_drops_others():
    x = dynograd.ones(100)
    dynograd.manual_seed(3)
    element, two = F.dropout(x), F.dropout(x)
    dynograd.manual_seed(3)
    again = F.dropout(x)
    assert element.tolist() == again.tolist()
    assert element.tolist() != two.tolist()


def test_gradients_of_every_order_see_the_same_mask():
    x = dynograd.ones(50, requires_grad=True)
    y = F.dropout(x)
    (first,) = grad((y**2).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    kept = y.detach().numpy() > 0
    numpy.testing.assert_array_equal(first.detach().numpy() > 0, kept)
    numpy.testing.assert_array_equal(second.numpy() > 0, kept)
    assert second.max().item() == 8.0


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout"])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_have_the_shape_of_the_input(name, compiled):
    x = dynograd.tensor(2.0, requires_grad=True)

    def added(x):
        return getattr(F, name)(x, 0.5, True) + dynograd.zeros(3)

    op = dynograd.compile(added) if compiled else added
    for _ in range(3):
        (g,) = grad(op(x).sum(), x)
        assert g.shape == ()


def test_inplace_writes_into_its_tensor():
    x = dynograd.ones(50)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    x = dynograd.zeros(50)
    assert F.alpha_dropout(x, 0.5, True, inplace=True) is x
    assert len(set(x.tolist())) == 2


@pytest.mark.parametrize(("name", "shape", "lead"), [
    ("dropout1d", (6, 5, 4), 2), ("dropout1d", (30, 4), 1), ("dropout2d", (6, 5, 2, 3), 2), ("dropout3d", (6, 5, 1, 2, 3), 2),
    ("dropout3d", (30, 2, 2, 2), 1), ("feature_alpha_dropout", (6, 5, 4), 2),
])  # fmt: skip
def test_whole_channels_are_dropped(name, shape, lead):
    y = getattr(F, name)(dynograd.ones(shape), 0.5, True).numpy()
    channels = y.reshape(math.prod(shape[:lead]), -1)
    assert (channels == channels[:, :1]).all()
    assert len(numpy.unique(channels[:, 0])) == 2


def test_a_rank_that_dropout2d_does_not_expect_gives_a_warning():
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        F.dropout2d(dynograd.ones(2, 3))


def test_alpha_dropout_keeps_mean_and_variance():
    y = F.alpha_dropout(dynograd.randn(100000), 0.3, True)
    assert y.mean().item() == pytest.approx(0, abs=0.02)
    assert y.std().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("shape", [(3, 4), (70, 100), (9000,)])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_add_is_dropout_and_add(shape, p):
    x, residual = (dynograd.randn(*shape, requires_grad=True) for _ in range(2))
    dynograd.manual_seed(7)
    element = F.dropout_add(x, residual, p)
    dynograd.manual_seed(7)
    other = residual + F.dropout(x, p)
    numpy.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), rtol=1e-6, atol=1e-6)
    g = dynograd.randn(*shape)
    for a, b in zip(grad(element, (x, residual), g), grad(other, (x, residual), g), strict=True):
        numpy.testing.assert_array_equal(a.numpy(), b.numpy())
    assert F.dropout_add(x, residual, p, training=False).equal(x + residual)


@pytest.mark.parametrize("shape", [(70, 100), (4095,), (3, 4097)])
def test_one_pass_draws_the_mask_of_the_stream(shape):
    x = dynograd.ones(*shape)
    dynograd.manual_seed(11)
    float32 = F.dropout(x, 0.4)
    dynograd.manual_seed(11)
    float64 = F.dropout(x.double(), 0.4)
    assert (float32 != 0).equal(float64 != 0)


def test_dropped_infinities_are_nan_as_in_products():
    x = dynograd.full((400,), float("inf"))
    assert F.dropout(x, 1.0).isnan().all()


def test_dropout_add_in_parts_has_the_bits_of_one():
    x, residual = dynograd.randn(400, 500), dynograd.randn(400, 500)
    threads = dynograd.get_num_threads()
    result = []
    for count in (1, 2):
        dynograd.set_num_threads(count)
        dynograd.manual_seed(3)
        result.append(F.dropout_add(x, residual, 0.2))
    dynograd.set_num_threads(threads)
    assert result[0].equal(result[1])
