"""`torch.utils.tensorboard`: `SummaryWriter` writes TensorBoard's event files, by tensorboardX (extra `tensorboard`).

Importing this loads tensorboardX. Without it the class can be named, which packages do at their start, and not be made.
"""

from __future__ import annotations

import functools
import inspect
from importlib.util import find_spec
from os import PathLike
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.tensor.tensor import Tensor


class _WithoutTensorboardX:
    """Stands for tensorboardX's writer where that is not installed."""

    def __init__(self, *args: Any, **options: object) -> None:
        raise ImportError(
            "SummaryWriter: dynograd writes TensorBoard's event files by tensorboardX, which is not installed: "
            "pip install 'dynograd[tensorboard]'."
        )


_Writer: type = _WithoutTensorboardX
if find_spec("tensorboardX") is not None:
    import tensorboardX

    _Writer = tensorboardX.SummaryWriter

__all__ = ["SummaryWriter"]
__path__: list[str] = []  # PyTorch has a module below it (`compat.faces`)


class SummaryWriter(_Writer):
    """Writes scalars, histograms, images and more for TensorBoard; the methods are PyTorch's, and take tensors.

    Use it as a context manager, or call `close()`.

    Args:
        log_dir: folder of the event files; by default runs/<time>_<host><comment>.
        comment, purge_step, max_queue, flush_secs, filename_suffix, options: see tensorboardX.
    Raises:
        ImportError: tensorboardX is not installed.

    >>> import tempfile
    >>> from dynograd.utils.tensorboard import SummaryWriter
    >>> writer = SummaryWriter(tempfile.mkdtemp())  # doctest: +SKIP
    >>> writer.add_scalar("loss", tensor(0.5), global_step=1)  # doctest: +SKIP
    >>> writer.close()  # doctest: +SKIP
    """

    def __init__(
        self,
        log_dir: str | PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
        **options: object,
    ) -> None:
        super().__init__(
            None if log_dir is None else str(log_dir),
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            **options,
        )

    def add_graph(self, model: object, input_to_model: object = None, *options: object, **more: object) -> None:
        """Refuses: TensorBoard's graph wants a traced program, and models run as Python here.

        Args:
            model, input_to_model, options, more: as PyTorch has them.
        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"add_graph: there is no traced program of {type(model).__name__} to write. print(model) shows its modules, and "
            f"output.grad_fn the recorded graph."
        )


def _with_arrays(method: Any) -> Any:
    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(
            self,
            *[_plain(argument) for argument in args],
            **{name: _plain(argument) for name, argument in kwargs.items()},
        )

    shown: Any = called
    shown.__signature__ = inspect.signature(method).replace(return_annotation=None)
    names = ", ".join(list(inspect.signature(method).parameters)[1:])
    first_line = (method.__doc__ or f"tensorboardX's `{method.__name__}`").strip().splitlines()[0].rstrip(".")
    called.__doc__ = (
        f"{first_line}; tensors may stand in the place of arrays.\n\nArgs:\n    {names}: as tensorboardX has them.\n"
    )
    return called


def _plain(value: Any) -> Any:
    """`value` with its tensors as NumPy arrays, those without dims as numbers."""
    if isinstance(value, Tensor):
        array = (
            value.detach().cpu().float().numpy()
            if value.dtype.itemsize < 4 and value.is_floating_point()
            else value.detach().cpu().numpy()
        )
        return array if array.ndim else array.item()
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_plain(entry) for entry in value)
    return value


for _name in dir(_Writer):
    if _name.startswith("add_") and _name not in vars(SummaryWriter):
        setattr(SummaryWriter, _name, _with_arrays(getattr(_Writer, _name)))

_show_plainly(globals())
