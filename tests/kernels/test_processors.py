"""The processor that kernels are compiled for: levels, what the environment says, and what a machine lacks."""

import platform

import pytest

from dynograd.kernels.build import processors
from dynograd.kernels.build.processors import LEVELS, Processor


@pytest.fixture
def machine(monkeypatch):
    """Makes this machine one of a name with these features."""
    monkeypatch.delenv("DYNOGRAD_PROCESSOR", raising=False)
    for name, value in {"CPU_NAME": None, "CPU_FEATURES": None, "ENABLE_AVX": 1}.items():
        monkeypatch.setattr(processors.config, name, value, raising=False)

    def become(name, features):
        monkeypatch.setattr(platform, "machine", lambda: name)
        monkeypatch.setattr(processors, "_features_of_this_machine", lambda: frozenset(features))
        for cached in (processors.processor, processors.level_names):
            cached.cache_clear()

    yield become
    for cached in (processors.processor, processors.level_names):
        cached.cache_clear()


@pytest.mark.parametrize(
    "name, features, expected",
    [
        ("x86_64", LEVELS["x86-64-v4"].needs, "x86-64-v4"),
        ("AMD64", LEVELS["x86-64-v4"].needs, "x86-64-v4"),
        ("x86_64", LEVELS["x86-64-v4"].needs - {"avx512vl"}, "x86-64-v3"),
        ("x86_64", LEVELS["x86-64-v3"].needs, "x86-64-v3"),
        ("x86_64", LEVELS["x86-64-v3"].needs - {"fma"}, "native"),
        ("aarch64", {"neon"}, "arm64"),
        ("arm64", {"neon"}, "arm64"),
        ("riscv64", set(), "native"),
    ],
)
def test_the_highest_level_of_a_machine(machine, name, features, expected):
    machine(name, features)
    assert processors.processor().name == expected


def test_the_environment_names_a_level(machine, monkeypatch):
    machine("x86_64", LEVELS["x86-64-v4"].needs)
    monkeypatch.setenv("DYNOGRAD_PROCESSOR", "x86-64-v3")
    assert processors.processor() == Processor("x86-64-v3", "x86-64-v3", LEVELS["x86-64-v3"].tuning)


@pytest.mark.parametrize(
    "chosen, name, vector",
    [
        ("", "znver4", 32),
        ("", "sapphirerapids", 0),
        ("x86-64-v4", "znver4", 32),
        ("x86-64-v4/64", "znver4", 64),
        ("x86-64-v4/32", "sapphirerapids", 32),
        ("x86-64-v3", "znver4", 0),
        ("native", "znver4", 32),
        ("native", "znver5", 0),
    ],
)
def test_the_width_of_register_tiles(machine, monkeypatch, chosen, name, vector):
    machine("x86_64", LEVELS["x86-64-v4"].needs)
    monkeypatch.setattr(processors.llvmlite.binding, "get_host_cpu_name", lambda: name)
    monkeypatch.setenv("DYNOGRAD_PROCESSOR", chosen)
    assert processors.processor().vector == vector


@pytest.mark.parametrize("setting", [("CPU_NAME", "haswell"), ("CPU_FEATURES", ""), ("ENABLE_AVX", 0)])
def test_numbas_own_settings_are_followed(machine, monkeypatch, setting):
    machine("x86_64", LEVELS["x86-64-v4"].needs)
    monkeypatch.setattr(processors.config, *setting)
    assert processors.processor().name == "native"


@pytest.mark.parametrize(
    "chosen, message",
    [
        ("x86-64-v9", "DYNOGRAD_PROCESSOR is 'x86-64-v9'. Expected native or a level: x86-64-v4, x86-64-v3, arm64."),
        ("x86-64-v3/64", "DYNOGRAD_PROCESSOR is 'x86-64-v3/64'. Expected native or a level"),
        ("x86-64-v4", "cannot run: it lacks avx512bw, .* Unset it, or set it to x86-64-v3 or native"),
        ("arm64", "cannot run: it is another architecture"),
    ],
)
def test_a_level_that_cannot_be(machine, monkeypatch, chosen, message):
    machine("x86_64", LEVELS["x86-64-v3"].needs)
    monkeypatch.setenv("DYNOGRAD_PROCESSOR", chosen)
    with pytest.raises(ValueError, match=message):
        processors.processor()


def test_what_code_of_a_processor_may_use():
    assert Processor("x86-64-v3", "", "").has("f16c") and not Processor("x86-64-v3", "", "").has("avx512f")
    assert Processor("native", "", "+avx,-fma").has("avx") and not Processor("native", "", "+avx,-fma").has("fma")
