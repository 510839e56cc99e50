"""All ragged rules, and the functions that look for ragged tensors: imported when the first ragged tensor is made."""

from dynograd.ragged import (
    attending,
    each,
    elementwise,
    groups,
    indexing,
    interception,
    joins,
    likes,
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
)

interception.install()
likes.install()
