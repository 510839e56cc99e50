"""Chains of tags on a GPU against the CPU, and `nn.CRF` on one."""

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.kernels.loss import chains_cpu, chains_cuda, chains_simt
from tests.gpu.twins import on_device

LENGTHS = numpy.array([4, 0, 1, 3])
FORMS = {
    "batch first": (4 * numpy.arange(4), 1),
    "time first": (numpy.arange(4), 4),
    "packed": (numpy.cumsum(LENGTHS) - LENGTHS, 1),
}


def drawn(rows, tags, dtype, scale=1.0, seed=0):
    rng = numpy.random.default_rng(seed)
    return [(rng.normal(size=shape) * scale).astype(dtype) for shape in ((rows, tags), (tags, tags), tags, tags)]


def compared(weights, tags, starts, lengths, step, near):
    """Likelihoods, gradients and best paths of both backends."""
    arguments = [*weights, tags, starts, lengths]
    mine = [None if argument is None else on_device(argument) for argument in arguments]
    expected, *extras = chains_cpu.chain_likelihoods(*arguments, step)
    result, *own = chains_cuda.chain_likelihoods(*mine, step)
    assert result.dtype == expected.dtype
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=near, atol=near)
    g = numpy.linspace(1, 2, len(starts)).astype(weights[0].dtype)
    slopes = chains_cpu.chain_gradients(g, *arguments, step, *extras)
    own_slopes = chains_cuda.chain_gradients(on_device(g), *mine, step, *own)
    for element, other in zip(own_slopes, slopes, strict=True):
        assert element.dtype == other.dtype and element.shape == other.shape
        numpy.testing.assert_allclose(element.numpy(), other, rtol=10 * near, atol=10 * near)
    paths, scores = chains_cpu.best_paths(*weights, starts, lengths, step)
    own_paths, own_scores = chains_cuda.best_paths(*mine[:4], *mine[5:], step)
    assert (own_paths.numpy() == paths).all() and own_paths.dtype == paths.dtype
    numpy.testing.assert_allclose(own_scores.numpy(), scores, rtol=near, atol=near)


@pytest.mark.parametrize("dtype, near", [("float32", 3e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_agree(form, dtype, near):
    starts, step = FORMS[form]
    tags = numpy.random.default_rng(1).integers(0, 5, 16)
    compared(drawn(16, 5, dtype), tags, starts, LENGTHS, step, near)
    compared(drawn(16, 5, dtype), None, starts, LENGTHS, step, near)


def test_more_tags_than_threads_and_more_sequences_than_blocks(monkeypatch):
    monkeypatch.setattr(chains_simt, "MOST", 32)
    monkeypatch.setattr(chains_cuda, "_BLOCKS", 2)
    tags = numpy.random.default_rng(1).integers(0, 40, 9)
    compared(drawn(9, 40, "float32"), tags, numpy.array([0, 3, 3, 5]), numpy.array([3, 0, 2, 4]), 1, 3e-6)


def test_constraints_are_exact():
    weights = drawn(8, 3, "float32", 60.0)
    weights[1][0], weights[1][1, 2], weights[0][3, 1] = -numpy.inf, -10_000, -numpy.inf
    compared(weights, None, numpy.array([0, 5]), numpy.array([5, 3]), 1, 3e-6)


def test_a_chain_without_a_path_has_no_gradient():
    weights = drawn(3, 2, "float64")
    weights[1][:] = -numpy.inf
    argument = [on_device(weight) for weight in weights], [on_device(numpy.array(element)) for element in ([0], [3])]
    result, *own = chains_cuda.chain_likelihoods(*argument[0], None, *argument[1], 1)
    slopes = chains_cuda.chain_gradients(on_device(numpy.ones(1)), *argument[0], None, *argument[1], 1, *own)
    assert result.numpy()[0] == numpy.inf and not any(slope.numpy().any() for slope in slopes)


def test_the_layer_trains_and_tags_on_the_device():
    dynograd.manual_seed(0)
    x, tags = dynograd.randn(3, 4, 5), dynograd.randint(0, 5, (3, 4))
    mask = dynograd.arange(4) < dynograd.tensor([4, 1, 2])[:, None]
    layer = nn.CRF(5, batch_first=True)
    twin = nn.CRF(5, batch_first=True).to("cuda")
    twin.load_state_dict(layer.state_dict())
    result = twin(x.cuda(), dynograd.where(mask, tags, -1).cuda(), mask.cuda(), "token_mean")
    expected = layer(x, tags, mask, "token_mean")
    result.backward()
    expected.backward()
    assert result.item() == pytest.approx(expected.item(), rel=1e-5)
    for element, other in zip(twin.parameters(), layer.parameters(), strict=True):
        numpy.testing.assert_allclose(element.grad.cpu().numpy(), other.grad.numpy(), atol=1e-5)
    assert twin.decode(x.cuda(), mask.cuda()) == layer.decode(x, mask)
    assert twin.decode(x.cuda(), lengths=[4, 1, 2]) == layer.decode(x, mask)


def test_tags_out_of_range_are_reported():
    layer = nn.CRF(3, batch_first=True).to("cuda")
    with pytest.raises(IndexError, match="CRF: tags"):
        layer(dynograd.zeros(2, 3, 3, device="cuda"), dynograd.full((2, 3), 7, device="cuda")).item()
