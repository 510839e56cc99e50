"""Comparing results of programs."""

import dynograd as torch


def leaves(value):
    """The tensors in a result, in order; of ragged ones the values."""
    if isinstance(value, torch.Tensor):
        return [value.packed if isinstance(value, torch.RaggedTensor) else value]
    if isinstance(value, (list, tuple, dict)):
        return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in leaves(part)]
    return []


def assert_same_bits(result, expected):
    for own, other in zip(leaves(result), leaves(expected), strict=True):
        assert own.dtype == other.dtype and own.shape == other.shape
        assert own.detach().contiguous().numpy().tobytes() == other.detach().contiguous().numpy().tobytes()
