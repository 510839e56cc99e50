"""The bill of materials and constraints.txt against pyproject.toml, and what is said of vulnerabilities."""

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import audit, pins, sbom

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXTS = {"dependencies": PROJECT["dependencies"]}
TEXTS |= {f"extra {name}": texts for name, texts in PROJECT["optional-dependencies"].items()}


def test_the_bill_has_every_requirement_of_pyproject():
    listed = {
        (entry["name"].removeprefix("pyproject:"), str(Requirement(entry["value"])))
        for component in sbom.bill()["components"]
        for entry in component.get("properties", ())
    }
    direct = {
        (place, str(requirement))
        for place, texts in TEXTS.items()
        for requirement in map(Requirement, texts)
        if requirement.name != "dynograd" and (requirement.marker is None or requirement.marker.evaluate())
    }
    assert direct <= listed
    assert {place for place, _ in listed} <= set(TEXTS)


def test_versions_are_those_of_here_and_references_lead_somewhere():
    bill = sbom.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    versions = {component["name"]: component.get("version") for component in bill["components"]}
    required = {component["name"] for component in bill["components"] if component["scope"] == "required"}
    assert {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]} <= required
    assert "llvmlite" in required and "pytest" not in required  # what Numba needs, and what tests need
    for name in required:
        assert versions[name] == metadata.version(name)
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)
    for row in bill["dependencies"]:
        assert {row["ref"], *row["dependsOn"]} <= {*references, bill["metadata"]["component"]["bom-ref"]}
    numba = next(row for row in bill["dependencies"] if row["ref"].startswith("pkg:pypi/numba@"))
    assert any(reference.startswith("pkg:pypi/llvmlite@") for reference in numba["dependsOn"])


def test_the_same_environment_gives_the_same_bytes(tmp_path, capsys):
    assert sbom.main(["--output", str(tmp_path / "bill.json")]) == 0 and sbom.main([]) == 0
    assert (
        (tmp_path / "bill.json").read_text(encoding="utf-8")
        == capsys.readouterr().out
        == json.dumps(sbom.bill(), indent=2) + "\n"
    )


def test_constraints_are_within_the_ranges():
    """Not of `gpu12`, which has other versions in place of those of `gpu`."""
    pinned = pins.pinned()
    assert list(pinned) == sorted(pinned) and len(pinned) > 50
    for extra, group in pins.requirements().items():
        for requirement in group:
            name = canonicalize_name(requirement.name)
            if name in pinned and extra != "gpu12":
                assert requirement.specifier.contains(pinned[name], prereleases=True), (
                    f"{extra}: {requirement}, {pinned[name]}"
                )
            assert name in pinned or extra not in ("", "onnx", "gguf", "serve", "types", "peers"), f"{extra}: {name}"


def test_constraints_are_written_anew(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("# old\nnot-installed-anywhere==1.0\nnumpy==0.1\n")
    monkeypatch.setattr(pins, "CONSTRAINTS", tmp_path / "constraints.txt")
    assert sbom.main(["--constraints"]) == 0
    written = pins.pinned()
    assert written["numpy"] == metadata.version("numpy") and written["not-installed-anywhere"] == "1.0"
    assert not any("+" in version for version in written.values())


def test_an_extra_within_an_extra_is_expanded():
    of_tests = {requirement.name for requirement in pins.requirements()["test-serve"]}
    assert {"uvicorn", "httpx2"} <= of_tests and "dynograd" not in of_tests


PINNED = {"a": "1.0", "b": "2.0"}


def answering(*results):
    def asks(body):
        queries = json.loads(body)["queries"]
        assert queries[1] == {"package": {"name": "b", "ecosystem": "PyPI"}, "version": "2.0"}
        return json.dumps({"results": list(results)}).encode()

    return asks


def refusing(body):
    raise OSError("no route")


@pytest.mark.parametrize(
    ("asks", "words", "failure"),
    [
        (answering({}, {}), "^audited 2 packages: 0 with known vulnerabilities$", False),
        (answering({}, {"vulns": [{"id": "GHSA-1"}, {"id": "X-2"}]}), r"^b 2.0: GHSA-1 \(https://osv.dev/GHSA-1\).*\naudited 2 packages: 1 with", True),
        (answering({"vulns": [{"id": "X-2"}]}, {}), "^audited 2 packages: 0", False),
        (refusing, r"^not audited: no answer from https://.* \(OSError: no route\)$", False),
        (lambda body: b"<html>", r"^not audited: no answer from .* \(JSONDecodeError", False),
        (lambda body: b"[]", r"^not audited: no answer from .* \(TypeError", False),
        (lambda body: b'{"results": [3, 4]}', r"^not audited: no answer from .* \(AttributeError", False),
        (answering({}), "^not audited: .* answered for 1 of 2 packages$", False),
    ],
)  # fmt: skip
def test_what_is_said_of_vulnerabilities(asks, words, failure):
    lines, is_failure = audit.told(PINNED, ["X-2"], asks)
    assert re.search(words, "\n".join(lines)) and is_failure is failure


@pytest.mark.parametrize(("failure", "status"), [(False, 0), (True, 1)])
def test_the_status_of_an_audit(monkeypatch, capsys, failure, status):
    monkeypatch.setattr(audit, "told", lambda pinned, known: ([f"{len(pinned)} {known}"], failure))
    assert audit.main(["--known", "A,B"]) == status
    assert capsys.readouterr().out == f"{len(pins.pinned())} ['A', 'B']\n"
