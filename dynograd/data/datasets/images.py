"""Images and labels in idx files (MNIST and those made like it)."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.data.dataset import Dataset
from dynograd.data.datasets.reading import LARGEST, name_of, read_bytes
from dynograd.data.datasets.sources import find
from dynograd.errors import DataFileError
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["MNIST", "IdxImages", "read_idx"]

_KINDS = {8: (dtypes.uint8, 1), 9: (dtypes.int8, 1), 11: (dtypes.int16, 2), 12: (dtypes.int32, 4)}
_KINDS |= {13: (dtypes.float32, 4), 14: (dtypes.float64, 8)}
_MOST_DIMENSIONS = 16


def read_idx(file: Any, at_most: int = LARGEST) -> Tensor:
    """The tensor in an idx file: two zero bytes, a byte for the type, one for the number of dimensions, the sizes (big-endian), the values.

    Args:
        file: path, compressed by gzip or not, or an open binary file.
        at_most: bytes that the file may have after decompression.
    Returns:
        of the sizes and the type that the file says.
    Raises:
        DataFileError: no idx file, or its sizes and its length do not fit.
        FileNotFoundError: there is no such file.

    >>> import io
    >>> read_idx(io.BytesIO(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9]))).tolist()
    [[7], [9]]
    """
    raw = read_bytes(file, at_most)
    name = name_of(file)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _KINDS or not 1 <= raw[3] <= _MOST_DIMENSIONS:
        raise DataFileError(
            f"{name}: expected an idx file (two zero bytes, a type of {sorted(_KINDS)}, 1 to {_MOST_DIMENSIONS} dimensions), got the bytes "
            f"{raw[:4]!r}. Is it the right file?"
        )
    kind, width = _KINDS[raw[2]]
    begin = 4 + 4 * raw[3]
    if len(raw) < begin:
        raise DataFileError(
            f"{name}: expected {raw[3]} sizes of 4 bytes, got a file of {len(raw)} bytes. Fetch it again."
        )
    sizes = struct.unpack(f">{raw[3]}I", raw[4:begin])
    expected, there = width * math.prod(sizes), len(raw) - begin
    if expected != there:
        raise DataFileError(
            f"{name}: expected {expected} bytes of values for the sizes {sizes} of {kind}, got {there}. Fetch it again."
        )
    values = bytearray(raw[begin:])
    if width > 1:
        values[:] = b"".join([values[place : place + width][::-1] for place in range(0, len(values), width)])
    return wrap(arrays.from_bytes(values, sizes, kind))


class IdxImages(Dataset):
    """Images and their labels out of two idx files: sample i is (image, label).

    The image is (1, H, W) float32 from 0 to 1, the label an int. `images` (N, H, W) and `labels` (N,) are the tensors of the files.

    Args:
        images, labels: paths, compressed by gzip or not, or open binary files.
        transform, target_transform: called with each image, each label.
        at_most: bytes that a file may have after decompression.
    Raises:
        DataFileError: files that are damaged, or have different numbers of images and labels.

    >>> import io
    >>> images = io.BytesIO(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255, 51, 0]))
    >>> data = IdxImages(images, io.BytesIO(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 3])))
    >>> data[1]
    (tensor([[[0.2000, 0.0000]]]), 3)
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        at_most: int = LARGEST,
    ) -> None:
        self.transform, self.target_transform = transform, target_transform
        self.images: Any = read_idx(images, at_most)
        self.labels: Any = read_idx(labels, at_most)
        if self.images.ndim != 3 or self.labels.ndim != 1 or len(self.images) != len(self.labels):
            raise DataFileError(
                f"{name_of(images)} and {name_of(labels)}: expected images (N, H, W) and labels (N,), got {tuple(self.images.shape)} and "
                f"{tuple(self.labels.shape)}. Do the files belong together?"
            )

    @property
    def data(self) -> Tensor:
        """`images`, as torchvision calls it.

        Returns:
            (N, H, W), uint8.

        >>> import io
        >>> images = io.BytesIO(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255]))
        >>> IdxImages(images, io.BytesIO(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]))).data
        tensor([[[  0, 255]]], dtype=dynograd.uint8)
        """
        return self.images

    @property
    def targets(self) -> Tensor:
        """`labels`, as torchvision calls it.

        Returns:
            (N,).

        >>> import io
        >>> images = io.BytesIO(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255]))
        >>> IdxImages(images, io.BytesIO(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]))).targets
        tensor([7], dtype=dynograd.uint8)
        """
        return self.labels

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self.images[index][None].float() / 255
        label: Any = int(self.labels[index])
        if self.transform is not None:
            image = self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)

    def __len__(self) -> int:
        return len(self.images)


class MNIST(IdxImages):
    """Handwritten digits: 60,000 images of 28 x 28 for training and 10,000 for testing.

    Args:
        root: folder with the four files (as they are or with `.gz`), also in `MNIST/raw` below it; by default the cache folder,
            `$DYNOGRAD_DATA` or `~/.cache/dynograd/data`.
        train: the training images, else those for testing.
        transform, target_transform: as for `IdxImages`.
        download: fetch the files that are not there, and compare their SHA-256.
    Raises:
        FileNotFoundError: the files are not there, and `download` is False; the message says where they were looked for.
        DownloadError: no connection, or other content than expected.
    Source: LeCun et al., Gradient-based learning applied to document recognition, 1998.

    >>> try:
    ...     len(MNIST("empty-folder"))
    ... except FileNotFoundError as error:
    ...     print("was looked for in" in str(error))
    True
    """

    def __init__(
        self,
        root: Any = None,
        train: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
    ) -> None:
        start = "train" if train else "t10k"
        names = [f"{start}-images-idx3-ubyte.gz", f"{start}-labels-idx1-ubyte.gz"]
        within = ("", os.path.join("MNIST", "raw"), "MNIST")
        images, labels = [find(f"mnist/{name}", root, download, within) for name in names]
        super().__init__(images, labels, transform, target_transform)
