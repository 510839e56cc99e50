"""`torch.cuda.comm`: tensors copied to devices, cut over them, and joined on one. All have gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dynograd.base.devices import device as device_type
from dynograd.base.hints import DeviceLike
from dynograd.errors import ShapeError
from dynograd.ops.layout.joins import cat
from dynograd.tensor.tensor import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def place_of(device: Any) -> device_type:
    """The device of a name or of a number: that of a GPU, or -1 for the CPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        return device_type("cpu") if device == -1 else device_type("cuda", device)
    return device_type(device)


def broadcast(
    tensor: Tensor, devices: Iterable[DeviceLike] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """A tensor on several devices.

    Args:
        tensor: what is copied. Where it lies already it is itself.
        devices: devices or their numbers.
        out: instead of `devices`, tensors that are filled.
    Returns:
        A tensor for each device.
    Raises:
        RuntimeError: both `devices` and `out`, or none of them.

    >>> from dynograd.cuda.comm import broadcast
    >>> broadcast(tensor([1.0]), ["cpu", "cpu"])
    (tensor([1.]), tensor([1.]))
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"broadcast: Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}."
        )
    if out is not None:
        return tuple([target.copy_(tensor) for target in out])
    return tuple([tensor.to(place_of(device)) for device in devices or ()])


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Iterable[DeviceLike], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Tensors on several devices.

    Args:
        tensors: what is copied.
        devices: devices or their numbers.
        buffer_size: accepted; each tensor is copied alone.
    Returns:
        For each device a tuple of all tensors.

    >>> from dynograd.cuda.comm import broadcast_coalesced
    >>> broadcast_coalesced([tensor(1), tensor(2)], ["cpu"])
    [(tensor(1), tensor(2))]
    """
    return [tuple([tensor.to(place_of(device)) for tensor in tensors]) for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: DeviceLike | int | None = None) -> Tensor:
    """The sum of tensors of several devices, in their order.

    Args:
        inputs: of one shape.
        destination: where the sum lies; the current GPU unless given.
    Returns:
        A tensor.
    Raises:
        ShapeError: other shapes.
        RuntimeError: no tensors.

    >>> from dynograd.cuda.comm import reduce_add
    >>> reduce_add([tensor([1.0]), tensor([2.0])], "cpu")
    tensor([3.])
    """
    if not inputs:
        raise RuntimeError("reduce_add: expected at least one tensor, got none.")
    place = place_of("cuda" if destination is None else destination)
    for number, tensor in enumerate(inputs):
        if tensor.shape != inputs[0].shape:
            raise ShapeError(
                f"reduce_add: input {number} has invalid size: got {tuple(tensor.shape)}, but expected {tuple(inputs[0].shape)}."
            )
    total = inputs[0].to(place)
    for tensor in inputs[1:]:
        total = total + tensor.to(place)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: DeviceLike | int | None = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums of several tensors over devices.

    Args:
        inputs: for each device the tensors.
        destination: where the sums lie; the current GPU unless given.
        buffer_size: accepted; each sum is made alone.
    Returns:
        A tuple of tensors.

    >>> from dynograd.cuda.comm import reduce_add_coalesced
    >>> reduce_add_coalesced([[tensor(1), tensor(2)], [tensor(10), tensor(20)]], "cpu")
    (tensor(11), tensor(22))
    """
    return tuple([reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor,
    devices: Iterable[DeviceLike] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: object = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """A tensor in pieces on several devices.

    Args:
        tensor: what is cut; ragged tensors by rows.
        devices: devices or their numbers.
        chunk_sizes: how long the pieces are; about equally long unless given, and fewer where there are not enough rows.
        dim: along which.
        streams: accepted.
        out: instead of `devices` and `chunk_sizes`, tensors that are filled.
    Returns:
        A tuple of tensors.
    Raises:
        RuntimeError: both `out` and `devices` or `chunk_sizes`, or neither `out` nor `devices`.
        ValueError: a number of sizes that is not that of the devices.

    >>> from dynograd.cuda.comm import scatter
    >>> scatter(tensor([1, 2, 3]), ["cpu", "cpu"]), scatter(tensor([1, 2, 3]), ["cpu", "cpu"], [1, 2])
    ((tensor([1, 2]), tensor([3])), (tensor([1]), tensor([2, 3])))
    """
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError(
                f"scatter: 'devices' and 'chunk_sizes' must not be specified when 'out' is specified, but got "
                f"devices={devices} and chunk_sizes={chunk_sizes}."
            )
        pieces = tensor.split([target.shape[dim] for target in out], dim)
        return tuple([target.copy_(piece) for target, piece in zip(out, pieces, strict=True)])
    if devices is None:
        raise RuntimeError("scatter: one of 'devices' and 'out' must be specified.")
    places = [place_of(device) for device in devices]
    if chunk_sizes is not None and len(chunk_sizes) != len(places):
        raise ValueError(
            f"scatter: expected as many chunk_sizes as devices ({len(places)}), got {len(chunk_sizes)}: {[*chunk_sizes]}."
        )
    pieces = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split([*chunk_sizes], dim)
    return tuple([piece.to(place) for piece, place in zip(pieces, places)])


def gather(
    tensors: Sequence[Tensor],
    dim: int = 0,
    destination: DeviceLike | int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Tensors of several devices as one.

    Args:
        tensors: of one shape but for `dim`.
        dim: along which they are joined.
        destination: where the result lies; the current GPU unless given.
        out: instead of `destination`, a tensor that is filled.
    Returns:
        A tensor.
    Raises:
        RuntimeError: both `destination` and `out`.

    >>> from dynograd.cuda.comm import gather
    >>> gather([tensor([1]), tensor([2, 3])], destination="cpu")
    tensor([1, 2, 3])
    """
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"gather: 'destination' must not be specified when 'out' is specified, but got destination={destination}."
            )
        return out.copy_(gather(tensors, dim, out.device))
    place = place_of("cuda" if destination is None else destination)
    return cat([tensor.to(place) for tensor in tensors], dim)
