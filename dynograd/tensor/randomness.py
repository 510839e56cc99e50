"""Random tensors, and the Tensor-facing side of generators. The numbers come from `kernels/random/random_cpu.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import stamp
from dynograd.base import dtypes
from dynograd.base.random_streams import Generator, default_generator, drawn, initial_seed, manual_seed, seed
from dynograd.base.shapes import as_shape, check_number, check_sizes, sizes_by_name, whole_number
from dynograd.errors import DtypeError, ShapeError
from dynograd.interpreter.out_forms import out_dtype, write_out
from dynograd.interpreter.tensor_parts import is_silent
from dynograd.kernels import kernel
from dynograd.tensor.creation import at_once, at_once_like, order_like, own_layout
from dynograd.tensor.inplace import copy_, guards, refuse_repeats
from dynograd.tensor.inplace_forms import DRAWS, with_writer
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
]


def draw(kind: str, count: int, generator: Generator | None, dtype: dtypes.dtype | None = None) -> tuple[int, int]:
    """Reserves what a draw of `kind` needs and returns its (seed, offset)."""
    name = None if dtype is None else dtype.numpy
    return (generator or default_generator).key(kernel("random", "blocks_needed", 0)(kind, count, name))


def _floating(who: str, dtype: Any) -> dtypes.dtype:
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if kind in dtypes.FLOAT8:
        raise DtypeError(
            f"{who}: numbers of {kind} cannot be drawn. Draw in float32 and convert: {who}(...).to({kind})."
        )
    if kind.category < dtypes.FLOATING:
        raise DtypeError(f"{who}: expected a floating dtype, got {kind}. Use randint for integers.")
    return kind


def _made(array: Any, requires_grad: bool, out: Any = None, who: str = "") -> Tensor:
    if out is not None:
        return write_out(who, out, wrap(array), warn=False)
    tensor = wrap(array)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def without_gradient(draws: Tensor, *parameters: Tensor) -> Tensor:
    """`draws` recorded as a function of its parameters whose gradient is 0, as PyTorch records draws."""
    if MODES.grad:
        for parameter in parameters:
            if parameter.requires_grad:
                draws = draws + parameter.sign().to(draws.dtype) * 0
    return draws


def _shape(who: str, size: Any) -> tuple[int, ...]:
    return check_sizes(who, as_shape(who, size))


def _few(name: str, generator: Generator | None, *numbers: float) -> Callable[..., Any]:
    """What makes few numbers: `make(size, dtype)`."""
    if generator is None:
        maker = _makers.get((name, numbers))
        if maker is None:
            maker = _makers[name, numbers] = _maker(name, default_generator.key, numbers)
        return maker
    return _maker(name, generator.key, numbers)


_makers: dict[Any, Any] = {}


def _maker(name: str, key: Any, numbers: tuple[float, ...]) -> Callable[..., Any]:
    return partial(kernel("random", "few", 0), name, key, numbers)


@drawn
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform numbers of [0, 1).

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        generator: where random numbers come from; by default the default generator.
        dtype: of the elements; the default dtype.
        layout, pin_memory: accepted; tensors made here are strided.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes.

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.rand(2, 3).shape
    dynograd.Size([2, 3])
    """
    if size is not None:
        sizes = sizes_by_name("rand", sizes, size)
    if out is None:
        result = at_once(_few("uniform", generator, 0.0, 1.0), sizes, dtype, device, requires_grad)
        if result is not None:
            return result
    return _made(
        _uniform(
            _shape("rand", sizes),
            _floating("rand", out_dtype(dtype, out)),
            0.0,
            1.0,
            generator,
            _place("rand", _near(device, out)),
        ),
        requires_grad,
        out,
        "rand",
    )


_place = arrays.check_device


def _near(device: Any, out: Any) -> Any:
    """The device that is asked for: that of `out`, unless one is given."""
    return out.device if device is None and isinstance(out, Tensor) else device


def _uniform(
    shape: tuple[int, ...], kind: dtypes.dtype, low: float, high: float, generator: Generator | None, place: Any
) -> Array:
    where = draw("uniform", prod(shape), generator, kind)
    return kernel("random", "uniform", place)(*where, shape, kind.numpy, low, high)


def _normal(
    shape: tuple[int, ...], kind: dtypes.dtype, mean: Any, std: Any, generator: Generator | None, place: Any
) -> Array:
    where = draw("normal", prod(shape), generator, kind)
    return kernel("random", "normal", place)(*where, shape, kind.numpy, mean, std)


@drawn
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers of mean 0 and variance 1.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        generator: where random numbers come from; by default the default generator.
        dtype: of the elements; the default dtype.
        layout, pin_memory: accepted; tensors made here are strided.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes.

    >>> dynograd.randn(2, 3).shape
    dynograd.Size([2, 3])
    """
    if size is not None:
        sizes = sizes_by_name("randn", sizes, size)
    if out is None:
        result = at_once(_few("normal", generator, 1.0, 0.0), sizes, dtype, device, requires_grad)
        if result is not None:
            return result
    return _made(
        _normal(
            _shape("randn", sizes),
            _floating("randn", out_dtype(dtype, out)),
            0.0,
            1.0,
            generator,
            _place("randn", _near(device, out)),
        ),
        requires_grad,
        out,
        "randn",
    )


def _in_order_of(like: Any, drawn: Any, memory_format: Any) -> Any:
    """What was drawn, in memory as the format says: each element is what it would be in row-major order."""
    order = order_like(like, drawn.ndim, memory_format)
    if order is None:
        return drawn
    return arrays.turned(kernel("copies", "copied", drawn)(drawn.transpose(order)), order)


@drawn
def rand_like(
    input: Tensor,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`rand` in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        dtype, device: other ones than those of `input`.
        generator: where random numbers come from; by default the default generator.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.rand_like(dynograd.zeros(2, 3)).shape
    dynograd.Size([2, 3])
    """
    result = (
        None
        if memory_format is not None
        else at_once_like(_few("uniform", generator, 0.0, 1.0), input, dtype, device, requires_grad)
    )
    if result is not None:
        return result
    follow = own_layout(input, layout)
    if follow is not None:
        return follow(
            "rand_like",
            lambda x: rand_like(x, dtype=dtype, generator=generator, device=device, requires_grad=requires_grad),
        )
    kind = _floating("rand_like", input.dtype if dtype is None else dtype)
    place = _place("rand_like", input.device if device is None else device)
    return _made(
        _in_order_of(input.array, _uniform(input.array.shape, kind, 0.0, 1.0, generator, place), memory_format),
        requires_grad,
    )


@drawn
def randn_like(
    input: Tensor,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`randn` in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        dtype, device: other ones than those of `input`.
        generator: where random numbers come from; by default the default generator.
        requires_grad: record what is done with the result.
        layout: `dynograd.strided` gives a dense tensor where `input` is sparse.
        pin_memory: accepted.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.randn_like(dynograd.zeros(2, 3)).shape
    dynograd.Size([2, 3])
    """
    result = (
        None
        if memory_format is not None
        else at_once_like(_few("normal", generator, 1.0, 0.0), input, dtype, device, requires_grad)
    )
    if result is not None:
        return result
    follow = own_layout(input, layout)
    if follow is not None:
        return follow(
            "randn_like",
            lambda x: randn_like(x, dtype=dtype, generator=generator, device=device, requires_grad=requires_grad),
        )
    kind = _floating("randn_like", input.dtype if dtype is None else dtype)
    place = _place("randn_like", input.device if device is None else device)
    return _made(
        _in_order_of(input.array, _normal(input.array.shape, kind, 0.0, 1.0, generator, place), memory_format),
        requires_grad,
    )


def _integers(
    who: str, shape: tuple[int, ...], low: Any, high: Any, kind: dtypes.dtype, generator: Generator | None, place: Any
) -> Array:
    low, high = whole_number(who, "low", low), whole_number(who, "high", high)
    if low >= high:
        raise RuntimeError(f"{who}: random_ expects 'from' to be less than 'to', but got from={low} >= to={high}.")
    if not kind.is_complex:
        limits: Any = (
            dtypes.finfo(kind) if kind.is_floating_point else None if kind is dtypes.bool else dtypes.iinfo(kind)
        )
        least, most = (0, 1) if limits is None else (limits.min, limits.max)
        if low < least or high - 1 > most:
            raise RuntimeError(
                f"{who}: numbers from {low} to {high - 1} are out of bounds for {kind} ({least} to {most}). Use a wider dtype."
            )
    where = draw("integers", prod(shape), generator)
    return kernel("random", "integers", place)(*where, shape, low, high, kind.numpy)


def _limits(who: str, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds of `f(high)`, `f(low, high)` and `f(high=high)`."""
    if high is None:
        low, high = None, low
    if high is None:
        raise TypeError(f"{who}: missing the argument 'high'. Pass the bound below which the integers lie.")
    return 0 if low is None else low, high


@drawn
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Integers of [low, high), or of [0, low) as `randint(high, size)`.

    Args:
        low: the smallest; 0 when it is left out.
        high: above the largest.
        size: the sizes, as a tuple.
        generator: where random numbers come from; by default the default generator.
        dtype: of the elements; int64.
        layout, pin_memory: accepted; tensors made here are strided.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes.

    >>> _ = dynograd.manual_seed(0)
    >>> bool((dynograd.randint(3, 5, (10,)) >= 3).all())
    True
    """
    if size is None:
        low, high, size = None, low, high
    low, high = _limits("randint", low, high)
    if size is None:
        raise TypeError("randint: missing the argument 'size'. Pass randint(high, size) or randint(low, high, size).")
    kind = dtypes.as_dtype(out_dtype(dtype, out) or dtypes.int64)
    shape = _shape("randint", (size,) if isinstance(size, (tuple, list)) else size)
    return _made(
        _integers("randint", shape, low, high, kind, generator, _place("randint", _near(device, out))),
        requires_grad,
        out,
        "randint",
    )


@drawn
def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`randint` in the shape and dtype of `input`.

    Args:
        input: tensor of any shape.
        low: the smallest; 0 when only one bound is given.
        high: above the largest.
        dtype, device: other ones than those of `input`.
        generator: where random numbers come from; by default the default generator.
        requires_grad: record what is done with the result.
        layout, pin_memory: accepted; tensors made here are strided.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        A tensor of the shape of `input`.

    >>> dynograd.randint_like(tensor([1, 2]), 3, 4)
    tensor([3, 3])
    """
    low, high = _limits("randint_like", low, high)
    kind = input.dtype if dtype is None else dtypes.as_dtype(dtype)
    place = _place("randint_like", input.device if device is None else device)
    return _made(
        _in_order_of(
            input.array, _integers("randint_like", input.array.shape, low, high, kind, generator, place), memory_format
        ),
        requires_grad,
    )


@drawn
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    Args:
        n: how many.
        generator: where random numbers come from; by default the default generator.
        dtype: of the elements; int64.
        layout, pin_memory: accepted; tensors made here are strided.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
    Returns:
        (n,).

    >>> sorted(dynograd.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    place = _place("randperm", _near(device, out))
    n = whole_number("randperm", "n", n)
    if n < 0:
        raise ShapeError(f"randperm: n must be non-negative, got {n}.")
    kind = dtypes.as_dtype(out_dtype(dtype, out) or dtypes.int64)
    if n > _largest_whole(kind) + 1:
        raise DtypeError(
            f"randperm: n is too large for result tensor type {kind}, which holds whole numbers to {_largest_whole(kind)}: got {n}. Use a "
            f"wider dtype."
        )
    result = kernel("random", "permutation", place)(*draw("permutation", n, generator), n)
    return _made(arrays.cast(result, kind), requires_grad, out, "randperm")


def _largest_whole(kind: dtypes.dtype) -> int:
    """The number up to which the dtype holds all whole ones."""
    floats = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11, "bfloat16": 1 << 8, "bool": 1}
    return floats.get(kind.name, (1 << (8 * kind.itemsize - kind.is_signed)) - 1)


@drawn
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers; mean and std are numbers (then `size` is needed) or tensors that broadcast.

    Args:
        mean, std: numbers or tensors.
        size: the sizes, where both are numbers.
        generator: where random numbers come from; by default the default generator.
        dtype: of the elements; the default dtype.
        layout, pin_memory: accepted; tensors made here are strided.
        device: where it lives; by default the default device.
        requires_grad: record what is done with the result.
    Returns:
        A tensor of these sizes, or of the broadcast shape.
    Raises:
        RuntimeError: a negative std.

    >>> dynograd.normal(5.0, 0.0, (2,))
    tensor([5., 5.])
    """
    for name, value in (("mean", mean), ("std", std)):
        if not isinstance(value, Tensor):
            check_number("normal", name, value)
    tensors = [operand for operand in (mean, std) if isinstance(operand, Tensor)]
    lowest = (std.array.min() if std.array.size else 0) if isinstance(std, Tensor) else std
    if lowest < 0:
        raise RuntimeError(f"normal: normal expects std >= 0.0, but found std {float(lowest)}.")
    if tensors:
        from dynograd.base.shapes import broadcast_shapes

        shape = broadcast_shapes("normal", *[tensor.array.shape for tensor in tensors])
        device = tensors[0].device if device is None else device
        kind = _floating("normal", out_dtype(dtype, out) or tensors[0].dtype)
    else:
        if size is None:
            raise TypeError("normal: size is needed when mean and std are numbers, e.g. normal(0.0, 1.0, (2, 3)).")
        shape = _shape("normal", (size,))
        kind = _floating("normal", out_dtype(dtype, out))
    centre, spread = (operand.array if isinstance(operand, Tensor) else operand for operand in (mean, std))
    numbers = _made(
        _normal(shape, kind, centre, spread, generator, _place("normal", _near(device, out))),
        requires_grad,
        out,
        "normal",
    )
    return numbers if out is not None else without_gradient(numbers, *tensors)


@drawn
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Any = None) -> Tensor:
    """1 with the probability that `input` holds (or `p`), else 0, in the dtype of `input`.

    Args:
        input: floating tensor of probabilities.
        p: probability, in the place of those.
        generator: where random numbers come from; by default the default generator.
    Returns:
        A tensor of the shape and dtype of `input`; `out` may be of any dtype.

    >>> dynograd.bernoulli(tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    array = input.array
    if p is None:
        if array.size and not bool(((array >= 0) & (array <= 1)).all()):
            raise RuntimeError(
                f"bernoulli: expected probabilities p_in >= 0 && p_in <= 1, got values from {array.min()} to {array.max()}."
            )
        _floating("bernoulli", input.dtype)
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli: expected 0 <= p <= 1, got {p}.")
    where = draw("bernoulli", array.size, generator)
    kind = (input if out is None else out).array.dtype
    result = kernel("random", "bernoulli", input.device)(*where, array if p is None else p, array.shape, kind)
    draws = _made(result, False, out, "bernoulli")
    return draws if out is not None else without_gradient(draws, input)


@drawn
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Tensor:
    """Column numbers drawn from each row of unnormalised probabilities.

    Args:
        input (N,) or (M, N): not negative, each row with a positive sum.
        num_samples: how many per row; without replacement at most the number of positive columns.
        replacement: a column may be drawn again.
        generator: where random numbers come from; by default the default generator.
    Returns:
        (num_samples,) or (M, num_samples), int64.
    Raises:
        RuntimeError: negative, NaN or infinite weights, or too few of them.

    >>> dynograd.multinomial(tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    if isinstance(out, Tensor) and out.dtype is not dtypes.int64:
        raise DtypeError(
            f"multinomial: expects an int64 tensor as out, got {out.dtype}. Make out with dtype=dynograd.int64."
        )
    array = input.array
    if array.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, got shape {tuple(array.shape)}.")
    _floating("multinomial", input.dtype)
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}.")
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    rows = arrays.cast(rows, dtypes.float64)
    if not bool((rows >= 0).all()) or not bool((rows < float("inf")).all()):
        raise RuntimeError(
            "multinomial: probability tensor contains either `inf`, `nan` or element < 0. Use softmax to get probabilities."
        )
    if not bool((rows.sum(1) > 0).all()):
        raise RuntimeError("multinomial: invalid multinomial distribution (sum of probabilities <= 0).")
    if not replacement and num_samples > rows.shape[1]:
        raise RuntimeError(
            f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} > {rows.shape[1]}."
        )
    count = rows.shape[0] * (num_samples if replacement else rows.shape[1])
    result = kernel("random", "multinomial", rows)(
        *draw("multinomial", count, generator), rows, num_samples, replacement
    )
    return _made(result.reshape(-1) if array.ndim == 1 else result, False, out, "multinomial")


# --- filling in place ------------------------------------------------------------------------------------------------------


def _has_tangent(self: Tensor) -> bool:
    """Whether it is a dual tensor, whose tangent becomes 0 as its numbers are drawn anew."""
    return type(self) is not Tensor and getattr(type(self), "has_tangent", False)


def _few_filled(self: Tensor, name: str, generator: Generator | None, *numbers: float) -> bool:
    """Whether a small tensor without history has been filled in its own memory."""
    if guards:
        guards[0](self)
    array = self.array
    if type(array) is not arrays.ndarray or array.size > _FEW or not array.flags.c_contiguous or 0 in array.strides:
        return False
    if not _NUMBERS.issuperset(map(type, numbers)):
        return False
    if (self.requires_grad and (MODES.grad or guards)) or _has_tangent(self):
        return False
    key = default_generator.key if generator is None else generator.key
    if not kernel("random", "fill_few", array)(name, key, array, numbers):
        return False
    if not is_silent(self):
        stamp(array)
    return True


_FEW = 1 << 13  # elements
_NUMBERS = frozenset({int, float})


def _fill(self: Tensor, array: Any, who: str) -> Tensor:
    if guards:
        guards[0](self)
    if 0 in self.array.strides:
        refuse_repeats(who, self.array)
    if not self.requires_grad and not _has_tangent(self):
        arrays.write(self.array, array)
        if not is_silent(self):
            stamp(self.array)
        return self
    return copy_(self, wrap(array))


@drawn
def uniform_(
    self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None, **bounds: float
) -> Tensor:
    """Fills with uniform numbers of [a, b) (also as `from=`, `to=`).

    Args:
        a, b: bounds, a <= b.
        generator: where random numbers come from; by default the default generator.
        bounds: the same, as `from` and `to`.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(2).uniform_(3, 3)
    tensor([3., 3.])
    """
    low, high = bounds.get("from", a), bounds.get("to", b)
    check_number("uniform_", "from", low)
    check_number("uniform_", "to", high)
    if low > high:
        raise RuntimeError(f"uniform_: expects to return a [from, to) range, but found from={low} > to={high}.")
    if not -30000 <= low <= high <= 30000:  # all floating dtypes hold such numbers and their difference
        largest = dtypes.finfo(_floating("uniform_", self.dtype)).max
        if not (-largest <= low <= high <= largest and high - low <= largest):
            raise RuntimeError(
                f"uniform_: expects from, to and to-from within {largest:g}, the largest of {self.dtype}, but found from={low} and to={high}. "
                f"Use a narrower range."
            )
    if _few_filled(self, "uniform", generator, low, high):
        return self
    return _fill(
        self,
        _uniform(self.array.shape, _floating("uniform_", self.dtype), low, high, generator, self.device),
        "uniform_",
    )


@drawn
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fills with normal numbers.

    Args:
        mean: number.
        std: number, at least 0.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(2).normal_(3, 0)
    tensor([3., 3.])
    """
    check_number("normal_", "mean", mean)
    check_number("normal_", "std", std)
    if std < 0:
        raise RuntimeError(f"normal_: normal expects std >= 0.0, but found std {std}.")
    if _few_filled(self, "normal", generator, std, mean):
        return self
    return _fill(
        self, _normal(self.array.shape, _floating("normal_", self.dtype), mean, std, generator, self.device), "normal_"
    )


@drawn
def random_(
    self: Tensor, *bounds: int, to: int | None = None, generator: Generator | None = None, **named: int
) -> Tensor:
    """Fills with integers of [from, to), [0, to), or, without bounds, of all that the dtype can hold exactly.

    By name they are `random_(**{"from": 1, "to": 7})`, as `from` is a word of Python.

    Args:
        bounds: from and to, or to alone.
        to: the upper bound by its name.
        generator: where random numbers come from; by default the default generator.
        named: `from`.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(2).random_(3, 4)
    tensor([3., 3.])
    """
    if named.keys() - {"from"}:
        raise TypeError(
            f"random_() got an unexpected keyword argument '{min(named.keys() - {'from'})}': it takes from and to."
        )
    bounds = (*bounds, *named.values(), *(() if to is None else (to,)))
    if len(bounds) == 2:
        low, high = bounds
    elif len(bounds) == 1:
        low, high = 0, bounds[0]
    else:
        low, high = 0, _largest_whole(self.dtype) + 1
    return _fill(self, _integers("random_", self.array.shape, low, high, self.dtype, generator, self.device), "random_")


@drawn
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fills with 1 of probability p (a number or a tensor), else 0.

    Args:
        p: number or tensor, from 0 to 1.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    probabilities = p.array if isinstance(p, Tensor) else p
    inside = (probabilities >= 0) & (probabilities <= 1)
    if not (bool(inside.all()) if isinstance(p, Tensor) else inside):
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p}.")
    where = draw("bernoulli", self.array.size, generator)
    return _fill(
        self,
        kernel("random", "bernoulli", self.device)(*where, probabilities, self.array.shape, self.array.dtype),
        "bernoulli_",
    )


@drawn
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fills with exponential numbers of rate `lambd`.

    Args:
        lambd: rate, above 0.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> bool((dynograd.zeros(2).exponential_() >= 0).all())
    True
    """
    check_number("exponential_", "lambd", lambd)
    _floating("exponential_", self.dtype)
    if lambd <= 0:
        raise RuntimeError(f"exponential_: expects lambda > 0.0, but found lambda={lambd}.")
    where = draw("exponential", self.array.size, generator, self.dtype)
    return _fill(
        self,
        kernel("random", "exponential", self.device)(*where, self.array.shape, self.array.dtype, lambd),
        "exponential_",
    )


def install_random_methods() -> None:
    """Puts `uniform_` and its like on Tensor, and tensor-valued state on Generator."""
    for method in (uniform_, normal_, random_, bernoulli_, exponential_, bernoulli, multinomial):
        setattr(Tensor, method.__name__, with_writer(method) if method.__name__ in DRAWS else method)
    Generator.get_state = _get_state  # type: ignore[attr-defined]
    Generator.set_state = _set_state  # type: ignore[attr-defined]


def _get_state(self: Generator) -> Tensor:
    """The generator's state as a uint8 tensor of 16 bytes."""
    raw = b"".join(number.to_bytes(8, "little") for number in self.state())
    return wrap(arrays.from_python(list(raw), dtypes.uint8))


def _set_state(self: Generator, new_state: Tensor) -> Generator:
    """Continues from a state that `get_state` gave.

    Args:
        new_state: what `get_state` gave.
    Returns:
        The generator.
    """
    raw = bytes(new_state.array.tolist())
    if len(raw) != 16:
        raise RuntimeError(f"set_state: expected a state of 16 bytes from get_state(), got {len(raw)} bytes.")
    self.set_plain_state((int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")))
    return self


def get_rng_state() -> Tensor:
    """The default generator's state, as a tensor.

    >>> dynograd.get_rng_state().dtype
    dynograd.uint8
    """
    return _get_state(default_generator)


def set_rng_state(new_state: Tensor) -> None:
    """Puts the default generator back to a state from `get_rng_state`.

    Args:
        new_state: what `get_rng_state` gave.

    >>> dynograd.set_rng_state(dynograd.get_rng_state())
    """
    _set_state(default_generator, new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, *, device_type: str = "cuda") -> Iterator[None]:
    """Puts the default generator back on exit to where it was on entry.

    Args:
        devices, device_type: kept for compatibility; all devices draw from one generator.
        enabled: False does nothing.

    >>> state = dynograd.get_rng_state()
    >>> with dynograd.random.fork_rng():
    ...     _ = dynograd.rand(3)
    >>> dynograd.equal(dynograd.get_rng_state(), state)
    True
    """
    before = default_generator.state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_plain_state(before)
