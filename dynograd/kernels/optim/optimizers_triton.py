"""Optimizer steps of all parameters of a table in one launch; see `tables_triton` for `rows` and `places`.

Half types are computed in float32 and rounded once. Where `overflow` is given and not 0 (a gradient was not finite), nothing is
written. Columns of a row: parameter, gradient, three states, step counter.

STORED: the options lie in `numbers`, in float64, where a launch in a CUDA graph finds those of the moment; the arguments are not looked at.
"""

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.small.tables_triton import part_of, place_of, put, taken

_KINDS = [(tl.float32, "fp32"), (tl.bfloat16, "fp32"), (tl.float16, "fp32"), (tl.float64, "fp64")]
_TABLE = {"rows": "*i64", "places": "*i32", "numbers": "*fp64", "ALIGNED": True, "BLOCK": 1024, "num_warps": 4}


@triton.jit
def _number(numbers, place, T: tl.constexpr):
    """An option as kernels of this dtype take it."""
    value = tl.load(numbers + place)
    if tl.float64 == T:
        return value
    else:
        return value.to(tl.float32)


@triton.jit
def _sgd(
    rows, row, i, exists, sign, decay, momentum, fresh, ahead, straight, rate,
    T: tl.constexpr, MOMENTUM: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    at = part_of(rows, row, 0, T, ALIGNED) + i
    value = taken(at, exists, WHOLE)
    g = sign * taken(part_of(rows, row, 1, T, ALIGNED) + i, exists, WHOLE) + decay * value
    if MOMENTUM:
        part = part_of(rows, row, 2, T, ALIGNED) + i
        new = tl.load(rows + row * 8 + 7) != 0
        buffer = momentum * taken(part, exists, WHOLE) + tl.where(new, g, fresh * g)
        put(part, buffer, exists, T, WHOLE)
        g = straight * g + ahead * buffer
    put(at, value - rate * g, exists, T, WHOLE)


@triton.jit
def _adam(
    rows, row, i, exists, sign, shrink, decay, one_less_1, beta2, one_less_2, eps, rate, scale,
    T: tl.constexpr, HIGHEST: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    at = part_of(rows, row, 0, T, ALIGNED) + i
    mean_at = part_of(rows, row, 2, T, ALIGNED) + i
    square_at = part_of(rows, row, 3, T, ALIGNED) + i
    value = taken(at, exists, WHOLE) * shrink
    g = sign * taken(part_of(rows, row, 1, T, ALIGNED) + i, exists, WHOLE) + decay * value
    mean = taken(mean_at, exists, WHOLE)
    mean = mean + one_less_1 * (g - mean)
    square = beta2 * taken(square_at, exists, WHOLE) + one_less_2 * g * g
    put(mean_at, mean, exists, T, WHOLE)
    put(square_at, square, exists, T, WHOLE)
    if HIGHEST:
        highest_at = part_of(rows, row, 4, T, ALIGNED) + i
        highest = taken(highest_at, exists, WHOLE)
        square = tl.where((square > highest) | (square != square), square, highest)
        put(highest_at, square, exists, T, WHOLE)
    if square.dtype == tl.float64:
        root = tl.sqrt(square)
    else:
        root = tl.sqrt_rn(square)
    put(at, value - rate * mean / (root / scale + eps), exists, T, WHOLE)


@triton_kernel(
    variants=[
        {**_TABLE, "overflow": "*fp32", "T": kind, "MOMENTUM": momentum, "SKIPS": not stored, "STORED": stored}
        | dict.fromkeys(("sign", "decay", "momentum", "fresh", "ahead", "straight", "rate"), number)
        for kind, number in _KINDS
        for momentum in (True, False)
        for stored in (False, True)
    ]
)
def sgd_blocks(
    rows, places, overflow, numbers, sign, decay, momentum, fresh, ahead, straight, rate,
    T: tl.constexpr, MOMENTUM: tl.constexpr, SKIPS: tl.constexpr, STORED: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """buffer = momentum * buffer + fresh * g, and a step along straight * g + ahead * buffer."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    steps = tl.load(rows + row * 8 + 1) != 0
    if SKIPS:
        steps = steps & (tl.load(overflow) == 0.0)
    if STORED:
        sign, decay, momentum = _number(numbers, 0, T), _number(numbers, 1, T), _number(numbers, 2, T)
        fresh, ahead, straight = _number(numbers, 3, T), _number(numbers, 4, T), _number(numbers, 5, T)
        rate = _number(numbers, 6, T)
    if steps:
        if first + BLOCK <= size:
            _sgd(
                rows, row, i, i < size, sign, decay, momentum, fresh, ahead, straight, rate, T, MOMENTUM, ALIGNED, True
            )
        else:
            _sgd(
                rows, row, i, i < size, sign, decay, momentum, fresh, ahead, straight, rate, T, MOMENTUM, ALIGNED, False
            )


@triton_kernel(
    variants=[
        {
            **_TABLE,
            "overflow": "*fp32",
            "rates": "*fp64" if number == "fp64" else "*fp32",
            "T": kind,
            "HIGHEST": highest,
        }
        | {"OWN_RATES": own, "SKIPS": own and not stored, "STORED": stored}
        | dict.fromkeys(
            ("sign", "shrink", "decay", "one_less_1", "beta2", "one_less_2", "eps", "rate", "scale"), number
        )
        for kind, number in _KINDS
        for highest, own, stored in ((False, False, False), (True, True, False), (False, True, True))
    ]
)
def adam_blocks(
    rows, places, overflow, rates, numbers, sign, shrink, decay, one_less_1, beta2, one_less_2, eps, rate, scale,
    T: tl.constexpr, HIGHEST: tl.constexpr, OWN_RATES: tl.constexpr, SKIPS: tl.constexpr, STORED: tl.constexpr,
    ALIGNED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam, AdamW and AMSGrad (HIGHEST); OWN_RATES: each row's rate and scale lie in `rates`."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    steps = tl.load(rows + row * 8 + 1) != 0
    if SKIPS:
        steps = steps & (tl.load(overflow) == 0.0)
    if STORED:
        sign, shrink, decay = _number(numbers, 0, T), _number(numbers, 1, T), _number(numbers, 2, T)
        one_less_1, beta2, one_less_2 = _number(numbers, 3, T), _number(numbers, 4, T), _number(numbers, 5, T)
        eps = _number(numbers, 6, T)
    if OWN_RATES:
        rate, scale = _number(rates, 2 * row, T), _number(rates, 2 * row + 1, T)
    if steps:
        if first + BLOCK <= size:
            _adam(
                rows, row, i, i < size, sign, shrink, decay, one_less_1, beta2, one_less_2, eps, rate, scale,
                T, HIGHEST, ALIGNED, True,
            )  # fmt: skip
        else:
            _adam(
                rows, row, i, i < size, sign, shrink, decay, one_less_1, beta2, one_less_2, eps, rate, scale,
                T, HIGHEST, ALIGNED, False,
            )  # fmt: skip


@triton_kernel(
    variants=[
        {"rows": "*i64", "overflow": "*fp32", "rates": kind, "numbers": "*fp64", "count": "i32"}
        | dict.fromkeys(("lr", "log_beta1", "log_beta2"), "fp64")
        | {"SKIPS": not stored, "STORED": stored, "BLOCK": 128, "num_warps": 4}
        for kind in ("*fp32", "*fp64")
        for stored in (False, True)
    ]
)
def count_steps(
    rows, overflow, rates, numbers, count, lr, log_beta1, log_beta2,
    SKIPS: tl.constexpr, STORED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Counts the steps (float32 counters on the device) of rows with a gradient, and writes their rate and scale.

    `log_beta` is the logarithm to base 2.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counted = row < count
    at = tl.load(rows + row * 8 + 5, mask=counted, other=0).to(tl.pointer_type(tl.float32))
    steps = counted & (tl.load(rows + row * 8 + 1, mask=counted, other=0) != 0)
    if SKIPS:
        steps = steps & (tl.load(overflow) == 0.0)
    if STORED:
        lr, log_beta1, log_beta2 = tl.load(numbers + 7), tl.load(numbers + 8), tl.load(numbers + 9)
    step = tl.load(at, mask=steps, other=0.0) + 1.0
    tl.store(at, step, mask=steps)
    wide = step.to(tl.float64)
    tl.store(rates + 2 * row, (lr / (1.0 - tl.exp2(wide * log_beta1))).to(rates.dtype.element_ty), mask=counted)
    tl.store(rates + 2 * row + 1, tl.sqrt(1.0 - tl.exp2(wide * log_beta2)).to(rates.dtype.element_ty), mask=counted)
