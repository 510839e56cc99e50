"""Where the tokens of sequences of different lengths lie, from the lengths: what the kernels of recurrent layers go by.

The arrays have room for as many steps as there are tokens, whatever the lengths are: a step that no row reaches has size 0.
"""

from dynograd.kernels.build.compiling_numba import chunked, compiled


@chunked(noalias=True)
def lay_out_packed(lengths, sizes, starts, firsts, start, stop):
    """Of tokens step by step, for lengths longest first; the only item is all of it. Lengths that do not fit the tokens give no steps.

    Args:
        lengths (B): of the rows.
        sizes, starts (N): written; how many rows reach each step, and where its tokens begin.
        firsts (B): written; the place of each row in a step.
    """
    batch, token = lengths.size, 0
    for row in range(batch):
        firsts[row] = row
    rows = batch if fit(lengths, sizes.size, True) else 0
    for step in range(sizes.size):
        while rows and lengths[rows - 1] <= step:
            rows -= 1
        sizes[step], starts[step] = rows, token
        token += rows


@chunked(noalias=True)
def lay_out_ragged(lengths, sizes, starts, firsts, order, start, stop):
    """Of tokens row by row, for any lengths; the only item is all of it. Lengths that do not fit the tokens give no steps.

    Args:
        lengths (B): of the rows.
        sizes, starts (N): written; how many rows reach each step, and the step.
        firsts, order (B): written; the first token of the rows, longest first (ties in their own order), and which these are.
    """
    batch, steps = lengths.size, sizes.size
    for step in range(steps):
        sizes[step] = 0
    for row in range(batch):
        firsts[row], order[row] = 0, row
    if steps and fit(lengths, steps, False):
        for row in range(batch):
            for step in range(lengths[row]):
                sizes[step] += 1
        for step in range(steps):
            starts[step] = sizes[step]  # the rank of the next row of this length: behind those that are longer
        last = 0  # of a row that has all tokens, which there is once
        token = 0
        for row in range(batch):
            length = lengths[row]
            rank = last
            if length < steps:
                rank = starts[length]
                starts[length] += 1
            order[rank], firsts[rank] = row, token
            token += length
    for step in range(steps):
        starts[step] = step


@compiled()
def fit(lengths, tokens, is_sorted):
    """Whether lengths, longest first if they must be sorted, are those of so many tokens."""
    total, before = 0, tokens
    for row in range(lengths.size):
        length = lengths[row]
        if length < 0 or length > tokens or (is_sorted and length > before):
            return False
        total += length
        before = length
    return total == tokens
