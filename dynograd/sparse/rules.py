"""What ops do with sparse tensors. Functions that keep zeros as they are work on the entries; the rest is written here or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from dynograd.base import dtypes
from dynograd.base.shapes import broadcast_shapes, normalize_dim
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.index.indexing import getitem
from dynograd.ops.index.picks import index_add
from dynograd.ops.layout.broadcasting import expand
from dynograd.ops.layout.joins import cat, stack
from dynograd.ops.layout.views import reshape
from dynograd.ops.matmul.sparse_products import sparse_product, sparse_transposed_product
from dynograd.ops.op import Op, registry
from dynograd.sparse import coordinates
from dynograd.sparse.tensor import COO, SparseTensor, of_coordinates, refusal
from dynograd.tensor.creation import tensor, zeros
from dynograd.tensor.inplace import check_writable
from dynograd.tensor.tensor import Tensor

__all__ = ["run_op", "sum_of"]

_RULES: dict[str, Callable[[dict[str, Any]], Any]] = {}


def run_op(op: Op, arguments: dict[str, Any]) -> Tensor:
    """An op that was given a sparse tensor."""
    rule = _RULES.get(op.name)
    if rule is not None:
        return rule(arguments)
    first = arguments[op.array_names[0]] if op.array_names else None
    if (
        isinstance(first, SparseTensor)
        and len(op.array_names) == 1
        and _keeps_zero(op, tuple(arguments[name] for name in op.static_names))
    ):
        whole = first if first.form != COO else first.coalesce()
        return whole.with_entries(op.function(whole.entries, **{name: arguments[name] for name in op.static_names}))
    raise refusal(op.name)


@cache
def _zero_of(name: str, statics: tuple[Any, ...]) -> bool:
    op = registry[name]
    try:
        at_zero = op.function(tensor(0.0), *statics)
    except (TypeError, ValueError, RuntimeError):
        return False
    return bool((at_zero == 0).item()) if at_zero.dtype.name != "bool" else not at_zero.item()


def _keeps_zero(op: Op, statics: tuple[Any, ...]) -> bool:
    """Whether an elementwise op gives 0 for 0."""
    if op.kind != "elementwise":
        return False
    try:
        return _zero_of(op.name, statics)
    except TypeError:  # statics that cannot be looked up
        return False


def _rule(*names: str) -> Callable[[Callable[[dict[str, Any]], Any]], Any]:
    def register(function: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
        for name in names:
            _RULES[name] = function
        return function

    return register


# --- arithmetic ------------------------------------------------------------------------------------------------------------


@_rule("add")
def _add(arguments: dict[str, Any]) -> Tensor:
    left, right = arguments["input"], arguments["other"]
    if isinstance(left, SparseTensor) and isinstance(right, SparseTensor):
        return _sum(left, right)
    sparse, dense = (left, right) if isinstance(left, SparseTensor) else (right, left)
    if not isinstance(dense, Tensor):
        raise refusal("add of a number to a sparse tensor")
    if tuple(dense.shape) != sparse.whole:
        raise ShapeError(
            f"add: a sparse tensor of shape {sparse.whole} and a dense one of shape {tuple(dense.shape)} do not fit."
        )
    place = sparse.to_sparse_coo()
    sizes = sparse.whole[: place.sparse_dim()]
    numbers = coordinates.numbered(place.places, sizes)
    entries = place.entries if place.entries.dtype == dense.dtype else place.entries.to(dense.dtype)
    flat = reshape(dense, (-1, *sparse.whole[len(sizes) :]))
    return reshape(index_add(flat, 0, numbers, entries), sparse.whole)


@_rule("sub")
def _sub(arguments: dict[str, Any]) -> Tensor:
    other = arguments["other"]
    if not isinstance(other, Tensor):
        raise refusal("sub of a number from a sparse tensor")
    return _add({"input": arguments["input"], "other": -other})


def _sum(left: SparseTensor, right: SparseTensor) -> SparseTensor:
    if left.whole != right.whole or left.sparse_dim() != right.sparse_dim():
        raise ShapeError(
            f"add: sparse tensors of shapes {left.whole} and {right.whole} with {left.sparse_dim()} and {right.sparse_dim()} sparse dims do not fit."
        )
    parts = left.to_sparse_coo(), right.to_sparse_coo()
    joined = of_coordinates(
        cat([part.places for part in parts], 1), cat([part.entries for part in parts], 0), left.whole
    )
    if any(part.coalesced for part in parts) or left.form != COO:
        joined = joined.coalesce()
    return joined if left.form == COO else joined.to_sparse(layout=left.form)


@_rule("mul")
def _mul(arguments: dict[str, Any]) -> Tensor:
    left, right = arguments["input"], arguments["other"]
    if isinstance(left, SparseTensor) and isinstance(right, SparseTensor):
        return _product(left, right)
    sparse, factor = (left, right) if isinstance(left, SparseTensor) else (right, left)
    return sparse.with_entries(sparse.entries * _at(sparse, factor, "mul"))


@_rule("div")
def _div(arguments: dict[str, Any]) -> Tensor:
    left, right = arguments["input"], arguments["other"]
    if isinstance(right, SparseTensor):
        raise refusal("div by a sparse tensor (by zeros)")
    return left.with_entries(left.entries / _at(left, right, "div"))


def _rounded_quotient(name: str, arguments: dict[str, Any]) -> Tensor:
    left, right = arguments["input"], arguments["other"]
    if isinstance(right, SparseTensor):
        raise refusal(f"{name} by a sparse tensor (by zeros)")
    whole = left.coalesce() if left.form == COO else left  # parts of an entry are rounded together
    return whole.with_entries(registry[name].function(whole.entries, _at(whole, right, name)))


for _name in ("floor_divide", "trunc_divide"):
    _rule(_name)(partial(_rounded_quotient, _name))


@_rule("permute")
def _permute(arguments: dict[str, Any]) -> Tensor:
    return arguments["input"].permute(*arguments["dims"])


@_rule("vector_norm")
def _norm(arguments: dict[str, Any]) -> Tensor:
    sparse, p, dim = arguments["input"], arguments["p"], arguments["dim"]
    if dim is not None or p < 0:
        raise refusal("norm over some dims, or of an order below 0")
    whole = sparse.coalesce() if sparse.form == COO else sparse
    norm = registry["vector_norm"].function(whole.entries, p, None, False)
    return reshape(norm, (1,) * len(whole.whole)) if arguments["keepdim"] else norm


@_rule("pow")
def _pow(arguments: dict[str, Any]) -> Any:
    base, exponent = arguments["input"], arguments.get("exponent")
    if not isinstance(base, SparseTensor) or not isinstance(exponent, (int, float)) or exponent <= 0:
        raise refusal("pow with an exponent that is not a number above 0")
    whole = base.coalesce() if base.form == COO else base
    return whole.with_entries(whole.entries**exponent)


@_rule("modulus")
def _modulus(arguments: dict[str, Any]) -> Tensor:
    """The absolute value of complex numbers."""
    sparse = arguments["input"]
    whole = sparse.coalesce() if sparse.form == COO else sparse
    return whole.with_entries(whole.entries.abs())


def _at(sparse: SparseTensor, factor: Any, who: str) -> Any:
    """A factor of a sparse tensor, as its entries see it."""
    if not isinstance(factor, Tensor) or not factor.ndim:
        return factor
    if broadcast_shapes(who, sparse.whole, tuple(factor.shape)) != sparse.whole:
        raise ShapeError(
            f"{who}: shape {tuple(factor.shape)} does not broadcast to the sparse tensor's {sparse.whole}."
        )
    return getitem(expand(factor, sparse.whole), tuple(sparse.to_sparse_coo().places))


def _product(input: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Elementwise: entries that both have."""
    if input.whole != other.whole or input.dense_dim() or other.dense_dim():
        raise ShapeError(
            f"mul: expected sparse tensors of one shape without dense dims, got shapes {input.whole} and {other.whole}."
        )
    left, right = input.to_sparse_coo().coalesce(), other.to_sparse_coo().coalesce()
    among, at = coordinates.matched(
        coordinates.numbered(left.places, input.whole), coordinates.numbered(right.places, input.whole)
    )
    kept = among.nonzero()[:, 0]
    entries = getitem(left.entries, kept) * getitem(right.entries, getitem(at, kept))
    product = of_coordinates(left.places[:, kept], entries, input.whole, True)
    return product if input.form == COO else product.to_sparse(layout=input.form)


# --- matrix products -------------------------------------------------------------------------------------------------------


@_rule("matmul")
def _matmul(arguments: dict[str, Any]) -> Tensor:
    left, right = arguments["input"], arguments["other"]
    if isinstance(left, SparseTensor) and left.sparse_dim() == left.ndim == right.ndim == 3:
        return _of_each(left, right)
    for each in (left, right):
        if isinstance(each, SparseTensor) and (len(each.whole) != 2 or each.dense_dim()):
            raise ShapeError(f"matmul: expected a sparse matrix, got a sparse tensor of shape {each.whole}.")
    if not 0 < right.ndim <= 2 or not 0 < left.ndim <= 2:
        raise ShapeError(
            f"matmul: expected matrices or vectors beside a sparse matrix, got shapes {tuple(left.shape)} and {tuple(right.shape)}."
        )
    if left.shape[-1] != right.shape[0]:
        raise ShapeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({_text(left)} and {_text(right)}): input has {left.shape[-1]} columns "
            f"but other has {right.shape[0]} rows. Transpose one of them."
        )
    if isinstance(left, SparseTensor) and isinstance(right, SparseTensor):
        return _of_two(left, right)
    if isinstance(left, SparseTensor):
        dense = right if right.ndim == 2 else reshape(right, (-1, 1))
        product = _times(left, dense)
        return product if right.ndim == 2 else reshape(product, (left.whole[0],))
    dense = left if left.ndim == 2 else reshape(left, (1, -1))
    product = _times(right.t(), dense.t()).t()
    return product if left.ndim == 2 else reshape(product, (right.whole[1],))


def _of_each(left: SparseTensor, right: Tensor) -> Tensor:
    """(B, N, K) @ (B, K, M): one sparse matrix with the B of them along its diagonal, times all rows of the dense ones."""
    count, rows, width = left.whole
    if isinstance(right, SparseTensor) or tuple(right.shape[:2]) != (count, width):
        shown = "sparse" if isinstance(right, SparseTensor) else tuple(right.shape)
        raise ShapeError(
            f"matmul: expected dense matrices ({count}, {width}, M) beside sparse ones of shape {left.whole}, got {shown}."
        )
    whole = left.to_sparse_coo()
    number, row, column = whole.places
    places = stack([row + number * rows, column + number * width])
    diagonal = of_coordinates(places, whole.entries, (count * rows, count * width), whole.coalesced)
    return reshape(_times(diagonal, reshape(right, (count * width, -1))), (count, rows, right.shape[2]))


@_rule("linear")
def _linear(arguments: dict[str, Any]) -> Tensor:
    """Sparse features (rows, in_features) times an ordinary weight."""
    input, weight, bias = arguments["input"], arguments["weight"], arguments["bias"]
    if not isinstance(input, SparseTensor):
        raise refusal("linear: its weight or bias")
    product = _matmul({"input": input, "other": weight.t()})
    return product if bias is None else product + bias


def _text(matrix: Any) -> str:
    return "x".join(map(str, matrix.shape))


def _times(matrix: SparseTensor, dense: Any) -> Tensor:
    if matrix.form == "sparse_csc":
        return sparse_transposed_product(matrix.entries, matrix.starts, matrix.places, dense, matrix.whole[0])
    crow, col, entries = matrix.compressed_rows()
    return sparse_product(entries, crow, col, dense)


def _of_two(input: SparseTensor, other: SparseTensor) -> SparseTensor:
    """The product of two sparse matrices: each entry of the first meets the row of the second that it stands for."""
    left = input.to_sparse_coo()
    crow, col, entries = other.compressed_rows()
    owner, at = coordinates.joined(crow, left.places[1])
    places = stack([getitem(left.places[0], owner), getitem(col, at)])
    product = of_coordinates(
        places, getitem(left.entries, owner) * getitem(entries, at), (input.whole[0], other.whole[1])
    ).coalesce()
    return product if input.form == COO else product.to_sparse_csr()


# --- reductions and parts --------------------------------------------------------------------------------------------------


@_rule("sum")
def _sum_rule(arguments: dict[str, Any]) -> Tensor:
    if arguments.get("keepdim"):
        raise refusal("sum with keepdim")
    return sum_of(arguments["input"], arguments.get("dim"))


def sum_of(input: SparseTensor, dim: Any) -> Tensor:
    """Over some dims: sparse while a sparse dim is left, else dense."""
    rank = len(input.whole)
    dims = [dim] if isinstance(dim, int) else list(dim) if dim is not None and len(dim) else list(range(rank))
    gone = {normalize_dim("sum", axis, rank) for axis in dims}
    if len(gone) == rank:
        return input.entries.sum()
    whole = input.to_sparse_coo()
    sparse = whole.sparse_dim()
    entries = whole.entries
    inner = [1 + axis - sparse for axis in sorted(gone) if axis >= sparse]
    if inner:
        entries = entries.sum(inner)
    kept = [axis for axis in range(sparse) if axis not in gone]
    left = [input.whole[axis] for axis in range(rank) if axis not in gone]
    if not kept:
        return entries.sum(0)
    return of_coordinates(whole.places[kept], entries, left).coalesce()


@_rule("cat")
def _cat(arguments: dict[str, Any]) -> Tensor:
    parts, dim = list(arguments["tensors"]), arguments.get("dim", 0)
    if not all(isinstance(part, SparseTensor) for part in parts):
        raise refusal("cat of sparse and dense tensors")
    whole = [part.to_sparse_coo() for part in parts]
    first = whole[0]
    dim = normalize_dim("cat", dim, len(first.whole))
    for part in whole[1:]:
        if part.sparse_dim() != first.sparse_dim() or any(
            a != b for place, (a, b) in enumerate(zip(part.whole, first.whole, strict=True)) if place != dim
        ):
            raise ShapeError(
                f"cat: sparse tensors of shapes {first.whole} and {part.whole} do not fit along dim {dim}."
            )
    if dim >= first.sparse_dim():
        raise refusal("cat along a dense dim")
    shifted, before = [], 0
    for part in whole:
        move: Any = zeros(part.sparse_dim(), 1, dtype=part.places.dtype, device=part.places.device)
        move[dim] = before
        shifted.append(part.places + move)
        before += part.whole[dim]
    size = [*first.whole]
    size[dim] = before
    ordered = dim == 0 and all(part.coalesced for part in whole)
    return of_coordinates(cat(shifted, 1), cat([part.entries for part in whole], 0), size, ordered)


def index_select(self: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The slices `index` along a sparse dim.

    Args:
        dim: a sparse dim; negative counts from the end.
        index (n,): numbers of places along it.
    Returns:
        A `SparseTensor` with n places along the dim.
    """
    whole = self.to_sparse_coo()
    dim = normalize_dim("index_select", dim, len(self.whole))
    if dim >= whole.sparse_dim():
        return whole.with_entries(whole.entries.index_select(dim - whole.sparse_dim() + 1, index))
    keys, order = whole.places[dim].sort(stable=True)
    owner, at = coordinates.joined(coordinates.starts_of(keys, self.whole[dim]), index)
    at = getitem(order, at)
    rows = [owner if row == dim else getitem(whole.places[row], at) for row in range(whole.sparse_dim())]
    size = [*self.whole]
    size[dim] = index.shape[0]
    return of_coordinates(stack(rows), getitem(whole.entries, at), size)


def select(self: SparseTensor, dim: int, index: int) -> Tensor:
    """The slice `index` along a dim: sparse while a sparse dim is left, else dense.

    Args:
        dim: a sparse dim; negative counts from the end.
        index: a number; negative counts from the end.
    Returns:
        A tensor without the dim: sparse while a sparse dim is left, else dense.
    """
    dim = normalize_dim("select", dim, len(self.whole))
    size = self.whole[dim]
    if not -size <= index < size:
        raise IndexError(f"select: index {index} is out of range for dim {dim} of size {size}.")
    chosen = index_select(self, dim, tensor([index % size], device=self.device))
    return sum_of(chosen, dim)


def get_item(self: SparseTensor, key: Any) -> Any:
    """`x[i]`, `x[i, j]`: slices by numbers; a vector of integers chooses along dim 0."""
    keys = key if isinstance(key, tuple) else (key,)
    if isinstance(key, Tensor) and key.ndim == 1 and not key.dtype.is_floating_point:
        return index_select(self, 0, key if key.dtype.name != "bool" else key.nonzero()[:, 0])
    if not all(isinstance(index, int) and not isinstance(index, bool) for index in keys):
        raise refusal("indexing with anything but integers")
    item: Any = self
    for index in keys:
        item = item.select(0, index) if isinstance(item, SparseTensor) else item[index]
    return item


@_rule("clone")
def _clone(arguments: dict[str, Any]) -> Any:
    return arguments["input"].clone()


for _method in (index_select, select):
    setattr(SparseTensor, _method.__name__, _method)
setattr(SparseTensor, "__getitem__", get_item)  # noqa: B010


def _write(target: Any, value: Any, who: str, write: Any) -> SparseTensor | None:
    """In-place ops: the entries of the result in the place of the tensor's own. None where a dense tensor is written to."""
    if not isinstance(target, SparseTensor):
        return None
    if not isinstance(value, SparseTensor):
        raise refusal(f"{who} of a dense tensor to a sparse one")
    if value.whole != target.whole:
        raise ShapeError(
            f"{who}: output with shape {target.whole} doesn't match the shape of the result, {value.whole}. Use {who.rstrip('_')} instead."
        )
    if not dtypes.can_cast(value.dtype, target.dtype):
        raise DtypeError(
            f"{who}: result type {value.dtype} can't be cast to the desired output type {target.dtype}. Use {who.rstrip('_')}, which "
            f"returns a new tensor, or convert the operand first."
        )
    check_writable(target.entries, who)
    value = value.to(target.dtype, copy=who == "copy_")
    target.form, target.places, target.starts, target.entries = value.form, value.places, value.starts, value.entries
    target.coalesced, target.rows = value.coalesced, None
    return target


setattr(SparseTensor, "__dynograd_write__", staticmethod(_write))  # noqa: B010


def zero_(self: SparseTensor) -> SparseTensor:
    """Drops all entries."""
    empty = self.entries[:0].detach()
    if self.form == COO:
        self.places, self.entries = self.places[:, :0], empty
    else:
        self.places, self.starts, self.entries = self.places[:0], self.starts * 0, empty
    self.coalesced, self.rows = True, None
    return self


SparseTensor.zero_ = zero_  # type: ignore[assignment, method-assign]


SparseTensor.__dynograd_op__ = staticmethod(run_op)
