"""All ragged rules, and the functions that look for ragged tensors: imported when the first ragged tensor is made."""

from dynograd.ragged import interception, padding, refusals
from dynograd.ragged.families import (
    attending,
    each,
    elementwise,
    groups,
    indexing,
    joins,
    likes,
    lookups,
    losses,
    normalizing,
    orders,
    places,
    products,
    reductions,
    rowwise,
    selecting,
    sliding,
    views,
    whole,
    writing,
)

FAMILIES = (
    attending,
    each,
    elementwise,
    groups,
    indexing,
    joins,
    lookups,
    losses,
    normalizing,
    orders,
    padding,
    places,
    products,
    reductions,
    refusals,
    rowwise,
    selecting,
    sliding,
    views,
    whole,
    writing,
)
interception.install()
likes.install()
