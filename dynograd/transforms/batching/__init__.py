"""Batched tensors and, by family of ops, the rules by which they are computed all at once."""

from dynograd.transforms.batching import (
    draws,
    elementwise,
    functions,
    indexing,
    losses,
    networks,
    orders,
    products,
    reductions,
    sequences,
    views,
)

rules = (elementwise, indexing, losses, networks, orders, products, reductions, sequences, views)
others = (draws, functions)
