"""`vmap`: a function of one example becomes a function of a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynograd.base.random_streams import default_generator
from dynograd.tensor.methods import public_function
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.batching.batched import Batched, Level, lowered, make_batched, run
from dynograd.transforms.trees import flatten, map_tree, rebuild

__all__ = ["first_example", "map_examples", "vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: int | tuple[Any, ...] | None = 0,
    out_dims: int | tuple[Any, ...] | None = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that runs `func` on every example of its arguments at once, as if in a loop with the results stacked.

    Args:
        func: a function of tensors, written for one example.
        in_dims: along which dim of each argument the examples lie: an int for all, None where all examples share the argument, or a
            tuple with an entry per argument, itself nested like the argument where that is a tuple, list or dict.
        out_dims: where the examples lie in the results: an int, or a tuple or nesting of them like the result's; None for a result
            that is the same for all examples, which need not be a tensor.
        randomness: what random functions do inside: "error"; "different", one draw per example; "same", one for all.
        chunk_size: run at most so many examples at a time, which takes less memory; None: all.
    Returns:
        A function of the same arguments, each with its dim of examples.
    Raises:
        ValueError: `in_dims` does not fit the arguments, or sizes differ.

    >>> dynograd.vmap(dynograd.dot)(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 1.0], [0.0, 1.0]]))
    tensor([3., 4.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"vmap: Only allowed values for randomness are 'error', 'different', or 'same', got {randomness!r}."
        )
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size <= 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0, got {chunk_size!r}.")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        return map_examples(func, in_dims, out_dims, randomness, chunk_size, args, kwargs)

    try:
        return functools.wraps(func)(mapped)
    except AttributeError:  # partial objects and the like have no name
        return mapped


def map_examples(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> object:
    """What `vmap(func, ...)(*args, **kwargs)` gives."""
    leaves, dims, size = _examples(func, in_dims, args, kwargs)
    if chunk_size is None or chunk_size >= size:
        return _run(func, out_dims, randomness, args, kwargs, leaves, dims, size)
    pieces = []
    state = default_generator.state()
    for start in range(0, size, chunk_size):
        if randomness == "same":
            default_generator.set_plain_state(state)
        count = min(chunk_size, size - start)
        part = [
            leaf if dim is None else run("basic_index", leaf, (*(slice(None),) * dim, slice(start, start + count)))
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        pieces.append(_run(func, out_dims, randomness, args, kwargs, part, dims, count))
    places = _out_places(out_dims, pieces[0])
    joined = [
        parts[0] if dim is None else public_function("cat")(list(parts), dim)
        for dim, *parts in zip(places, *[flatten(piece) for piece in pieces], strict=True)
    ]
    return rebuild(pieces[0], joined)


def first_example(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `func` for the first example."""
    leaves, dims, _ = _examples(func, in_dims, args, kwargs)
    first = [leaf if dim is None else leaf.select(dim, 0) for leaf, dim in zip(leaves, dims, strict=True)]
    count = len(flatten(args))
    return rebuild(args, first[:count]), rebuild(kwargs, first[count:])


def _run(
    func: Any, out_dims: Any, randomness: str, args: tuple, kwargs: dict, leaves: list, dims: list, size: int
) -> Any:
    with Level(size, randomness) as level:
        inside = [
            leaf if dim is None else make_batched(level, _to_front(leaf, dim))
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        found_args = rebuild(args, inside[: len(flatten(args))])
        batched_kwargs = rebuild(kwargs, inside[len(flatten(args)) :]) if kwargs else {}
        result = func(*found_args, **batched_kwargs)
        outputs = flatten(result)
        places = _out_places(out_dims, result, func)
        results = []
        for output, dim in zip(outputs, places, strict=True):
            if dim is None:
                if type(output) is Batched and output.level is level:
                    raise ValueError(
                        f"vmap({_name(func)}): `{_name(func)}` can not return a BatchedTensor when out_dim is None: this result (shape "
                        f"{tuple(output.shape)}) differs from example to example. Give it an int in out_dims."
                    )
                results.append(output)
                continue
            if not isinstance(output, Tensor):
                raise ValueError(
                    f"vmap({_name(func)}): `{_name(func)}` must only return Tensors, got type {type(output).__name__}. Give it None in "
                    f"out_dims, or return it as a tensor."
                )
            rank = output.ndim + 1
            if not -rank <= dim < rank:
                raise IndexError(
                    f"vmap({_name(func)}): Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got out_dims "
                    f"{dim} for a result of {rank - 1} dims per example)."
                )
            results.append(_from_front(lowered(output, level), dim % rank))
    return rebuild(result, results)


def _to_front(tensor: Any, dim: int) -> Any:
    if dim == 0:
        return run("view", tensor, tuple(tensor.shape)) if tensor.requires_grad and tensor.is_leaf else tensor
    return run("permute", tensor, (dim, *[place for place in range(tensor.ndim) if place != dim]))


def _from_front(tensor: Any, dim: int) -> Any:
    if dim == 0:
        return tensor
    order = list(range(1, tensor.ndim))
    order.insert(dim, 0)
    return run("permute", tensor, tuple(order))


# --- in_dims and out_dims ------------------------------------------------------------------------------------------------------


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _examples(func: Any, in_dims: Any, args: tuple, kwargs: dict) -> tuple[list[Any], list[Any], int]:
    """All leaves of the arguments, the dim of each, and how many examples there are. Keyword tensors are mapped over dim 0."""
    who = f"vmap({_name(func)}, in_dims={in_dims!r}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            f"{who}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims).__name__}."
        )
    if not args and not kwargs:
        raise ValueError(
            f"{who}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no inputs. The latter "
            f"is unsupported."
        )
    if isinstance(in_dims, (tuple, list)):
        if len(in_dims) != len(args):
            raise ValueError(
                f"{who}: in_dims is not compatible with the structure of inputs: in_dims has {len(in_dims)} entries, but there are "
                f"{len(args)} positional inputs. Give one int or None for each."
            )
        dims = []
        for place, (dim, argument) in enumerate(zip(in_dims, args, strict=True)):
            dims += _spread(who, dim, argument, f"input {place}")
    else:
        dims = [in_dims] * len(flatten(args))
    leaves = flatten(args)
    for leaf in flatten(kwargs) if kwargs else ():
        leaves.append(leaf)
        dims.append(0)
    size: int | None = None
    where = ""
    sizes = []
    for place, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int) or isinstance(dim, bool):
            raise ValueError(
                f"{who}: Got in_dim={dim!r} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{who}: Got in_dim={dim} for an input but the input is of type {type(leaf).__name__}. We cannot vmap over non-Tensor "
                f"arguments, please use None as the respective in_dim."
            )
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(
                f"{who}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.ndim} so expected in_dim to "
                f"satisfy {-leaf.ndim} <= in_dim < {leaf.ndim}. Pass it with in_dims=None if all examples share it."
            )
        dims[place] = dim % leaf.ndim
        count = leaf.shape[dims[place]]
        sizes.append(count)
        if size is None:
            size, where = count, f"shape {tuple(leaf.shape)} along dim {dim}"
        elif count != size:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {[size, count]} for the mapped "
                f"dimension: {where}, and shape {tuple(leaf.shape)} along dim {dim}."
            )
    if size is None:
        raise ValueError(
            f"{who}: at least one input must be mapped over, but every in_dim is None. Give an int for one of them."
        )
    return leaves, dims, size


def _spread(who: str, dim: Any, leaf: Any, where: str) -> list[Any]:
    """`dim` for each leaf of an argument: one for all, or nested as the argument is."""
    if dim is None or isinstance(dim, int):
        return [dim] * len(flatten(leaf))
    if isinstance(dim, dict) and isinstance(leaf, dict):
        if set(dim) != set(leaf):
            raise _structure_error(who, dim, leaf, where)
        return [entry for key in leaf for entry in _spread(who, dim[key], leaf[key], f"{where}[{key!r}]")]
    if isinstance(dim, (tuple, list)) and isinstance(leaf, (tuple, list)) and len(dim) == len(leaf):
        return [
            entry
            for place, (part, value) in enumerate(zip(dim, leaf, strict=True))
            for entry in _spread(who, part, value, f"{where}[{place}]")
        ]
    if isinstance(dim, (dict, tuple, list)):
        raise _structure_error(who, dim, leaf, where)
    raise ValueError(f"{who}: Got in_dim={dim!r} for {where} but in_dim must be either an integer dimension or None.")


def _structure_error(who: str, dim: Any, leaf: Any, where: str) -> ValueError:
    return ValueError(
        f"{who}: in_dims is not compatible with the structure of inputs: in_dims has {_outline(dim)} for {where}, which is "
        f"{_outline(leaf)}."
    )


def _outline(tree: Any) -> str:
    return repr(map_tree(lambda leaf: "*" if isinstance(leaf, Tensor) else leaf, tree)).replace("'*'", "*")


def _out_places(out_dims: Any, result: Any, func: Any = None) -> list[Any]:
    """The out_dim of each leaf of the result."""
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * len(flatten(result))
    try:
        places = _spread("vmap", out_dims, result, "the result")
    except ValueError:
        single = isinstance(result, Tensor) and isinstance(out_dims, (tuple, list)) and len(out_dims) == 1
        if not single:
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims!r}): out_dims is not compatible with the structure of outputs: the result "
                f"is {_outline(result)}."
            ) from None
        places = [out_dims[0]]
    return places
