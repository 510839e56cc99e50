"""Reads changed files of one format, one after the other: `python -m tests.fuzz.files.trying FORMAT SEED FIRST COUNT FOLDER`."""

from __future__ import annotations

import faulthandler
import random
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.fuzz.files import mutations
from tests.fuzz.files.formats import FORMATS, Good
from tests.fuzz.files.watching import Watch, limit_memory, outline

__all__ = ["SECONDS", "Tries", "changed"]

SECONDS = 30.0  # the longest that a file of some thousand bytes may take; far more than it does on a busy machine
BYTES = 1 << 30  # of memory beyond what the process has when it begins


class Tries:
    """Good files of a format in a folder, and what they hold."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.form = name, FORMATS[name]
        self.goods = self.form.goods()
        self.paths: list[Path] = []
        self.values: list[Any] = []
        self.watch = Watch(folder)
        for number, good in enumerate(self.goods):
            for file, raw in good.files.items():
                path = folder / str(number) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(raw)
            self.paths.append(folder / str(number) / good.target)
            self.values.append(outline(self.form.read(self.paths[-1])))

    def try_one(self, seed: int, number: int) -> tuple[str, str, bytes]:
        """("refused", "read" or "fault", what is wrong, the bytes) of the file of this number."""
        chance = random.Random(f"{seed} {self.name} {number}")
        place = chance.randrange(len(self.goods))
        raw, is_inside = changed(self.name, self.goods[place], chance)
        outcome, told = self.outcome(place, raw, is_inside)
        return outcome, told, raw

    def outcome(self, place: int, raw: bytes, is_inside: bool) -> tuple[str, str]:
        """What becomes of these bytes in the place of a good file; `is_inside`: their checksums are right."""
        self.paths[place].write_bytes(raw)
        with self.watch() as events, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = self.form.read(self.paths[place])
            except self.form.refusals:
                outcome = "refused"
            except Exception as error:
                return "fault", "".join(traceback.format_exception(error)[-4:]).replace("\n", " | ")
            else:
                outcome = "read"
        if events and not self.form.runs:
            return "fault", f"events {events[:4]}"
        if outcome == "read" and outline(value) != self.values[place] and self.form.checked and not is_inside:
            return "fault", "other values in spite of checksums"
        return outcome, ""


def changed(name: str, good: Good, chance: random.Random) -> tuple[bytes, bool]:
    """(other bytes for the target, whether they are another file with right checksums)."""
    raw, changes = good.files[good.target], FORMATS[name].changes
    if changes and chance.random() < 0.5:
        return chance.choice(changes)(raw, chance), True
    return mutations.changed_bytes(raw, chance), False


def main(name: str, seed: int, first: int, count: int, keep: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tries = Tries(name, Path(folder))
        limit_memory(BYTES)
        print("ready", flush=True)
        for number in range(first, first + count):
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            outcome, told, raw = tries.try_one(seed, number)
            if outcome == "fault":
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}-{seed}-{number}").write_bytes(raw)
            print(outcome, number, told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
