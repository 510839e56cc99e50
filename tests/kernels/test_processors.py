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
    "chosen, name, cpu, vector",
    [
        ("", "znver4", "znver4", 32),
        ("", "sapphirerapids", "x86-64-v4", 0),
        ("x86-64-v4", "znver4", "znver4", 32),
        ("x86-64-v4/zen4", "sapphirerapids", "znver4", 32),
        ("x86-64-v3", "znver4", "x86-64-v3", 0),
        ("native", "znver4", "znver4", 32),
        ("native", "znver5", "znver5", 0),
    ],
)
def test_variants_of_a_level(machine, monkeypatch, chosen, name, cpu, vector):
    machine("x86_64", LEVELS["x86-64-v4"].needs)
    monkeypatch.setattr(processors.llvmlite.binding, "get_host_cpu_name", lambda: name)
    monkeypatch.setenv("DYNOGRAD_PROCESSOR", chosen)
    assert processors.processor().cpu == cpu and processors.processor().vector == vector


def test_a_variant_has_no_instruction_beyond_its_level():
    """All that LLVM knows a Zen 4 to have and the level lacks is off, but for what no compiler writes of itself."""
    off = {feature.removeprefix("-") for feature in LEVELS["x86-64-v4"].variants["zen4"].tuning.split(",")}
    beyond = "bf16 bitalg ifma vbmi vbmi2 vnni vpopcntdq".split()
    assert off >= {f"avx512{feature}" for feature in beyond} | set("aes gfni pclmul sha sse4a vaes vpclmulqdq".split())
    assert not off & LEVELS["x86-64-v4"].needs
    here = processors.llvmlite.binding
    if here.get_host_cpu_name() == "znver4":
        there = {feature for feature, has in here.get_host_cpu_features().items() if has}
        assert there - LEVELS["x86-64-v4"].needs - off <= {"64bit", "crc32", "sahf"}


@pytest.mark.parametrize("setting", [("CPU_NAME", "haswell"), ("CPU_FEATURES", ""), ("ENABLE_AVX", 0)])
def test_numbas_own_settings_are_followed(machine, monkeypatch, setting):
    machine("x86_64", LEVELS["x86-64-v4"].needs)
    monkeypatch.setattr(processors.config, *setting)
    assert processors.processor().name == "native"


@pytest.mark.parametrize(
    "chosen, message",
    [
        ("x86-64-v9", "DYNOGRAD_PROCESSOR is 'x86-64-v9'. Expected native or a level: x86-64-v4, x86-64-v3, arm64."),
        ("x86-64-v3/zen4", "DYNOGRAD_PROCESSOR is 'x86-64-v3/zen4'. Expected native or a level"),
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
