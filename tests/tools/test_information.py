"""`python -m dynograd info`: its sections, as text and as JSON."""

import json
import platform
from types import SimpleNamespace

import numpy

import dynograd
from dynograd import cuda
from dynograd.tools import information


def test_sections(monkeypatch):
    monkeypatch.setenv("DYNOGRAD_QUIET", "1")
    sections = information.information()
    assert list(sections) == list(information.SECTIONS)
    assert sections["versions"]["numpy"] == numpy.__version__
    assert sections["versions"]["python"].startswith(platform.python_version())
    assert sections["versions"]["dynograd"] == dynograd.__version__
    assert sections["processor"]["threads"] == str(dynograd.get_num_threads())
    assert sections["environment"]["DYNOGRAD_QUIET"] == "1"
    assert set(sections["cache"]) == {"folder", "kernels", "functions"}


def test_only_what_matters_of_the_environment(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    values = information.SECTIONS["environment"]()
    assert values["OMP_NUM_THREADS"] == "3" and "SECRET_TOKEN" not in values


def test_an_empty_environment(monkeypatch):
    for name in information.SECTIONS["environment"]():
        monkeypatch.delenv(name, raising=False)
    assert information.SECTIONS["environment"]() == {"variables": "none that matters is set"}


def test_as_text_and_as_json(capsys):
    assert information.main([]) == 0
    text = capsys.readouterr().out
    assert "versions\n  dynograd" in text and "\n\nprocessor\n" in text
    assert information.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blas"] == information.information()["blas"]


def test_packs(monkeypatch):
    monkeypatch.setattr(information.packs, "_packs_of", lambda level, version: [])
    assert information.SECTIONS["packs"]() == {"in use": "none"}
    pack = SimpleNamespace(path="/packs/a.pack", names=lambda: ["x", "y"])
    monkeypatch.setattr(information.packs, "_packs_of", lambda level, version: [pack])
    assert information.SECTIONS["packs"]() == {"/packs/a.pack": "2 kernels"}


def test_a_card(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "driver_version", lambda: "13.0")
    monkeypatch.setattr(cuda, "device_count", lambda: 1)
    card = SimpleNamespace(name="Card", major=9, minor=0, total_memory=2**30)
    monkeypatch.setattr(cuda, "get_device_properties", lambda index: card)
    assert information.SECTIONS["gpu"]() == {
        "available": "yes", "driver": "CUDA 13.0", "cuda:0": "Card, compute capability 9.0, 1024.0 MiB",
    }  # fmt: skip


def test_no_card(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "no driver")
    assert information.SECTIONS["gpu"]() == {"available": "no: no driver"}
