"""The processor that kernels are compiled for: a level that many processors share, so that compiled kernels can be shipped.

`DYNOGRAD_PROCESSOR` names a level, or `native`, the exact processor of this machine (`x86-64-v4/zen4` also a
variant). Without it the highest level is taken that this machine has; where it has none, or where Numba's own variables name a processor
(`NUMBA_CPU_NAME`), it is `native`. Importing this loads Numba.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import llvmlite.binding
from numba.core import codegen, config

__all__ = ["LEVELS", "Level", "Processor", "Variant", "level_names", "processor", "variant_of"]


class Variant(NamedTuple):
    """The same instructions as of its level, tuned for a processor that LLVM calls `host`, with vectors of so many bytes in register tiles."""

    host: str
    tuning: str
    vector: int


class Level(NamedTuple):
    """What a level means to LLVM, and what a processor must have to run its code."""

    machines: tuple[str, ...]
    cpu: str
    tuning: str
    needs: frozenset[str]
    variants: Mapping[str, Variant] = MappingProxyType({})


_V2 = frozenset("cmov cx16 cx8 fxsr mmx popcnt sse sse2 sse3 sse4.1 sse4.2 ssse3".split())
_V3 = _V2 | frozenset("avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split())
_V4 = _V3 | frozenset("avx512bw avx512cd avx512dq avx512f avx512vl".split())
_X86, _ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")

# What Zen 4 has beyond the level.
_BEYOND_V4 = (
    "adx aes avx512bf16 avx512bitalg avx512ifma avx512vbmi avx512vbmi2 avx512vnni avx512vpopcntdq "
    "clflushopt clwb clzero fsgsbase gfni invpcid mwaitx pclmul pku prfchw rdpid rdpru rdrnd rdseed sha "
    "shstk sse4a vaes vpclmulqdq wbnoinvd xsavec xsaveopt xsaves"
).split()

# On Zen 4, whose units are 32 bytes wide, register tiles of 64 are no faster, and images of 8, 24 or 56 places a line fill vectors of 32 (a
# convolution of 8 x 8 images: 21 % less time); running sums of rows, in the order of LLVM's Zen 4, take 20 % less. All else is the same.
_ZEN4 = Variant("znver4", ",".join(f"-{feature}" for feature in _BEYOND_V4), 32)

# Highest first. LLVM's x86-64-v4 keeps to 32-byte vectors, for the clock of the first processors that had 64.
LEVELS = {
    "x86-64-v4": Level(_X86, "x86-64-v4", "-prefer-256-bit", _V4, {"zen4": _ZEN4}),
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
        return Processor("native", name, features, _ZEN4.vector if name == _ZEN4.host else 0)
    name, _, variant = chosen.partition("/")
    if name not in LEVELS or (variant and variant not in LEVELS[name].variants):
        raise ValueError(f"DYNOGRAD_PROCESSOR is {chosen!r}. Expected native or a level: {', '.join(LEVELS)}.")
    level = LEVELS[name]
    if name not in level_names():
        missing = sorted(level.needs - _features_of_this_machine())
        why = f"it lacks {', '.join(missing)}" if platform.machine() in level.machines else "it is another architecture"
        raise ValueError(
            f"DYNOGRAD_PROCESSOR is {chosen!r}, which this {platform.machine()} processor cannot run: {why}. "
            f"Unset it, or set it to {' or '.join((*level_names(), 'native'))}."
        )
    variant = variant or variant_of(name)
    if variant:
        return Processor(name, *level.variants[variant])
    return Processor(name, level.cpu, level.tuning)


def variant_of(level: str) -> str:
    """The variant of a level that this machine takes; "" for the level itself."""
    host = llvmlite.binding.get_host_cpu_name()
    return next((name for name, variant in LEVELS[level].variants.items() if variant.host == host), "")


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


def _native() -> tuple[str, str]:
    """As Numba has it."""
    name = llvmlite.binding.get_host_cpu_name() if config.CPU_NAME is None else config.CPU_NAME
    return name, codegen.get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
