"""Where the tokens of packed sequences lie: numbers from lengths, for `nn.utils.rnn` and the recurrent layers.

Packed tokens go step by step, longest sequence first: `sizes` (T) says how many sequences reach each step.
"""

from __future__ import annotations

import numpy as np


def sizes_of(lengths):
    """(T) sizes of the steps of sequences with such lengths, longest first; lengths of 0 are allowed."""
    longest = int(lengths[0]) if lengths.size else 0
    return lengths.size - np.searchsorted(lengths[::-1], np.arange(longest), side="right")


def lengths_of(sizes):
    """(B) lengths, longest first: the inverse of `sizes_of`."""
    batch = int(sizes[0]) if sizes.size else 0
    return sizes.size - np.searchsorted(sizes[::-1], np.arange(batch), side="right")


def longest_first(lengths):
    """(B) numbers of the sequences, longest first; ties in their own order."""
    return np.argsort(-lengths, kind="stable")


def places(sizes, order, steps, batch, batch_first):
    """(N) for each packed token its row in the flattened padded batch, (T * B) or with `batch_first` (B * T).

    Args:
        order (B): number of the sequence at each rank; None where they are in order.
    """
    step, rank = np.nonzero(np.arange(batch) < sizes[:, None])
    row = rank if order is None else order[rank]
    return row * steps + step if batch_first else step * batch + row


def ragged_places(lengths):
    """(order, back, tokens, tokens_back, lengths) of sequences behind one another: those of each rank by length, and for each packed token
    its place here, and the lengths longest first.

    `back` and `tokens_back` are the inverses of `order` (B) and `tokens` (N).
    """
    order = longest_first(lengths)
    step, rank = np.nonzero(np.arange(lengths.size) < sizes_of(lengths[order])[:, None])
    tokens = (np.cumsum(lengths) - lengths)[order[rank]] + step
    return order, np.argsort(order), tokens, np.argsort(tokens), lengths[order]
