"""Models of several architectures, written once: trained a few steps in PyTorch, their weights here and back, and the same the other way.

Each model is the same code with `torch` or `dynograd` in the place of `T`. Outputs, gradients and running statistics are compared after
every journey of the weights: as a state_dict, through safetensors, a `.pt` and a folder of shards that dynograd saved,
and through a `.pt` that PyTorch saved.
"""

import numpy
import pytest
import safetensors.torch
import torch

import dynograd
from tests.parity.architectures import MODELS, lstm_language_model


def train(T, model, inputs, steps=3):
    """A few steps towards an arbitrary target; the losses."""
    model.train()
    optimizer, losses = T.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(*inputs) - 0.3).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def outcomes(T, model, inputs):
    """Outputs in evaluation and training mode, and gradients."""
    model.eval()
    results = {"evaluation": model(*inputs)}
    model.train()
    model.zero_grad()
    results["training"] = model(*inputs)
    results["training"].square().mean().backward()
    results |= {f"gradient of {name}": element.grad for name, element in model.named_parameters()}
    results |= {name: element for name, element in model.named_buffers() if element.is_floating_point()}
    return {name: element.detach().numpy().copy() for name, element in results.items()}


def same(ours, theirs):
    assert list(ours) == list(theirs)
    for name, element in ours.items():
        wide = max(abs(theirs[name]).max(), 1e-3) if theirs[name].size else 1.0
        numpy.testing.assert_allclose(element, theirs[name], rtol=2e-4, atol=2e-5 * wide + 1e-6, err_msg=name)


def to_torch(state):
    return {name: torch.from_numpy(numpy.array(element.detach().numpy())) for name, element in state.items()}


def to_dynograd(state):
    return {name: dynograd.from_numpy(element.detach().numpy().copy()) for name, element in state.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name, tmp_path):
    build, make = MODELS[name]
    torch.manual_seed(0), dynograd.manual_seed(0)
    theirs, ours = build(torch), build(dynograd)
    their_inputs, our_inputs = (make(T, numpy.random.default_rng(0)) for T in (torch, dynograd))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]

    train(torch, theirs, their_inputs)
    assert repr(ours.load_state_dict(to_dynograd(theirs.state_dict()))) == "<All keys matched successfully>"
    same(outcomes(dynograd, ours, our_inputs), outcomes(torch, theirs, their_inputs))

    # PyTorch's file, here
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    again = build(dynograd)
    again.load_state_dict(dynograd.load(tmp_path / "theirs.pt"))
    same(outcomes(dynograd, again, our_inputs), outcomes(torch, theirs, their_inputs))

    # trained on here; back as a state_dict and as a file
    losses = train(dynograd, again, our_inputs)
    numpy.testing.assert_allclose(losses, train(torch, theirs, their_inputs), rtol=1e-3)
    back = build(torch)
    assert repr(back.load_state_dict(to_torch(again.state_dict()))) == "<All keys matched successfully>"
    dynograd.save(again.state_dict(), tmp_path / "ours.safetensors")
    dynograd.save(again.state_dict(), tmp_path / "ours.pt", format="pt")
    dynograd.saving.save_folder(again, tmp_path / "folder", max_shard_size="100KB")
    from_file = build(torch)
    from_file.load_state_dict(safetensors.torch.load_file(tmp_path / "ours.safetensors"), strict=False)
    expected = outcomes(dynograd, again, our_inputs)
    same(expected, outcomes(torch, back, their_inputs))
    same(expected, outcomes(torch, from_file, their_inputs))
    of_pytorch = build(torch)
    of_pytorch.load_state_dict(torch.load(tmp_path / "ours.pt", weights_only=True, mmap=True))
    same(expected, outcomes(torch, of_pytorch, their_inputs))
    of_folder = build(dynograd)
    of_folder.load_state_dict(dynograd.saving.load_folder(tmp_path / "folder").tensors)
    same(expected, outcomes(dynograd, of_folder, our_inputs))


def test_tied_weights_are_saved_once_and_stay_tied(tmp_path):
    model = lstm_language_model(dynograd)
    state = model.state_dict()
    assert state["embed.weight"].data_ptr() == state["head.weight"].data_ptr()
    dynograd.save(state, tmp_path / "tied.safetensors")
    once = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert (tmp_path / "tied.safetensors").stat().st_size < once + 16384
    twin = lstm_language_model(dynograd)
    twin.load_state_dict(dynograd.load(tmp_path / "tied.safetensors"))
    assert twin.head.weight is twin.embed.weight and twin.head.weight.tolist() == model.embed.weight.tolist()
