"""How a tensor keeps its elements: `strided` (all of them), or one of the sparse layouts."""

from __future__ import annotations

from dynograd.base.shown_names import shown

__all__ = ["ALL", "jagged", "layout", "sparse_coo", "sparse_csc", "sparse_csr", "strided"]


class layout:
    """How the elements of a tensor lie in memory: `strided`, `sparse_coo`, `sparse_csr`, `sparse_csc` or `jagged`. Programs use these and make none.

    Args:
        name: one of these.

    >>> dynograd.zeros(2).layout, dynograd.eye(2).to_sparse().layout
    (dynograd.strided, dynograd.sparse_coo)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return shown(self.name)

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
jagged = layout("jagged")
ALL = {kind.name: kind for kind in (strided, sparse_coo, sparse_csr, sparse_csc, jagged)}
