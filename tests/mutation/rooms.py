"""The rooms that mutants are made in, and where their tests stand."""

from __future__ import annotations

from pathlib import Path

__all__ = ["OF_TABLES", "ROOMS", "ROOT", "TESTS", "files_of", "room_of"]

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "ops": "dynograd/ops",
    "autograd": "dynograd/autograd",
    "ragged": "dynograd/ragged",
    "autobatch": "dynograd/transforms/autobatch",
    "optim": "dynograd/optim",
    "data": "dynograd/data",
    "saving": "dynograd/saving",
}
TESTS = "ops autograd ragged transforms optim data saving tensor interpreter nn sparse distributed profiler amp errors plans".split()  # folders of tests/

# What reads the table of ops, or that of ragged rules, as a whole: for what runs while modules are imported. Those that are in none of
# the folders have one part of the covering, "tables".
OF_TABLES = [
    f"tests/{name}.py" for name in ("test_support", "test_names", "test_stubs", "ops/test_registry", "ragged/test_page")
]


def files_of(room: str) -> list[str]:
    """The files of a room, as paths below the root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / ROOMS[room]).rglob("*.py"))


def room_of(file: str) -> str:
    """The room that a file stands in."""
    return next(room for room, folder in ROOMS.items() if file.startswith(folder + "/"))
