"""The processor that kernels are compiled for: a level that many processors share, so that compiled kernels can be shipped.

`DYNOGRAD_PROCESSOR` names a level, or `native`, the exact processor of this machine (`x86-64-v4/32` also says how wide register tiles
are). Without it the highest level is taken that this machine has; where it has none, or where Numba's own variables name a processor
(`NUMBA_CPU_NAME`), it is `native`. Importing this loads Numba.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import NamedTuple

import llvmlite.binding
from numba.core import codegen, config

__all__ = ["LEVELS", "Level", "Processor", "level_names", "processor"]


class Level(NamedTuple):
    """What a level means to LLVM, and what a processor must have to run its code.

    `vectors`: bytes of the vectors that register tiles are written for, where processors of the level differ in which are best.
    """

    machines: tuple[str, ...]
    cpu: str
    tuning: str
    needs: frozenset[str]
    vectors: tuple[int, ...] = ()


_V2 = frozenset("cmov cx16 cx8 fxsr mmx popcnt sse sse2 sse3 sse4.1 sse4.2 ssse3".split())
_V3 = _V2 | frozenset("avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split())
_V4 = _V3 | frozenset("avx512bw avx512cd avx512dq avx512f avx512vl".split())
_X86, _ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")

# Highest first. LLVM's x86-64-v4 keeps to 32-byte vectors, for the clock of the first processors that had 64.
LEVELS = {
    "x86-64-v4": Level(_X86, "x86-64-v4", "-prefer-256-bit", _V4, (64, 32)),
    "x86-64-v3": Level(_X86, "x86-64-v3", "", _V3),
    "arm64": Level(_ARM, "generic", "+fp-armv8,+neon", frozenset({"neon"})),
}


class Processor(NamedTuple):
    """What kernels are compiled for: `name` is a level's or "native", `cpu` and `features` are what LLVM is told.

    `vector`: bytes of the vectors of register tiles; 0 for the widest that there are.
    """

    name: str
    cpu: str
    features: str
    vector: int = 0

    def has(self, feature: str) -> bool:
        """Whether code may use what LLVM calls so ("avx512f")."""
        level = LEVELS.get(self.name)
        return feature in level.needs if level is not None else f"+{feature}" in self.features.split(",")


@cache
def processor() -> Processor:
    """The processor of this process.

    Raises:
        ValueError: `DYNOGRAD_PROCESSOR` is neither `native` nor a level that this machine has.
    """
    chosen = os.environ.get("DYNOGRAD_PROCESSOR", "")
    if not chosen:
        set_by_user = config.CPU_NAME is not None or config.CPU_FEATURES is not None or not config.ENABLE_AVX
        chosen = "native" if set_by_user else next(iter(level_names()), "native")
    if chosen == "native":
        name, features = _native()
        return Processor("native", name, features, _vector_of(name))
    chosen, _, width = chosen.partition("/")
    if chosen not in LEVELS or (width and width not in map(str, LEVELS[chosen].vectors)):
        text = os.environ["DYNOGRAD_PROCESSOR"]
        raise ValueError(f"DYNOGRAD_PROCESSOR is {text!r}. Expected native or a level: {', '.join(LEVELS)}.")
    level = LEVELS[chosen]
    if chosen not in level_names():
        missing = sorted(level.needs - _features_of_this_machine())
        why = f"it lacks {', '.join(missing)}" if platform.machine() in level.machines else "it is another architecture"
        raise ValueError(
            f"DYNOGRAD_PROCESSOR is {chosen!r}, which this {platform.machine()} processor cannot run: {why}. "
            f"Unset it, or set it to {' or '.join((*level_names(), 'native'))}."
        )
    vector = int(width) if width else _vector_of(llvmlite.binding.get_host_cpu_name()) if level.vectors else 0
    return Processor(chosen, level.cpu, level.tuning, vector)


@cache
def level_names() -> tuple[str, ...]:
    """The levels whose code this machine can run, highest first."""
    features = _features_of_this_machine()
    return tuple(
        name for name, level in LEVELS.items() if platform.machine() in level.machines and level.needs <= features
    )


def _features_of_this_machine() -> frozenset[str]:
    try:
        return frozenset(name for name, there in llvmlite.binding.get_host_cpu_features().items() if there)
    except RuntimeError:  # LLVM cannot tell on this system
        return frozenset()


def _vector_of(name: str) -> int:
    """On Zen 4, whose units are 32 bytes wide, 64 are no faster, and images of 8, 24 or 56 places a line fill vectors of 32."""
    return 32 if name == "znver4" else 0


def _native() -> tuple[str, str]:
    """As Numba has it."""
    name = llvmlite.binding.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    return name, codegen.get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
