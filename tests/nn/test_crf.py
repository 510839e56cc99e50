"""CRF: arguments, forms of batches, reductions and messages. The recursions themselves are tested in tests/ops/test_chains.py."""

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.func import grad as grad_of
from dynograd.func import vmap
from tests.nn.rows import Row, error, generate

B, T, K = 3, 5, 4
LENGTHS = [5, 0, 2]
RNG = numpy.random.default_rng(0)
EMISSIONS = dg.tensor(RNG.normal(size=(B, T, K)))
TAGS = dg.tensor(RNG.integers(0, K, (B, T)))
MASK = dg.arange(T) < dg.tensor(LENGTHS)[:, None]
OFFSETS = [0, 5, 5, 7]


def np_likelihood(p, x, tags, lengths):
    """The sum over sequences, by the forward algorithm in plain NumPy."""
    total = 0.0
    for emissions, expected, length in zip(x, tags, lengths):
        if not length:
            continue
        level = p.start_transitions + emissions[0]
        score = level[expected[0]]
        for t in range(1, length):
            level = numpy.log(numpy.exp(level[:, None] + p.transitions).sum(0)) + emissions[t]
            score += p.transitions[expected[t - 1], expected[t]] + emissions[t, expected[t]]
        total += score + p.end_transitions[expected[length - 1]] - numpy.log(numpy.exp(level + p.end_transitions).sum())
    return total


def refused(call, kind, *words):
    return error(call, kind, "CRF", *words)


x, tags = dg.zeros(B, T, K), dg.zeros(B, T, dtype=dg.long)
flat, flat_tags = dg.zeros(7, K), dg.zeros(7, dtype=dg.long)
ERRORS = [
    refused(lambda crf: crf(x[..., :3], tags), RuntimeError, "(B, T, K)", "K = 4", "(3, 5, 3)", "CRF(3)"),
    refused(lambda crf: crf(x[0, 0], tags), RuntimeError, "got shape (4,)"),
    refused(lambda crf: crf(x.long(), tags), RuntimeError, "floating", "int64"),
    refused(lambda crf: crf(x, tags[:2]), RuntimeError, "tags of shape (3, 5)", "got (2, 5)"),
    refused(lambda crf: crf(x, tags.float()), RuntimeError, "integers", "float32", ".long()"),
    refused(lambda crf: crf(x, tags + 4), IndexError, "tags from 0 to 3", "got 4", "position (0, 0)", "padding"),
    refused(lambda crf: crf(x, tags - (dg.arange(5) == 1).long(), lengths=[1, 2, 1]), IndexError, "got -1", "(1, 1)"),
    refused(lambda crf: crf(x, tags, reduction="avg"), ValueError, "'token_mean'", "'avg'"),
    refused(lambda crf: crf(x, tags, ~MASK), ValueError, "sequence 2, step 2", "True behind False"),
    refused(lambda crf: crf(x, tags, MASK[:2]), RuntimeError, "mask of shape (3, 5)", "got (2, 5)"),
    refused(lambda crf: crf(x, tags, MASK, lengths=LENGTHS), ValueError, "mask and lengths"),
    refused(lambda crf: crf(x, tags, lengths=[6, 0, 1]), IndexError, "lengths from 0 to 5", "got 6", "(0,)"),
    refused(lambda crf: crf(x, tags, lengths=[1, 2]), RuntimeError, "3 lengths", "(2,)"),
    refused(lambda crf: crf(x, tags, lengths=dg.ones(3)), RuntimeError, "integers", "float32"),
    refused(lambda crf: crf(x, tags, offsets=[0, 5]), RuntimeError, "(M, K)", "(3, 5, 4)", "pass lengths"),
    refused(lambda crf: crf(flat, flat_tags, offsets=[0, 8]), IndexError, "offsets from 0 to 7", "got 8"),
    refused(lambda crf: crf(flat, flat_tags, offsets=[0, 3, 2]), IndexError, "got -1", "must not fall"),
    refused(lambda crf: nn.CRF(0), ValueError, "above 0", "got 0"),
    refused(lambda crf: nn.CRF(2.0), ValueError, "got 2.0"),
]  # fmt: skip

ROWS = [
    Row(
        "CRF", (K,), dict(batch_first=True), inputs=lambda rng: [rng.normal(size=(2, 4, K)), rng.integers(0, K, (2, 4))],
        reference=lambda p, x, tags: np_likelihood(p, x, tags, [4, 4]), out=(), text="CRF(num_tags=4, batch_first=True)",
        parameters={"start_transitions": (K,), "end_transitions": (K,), "transitions": (K, K)}, errors=ERRORS,
    ),
    Row(
        "CRF", (K,), inputs=lambda rng: [rng.normal(size=(4, 2, K)), rng.integers(0, K, (4, 2))],
        reference=lambda p, x, tags: np_likelihood(p, x.swapaxes(0, 1), tags.T, [4, 4]), out=(),
        text="CRF(num_tags=4, batch_first=False)",
        parameters={"start_transitions": (K,), "end_transitions": (K,), "transitions": (K, K)},
    ),
]  # fmt: skip
test_rows = generate(ROWS)


@pytest.fixture
def crf():
    dg.manual_seed(0)
    return nn.CRF(K, batch_first=True, dtype=dg.float64)


def forms(crf):
    """(layer, emissions, tags, keywords) of one batch in all its forms."""
    other = nn.CRF(K, dtype=dg.float64)
    other.load_state_dict(crf.state_dict())
    padded = dg.where(MASK, TAGS, -100)
    return {
        "mask": (crf, EMISSIONS, padded, dict(mask=MASK)),
        "mask of bytes": (crf, EMISSIONS, TAGS, dict(mask=MASK.to(dg.uint8))),
        "lengths": (crf, EMISSIONS, padded.int(), dict(lengths=LENGTHS)),
        "time first": (other, EMISSIONS.transpose(0, 1), padded.T, dict(mask=MASK.T)),
        "time first, lengths": (other, EMISSIONS.transpose(0, 1).contiguous(), padded.T, dict(lengths=dg.tensor(LENGTHS))),
        "packed": (crf, EMISSIONS[MASK], TAGS[MASK], dict(offsets=OFFSETS)),
        "packed with a gap": (crf, dg.cat([EMISSIONS[2], EMISSIONS[0], EMISSIONS[2]]), dg.cat([TAGS[2] * 0 + 9, TAGS[0], TAGS[2]]),
                              dict(offsets=dg.tensor([5, 10, 10, 12]))),
    }  # fmt: skip


def test_every_form_of_a_batch_gives_the_same(crf):
    likelihoods, paths, scores, partitions = [], [], [], []
    for layer, emissions, tags, argument in forms(crf).values():
        likelihoods.append(layer(emissions, tags, reduction="none", **argument).tolist())
        paths.append(layer.decode(emissions, **argument))
        scores.append(layer.viterbi(emissions, **argument).scores.tolist())
        partitions.append(layer.log_partition(emissions, **argument).tolist())
        assert layer.viterbi(emissions, **argument).tags.shape == tags.shape
        marginals = layer.marginals(emissions, **argument)
        assert marginals.shape == emissions.shape and marginals.sum().item() == pytest.approx(sum(LENGTHS))
    for result in (likelihoods, scores, partitions):
        numpy.testing.assert_allclose(result, [result[0]] * len(result), rtol=1e-12)
    assert all(path == paths[0] for path in paths) and [len(path) for path in paths[0]] == LENGTHS


def test_one_sequence_without_a_batch(crf):
    for layer in (crf, forms(crf)["time first"][0]):
        result = layer(EMISSIONS[0], TAGS[0], reduction="none")
        assert result.shape == () and result.item() == pytest.approx(crf(EMISSIONS[:1], TAGS[:1]).item())
        assert layer.decode(EMISSIONS[0]) == crf.decode(EMISSIONS[:1])
        tags, score = layer.viterbi(EMISSIONS[0], lengths=[3])
        assert tags[:3].tolist() == crf.decode(EMISSIONS[:1, :3])[0] and score.shape == ()


def test_a_batch_of_one_with_time_first(crf):
    layer = forms(crf)["time first"][0]
    result = layer(EMISSIONS[0, :, None], TAGS[0, :, None], lengths=[4])
    assert result.item() == pytest.approx(crf(EMISSIONS[:1], TAGS[:1], lengths=[4]).item())


def test_reductions(crf):
    each = crf(EMISSIONS, TAGS, MASK, reduction="none")
    assert each.shape == (B,) and each[1] == 0
    assert crf(EMISSIONS, TAGS, MASK).item() == pytest.approx(each.sum().item())
    assert crf(EMISSIONS, TAGS, MASK, "mean").item() == pytest.approx(each.mean().item())
    assert crf(EMISSIONS, TAGS, MASK, "token_mean").item() == pytest.approx(each.sum().item() / 7)


def test_the_score_of_the_best_path_is_viterbis_and_differentiates(crf):
    tags, scores = crf.viterbi(EMISSIONS, MASK)
    result = crf.score(EMISSIONS, tags, MASK)
    numpy.testing.assert_allclose(result.detach().numpy(), scores.numpy(), rtol=1e-12)
    result.sum().backward()
    assert crf.start_transitions.grad.sum().item() == pytest.approx(2)
    assert crf.transitions.grad.sum().item() == pytest.approx(5)
    assert not scores.requires_grad


def test_a_network_learns_that_a_tag_follows_another():
    """Emissions say nothing of the second of a pair; only transitions can."""
    dg.manual_seed(0)
    layer = nn.CRF(4, batch_first=True)
    first = dg.randint(0, 2, (64, 3))
    tags = dg.stack([first, first + 2], dim=2).reshape(64, 6)
    emissions = dg.zeros(64, 6, 4)
    emissions[:, ::2] = nn.functional.one_hot(first, 4).float() * 8
    optimizer = dg.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        (-layer(emissions, tags, reduction="token_mean")).backward()
        optimizer.step()
    assert layer.decode(emissions) == tags.tolist()


def test_half_types_are_computed_in_float32():
    layer = nn.CRF(K, batch_first=True, dtype=dg.bfloat16)
    x = EMISSIONS.to(dg.bfloat16).requires_grad_()
    result = layer(x, TAGS)
    result.backward()
    wide = nn.CRF(K, batch_first=True)
    wide.load_state_dict({name: element.float() for name, element in layer.state_dict().items()})
    assert result.dtype is dg.bfloat16 and x.grad.dtype is dg.bfloat16 and layer.transitions.grad.dtype is dg.bfloat16
    assert result.item() == pytest.approx(wide(x.float(), TAGS).item(), rel=1e-2)


def test_vmap_and_gradients_of_examples(crf):
    many = dg.stack([EMISSIONS, EMISSIONS * 2])
    tags, lengths = dg.stack([TAGS, TAGS.flip(1)]), dg.tensor([[5, 0, 2], [1, 3, 4]])

    def loss(x, tags, lengths):
        return crf(x, tags, lengths=lengths)

    result, slopes = vmap(loss)(many, tags, lengths), vmap(grad_of(loss))(many, tags, lengths)
    for n in range(2):
        assert result[n].item() == pytest.approx(loss(many[n], tags[n], lengths[n]).item())
        assert (slopes[n] - grad_of(loss)(many[n], tags[n], lengths[n])).abs().max() < 1e-12


def test_no_sequences_at_all(crf):
    empty = dg.zeros(0, 4, K, dtype=dg.float64, requires_grad=True)
    result = crf(empty, dg.zeros(0, 4, dtype=dg.long))
    result.backward()
    assert result.item() == 0 and empty.grad.shape == (0, 4, K) and crf.decode(empty) == []
    assert crf(dg.zeros(0, K), dg.zeros(0, dtype=dg.long), offsets=[0, 0], reduction="none").tolist() == [0]
