"""Modules as programs, read from a file, beside eager at three sizes that were not recorded: the same bits."""

import io

import pytest

import dynograd as torch
from tests.export.leaves import assert_same_bits
from tests.support.modules import MODULES


def dynamic_shapes(args, axes):
    """For each argument {axis: name}."""
    return tuple([{axis: name for (of, axis), name in axes.items() if of == number} for number in range(len(args))])


def others(args, axes, step):
    """Arguments of other values, with dynamic axes longer by `step`."""
    sizes, created = {}, []
    for number, x in enumerate(args):
        shape = [
            sizes.setdefault(axes[number, axis], size + step) if (number, axis) in axes else size
            for axis, size in enumerate(x.shape)
        ]
        created.append(torch.randn(*shape) if x.is_floating_point() else torch.randint(1, 5, tuple(shape)))
    return created


@pytest.mark.parametrize("name", MODULES)
def test_a_program_gives_the_bits_of_its_module_at_three_sizes(name):
    make, example, axes = MODULES[name]
    torch.manual_seed(0)
    args, module, file = example(), make().eval(), io.BytesIO()
    torch.export.save_program(module, args, file, dynamic_shapes=dynamic_shapes(args, axes))
    file.seek(0)
    program = torch.export.load_program(file)
    for step in (1, 4, 30):
        inputs = others(args, axes, step)
        with torch.no_grad():
            expected = module(*inputs)
        assert_same_bits(program(*inputs), expected)


@pytest.mark.parametrize("name", ["GPT", "TransformerEncoder", "LSTM", "Softmax", "residual convolutions"])
def test_in_batch_invariant_mode_the_bits_are_those_of_the_mode(name):
    make, example, axes = MODULES[name]
    torch.manual_seed(0)
    args, module = example(), make().eval()
    program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes(args, axes))
    inputs = others(args, axes, 3)
    with torch.no_grad(), torch.use_batch_invariant():
        assert_same_bits(program(*inputs), module(*inputs))
