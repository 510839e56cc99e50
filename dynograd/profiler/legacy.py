"""`torch.autograd.profiler`: the older interface to the same profiles, and ranges for NVIDIA's tools."""

from __future__ import annotations

from os import PathLike
from typing import Any

from dynograd import cuda
from dynograd.profiler import ProfilerActivity
from dynograd.profiler import profile as _profile
from dynograd.profiler.events import Event, EventAverage, EventList
from dynograd.profiler.ranges import listen, record_function, stop_listening

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "profile", "record_function"]

FunctionEvent, FunctionEventAvg = Event, EventAverage


class profile:
    """Takes a profile of what runs inside; see `dynograd.profiler.profile`.

    Args:
        enabled: False records nothing.
        use_cuda, use_device: take times on the device, too.
        record_shapes: note the shapes of arguments.
        with_flops: estimate operations of products and convolutions.
        profile_memory: note the bytes of new results.
        with_stack: note the user's lines.
        with_modules: a range for each call of a module.
        use_kineto, use_cpu, others: kept for compatibility.

    >>> with dynograd.autograd.profiler.profile() as taken:
    ...     _ = dynograd.ones(3).exp()
    >>> [one.key for one in taken.key_averages()]
    ['exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **others: object,
    ) -> None:
        chosen = {ProfilerActivity.CPU}
        if use_cuda or use_device == "cuda":
            chosen.add(ProfilerActivity.CUDA)
        self.enabled = enabled
        self.inner = _profile(
            activities=chosen,
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
        )

    def __enter__(self) -> Any:
        if self.enabled:
            self.inner.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.enabled:
            self.inner.stop()

    @property
    def function_events(self) -> EventList:
        """All events."""
        return self.inner.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without the ranges inside."""
        return self.inner.events().self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Events of one name together.

        Args:
            group_by_input_shape, group_by_stack_n: as in `EventList.key_averages`.
        Returns:
            An `EventList` of averages.
        """
        return self.inner.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> EventAverage:
        """All events as one row."""
        return self.inner.events().total_average()

    def table(self, **options: Any) -> str:
        """The events one by one as a table.

        Args:
            options: as in `EventList.table`.
        Returns:
            A text.
        """
        return self.inner.events().table(**options)

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Writes a trace for chrome://tracing or Perfetto.

        Args:
            path: the file.
        """
        self.inner.export_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes stacks for flame graphs.

        Args:
            path: the file.
            metric: "self_cpu_time_total" or "self_cuda_time_total".
        """
        self.inner.export_stacks(path, metric)

    def __str__(self) -> str:
        return self.inner.events().table()


class emit_nvtx:
    """Inside, each op and each node of backward is an NVTX range, which NVIDIA's tools show.

    Args:
        enabled: False does nothing.
        record_shapes: the shapes of arguments are part of the names.

    >>> with dynograd.autograd.profiler.emit_nvtx():
    ...     x = dynograd.ones(3).exp()
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            listen(self)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.enabled:
            stop_listening(self)

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        """A range begins: it is pushed.

        Args:
            kind, name, args: of the range.
        Returns:
            What `end` is given.
        """
        shapes = (
            f", sizes = {[list(getattr(argument, 'shape', ())) for argument in args]}"
            if self.record_shapes and kind == "op"
            else ""
        )
        return cuda.nvtx.range_push(name + shapes)

    def end(self, mark: Any, result: Any) -> None:
        """The range ends.

        Args:
            mark: what `begin` gave.
            result: of the op.
        """
        cuda.nvtx.range_pop()


class emit_itt(emit_nvtx):
    """PyTorch's ranges for Intel's tools: there is no such library here, so nothing is emitted.

    Args:
        enabled, record_shapes: kept for compatibility.

    >>> with dynograd.autograd.profiler.emit_itt():
    ...     x = dynograd.ones(3).exp()
    """

    def begin(self, kind: str, name: str, args: tuple) -> Any:
        """Nothing to do.

        Args:
            kind, name, args: of the range.
        Returns:
            None.
        """
        return None

    def end(self, mark: Any, result: Any) -> None:
        """Nothing to do.

        Args:
            mark, result: not used.
        """
