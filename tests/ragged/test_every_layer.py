"""Every layer and loss class of `nn` on ragged tensors: what each row alone gives, in values, first gradients and second ones.

The calls are those of `layers.txt`; a class that is not there fails `test_the_page_has_every_class`.
"""

import inspect
from pathlib import Path

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

PAGE = Path(__file__).parent / "layers.txt"
# What is no layer of its own: parents, lists of modules, and wrappers that call a module of the user's.
OTHERS = set(
    """Module RNNBase RNNCellBase ModuleDict ModuleList ParameterDict ParameterList DataParallel DistributedDataParallel TreeLSTM""".split()
)
LENGTHS = [5, 0, 3, 9, 1]
FILLED = [5, 4, 9, 4]
# name: sizes of a row, where j, k and l are ragged, and the lengths of the rows
FLOATS = {
    "tokens": ("j 8", LENGTHS),
    "tokens2": ("j 8", LENGTHS),
    "others": ("j 8", [2, 3, 0, 4, 7]),
    "weights": ("j", LENGTHS),
    "turned": ("8 j", FILLED),
    "turned2": ("8 j", FILLED),
    "images": ("4 j k", [(6, 5), (4, 7), (6, 5), (4, 4)]),
    "images2": ("4 j k", [(6, 5), (4, 7), (6, 5), (4, 4)]),
    "even": ("4 j k", [(6, 4), (4, 8), (6, 4), (2, 2)]),
    "speech": ("4 j 5", FILLED),
    "lines": ("4 5 j", FILLED),
    "clips": ("4 j k l", [(4, 5, 3), (3, 4, 4), (4, 5, 3)]),
    "films": ("4 j 3 4", [5, 3, 4]),
    "folded": ("8 j", [6, 6]),
    "state": ("8", LENGTHS),
    "state2": ("8", LENGTHS),
    "numbers": ("4 2", FILLED),
    "numbers3": ("4 3", [0, 0, 0]),
    "scores": ("j 7", [9, 5, 8]),
}
# name: the largest number, and the lengths
WHOLE = {"words": (10, LENGTHS), "tags": (3, LENGTHS), "classes": (8, LENGTHS), "targets": (6, [3, 0, 2])}
DENSE = ("state", "state2", "numbers", "numbers3")


def lines():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            names, _, calls = line.partition(": ")
            for name in names.split():
                for number, text in enumerate(calls.split(" ; ")):
                    yield pytest.param(name, text, id=f"{name}-{number}")


def test_the_page_has_every_class():
    values = {name: getattr(nn, name) for name in nn.__all__}
    classes = {name for name, value in values.items() if inspect.isclass(value) and issubclass(value, nn.Module)}
    there = {line.values[0] for line in lines()}
    assert classes - there - OTHERS == set()
    assert there | OTHERS <= classes


def parsed(text):
    """(arguments, mode, call) of a line's part."""
    depths = numpy.cumsum([(letter == "(") - (letter == ")") for letter in text])
    place = int((depths == 0).argmax())
    options, call = text[: place + 1], text[place + 1 :].strip()
    mode, words = "", ""
    if call.split(" ")[0] == "flat":
        mode, call = "flat", call[5:]
    elif call.split(" ")[0] == "refused":
        mode, words, call = call.split(" ", 2)
    return options, mode, words, call if "(" in call else f"f({call})"


class Given:
    """The rows of the names that a call uses: all together, and each alone as a batch of one (or flat: without a batch)."""

    def __init__(self, call):
        names = set(compile(call, "<layers.txt>", "eval").co_names)
        if "ctc" in names:
            names |= {"scores", "targets"}
        if "many" in names:
            names |= {"tokens"}
        self.rows, self.leaves = {}, []
        for name in sorted(names & FLOATS.keys()):
            shape, lengths = FLOATS[name]
            self.rows[name] = [self.drawn(shape.split(), length) for length in lengths]
            self.leaves += self.rows[name]
        for name in sorted(names & WHOLE.keys()):
            top, lengths = WHOLE[name]
            low = int(name == "targets")
            self.rows[name] = [dynograd.randint(low, top, (length,)) for length in lengths]
        if "many" in names:
            self.rows["many"] = [dynograd.tensor([2, 5, -1, 0, 0, 0, 0, 0]).repeat(length, 1) for length in LENGTHS]
        self.count = len(next(iter(self.rows.values())))

    @staticmethod
    def drawn(sizes, length):
        ragged = iter(length if isinstance(length, tuple) else (length,))
        shape = [int(size) if size.isdigit() else next(ragged) for size in sizes]
        created = dynograd.rand(shape, dtype=dynograd.float64) if sizes[0] == "4" else dynograd.randn(shape).double()
        return created.requires_grad_()

    def together(self):
        result = {}
        for name, rows in self.rows.items():
            if name in DENSE:
                result[name] = dynograd.stack(rows)
                continue
            sizes = FLOATS.get(name, ("j",))[0].split()
            dims = [dim for dim, size in enumerate(sizes, 1) if not size.isdigit()]
            result[name] = dynograd.ragged_tensor(rows, ragged_dims=dims)
        if "scores" in result:
            result["ctc"] = result["scores"].log_softmax(-1), result["targets"]
        return result

    def alone(self, number, flat=False):
        result = {name: rows[number] if flat else rows[number][None] for name, rows in self.rows.items()}
        if "scores" in result:
            scores, targets = result["scores"].log_softmax(-1).transpose(0, 1), result["targets"]
            result["ctc"] = scores, targets, (scores.shape[0],), (targets.shape[1],)
        return result


def flat_results(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(call, layer, values):
    return flat_results(eval(call, {"f": layer, "nn": nn, "F": F, "torch": dynograd, **values}))


def compared(ys, leaves, parameters):
    """Values, gradients and second ones of results by row."""
    result = [*ys]
    inputs = [*leaves, *[parameter for parameter in parameters if parameter.requires_grad]]
    terms = [(element**2).sum() * (place + 1) for place, element in enumerate(ys) if element.requires_grad]
    if not terms:
        return result
    first = dynograd.autograd.grad(sum(terms), inputs, create_graph=True, allow_unused=True)
    slopes = [
        (element * element.detach().cos()).sum() for element in first if element is not None and element.requires_grad
    ]
    second = dynograd.autograd.grad(sum(slopes), inputs, allow_unused=True) if slopes else [None] * len(inputs)
    # rows that do not take part and gradients that are zero everywhere are the same
    zeros = [dynograd.zeros_like(operand) for operand in inputs]
    for grads in (first, second):
        result += [zero if element is None else element for element, zero in zip(grads, zeros)]
    return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "text"), list(lines()))
def test_a_row_of_ragged_rows_is_the_row_alone(name, text):
    dynograd.manual_seed(3)
    options, mode, words, call = parsed(text)
    kind = getattr(nn, name)
    layer = eval(f"kind({options[1:]}", {"kind": kind, "nn": nn, "torch": dynograd}).double()
    argument = Given(call)
    if mode == "refused":
        with pytest.raises((NotImplementedError, RuntimeError, ValueError), match=words):
            run(call, layer, argument.together())
        return
    whole = run(call, layer, argument.together())
    rows = [list(each.unbind(0)) for each in whole]
    assert all(len(row) == argument.count for row in rows)
    there = [
        number for number in range(argument.count) if all(row[number].numel() for row in argument.rows.values())
    ]  # a dense batch cannot be empty everywhere
    results = []
    ys = [row[number] for number in there for row in rows]
    leaves = argument.leaves
    results.append(compared(ys, leaves, list(layer.parameters())))
    ys = []
    for number in there:
        created = run(call, layer, argument.alone(number, mode == "flat"))
        ys += created if mode == "flat" else [each[0] for each in created]
    results.append(compared(ys, leaves, list(layer.parameters())))
    for element, two in zip(*results, strict=True):
        assert element.shape == two.shape and element.dtype == two.dtype
        assert numpy.allclose(element.detach().numpy(), two.detach().numpy(), rtol=1e-7, atol=1e-9)
