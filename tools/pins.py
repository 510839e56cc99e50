"""What the project depends on: requirements out of pyproject.toml, what is installed of them here, and the versions in constraints.txt."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["CONSTRAINTS", "Dependency", "constraints_text", "dependencies", "of_the_project", "pinned", "requirements"]

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
_HEAD = """\
# Versions that the tests were green with, of everything that is installed for them: pip install -c constraints.txt "dynograd[onnx,serve]"
# They are not for the extra gpu12. `python -m tools.sbom --constraints` writes it anew; what is not installed there keeps its line.
"""


class Dependency(NamedTuple):
    """A distribution that the project needs, or that one of those needs."""

    name: str
    version: str | None
    """None: it is not installed here."""
    needs: tuple[str, ...]
    licence: str | None


def of_the_project() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements() -> dict[str, list[Requirement]]:
    """The project's own, by extra; those of everybody under "". An extra of the project that another one names is put in its place."""
    project = of_the_project()
    texts = {"": project["dependencies"], **project["optional-dependencies"]}

    def expanded(extra: str) -> list[Requirement]:
        result = []
        for requirement in map(Requirement, texts[extra]):
            inner = sorted(requirement.extras) if requirement.name == project["name"] else []
            result += [each for name in inner for each in expanded(name)] if inner else [requirement]
        return result

    return {extra: expanded(extra) for extra in texts}


def dependencies(requirements: list[Requirement]) -> dict[str, Dependency]:
    """What these requirements ask for on this system, and what that asks for, by name."""
    closure: dict[str, Dependency] = {}
    looked_at: set[tuple[str, frozenset[str]]] = set()
    waiting = [requirement for requirement in requirements if _applies(requirement, ())]
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in looked_at:
            continue
        looked_at.add((name, extras))
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            closure[name] = Dependency(name, None, (), None)
            continue
        asked = [Requirement(text) for text in distribution.requires or ()]
        asked = [each for each in asked if _applies(each, tuple(extras))]
        needs = {canonicalize_name(each.name) for each in asked}
        if name in closure:
            needs |= set(closure[name].needs)
        licence = distribution.metadata.get("License-Expression")
        closure[name] = Dependency(name, distribution.version, tuple(sorted(needs)), licence)
        waiting += asked
    return dict(sorted(closure.items()))


def _applies(requirement: Requirement, extras: tuple[str, ...]) -> bool:
    """Whether it is asked for on this system, with these extras of who asks."""
    marker = requirement.marker
    return marker is None or any([marker.evaluate({"extra": extra}) for extra in ("", *extras)])


def pinned() -> dict[str, str]:
    """The versions in constraints.txt, by name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines() if CONSTRAINTS.exists() else []
    return dict(re.fullmatch(r"(\S+)==(\S+)", line).groups() for line in lines if line and line[0] != "#")  # type: ignore[union-attr]


def constraints_text() -> str:
    """constraints.txt with the versions that are installed here."""
    everything = dependencies([each for group in requirements().values() for each in group])
    installed = {canonicalize_name(each.metadata["Name"]) for each in metadata.distributions()}
    pins = {name: version for name, version in pinned().items() if name not in installed}
    pins |= {each.name: each.version for each in everything.values() if each.version is not None}
    return _HEAD + "".join([f"{name}=={version.partition('+')[0]}\n" for name, version in sorted(pins.items())])
