"""`torch.embedding_bag` gives PyTorch's four tensors."""

import itertools

import pytest
import torch

import dynograd

CASES = list(itertools.product(([0, 2], [0, 0, 3], [0, 2, 6]), (0, 1, 2), (None, 3, -3), (False, True)))


@pytest.mark.parametrize(("offsets", "mode", "padding", "last"), CASES)
def test_four_results(offsets, mode, padding, last):
    last = last and offsets[-1] == 6  # the last offset must be the number of indices
    torch.manual_seed(0)
    table, indices = torch.randn(6, 3), torch.tensor([0, 2, 1, 3, 3, 5])
    rest = False, mode, False, None, last, padding
    expected = torch.embedding_bag(table, indices, torch.tensor(offsets), *rest)
    own = (
        dynograd.tensor(table.tolist(), requires_grad=True),
        dynograd.tensor(indices.tolist()),
        dynograd.tensor(offsets),
    )
    results = dynograd.embedding_bag(*own, *rest)
    assert [result.tolist() for result in results[1:]] == [element.tolist() for element in expected[1:]]
    assert torch.allclose(torch.tensor(results[0].tolist()), expected[0])
    assert results[0].requires_grad and not any(result.requires_grad for result in results[1:])
