"""Which program computes a recorded step."""

from __future__ import annotations

from typing import Any, cast

from dynograd.plans.checkpointed.recomputing import compute_parts_again
from dynograd.plans.memory import Arena
from dynograd.plans.programs import Program
from dynograd.plans.recording import Recording

__all__ = ["program_of"]


def program_of(
    recording: Recording,
    arena: Arena,
    keeps: list[int],
    seeds: list[Any] | None = None,
    gradients: list[Any] | None = None,
    exact: bool = False,
    forward: int = 0,
) -> Program:
    """The program for the device that the step's tensors lie on; see `Program` for the arguments.

    `exact`: it gives eager's bits; that of the CPU is checked for it.
    """
    staying = [outside.array for outside in recording.outside if not outside.fresh]
    for outside in recording.outside:
        if outside.fresh:
            outside.is_part_of(staying)
    if not recording.on_gpu:
        if seeds is None:  # else somebody may have what a checkpointed part has made
            compute_parts_again(recording, keeps)
        return Program(recording, arena, keeps, seeds, gradients, forward)
    from dynograd.plans.gpu.programs import GpuProgram

    return cast("Program", GpuProgram(recording, keeps, seeds, gradients, exact))
