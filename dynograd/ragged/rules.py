"""All ragged rules, and the functions that look for ragged tensors: imported when the first ragged tensor is made."""

from dynograd.ops.op import registry
from dynograd.ragged import interception, likes, refusals  # noqa: F401  (importing refusals and families fills the table)
from dynograd.ragged.calls import RULES
from dynograd.ragged.dispatch import goes_by_groups
from dynograd.ragged.families import (  # noqa: F401
    attending,
    each,
    indexing,
    joins,
    lookups,
    losses,
    normalizing,
    orders,
    places,
    products,
    reductions,
    rowwise,
    sliding,
    views,
    whole,
    writing,
)

__all__ = ["kind_of"]

interception.install()
likes.install()


def kind_of(name: str) -> tuple[str, str]:
    """(kind, note) of the rule of an op and its public face, for the docs."""
    face = f"{name}.public"
    kind, note = _kind_of(face if face in registry else name)
    return _kind_of(name) if kind == "parts" and face in registry and name in registry else (kind, note)


def _kind_of(key: str) -> tuple[str, str]:
    rule = RULES.get(key)
    if rule is not None:
        return rule.kind, rule.note
    op = registry[key]
    if op.row["inner"]:
        return "inner", "parts of other ops"
    if op.kind == "elementwise":
        return (
            "elementwise",
            "computed on the packed elements; dense operands are repeated for the elements of their row",
        )
    if (op.kind == "composed" or op.decomposition is not None) and not goes_by_groups(op):
        return "parts", "made of ops with ragged rules"
    return "groups", "rows of equal shape are computed together"
