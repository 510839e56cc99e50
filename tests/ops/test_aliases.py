"""Second names: the same bits as the first ones."""

import numpy
import pytest

import dynograd
from dynograd.ops.elementwise.aliases import ALIASES
from tests.ops.harness import Row, generate

REFERENCES = {
    "absolute": numpy.abs,
    "divide": numpy.divide,
    "expit": lambda x: 1 / (1 + numpy.exp(-x)),
    "fix": numpy.trunc,
    "negative": numpy.negative,
    "psi": None,
    "true_divide": numpy.divide,
}
DOMAINS = {"arccosh": (1.2, 3)}


def row(name):
    count = len(
        [
            parameter
            for parameter in ALIASES[name].op.signature.parameters.values()
            if parameter.default is parameter.empty
        ]
    )
    reference = REFERENCES[name] if name in REFERENCES else getattr(numpy, name)
    return Row(
        name,
        reference,
        shapes=[(3, 4)] * count,
        domain=DOMAINS.get(name, (0.2, 0.9)),
        dtypes=("float32", "float64"),
        result="bool" if name.startswith(("greater", "less", "not")) else "same",
        grad=not name.startswith(("greater", "less", "not")),
    )


ROWS = [row(name) for name in ALIASES]
ROWS.append(Row("positive", numpy.positive, shapes=[(3, 4)]))
test_rows = generate(ROWS)


@pytest.mark.parametrize("name", [name for name in ALIASES if name not in ("expit", "psi")])
def test_aliases_are_methods_too(name):
    x = dynograd.tensor([1.5, 2.0])
    count = len(
        [
            parameter
            for parameter in ALIASES[name].op.signature.parameters.values()
            if parameter.default is parameter.empty
        ]
    )
    arguments = [dynograd.tensor([0.5, 4.0])] * (count - 1)
    result, expected = getattr(x, name)(*arguments), ALIASES[name](x, *arguments)
    numpy.testing.assert_array_equal(result.array, expected.array)
    getattr(x, name + "_")(*arguments)
    numpy.testing.assert_array_equal(x.array, expected.array.astype(numpy.float32))
