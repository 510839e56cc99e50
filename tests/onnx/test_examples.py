"""Models of the examples, and the architectures whose weights travel, on onnxruntime beside eager at three sizes."""

import numpy
import pytest

import dynograd as torch
from examples import graph_net, shift_reduce, vae
from tests.onnx.examples import MODELS, Neighbourhood, OneGraph
from tests.parity import architectures

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")


def exported(model, args, axes):
    names = [f"x{number}" for number in range(len(list(torch.utils._pytree.tree_leaves(args))))]
    dynamic = {name: {} for name in names}
    for (number, axis), symbol in axes.items():
        dynamic[f"x{number}"][axis] = symbol
    return torch.onnx.export(model.eval(), args, input_names=names, dynamic_axes=dynamic)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_examples_gives_the_same_on_onnxruntime(name):
    make, example, axes = MODELS[name]
    torch.manual_seed(0)
    assert exported(make(), example(), axes).verify() < 1e-4


@pytest.mark.parametrize("name", architectures.MODELS)
def test_an_architecture_gives_the_same_on_onnxruntime(name):
    make, inputs = architectures.MODELS[name]
    torch.manual_seed(0)
    args = inputs(torch, numpy.random.default_rng(0))
    program = exported(make(torch), args, {(number, 0): "batch" for number in range(len(args))})
    assert program.verify() < 1e-4


class Parsing(torch.nn.Module):
    """A parser that takes the moves with the best scores."""

    def __init__(self):
        super().__init__()
        self.parser = shift_reduce.Parser(list("abcd"), 6, 0.0)
        self.parser.number = lambda number: number

    def forward(self, words):
        return torch.tensor(self.parser(list(words)))


REFUSED = {
    "random numbers": (lambda: vae.VAE(8, 2), lambda: (torch.rand(2, 784),), "random numbers"),
    "moves that follow from scores": (
        Parsing,
        lambda: (torch.tensor([2, 0, 3]),),
        "(?s)tolist.*shift_reduce.py.*dynograd.while_loop",
    ),
    "no tensors, but words": (
        lambda: shift_reduce.Parser(list("abcd"), 6, 0.0),
        lambda: (list("abc"),),
        "expected a tensor among the arguments of Parser.*args",
    ),
    "no tensors, but a graph": (
        lambda: graph_net.GraphNetwork(9, 6, 3, 0.0),
        lambda: (Neighbourhood().graph,),
        "expected a tensor among the arguments of GraphNetwork.*args",
    ),
    "a sparse matrix": (OneGraph, lambda: (torch.randn(5, 6),), "gcn.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_of_the_examples_that_are_refused(name):
    make, example, words = REFUSED[name]
    with pytest.raises(torch.onnx.OnnxError, match=words):
        torch.onnx.export(make().eval(), example())
