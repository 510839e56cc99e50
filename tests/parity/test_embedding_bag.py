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
    wanted = torch.embedding_bag(table, indices, torch.tensor(offsets), *rest)
    own = (
        dynograd.tensor(table.tolist(), requires_grad=True),
        dynograd.tensor(indices.tolist()),
        dynograd.tensor(offsets),
    )
    found = dynograd.embedding_bag(*own, *rest)
    assert [one.tolist() for one in found[1:]] == [one.tolist() for one in wanted[1:]]
    assert torch.allclose(torch.tensor(found[0].tolist()), wanted[0])
    assert found[0].requires_grad and not any(one.requires_grad for one in found[1:])
