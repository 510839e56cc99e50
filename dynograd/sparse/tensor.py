"""SparseTensor: the entries of a tensor that are not zero, and where they stand.

`places` are coordinates, (sparse dims, entries), or for compressed layouts `starts` and the other coordinate. `entries` is an ordinary
tensor, (entries, *dense dims), and it is what gradients flow through: a sparse tensor requires grad when its entries do. To
ops it shows shape and dtype; what they may do with it is told in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy

from dynograd import arrays
from dynograd.base import dtypes, layouts
from dynograd.base.hints import DtypeLike
from dynograd.base.shapes import Size, normalize_dim
from dynograd.errors import GradientError, ShapeError
from dynograd.ops.index.indexing import getitem
from dynograd.ops.layout.joins import stack
from dynograd.sparse import coordinates
from dynograd.tensor import printing
from dynograd.tensor.borrowed_gradients import gradients_of
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["COO", "CSC", "CSR", "SparseTensor", "compressed", "form_of", "of_coordinates"]

COO, CSR, CSC = _FORMS = "sparse_coo", "sparse_csr", "sparse_csc"


class NoMemoryError(TypeError):
    """A sparse tensor was used where all elements are wanted."""


def refusal(what: str) -> NoMemoryError:
    return NoMemoryError(
        f"{what}: a sparse tensor has no memory for all its elements, and there is no sparse form of this. x.to_dense() has; "
        f"x.values() are the entries."
    )


class _Shown(numpy.ndarray):
    """What a SparseTensor shows as its array: shape and dtype, and no values."""

    @staticmethod
    def __dynograd_kernel__(family: str, name: str) -> Any:
        raise refusal(f"{name}()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise refusal(f"numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise refusal(f"numpy.{function.__name__}")

    def item(self, *args: Any) -> NoReturn:
        raise refusal("item()")

    def tolist(self) -> NoReturn:
        raise refusal("tolist()")

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal("a change of dtype")


@gradients_of("entries")
class SparseTensor(Tensor):
    """A tensor of which only some entries are kept. Made by `sparse_coo_tensor`, `sparse_csr_tensor`, `x.to_sparse()`, ...

    Args:
        data, dtype, device: not used; programs call the functions above.

    >>> x = dynograd.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> x.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    >>> x @ dynograd.ones(3, 1)
    tensor([[3.],
            [4.]])
    """

    __slots__ = ()

    form: str
    places: Any
    starts: Any
    entries: Any
    whole: tuple[int, ...]
    coalesced: bool
    rows: Any  # of a matrix, once somebody has asked: (crow, col, the order of the entries or None as they are)

    # --- what it shows ------------------------------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        """What the tensor shows as its array: shape and dtype; the values are in `values()`."""
        kind = dtypes.as_dtype(self.entries.dtype).numpy
        return numpy.broadcast_to(numpy.zeros((), kind), self.whole).view(_Shown)

    @array.setter
    def array(self, value: Any) -> None:
        raise refusal("assigning .array or .data")

    shape = property(lambda self: Size(self.whole), doc="The sizes of all dims, sparse and dense ones.")
    ndim = property(lambda self: len(self.whole), doc="How many dims there are.")
    dtype = property(lambda self: self.entries.dtype, doc="The dtype of the entries.")
    device = property(lambda self: self.entries.device, doc="Where the entries lie.")
    is_sparse = property(lambda self: self.form == COO, doc="Whether the layout is sparse_coo.")
    is_sparse_csr = property(lambda self: self.form == CSR, doc="Whether the layout is sparse_csr.")
    itemsize = property(lambda self: self.entries.itemsize, doc="Bytes of an element.")

    @property
    def layout(self) -> Any:
        """How the places are kept: sparse_coo, sparse_csr or sparse_csc."""
        return getattr(layouts, self.form)

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        raise RuntimeError("stride: sparse tensors do not have strides. x.to_dense() has.")

    def data_ptr(self) -> int:
        raise RuntimeError("data_ptr: sparse tensors have no memory of their own. Use x.values().data_ptr().")

    def storage_offset(self) -> int:
        """Refuses: a sparse tensor has no memory in which all elements lie.

        Returns:
            Nothing.
        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("storage_offset: sparse tensors have no storage. Use x.values().")

    def is_contiguous(self, memory_format: object = None) -> bool:
        raise RuntimeError("is_contiguous: sparse tensors do not have is_contiguous. Use x.is_coalesced().")

    # --- gradients: those of the entries ------------------------------------------------------------------------------

    @property
    def _grad(self) -> Tensor | None:
        grad = self.entries._grad
        return None if grad is None else self.with_entries(grad)

    @_grad.setter
    def _grad(self, value: Any) -> None:
        self.entries._grad = value.entries if isinstance(value, SparseTensor) else value

    @property
    def grad(self) -> Tensor | None:
        """The gradients of the entries, at their places."""
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self.entries.grad = value.entries if isinstance(value, SparseTensor) else value

    @grad.deleter
    def grad(self) -> None:
        self.entries._grad = None

    @property
    def data(self) -> Any:
        return self.with_entries(self.entries.data)

    @data.setter
    def data(self, value: Any) -> None:
        raise refusal("assigning .data")

    def detach(self) -> Tensor:
        return self.with_entries(self.entries.detach())

    def detach_(self) -> Any:
        self.entries = self.entries.detach()
        return self

    def backward(self, gradient: Tensor | None = None, *args: Any, **kwargs: Any) -> None:
        """Sends `gradient`, a sparse or a dense tensor of the same shape, back through the entries.

        Args:
            gradient: None for a tensor of one element.
        """
        entries, gradient = self.__dynograd_root__("backward", gradient)
        entries.backward(gradient, *args, **kwargs)

    def __dynograd_root__(self, who: str, gradient: Any) -> tuple[Tensor, Any]:
        """Where a backward pass from it begins: the entries, and what `gradient` has at their places."""
        if gradient is None:
            return self.entries, None
        if not isinstance(gradient, Tensor) or tuple(gradient.shape) != self.whole:
            got = f"shape {tuple(gradient.shape)}" if isinstance(gradient, Tensor) else type(gradient).__name__
            raise GradientError(f"{who}: Mismatch in shape: the gradient has {got} and the output {self.whole}.")
        return self.entries, self.picked(gradient)

    def __dynograd_like__(self, who: str, make: Callable[[Tensor], Tensor]) -> SparseTensor:
        """What `who` gives: of a compressed layout other entries at the same places, of coordinates a tensor without entries."""
        if self.form != COO:
            return self.with_entries(make(self.entries.detach()))
        if who not in ("zeros_like", "empty_like"):
            raise NotImplementedError(
                f"{who}: the elements of a sparse_coo tensor that have no entry are zeros, so it has no form of this. Pass "
                f"layout=dynograd.strided for a dense tensor, or change x.values()."
            )
        entries = make(self.entries.detach()[:0])
        return of_coordinates(self.places[:, :0].to(entries.device), entries, self.whole, True)

    def __dynograd_gradient__(self, gradient: Tensor) -> SparseTensor:
        """The gradient of its entries, at their places."""
        return self.with_entries(gradient)

    def picked(self, other: Tensor) -> Tensor:
        """What another tensor of this shape has at the places of the entries.

        Args:
            other: a sparse or a dense tensor.
        Returns:
            As many entries, in the order of those of this tensor.
        """
        places = self.to_sparse_coo().places
        if not isinstance(other, SparseTensor):
            return getitem(other, tuple(places))
        own = other.to_sparse_coo().coalesce()
        if not own._nnz():
            return self.entries.detach().to(other.dtype) * 0
        sizes = self.whole[: self.sparse_dim()]
        among, at = coordinates.matched(coordinates.numbered(places, sizes), coordinates.numbered(own.places, sizes))
        return getitem(own.entries, at) * among.reshape(-1, *[1] * own.dense_dim()).to(own.dtype)

    def plus_gradient(self, other: Any) -> Any:
        """For the backward pass: the sum with another gradient, a sparse tensor, or the array of a dense one (then an array).

        Args:
            other: a sparse tensor, or an array.
        Returns:
            A sparse tensor, or an array.
        """
        return self + other if isinstance(other, Tensor) else (wrap(arrays.as_result(other)) + self).array

    # --- parts ----------------------------------------------------------------------------------------------------------

    def with_entries(self, entries: Tensor, form: str | None = None) -> SparseTensor:
        """Other entries at the same places.

        Args:
            entries: as many entries.
            form: the layout; None is that of this tensor.
        Returns:
            A `SparseTensor`.
        """
        dense = tuple(entries.shape[1:])
        whole = (*self.whole[: self.sparse_dim()], *dense)
        return _make(form or self.form, self.places, self.starts, entries, whole, self.coalesced)

    def sparse_dim(self) -> int:
        """How many leading dims are sparse; the others are whole in each entry."""
        return self.places.shape[0] if self.form == COO else 2

    def dense_dim(self) -> int:
        return len(self.whole) - self.sparse_dim()

    def _nnz(self) -> int:
        return self.entries.shape[0]

    def is_coalesced(self) -> bool:
        """Whether the places are sorted and each occurs once."""
        return self.form == COO and self.coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        self.coalesced = coalesced
        return self

    def coalesce(self) -> SparseTensor:
        """The same tensor with sorted places, each once: entries of one place are added up.

        >>> x = dynograd.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,))
        >>> x.coalesce().values()
        tensor([2., 4.])
        """
        self._only("coalesce", COO)
        if self.coalesced:
            return self
        places, entries = coordinates.coalesced(self.places, self.entries, self.whole)
        return of_coordinates(places, entries, self.whole, True)

    def indices(self) -> Tensor:
        """(sparse dims, entries): the coordinates of each entry of a coalesced tensor."""
        self._only_coalesced("indices")
        return self.places

    def values(self) -> Tensor:
        """(entries, *dense dims): the entries, part of the graph."""
        if self.form == COO:
            self._only_coalesced("values")
        return self.entries

    def _indices(self) -> Tensor:
        return self.places

    def _values(self) -> Tensor:
        return self.entries

    def crow_indices(self) -> Tensor:
        """(rows + 1,): where the entries of each row begin."""
        self._only("crow_indices", CSR)
        return self.starts

    def col_indices(self) -> Tensor:
        """(entries,): the column of each."""
        self._only("col_indices", CSR)
        return self.places

    def ccol_indices(self) -> Tensor:
        """(columns + 1,): where the entries of each column begin."""
        self._only("ccol_indices", CSC)
        return self.starts

    def row_indices(self) -> Tensor:
        """(entries,): the row of each."""
        self._only("row_indices", CSC)
        return self.places

    def _only(self, who: str, form: str) -> None:
        if self.form != form:
            raise RuntimeError(
                f"{who}: expected a tensor of layout dynograd.{form}, got dynograd.{self.form}. Convert with x.to_{form}()."
            )

    def _only_coalesced(self, who: str) -> None:
        self._only(who, COO)
        if not self.coalesced:
            raise RuntimeError(
                f"{who}: cannot get {who} on an uncoalesced tensor, please call .coalesce() first; x._{who}() gives them as they are."
            )

    # --- other forms ----------------------------------------------------------------------------------------------------

    def to_dense(self, dtype: DtypeLike = None, *, masked_grad: bool | None = None) -> Tensor:
        """All elements: zeros where there is no entry; entries of one place are added up.

        Args:
            dtype: of the result.
            masked_grad: kept for compatibility; gradients flow to the entries alone.
        Returns:
            A dense tensor of the same shape.

        >>> dynograd.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).to_dense()
        tensor([0., 5., 0.])
        """
        dense = coordinates.scattered(self.to_sparse_coo().places, self.entries, self.whole)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(  # type: ignore[override]
        self,
        sparse_dim: int | None = None,
        *,
        layout: object = None,
        blocksize: object = None,
        dense_dim: int | None = None,
    ) -> SparseTensor:
        """In another sparse layout; coordinates unless given.

        Args:
            sparse_dim, blocksize, dense_dim: as in `Tensor.to_sparse`.
            layout: sparse_coo, sparse_csr or sparse_csc.
        Returns:
            A `SparseTensor`.
        """
        form = COO if layout is None else form_of("to_sparse", layout)
        return {COO: self.to_sparse_coo, CSR: self.to_sparse_csr, CSC: self.to_sparse_csc}[form]()

    def to_sparse_coo(self) -> SparseTensor:  # type: ignore[override]
        if self.form == COO:
            return self
        other = coordinates.expanded(self.starts, self.places.shape[0])
        pair = (other, self.places) if self.form == CSR else (self.places, other)
        return of_coordinates(stack(list(pair)), self.entries, self.whole, self.form == CSR)

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseTensor:  # type: ignore[override]
        if self.form == CSR:
            return self
        starts, places, entries = self.to_sparse_coo().coalesce().compressed_rows()
        return compressed(CSR, starts, places, entries, self.whole)

    def to_sparse_csc(self, dense_dim: int | None = None) -> SparseTensor:  # type: ignore[override]
        if self.form == CSC:
            return self
        starts, places, entries = self.to_sparse_coo().transpose(0, 1).coalesce().compressed_rows()
        return compressed(CSC, starts, places, entries, self.whole)

    def compressed_rows(self) -> tuple[Any, Any, Any]:
        """(crow, col, entries) of a matrix, its entries sorted by row; where the entries go is found out once."""
        if len(self.whole) - self.dense_dim() != 2:
            raise ShapeError(
                f"sparse: expected a matrix (2 sparse dims), got shape {self.whole} with {self.sparse_dim()} sparse dims. "
                f"to_sparse() and sparse_coo_tensor take any number of dims."
            )
        if self.form == CSR:
            return self.starts, self.places, self.entries
        if self.rows is None:
            whole = self.to_sparse_coo()
            row, col = whole.places
            order = None
            if not whole.coalesced:
                row, order = row.sort(stable=True)
                col = getitem(col, order)
            self.rows = coordinates.starts_of(row, self.whole[0]), col, order
        crow, col, order = self.rows
        return crow, col, self.entries if order is None else getitem(self.entries, order)

    def t(self) -> SparseTensor:
        """The transpose of a matrix: no entry is moved."""
        if len(self.whole) > 2:
            raise ShapeError(
                f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.sparse_dim()} sparse and {self.dense_dim()} dense "
                f"dimensions. Use mT or transpose."
            )
        return self if len(self.whole) < 2 else self.transpose(0, 1)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two sparse dims exchanged.

        Args:
            dim0, dim1: the dims; negative ones count from the end.
        Returns:
            A `SparseTensor`.
        """
        first, second = (normalize_dim("transpose", dim, len(self.whole)) for dim in (dim0, dim1))
        order = list(range(len(self.whole)))
        order[first], order[second] = second, first
        return self.permute(*order)

    def permute(self, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> SparseTensor:  # type: ignore[override]
        """Dims in another order; sparse dims stay in front of dense ones.

        Args:
            *order: the old number of each dim.
            dims: the same as a tuple.
        Returns:
            A `SparseTensor`.
        """
        named: Any = (
            dims if dims is not None else order[0] if len(order) == 1 and isinstance(order[0], Sequence) else order
        )
        places = [normalize_dim("permute", dim, len(self.whole)) for dim in named]
        sparse = self.sparse_dim()
        if sorted(places) != list(range(len(self.whole))) or any(dim >= sparse for dim in places[:sparse]):
            raise ShapeError(
                f"permute: expected each of the {len(self.whole)} dims once, the {sparse} sparse ones in front; got {tuple(places)}."
            )
        whole = tuple(self.whole[dim] for dim in places)
        dense = places[sparse:]
        entries = self.entries
        if dense != sorted(dense):
            entries = entries.permute(0, *[1 + dim - sparse for dim in dense])
        if self.form == COO:
            if places[:sparse] == list(range(sparse)):
                return of_coordinates(self.places, entries, whole, self.coalesced)
            return of_coordinates(self.places[places[:sparse]], entries, whole, False)
        form = self.form if places[:2] == [0, 1] else CSC if self.form == CSR else CSR
        return compressed(form, self.starts, self.places, entries, whole)

    T = property(lambda self: self.permute(*reversed(range(len(self.whole)))), doc="The dims in reverse.")

    mT = property(lambda self: self._turned(), doc="The last two dims exchanged: the transpose of each matrix.")

    def _turned(self) -> SparseTensor:
        if len(self.whole) < 2:
            raise ShapeError(
                f"tensor.mT is only supported on matrices or batches of matrices. Got {len(self.whole)}-D tensor."
            )
        return self.transpose(-2, -1)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """In another dtype or on another device, as `Tensor.to`."""
        entries = self.entries.to(*args, **kwargs)
        if entries is self.entries:
            return self
        where = entries.device
        starts = None if self.starts is None else self.starts.to(where)
        return _make(self.form, self.places.to(where), starts, entries, self.whole, self.coalesced)

    def clone(self, *, memory_format: object = None) -> SparseTensor:
        return self.with_entries(self.entries.clone())

    def contiguous(self, memory_format: object = None) -> SparseTensor:
        return self

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise refusal("numpy()")

    def tolist(self) -> NoReturn:
        """Refuses: `to_dense().tolist()` lists all elements.

        Returns:
            Nothing.
        Raises:
            NoMemoryError: always.
        """
        raise refusal("tolist()")

    def item(self) -> NoReturn:
        raise refusal("item()")

    def __bool__(self) -> bool:
        raise refusal("bool()")

    def __len__(self) -> int:
        return self.whole[0]

    def __repr__(self, **options: Any) -> str:
        names = {COO: ("indices",), CSR: ("crow_indices", "col_indices"), CSC: ("ccol_indices", "row_indices")}[
            self.form
        ]
        parts = [self.places] if self.form == COO else [self.starts, self.places]
        shown = [*zip(names, parts, strict=True), ("values", self.entries)]
        lines = []
        for name, part in shown:
            head = f"tensor({name}=tensor("
            lines.append("       " + printing.format_tensor(arrays.to_numpy(part.array), prefix=head)[len("tensor(") :])
        told: dict[str, Any] = {"size": tuple(self.whole), "nnz": self._nnz()}
        told["dtype"] = printing.dtype_suffix(self.dtype, self.entries.numel())
        told["device"] = None if self.device.type == "cpu" else f"'{self.device}'"
        told["layout"] = self.layout
        told["grad_fn"] = self.entries.node if self.entries.requires_grad else None
        told["requires_grad"] = True if self.entries.requires_grad and self.entries.node is None else None
        text = "tensor(" + ",\n".join(lines).strip()
        told = {name: value for name, value in told.items() if value is not None}
        return printing.with_suffixes(text, told, 7, new_line=self.form == COO)

    def __copy__(self) -> SparseTensor:
        return self.with_entries(self.entries)

    def __deepcopy__(self, memo: dict) -> SparseTensor:
        if id(self) not in memo:
            entries = self.entries.__deepcopy__(memo)
            memo[id(self)] = self.with_entries(entries)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _make, (self.form, self.places, self.starts, self.entries, self.whole, self.coalesced)

    __dynograd_op__: Any = None  # `rules.py` puts its function here


for _name in ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "cfloat", "cdouble"):

    def _converted(self: Any, *args: Any, _name: str = _name, **kwargs: Any) -> SparseTensor:
        return self.with_entries(getattr(self.entries, _name)(*args, **kwargs))

    _converted.__name__ = _converted.__qualname__ = _name
    _converted.__doc__ = f"The same tensor with the entries that `Tensor.{_name}` makes of its own."
    setattr(SparseTensor, _name, _converted)


def _make(form: str, places: Any, starts: Any, entries: Any, whole: tuple[int, ...], coalesced: bool) -> SparseTensor:
    sparse: Any = object.__new__(SparseTensor)
    sparse._meta = None
    sparse.form, sparse.places, sparse.starts, sparse.entries = form, places, starts, entries
    sparse.whole, sparse.coalesced, sparse.rows = tuple(whole), coalesced, None
    return sparse


def form_of(who: str, layout: Any) -> str:
    """The name of a sparse layout.

    Raises:
        ValueError: it is none that dynograd has.
    """
    name = str(layout).rpartition(".")[2]
    if name not in _FORMS:
        raise ValueError(
            f"{who}: layout {layout} is none of {', '.join(f'dynograd.{form}' for form in _FORMS)}. Blocked layouts (bsr, bsc) are not "
            f"supported; use sparse_csr."
        )
    return name


def of_coordinates(places: Any, entries: Any, whole: Sequence[int], coalesced: bool = False) -> SparseTensor:
    """A tensor of layout sparse_coo, unchecked."""
    return _make(COO, places, None, entries, tuple(whole), coalesced)


def compressed(form: str, starts: Any, places: Any, entries: Any, whole: Sequence[int]) -> SparseTensor:
    """A matrix of layout sparse_csr or sparse_csc, unchecked."""
    return _make(form, places, starts, entries, tuple(whole), True)
