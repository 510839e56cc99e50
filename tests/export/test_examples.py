"""Models of the examples, and the architectures whose weights travel, as programs: the bits of eager at three sizes that were not recorded."""

import io

import numpy
import pytest

import dynograd as torch
from dynograd.errors import ProgramError
from dynograd.export.dynamic_shapes import named_axes
from dynograd.export.examples import Examples, bound
from examples import sentiment, text_transformer, vae
from tests.export.leaves import assert_same_bits
from tests.onnx.examples import MODELS, OneGraph, ids
from tests.parity import architectures

ROWS = {
    "sentiment": lambda: sentiment.Classifier(20, 8, 6),
    "text_transformer": lambda: text_transformer.Classifier(20, 16, 2, 2, 32),
}


def check(model, args, axes):
    """The program, through a file, beside the model at three sizes."""
    places = iter(range(len(torch.utils._pytree.tree_leaves(args))))
    names = [{axis: name for (of, axis), name in axes.items() if of == number} for number in places]
    leaves, form = torch.utils._pytree.tree_flatten(args)
    shapes = torch.utils._pytree.tree_unflatten(names[: len(leaves)], form)
    file = io.BytesIO()
    torch.export.save_program(model.eval(), args, file, dynamic_shapes=shapes)
    file.seek(0)
    program = torch.export.load_program(file)
    parameters = bound(model, args, {}, "it")[0]
    examples = Examples(parameters)
    examples.take(named_axes(examples.names, examples.shapes, list(parameters), shapes)[0])
    for turn, step in enumerate((1, 3, 9), start=1):
        sizes = {name: size + step for name, size in examples.wanted_sizes().items()}
        inputs = list(examples.with_tensors(examples.at(sizes, turn)).values())
        with torch.no_grad():
            expected = model(*inputs)
        assert_same_bits(program(*inputs), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_examples_is_a_program(name):
    make, example, axes = MODELS[name]
    torch.manual_seed(0)
    check(make(), example(), axes)


@pytest.mark.parametrize("name", ROWS)
def test_a_model_of_rows_is_a_program(name):
    torch.manual_seed(0)
    values = ids(6, 8) if name == "sentiment" else ids(6)
    check(ROWS[name](), (torch.RaggedTensor(values, [3, 1, 2]),), {})


@pytest.mark.parametrize("name", architectures.MODELS)
def test_an_architecture_is_a_program(name):
    make, inputs = architectures.MODELS[name]
    torch.manual_seed(0)
    args = tuple(inputs(torch, numpy.random.default_rng(0)))
    check(make(torch), args, {(number, 0): "batch" for number in range(len(args))})


REFUSED = {
    "random numbers": (lambda: vae.VAE(8, 2), lambda: (torch.rand(2, 784),), "draws random numbers"),
    "a sparse matrix": (OneGraph, lambda: (torch.randn(5, 6),), "gcn.py"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_of_the_examples_that_are_refused(name):
    make, example, words = REFUSED[name]
    with pytest.raises(ProgramError, match=words):
        torch.export.export(make().eval(), example())
