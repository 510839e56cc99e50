"""Mistakes made of the samples of PyTorch's op database are refused (`op_database_mistakes_known.txt`: of how many this is not true yet)."""

import pytest

from tests.parity.op_database_mistakes import ENTRIES, KNOWN, wrong_in

FEW = [
    "add",
    "cat",
    "gather",
    "matmul",
    "index_select",
    "softmax",
    "nn.functional.conv2d",
    "nn.functional.cross_entropy",
    "topk",
    "linalg.solve",
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in ENTRIES]
)
def test_mistakes(name):
    result = wrong_in(name)
    assert len(result) <= KNOWN.get(name, 0), "\n".join(result)
