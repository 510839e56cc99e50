"""`torch.profiler`: where the time of a program goes, op by op.

`profile` hears of each op, each node of the backward pass and each `record_function` range, with their times, on request with shapes,
new memory and the user's lines, and gives a table, a trace for Perfetto or stacks for a flame graph.
"""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from dynograd import cuda, nn, optim
from dynograd.base.listing import lists
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.profiler.events import EventList
from dynograd.profiler.ranges import listen, record_function, stop_listening
from dynograd.profiler.recording import Recorder

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
__dir__ = lists(__name__, __all__)


class ProfilerActivity(enum.Enum):
    """What a profile looks at."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does during one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> bool:
    """Whether PyTorch's own tracing library is there: never; `profile` works without it.

    Returns:
        False.

    >>> dynograd.profiler.kineto_available()
    False
    """
    return False


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Records every step."""
    return ProfilerAction.RECORD


def supported_activities() -> set[ProfilerActivity]:
    """What a profile can look at here.

    Returns:
        A set of `ProfilerActivity`.

    >>> dynograd.profiler.ProfilerActivity.CPU in dynograd.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if cuda.is_available() else {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """What to do at each step: `wait` steps nothing, `warmup` steps without keeping, `active` steps recording, and again.

    Args:
        wait, warmup: numbers of steps, 0 or more.
        active: the number of steps that are recorded, 1 or more.
        repeat: how many such cycles; 0 for as long as the program runs.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle has no `wait`.
    Returns:
        A function from a step's number to a `ProfilerAction`.

    >>> plan = dynograd.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in (0, 1, 2, 3, 4)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"schedule: expected wait, warmup, repeat and skip_first >= 0 and active > 0, got wait={wait}, warmup={warmup}, "
            f"active={active}, repeat={repeat}, skip_first={skip_first}."
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step >= 0 and skip_first_wait:
            step += wait
        if step < 0 or (repeat and step >= repeat * length):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


class profile:
    """Takes a profile of what runs inside, or between `start()` and `stop()`.

    Args:
        activities: CPU, and CUDA for times on the device; all that there is by default.
        schedule: what to do at each step (see `schedule`); the program calls `step()` at the end of each.
        on_trace_ready: called with the profile when a cycle of the schedule is over (without one, at the end).
        record_shapes: note the shapes of arguments.
        profile_memory: note the bytes of new results.
        with_stack: note the user's lines.
        with_flops: estimate operations of products and convolutions.
        with_modules: a range for each call of a module.
        acc_events: keep the events of earlier cycles.
        experimental_config, execution_trace_observer, use_cuda, custom_trace_id_callback, post_processing_timeout_s: kept for compatibility.

    >>> with dynograd.profiler.profile() as taken:
    ...     _ = dynograd.ones(4, 4) @ dynograd.ones(4, 4)
    >>> "matmul" in taken.key_averages().table(sort_by="cpu_time_total")
    True
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: object = None,
        post_processing_timeout_s: object = None,
    ) -> None:
        self.activities = set(supported_activities() if activities is None else activities)
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        if not self.activities:
            raise AssertionError(
                "profile: No valid profiler activities found. Name at least one, e.g. ProfilerActivity.CPU."
            )
        on_device = ProfilerActivity.CUDA in self.activities and cuda.is_available()
        wishes = dict(shapes=record_shapes, memory=profile_memory, stack=with_stack, flops=with_flops, device=on_device)
        self.noted = frozenset(name for name, is_noted in wishes.items() if is_noted)
        self.schedule, self.on_trace_ready, self.acc_events = schedule, on_trace_ready, acc_events
        self.with_modules = with_modules
        self.step_num = 0
        self.current_action = ProfilerAction.RECORD if schedule is None else schedule(0)
        self.recorder: Recorder | None = None
        self.taken = EventList()
        self.hooks: list[Any] = []
        self.step_range: Any = None
        self.metadata: dict[str, str] = {}

    # --- begin, step, end -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins, with step 0."""
        self._turn(ProfilerAction.NONE, self.current_action)
        self._open_step()

    def step(self) -> None:
        """Says that a step of the program is over."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)
        self._turn(before, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """Ends; what was recorded stays readable."""
        self._close_step()
        recording = self.current_action in _RECORDING
        self._turn(self.current_action, ProfilerAction.NONE, ready=recording)
        self.current_action = ProfilerAction.NONE

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def _turn(self, before: ProfilerAction, now: ProfilerAction, ready: bool = False) -> None:
        if self.recorder is not None and (before is ProfilerAction.RECORD_AND_SAVE or now not in _RECORDING):
            self._take()
            if before is ProfilerAction.RECORD_AND_SAVE or ready:
                if self.on_trace_ready is not None:
                    self.on_trace_ready(self)
        if now in _RECORDING and self.recorder is None:
            self.recorder = Recorder(self.noted)
            listen(self.recorder)
            self._watch_modules()

    def _take(self) -> None:
        recorder = self.recorder
        assert recorder is not None
        recorder.on = False
        stop_listening(recorder)
        for handle in self.hooks:
            handle.remove()
        self.hooks = []
        events = recorder.finished()
        if self.acc_events:
            events[:0] = self.taken
        self.taken, self.recorder = events, None

    def _open_step(self) -> None:
        if self.schedule is not None and self.recorder is not None:
            self.step_range = record_function(f"ProfilerStep#{self.step_num}")
            self.step_range.__enter__()

    def _close_step(self) -> None:
        if self.step_range is not None:
            self.step_range.__exit__(None, None, None)
            self.step_range = None

    def _watch_modules(self) -> None:
        """Ranges for optimizers' steps, and for calls of modules when they are wanted."""
        open_ranges: list[Any] = []

        def enter(name: str, kind: str) -> None:
            range_ = record_function(name)
            range_.kind = kind
            range_.__enter__()
            open_ranges.append(range_)

        def leave(*_: Any) -> None:
            if open_ranges:
                open_ranges.pop().__exit__(None, None, None)

        def before_step(optimizer: Any, *_: Any) -> None:
            name = type(optimizer).__name__
            enter(f"Optimizer.step#{name}.step", "user")

        self.hooks += [
            optim.hooks.register_optimizer_step_pre_hook(before_step),
            optim.hooks.register_optimizer_step_post_hook(leave),
        ]
        if self.with_modules:
            before = nn.hooks.register_module_forward_pre_hook
            after = nn.hooks.register_module_forward_hook
            self.hooks += [
                before(lambda module, _: enter(f"nn.Module: {type(module).__name__}", "module")),
                after(lambda *_: leave()),
            ]

    # --- reading ----------------------------------------------------------------------------------------------------------

    def events(self) -> EventList:
        """All events, in the order in which they began.

        Returns:
            An `EventList`.
        """
        return self.taken

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Events of one name together (and of one list of shapes; and of one stack, as deep as `group_by_stack_n`).

        Args:
            group_by_input_shape: one row for each list of shapes.
            group_by_stack_n: so many lines of the stack tell rows apart.
            group_by_overload_name: kept for compatibility.
        Returns:
            An `EventList` of averages.
        """
        return self.taken.key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | PathLike[str], use_python_export: object = False) -> None:
        """Writes a trace for chrome://tracing or Perfetto.

        Args:
            path: the file; compressed, if it ends in .gz.
            use_python_export: kept for compatibility.
        """
        self.taken.export_chrome_trace(path)

    def export_stacks(self, path: str | PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes stacks for flame graphs; the profile must have been taken with `with_stack=True`.

        Args:
            path: the file.
            metric: "self_cpu_time_total" or "self_cuda_time_total".
        """
        self.taken.export_stacks(path, metric)

    def export_flame_graph(self, path: str | PathLike[str]) -> None:
        """Draws where the time went, by the program's lines, as an SVG picture; the profile must have been taken with `with_stack=True`.

        Args:
            path: the file.
        Raises:
            ValueError: it was not.

        >>> import os, tempfile
        >>> with dynograd.profiler.profile(with_stack=True) as taken:
        ...     _ = dynograd.ones(3).exp()
        >>> taken.export_flame_graph(os.path.join(tempfile.mkdtemp(), "step.svg"))
        """
        self.taken.export_flame_graph(path)

    def add_metadata(self, key: str, value: str) -> None:
        """Keeps a remark beside the profile.

        Args:
            key, value: texts.
        """
        self.metadata[key] = value

    add_metadata_json = add_metadata

    def __str__(self) -> str:
        return str(self.key_averages())


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: object = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace into a folder, under a name that TensorBoard's plugin knows.

    Args:
        dir_name: the folder.
        worker_name: part of the file's name; host and process unless given.
        use_gzip: compress it.
        use_python_export: kept for compatibility.
    Returns:
        A function of a `profile`.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with dynograd.profiler.profile(on_trace_ready=dynograd.profiler.tensorboard_trace_handler(folder)):
    ...     _ = dynograd.ones(3).exp()
    """

    def write(taken: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        taken.export_chrome_trace(folder / f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}")

    return write


_show_plainly(globals())
