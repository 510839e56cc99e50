"""The CTC loss against all alignments written out, one by one."""

import itertools

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.func import grad as grad_of
from dynograd.func import jvp, vmap
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate

T, N, C = 5, 3, 3
TARGETS = numpy.array([[1, 2], [2, 2], [1, 0]])
INPUTS, LENGTHS = numpy.array([5, 4, 2]), numpy.array([2, 2, 1])


def collapsed(path, blank):
    return [label for label, _ in itertools.groupby(path) if label != blank]


def np_losses(log_probs, targets, input_lengths, target_lengths, blank=0):
    """-log of the summed probability of all paths that collapse to the target."""
    losses = []
    for n, (steps, length) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        wanted = list(targets[n][:length])
        paths = itertools.product(range(log_probs.shape[2]), repeat=int(steps))
        chances = [
            numpy.exp(sum(log_probs[t, n, c] for t, c in enumerate(path)))
            for path in paths
            if collapsed(path, blank) == wanted
        ]
        losses.append(-numpy.log(sum(chances)) if chances else numpy.inf)
    return numpy.array(losses)


def np_log_softmax(x):
    return x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))


def np_ctc(scores, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    single = scores.ndim == 2
    if single:
        scores, targets = scores[:, None], targets[None]
        input_lengths, target_lengths = [numpy.ravel(one) for one in (input_lengths, target_lengths)]
    if targets.ndim == 1:
        targets = numpy.split(targets, numpy.cumsum(target_lengths)[:-1])
    losses = np_losses(np_log_softmax(scores), targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses[losses == numpy.inf] = 0
    if reduction == "mean":
        return (losses / numpy.maximum(target_lengths, 1)).mean()
    losses = losses[0] if single and reduction == "none" else losses
    return losses.sum() if reduction == "sum" else losses


def of_scores(scores, *rest, **options):
    return F.ctc_loss(scores.log_softmax(-1), *rest, **options)


def arguments(targets=TARGETS, inputs=INPUTS, lengths=LENGTHS, shape=(T, N, C)):
    return lambda rng: [rng.normal(size=shape), targets, inputs, lengths]


log_probs = dynograd.zeros(T, N, C).log_softmax(2)
padded = dynograd.tensor(TARGETS)


def refused(*words, kind=RuntimeError, **changed):
    given = dict(log_probs=log_probs, targets=padded, input_lengths=(5, 4, 2), target_lengths=(2, 2, 1)) | changed
    return error(lambda op: F.ctc_loss(**given), kind, "ctc_loss", *words)


ERRORS = [
    refused("(T, N, C)", "(5,)", "transpose", log_probs=dynograd.zeros(5)),
    refused("must not be empty", "(5, 0, 3)", log_probs=dynograd.zeros(5, 0, 3)),
    refused("floating", "int64", ".float()", log_probs=log_probs.long()),
    refused("0 to 2", "got 3", kind=IndexError, blank=3),
    refused("input_lengths", "at most 5", "value 6", "position 1", kind=IndexError, input_lengths=(5, 6, 2)),
    refused("target_lengths", "at least 0", "value -1", kind=IndexError, target_lengths=(2, -1, 2)),
    refused("target_lengths", "at most 2", "value 3", "(3, 2)", kind=IndexError, target_lengths=(2, 3, 2)),
    refused("input_lengths", "3 lengths", "got 2", input_lengths=(5, 4)),
    refused("target_lengths", "integral", "float32", target_lengths=dynograd.ones(3)),
    refused("(3, S)", "got (2, 2)", targets=padded[:2]),
    refused("size 5", "[2, 2, 1]", "got size 4", "(N, S)", targets=padded.reshape(-1)[:4]),
    refused("target 3", "sequence 0, label 1", "3 classes", kind=IndexError, targets=padded + 1),
    refused("avg", "'mean'", kind=ValueError, reduction="avg"),
]

ROWS = [
    Row(
        "ctc_loss",
        np_ctc,
        args=arguments(),
        kwargs=dict(reduction="none"),
        function=of_scores,
        covers=["ctc_losses"],
        errors=ERRORS,
    ),
    Row("ctc_loss", np_ctc, args=arguments(), function=of_scores, id="mean"),
    Row(
        "ctc_loss",
        np_ctc,
        args=arguments(numpy.array([0, 2, 0, 0]), numpy.array([5, 4, 2]), numpy.array([2, 0, 2])),
        kwargs=dict(blank=1, reduction="sum", zero_infinity=True),
        function=of_scores,
        id="flat targets, one empty and one impossible",
    ),
    Row(
        "ctc_loss",
        np_ctc,
        args=arguments(numpy.array([2, 1]), numpy.array(4), numpy.array(2), (4, 3)),
        kwargs=dict(reduction="none"),
        function=of_scores,
        id="one sequence",
    ),
    Row(
        "ctc_loss",
        np_ctc,
        args=arguments(numpy.zeros((3, 0), int), INPUTS, numpy.zeros(3, int)),
        function=of_scores,
        id="no labels at all",
    ),
]  # fmt: skip
test_rows = generate(ROWS)


def drawn(seed, shape, dtype="float64"):
    x = numpy.random.default_rng(seed).normal(size=shape)
    return dynograd.tensor(np_log_softmax(x).astype(dtype), requires_grad=True)


def test_an_impossible_target_costs_infinity_and_its_gradient_is_nan():
    x = drawn(0, (T, N, C))
    losses = F.ctc_loss(x, padded, (5, 2, 0), (2, 2, 0), reduction="none")
    assert losses[1] == float("inf") and losses[2] == 0
    (found,) = grad(losses.sum(), x)
    assert found[:2, 1].isnan().all() and not found[2:, 1].any() and not found[:, 2].any()
    assert found[:, 0].isfinite().all()


def test_log_probs_are_taken_for_results_of_log_softmax():
    """As in PyTorch: the gradient is exp(log_probs) minus the chance of a class in a step, whatever the log_probs are."""
    x = dynograd.randn(4, 1, 3, dtype=dynograd.float64, requires_grad=True)
    (found,) = grad(F.ctc_loss(x, dynograd.tensor([[1, 2]]), (3,), (2,), reduction="none") * 2, x, dynograd.ones(1))
    values = x.detach().numpy()
    chances = numpy.zeros((4, 1, 3))
    for path in itertools.product(range(3), repeat=3):
        if collapsed(path, 0) == [1, 2]:
            chance = numpy.exp(sum(values[t, 0, c] for t, c in enumerate(path)))
            for t, c in enumerate(path):
                chances[t, 0, c] += chance
    chances[:3] /= chances[0].sum()
    wanted = numpy.exp(values) * (numpy.arange(4) < 3)[:, None, None] - chances
    numpy.testing.assert_allclose(found.numpy(), 2 * wanted, rtol=1e-9)


def test_every_form_of_lengths_and_targets_gives_the_same():
    x = drawn(1, (T, N, C))
    first = F.ctc_loss(x, padded, (5, 4, 2), (2, 2, 1))
    tensor = dynograd.tensor
    for targets, inputs, lengths in [
        (padded.int(), [5, 4, 2], tensor([2, 2, 1])),
        (tensor([1, 2, 2, 2, 1]), tensor([5, 4, 2], dtype=dynograd.int32), [2, 2, 1]),
        (padded.double(), tensor([[5, 4, 2]]), (2, 2, 1)),
        (tensor([[1, 2], [2, 2], [1, -7]]), (5, 4, 2), (2, 2, 1)),
    ]:
        assert F.ctc_loss(x, targets, inputs, lengths).item() == first.item()
    assert dynograd.ctc_loss(x, padded, (5, 4, 2), (2, 2, 1), 0, 1).item() == first.item()
    one = F.ctc_loss(x[:, 0], padded[0], 5, 2, reduction="none")
    assert one.shape == () and one.item() == F.ctc_loss(x, padded, (5, 4, 2), (2, 2, 1), reduction="none")[0].item()


def test_batches_that_come_first_are_read_and_written_in_their_place():
    x = drawn(2, (N, 40, 7))
    targets, lengths = dynograd.tensor([[1, 2, 3], [3, 3, 3], [6, 0, 0]]), (3, 3, 1)
    turned = x.transpose(0, 1)
    losses = F.ctc_loss(turned, targets, (40, 30, 20), lengths, reduction="none")
    whole = turned.contiguous()
    other = F.ctc_loss(whole, targets, (40, 30, 20), lengths, reduction="none")
    assert (losses == other).all()
    assert (grad(losses.sum(), x)[0] == grad(other.sum(), x)[0]).all()


def test_long_sequences_keep_their_digits():
    x = drawn(3, (2000, 2, 30))
    targets = dynograd.randint(1, 30, (2, 200))
    wanted = F.ctc_loss(x, targets, (2000, 1500), (200, 150), reduction="none")
    narrow = x.detach().float().requires_grad_()
    found = F.ctc_loss(narrow, targets, (2000, 1500), (200, 150), reduction="none")
    numpy.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=2e-7)
    slopes = [grad(losses.sum(), one)[0].numpy() for losses, one in [(found, narrow), (wanted, x)]]
    numpy.testing.assert_allclose(*slopes, atol=4e-5)


def test_vmap_makes_one_batch_of_all_examples():
    x, targets = drawn(4, (3, T, C)).detach(), dynograd.tensor([[1, 2], [2, 2], [1, 1]])
    inputs, lengths = dynograd.tensor([5, 4, 4]), dynograd.tensor([2, 2, 1])

    def loss(x, targets, steps, length):
        return F.ctc_loss(x, targets, steps, length, reduction="sum")

    dynograd.func.vmap_fallbacks(clear=True)
    found = vmap(loss)(x, targets, inputs, lengths)
    slopes = vmap(grad_of(loss))(x, targets, inputs, lengths)
    assert not dynograd.func.vmap_fallbacks()
    for n in range(3):
        given = x[n], targets[n], int(inputs[n]), int(lengths[n])
        assert found[n].item() == pytest.approx(loss(*given).item(), rel=1e-12)
        assert (slopes[n] - grad_of(loss)(*given)).abs().max() < 1e-12


def test_vmap_of_targets_behind_one_another():
    x, flat = drawn(6, (2, T, N, C)).detach(), dynograd.tensor([[1, 2, 2, 1], [2, 1, 1, 1]])

    def loss(x, flat):
        return F.ctc_loss(x, flat, (5, 4, 3), (1, 2, 1))

    assert vmap(loss)(x, flat).tolist() == pytest.approx([loss(x[0], flat[0]).item(), loss(x[1], flat[1]).item()])


def test_forward_mode_agrees_with_the_gradient():
    x, direction = drawn(5, (T, N, C)).detach(), dynograd.randn(T, N, C, dtype=dynograd.float64)

    def loss(x):
        return F.ctc_loss(x, padded, (5, 4, 2), (2, 2, 1), reduction="sum")

    _, slope = jvp(loss, (x,), (direction,))
    assert slope.item() == pytest.approx((grad_of(loss)(x) * direction).sum().item(), rel=1e-9)
