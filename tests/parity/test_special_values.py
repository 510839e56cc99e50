"""Every elementwise op at the edges of its dtypes beside PyTorch: what differs is in `special_values_known.txt`, with its reason.

A line there holds for some of the dtypes; one that no dtype needs any more fails.
"""

from pathlib import Path

import pytest
import torch

import dynograd
from dynograd.ops.op import registry
from tests.support.special_values import FLOATS, differences, operands_of, results_of, told

aten = torch.ops.aten
# PyTorch's names of ops that are called by other ones here. None: PyTorch has no such function.
NAMED = {
    "log_odds": lambda x, eps: torch.logit(x, None if eps < 0 else eps),
    "scalar_power": torch.pow,
    "half_power": lambda x: torch.pow(x, 0.5),
    "polygamma": lambda x, n: torch.polygamma(n, x),
    "round_decimals": lambda x, decimals: torch.round(x, decimals=decimals),
    "addcmul": lambda x, one, two, value: torch.addcmul(x, one, two, value=value),
    "addcdiv": lambda x, one, two, value: torch.addcdiv(x, one, two, value=value),
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "clamp_between": torch.clamp,
    "gelu_tanh": lambda x: aten.gelu(x, approximate="tanh"),
    "gelu_tanh_backward": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "prelu": aten._prelu_kernel,
    "logsigmoid": torch.nn.functional.logsigmoid,
    "gate": None,
    "within": None,
    "zeroed": None,
    "ge_half": None,
    "airy_ai_slope": None,
    "spherical_bessel_quotient": None,
    "special_gegenbauer_polynomial": None,
    "special_generalized_laguerre_polynomial": None,
}


def function_of(name):
    if name in NAMED:
        return NAMED[name]
    if name.startswith("special_"):
        return getattr(torch.special, name.removeprefix("special_"))
    return getattr(torch, name, None) or getattr(aten, name)


def known_lines():
    lines = (Path(__file__).parent / "special_values_known.txt").read_text().splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            place, _, reason = line.partition(": ")
            assert reason, line
            name, what, kind = (part.strip() for part in place.split("|"))
            yield (name, what, kind), reason.strip().startswith("on some processors")


KNOWN = dict(known_lines())
COMPARED = [
    name
    for name, op in registry.items()
    if op.kind == "elementwise" and op.promote != "integer" and name != "conj" and function_of(name) is not None
]


def found_differences(name):
    """(what, kind): the first places, of all dtypes that PyTorch has the function for."""
    op, function = registry[name], function_of(name)
    result = {}
    for dtype in FLOATS:
        operands = operands_of(op, dtype)
        # PyTorch's vector code computes whole vectors; the rest goes through its scalar code.
        times = 1 if operands[0].size > 64 else 4
        ours = results_of(dynograd, op.function, op, operands, dtype, times)
        try:
            theirs = results_of(torch, function, op, operands, dtype, times)
        except (RuntimeError, NotImplementedError):  # not for this dtype, or no derivative
            continue
        for what in ours.keys() & theirs.keys():
            mine, other = (results[what][: operands[0].size] for results in (ours, theirs))
            for kind, where in differences(mine, other, dtype).items():
                result.setdefault((what, kind), f"{dtype}, {told(operands, mine, other, where)}")
    return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMPARED)
def test_beside_torch(name):
    results = found_differences(name)
    new = {place: text for place, text in results.items() if (name, *place) not in KNOWN}
    assert not new, f"{name} differs from torch: {new}"
    agreed = {place[1:] for place, sometimes in KNOWN.items() if place[0] == name and not sometimes} - results.keys()
    assert not agreed, f"{name} agrees now; take out of special_values_known.txt: {agreed}"


def test_known_names():
    assert {name for name, _, _ in KNOWN} <= set(COMPARED)
