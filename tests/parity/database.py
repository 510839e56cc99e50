"""What the databases of PyTorch's ops, modules and optimizers have in common: running checks, the list of what is known, the command line."""

from __future__ import annotations

import argparse
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dynograd
from tests.parity.op_database_twins import Missing

__all__ = ["Database", "error_text"]


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:220]}"


BY_MACHINE = (
    "by machine: "  # begins the reason of what passes on some machines, as PyTorch's own results differ between them
)


class Database:
    """Entries by name, and checks: functions of an entry that yield what is wrong with it.

    Args:
        file: the module's file; `..._known.txt` beside it has lines `entry | checks | reason` of what does not pass yet.
        seconds: how long a check of an entry may take.
    """

    def __init__(
        self, file: str, entries: dict[str, Any], checks: list[Callable[[Any], Iterator[str]]], seconds: int
    ) -> None:
        self.entries, self.seconds = entries, seconds
        self.checks = {check.__name__: check for check in checks}
        self.name = Path(file).stem
        self.known_file = Path(file).with_name(f"{self.name}_known.txt")
        self.known: dict[tuple[str, str], str] = {}  # (check, entry) -> why it does not pass yet
        for line in self.known_file.read_text().splitlines() if self.known_file.exists() else []:
            if line.strip() and not line.startswith("#"):
                name, kinds, reason = line.split(" | ", 2)
                self.known |= {(kind, name): reason for kind in kinds.split()}

    def failures(self, kind: str, name: str) -> list[str]:
        """What is wrong with one entry; nothing when all is well."""

        def late(*_: Any) -> None:
            raise TimeoutError(f"more than {self.seconds} s")

        earlier = signal.signal(signal.SIGALRM, late)
        signal.alarm(self.seconds)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dynograd.manual_seed(0)
                return [text for text in self.checks[kind](self.entries[name]) if text]
        except Missing as error:
            return [str(error)]
        except Exception as error:
            return [f"the check failed with {error_text(error)}"]
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, earlier)

    def test(self, kind: str, name: str) -> None:
        """Fails where an entry does not pass, and where one passes that is in the list."""
        wrong, known = self.failures(kind, name), self.known.get((kind, name))
        if wrong and known is not None:
            pytest.xfail(known)
        assert not wrong, "\n".join(wrong)
        assert known is None or known.startswith(BY_MACHINE), (
            f"passes now: take `{kind}` of {name} out of {self.known_file.name}"
        )

    def unknown(self) -> list[tuple[str, str]]:
        """What the list names and is not there."""
        return [(kind, name) for kind, name in self.known if name not in self.entries or kind not in self.checks]

    def write(self, results: dict[str, dict[str, list[str]]]) -> None:
        """Writes the list anew; reasons stay."""
        lines = [
            f"# What of PyTorch's {self.name.replace('_', ' ')} does not pass yet: entry | checks | reason. Lines only go away: a test",
            f"# fails when one of these passes. `python -m tests.parity.{self.name} --write` writes the file anew and keeps reasons.",
        ]
        for name, kinds in results.items():
            by_reason: dict[str, list[str]] = {}
            for kind, texts in kinds.items():
                if texts:
                    short = texts[0].split(": ", 1)[-1] if "): " in texts[0] else texts[0]
                    by_reason.setdefault(self.known.get((kind, name), short[:110].strip()), []).append(kind)
            lines += [f"{name} | {' '.join(kinds)} | {reason}" for reason, kinds in by_reason.items()]
        self.known_file.write_text("\n".join(lines) + "\n")

    def main(self, about: str) -> int:
        parser = argparse.ArgumentParser(description=about.partition("\n")[0])
        parser.add_argument("names", nargs="*", help="entries; a name that ends in %% stands for all that start so")
        parser.add_argument("--kinds", default=" ".join(self.checks), help="checks, separated by spaces")
        parser.add_argument("--all", action="store_true", help="show every failing sample instead of three")
        parser.add_argument("--write", action="store_true", help=f"write {self.known_file.name}")
        options = parser.parse_args()
        expected = options.names or ["%"]
        chosen = [
            name
            for name, entry in self.entries.items()
            if any(
                element in (name, entry.name) or (element.endswith("%") and name.startswith(element[:-1]))
                for element in expected
            )
        ]
        result: dict[str, dict[str, list[str]]] = {}
        passed = dict.fromkeys(options.kinds.split(), 0)
        for name in chosen:
            for kind in passed:
                texts = result.setdefault(name, {})[kind] = self.failures(kind, name)
                passed[kind] += not texts
                if texts:
                    note = f" (known: {self.known[kind, name]})" if (kind, name) in self.known else ""
                    print(f"{name} {kind}: {len(texts)} wrong{note}")
                    print("".join(f"    {text}\n" for text in texts[: None if options.all else 3]), end="", flush=True)
        print(f"of {len(chosen)} entries pass: " + ", ".join(f"{kind} {count}" for kind, count in passed.items()))
        if options.write and not options.names:
            self.write(result)
        return 0


def known_of(path, separator=None):
    """The words behind each entry in a list of exceptions (`entry | word word`); nothing where the list is not there yet."""
    lines = path.read_text().splitlines() if path.exists() else ()
    parts = (line.partition(" | ") for line in lines if not line.startswith("#"))
    return {name: set(words.split(separator)) for name, _, words in parts}
