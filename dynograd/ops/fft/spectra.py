"""Short-time Fourier transforms: the spectra of the windows of a signal, and the signal of spectra."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.elementwise.complexes import is_complex_array, view_as_real
from dynograd.ops.fft.ffts import complex_transform, from_half, half_transform
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.paddings import pad, pad_constant
from dynograd.ops.layout.strides import sum_windows
from dynograd.ops.layout.strides import windows as windows_of
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.op import composed
from dynograd.ops.row import Row

__all__ = ["istft", "stft"]

FAMILY = Row(out=None, ragged="groups")


def _last_two_exchanged(input: Any) -> Array:
    rank = len(input.shape)
    return permuted(input, (*range(rank - 2), rank - 1, rank - 2))


def _window(who: str, window: Any, n_fft: int, win_length: int | None, like: Any) -> tuple[Any, int]:
    """The window with zeros on both sides up to `n_fft`, or None; its own length."""
    length = n_fft if win_length is None else win_length
    if not 0 < length <= n_fft:
        raise ShapeError(f"{who}: expected 0 < win_length <= n_fft, but got win_length={length} and n_fft={n_fft}.")
    if window is not None and tuple(window.shape) != (length,):
        raise ShapeError(
            f"{who}: expected a 1D window tensor of size equal to win_length={length}, but got window with size {tuple(window.shape)}."
        )
    before = (n_fft - length) // 2
    if window is None:
        if length == n_fft:
            return None, length
        window = _ones(length, like)
    if length < n_fft:
        window = pad_constant(window, ((before, n_fft - length - before),), 0.0)
    return window, length


@composed(method=True)
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Array:
    """The Fourier transforms of windows of `n_fft` points, `hop_length` apart, along the last dim.

    Args:
        input (L,) or (B, L): real or complex signals.
        n_fft: the number of points of a window.
        hop_length: by default `n_fft // 4`.
        win_length: by default `n_fft`.
        window (win_length,): multiplies each window; narrower ones than `n_fft` get zeros on both sides. None: ones.
        center: `input` is padded by `n_fft // 2` on both sides (with `pad_mode`), so that window t is centred at t * hop_length.
        pad_mode: as in `nn.functional.pad`.
        normalized: divides by sqrt(n_fft).
        onesided: only the first n_fft // 2 + 1 frequencies; by default for real signals and windows.
        return_complex: False gives pairs (real, imaginary) in a last dim. Must be given for real signals.
        align_to_window: without `center`, the windows themselves, not the `n_fft` points around them, begin at t * hop_length.
    Returns:
        (B, frequencies, windows), complex.
    Raises:
        ShapeError: another rank, or sizes that do not fit each other.
        RuntimeError: `return_complex` is left out for real signals.

    >>> dynograd.stft(dynograd.ones(8), 4, return_complex=True).shape
    dynograd.Size([3, 9])
    """
    turned = is_complex_array(input) or (window is not None and is_complex_array(window))
    if return_complex is None:
        if not turned:
            raise RuntimeError(
                "stft: stft requires the return_complex parameter be given for real inputs. Pass return_complex=True."
            )
        return_complex = True
    if not (input.dtype.is_floating_point or input.dtype.is_complex) or input.dtype in (
        dtypes.float16,
        dtypes.bfloat16,
    ):
        raise DtypeError(
            f"stft: expected a tensor of floating point or complex values, got {input.dtype}. Use input.float()."
        )
    shape = tuple(input.shape)
    if len(shape) not in (1, 2):
        raise ShapeError(f"stft: expected a 1D or 2D tensor, got shape {shape}. Flatten the leading dims.")
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        raise ShapeError(f"stft: expected hop_length > 0, but got hop_length={hop}.")
    if n_fft <= 0 or (not center and n_fft > shape[-1]):
        raise ShapeError(f"stft: expected 0 < n_fft <= {shape[-1]}, but got n_fft={n_fft}.")
    window, length = _window("stft", window, n_fft, win_length, input)
    rows = reshaped(input, (1, *shape)) if len(shape) == 1 else input
    if center and align_to_window is not None:
        raise RuntimeError("stft: align_to_window should only be set when center=False. Leave it away.")
    if align_to_window and length < n_fft:
        before = (n_fft - length) // 2
        rows = pad(rows, (before, n_fft - length - before))
    if center:
        half = n_fft // 2
        if pad_mode == "reflect" and half >= shape[-1]:
            raise ShapeError(
                f"stft: Padding size should be less than the corresponding input dimension, but got: padding ({half}, {half}) at "
                f"input of shape {shape}. Use a smaller n_fft or pad_mode='constant'."
            )
        rows = reshaped(
            pad(reshaped(rows, (1, *rows.shape)), (half, half), pad_mode), (rows.shape[0], shape[-1] + 2 * half)
        )
    frames = windows_of(rows, 1, n_fft, hop)
    if window is not None:
        frames = frames * window
    norm = "ortho" if normalized else "backward"
    if onesided is None:
        onesided = not turned
    if onesided:
        if turned:
            raise RuntimeError("stft: Cannot have onesided output if window or input is complex. Pass onesided=False.")
        result = half_transform(frames, (2,), norm)
    else:
        kind = dtypes.complex128 if frames.dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
        result = complex_transform(frames.to(kind), (2,), norm, False)
    result = _last_two_exchanged(result)
    if len(shape) == 1:
        result = reshaped(result, tuple(result.shape[1:]))
    return result if return_complex else view_as_real(result)


@composed(method=True)
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Array:
    """The signal of which `stft` with the same arguments gives `input`; where windows overlap, the least-squares one.

    Args:
        input (*, frequencies, windows): complex.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as `stft` had them.
        length: cuts the signal off, or puts zeros after it.
        return_complex: the signal is complex.
    Returns:
        (*, L).
    Raises:
        RuntimeError: an input that is not complex, or windows whose squares add up to 0 somewhere.

    >>> x = tensor([1.0, 2.0, 3.0, 4.0])
    >>> dynograd.istft(dynograd.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4.])
    """
    if not is_complex_array(input):
        raise DtypeError(
            f"istft: istft requires a complex-valued input tensor matching the output from stft with return_complex=True, got "
            f"{input.dtype}. Use view_as_complex."
        )
    shape = tuple(input.shape)
    if len(shape) not in (2, 3) or 0 in shape:
        raise ShapeError(
            f"istft: expected a tensor with 2 or 3 dimensions (*, frequencies, windows), none empty, got shape {shape}."
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    onesided = shape[-2] != n_fft if onesided is None else onesided
    bins = n_fft // 2 + 1 if onesided else n_fft
    if shape[-2] != bins:
        raise ShapeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft // 2 + 1 = {n_fft // 2 + 1} "
            f"when onesided=True and n_fft = {n_fft} otherwise, but got {shape[-2]} (shape {shape})."
        )
    window, width = _window("istft", window, n_fft, win_length, input)
    if not 0 < hop <= width:
        raise ShapeError(
            f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop} and win_length={width}."
        )
    if return_complex and onesided:
        raise RuntimeError("istft: cannot have onesided input if the output is complex. Pass the two-sided spectrum.")
    spectra = _last_two_exchanged(reshaped(input, (1, *shape)) if len(shape) == 2 else input)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        frames = complex_transform(spectra, (2,), norm, True)
    else:
        if not onesided:
            spectra = get_basic(spectra, (Ellipsis, slice(0, n_fft // 2 + 1)))
        frames = from_half(spectra, n_fft, (2,), norm)
    if window is None:
        window = _ones(n_fft, frames)
    else:
        frames = frames * window
    count = shape[-1]
    total = n_fft + hop * (count - 1)
    result = sum_windows(frames, (frames.shape[0], total), 1, n_fft, hop)
    weights = _overlap(window, count, total, n_fft, hop)
    start = n_fft // 2 if center else 0
    stop = total - n_fft // 2 if center and length is None else total if length is None else min(total, start + length)
    result = get_basic(result, (Ellipsis, slice(start, stop)))
    weights = get_basic(weights, (Ellipsis, slice(start, stop)))
    raw: Array = getattr(weights, "array", weights)
    least = abs(raw).min() if stop > start and arrays.is_array(raw) else 1
    if least < 1e-11:
        raise RuntimeError(
            f"istft: window overlap add min: {float(least)} is 0: the windows leave gaps. Use a smaller hop_length or another window."
        )
    result = result / weights
    if length is not None and stop - start < length:
        result = pad_constant(result, ((0, 0), (0, length - (stop - start))), 0.0)
    return reshaped(result, tuple(result.shape[1:])) if len(shape) == 2 else result


def _overlap(window: Any, count: int, total: int, n_fft: int, hop: int) -> Array:
    """The sum of the squared windows at each point."""
    squares = reshaped(window * window, (1, 1, n_fft))
    return sum_windows(stretch(squares, (1, count, n_fft)), (1, total), 1, n_fft, hop)


def _ones(length: int, like: Any) -> Array:
    """Real ones in the precision of `like`."""
    raw = getattr(like, "array", like)
    double = raw.dtype.itemsize == (16 if raw.dtype.kind == "c" else 8)
    return arrays.full((length,), 1, dtypes.float64 if double else dtypes.float32, arrays.device_of(raw))
