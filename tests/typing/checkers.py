"""Runs mypy and pyright over files, and says which lines they report."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent

Errors = dict[str, dict[int, list[str]]]
"""Name of a file -> line -> messages."""


def name_of_pyright() -> str | None:
    """The package of pyright that is installed: basedpyright has all it needs in itself, pyright fetches it when it first runs."""
    return next((name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name)), None)


def by_mypy(files: list[Path], python: str | None = None) -> Errors:
    """What mypy --strict reports; with a `python`, what it has installed is read and not dynograd."""
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "--no-pretty"),
        *("--no-error-summary", "--hide-error-context", f"--cache-dir={ROOT / '.mypy_cache' / 'typing'}"),
        *([] if python is None else ["--python-executable", python]),
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    errors: Errors = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match:
            errors.setdefault(Path(match[1]).name, {}).setdefault(int(match[2]), []).append(match[3])
    return errors


def by_pyright(files: list[Path], folder: Path, mode: str = "strict", python: str | None = None) -> Errors:
    """What pyright reports in that mode; its settings are written into the folder."""
    name = name_of_pyright()
    assert name is not None
    options = {
        "include": [str(file.resolve()) for file in files],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": mode,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", name, "--outputjson", "--pythonpath", python or sys.executable, "-p", str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files), report["summary"]
    errors: Errors = {}
    for problem in report["generalDiagnostics"]:
        if problem["severity"] == "error":
            line = problem["range"]["start"]["line"] + 1
            errors.setdefault(Path(problem["file"]).name, {}).setdefault(line, []).append(problem["message"])
    return errors
