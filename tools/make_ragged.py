"""Writes the tables of docs/ragged.md: the ragged rule of each op, and the probes beside torch.nested. `python -m tools.make_ragged`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import dynograd  # noqa: E402
from benchmarks import ragged_probes  # noqa: E402
from dynograd.ops.op import registry  # noqa: E402
from dynograd.ragged.rules import kind_of  # noqa: E402
from dynograd.utils import programs  # noqa: E402
from tests.ragged.samples import Documents, Images, Item, Sample, items  # noqa: E402

PAGE = ROOT / "docs" / "ragged.md"


def page() -> str:
    """The page with new tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("ops", _ops()), ("kinds", _kinds()), ("probes", _probes())):
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("<!-- end -->")
        text = f"{before}<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end -->{after}"
    return text


def _ops() -> Iterator[str]:
    by_kind: dict[tuple[str, str], list[str]] = {}
    kinds: dict[str, int] = {}
    for name in sorted({key.removesuffix(".public") for key in registry}):
        kind, note = kind_of(name)
        by_kind.setdefault((kind, note), []).append(name)
        kinds[kind] = kinds.get(kind, 0) + 1
    yield ""
    yield (
        ", ".join([f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1])])
        + f": {sum(kinds.values())} ops."
    )
    yield ""
    yield "| rule | ops | note |"
    yield "| --- | --- | --- |"
    for (kind, note), names in sorted(
        by_kind.items(), key=lambda item: (item[0][0] == "refused", item[0][0], -len(item[1]))
    ):
        yield f"| {kind} | {' '.join([f'`{name}`' for name in names])} | {note.replace('|', '/')} |"
    yield ""


# The calls of tests/ragged/calls.txt are written for rows of one ragged dim, and for images and matrices where an op wants those.
KINDS = {
    "rows, matrices, images: (B, j), (B, j, D), (B, j, j), (B, C, j, j)": Sample([4, 2, 6, 4]),
    "rows of those: (B, j, j), (B, j, j, D), (B, j, j, j), (B, j, C, j, j)": Documents([[4, 2], [], [6, 4]]),
    "one more ragged dim beside those: (B, j, j), (B, j, j, D)": Images([(2, 4), (4, 2), (2, 6), (2, 4)]),
}


def _kinds() -> Iterator[str]:
    """How many ops take each kind of rows: tried out once."""
    tried: dict[str, list[Item]] = {}
    for item in items():
        tried.setdefault(item.name, []).append(item)
    names = {key.removesuffix(".public") for key in registry}
    refused = sorted(name for name in names if kind_of(name)[0] == "refused")
    yield ""
    yield "| rows | ops tried | take them |"
    yield "| --- | --- | --- |"
    left: dict[str, list[str]] = {}
    for kind, sample in KINDS.items():
        taken = {name for name, calls in tried.items() if any([_runs(item, sample) for item in calls])}
        left[kind] = sorted(tried.keys() - taken)
        yield f"| {kind} | {len(tried)} | {len(taken)} |"
    yield ""
    for kind, missing in left.items():
        if missing:
            yield f"Without a meaning for {kind.partition(':')[0]}: {' '.join([f'`{name}`' for name in missing])}."
            yield ""
    share = f"{100 * len(refused) / len(names):.1f} %"
    inner = sum(registry[name].row["inner"] for name in names)
    yield f"Refused whatever the rows: {len(refused)} of {len(names)} ops ({share}), at the end of the table above. Not tried: {inner} inner ones."
    yield ""


def _runs(item: Item, sample: Sample) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            item.run(sample.whole())
    except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError):
        return False
    return True


def _probes() -> Iterator[str]:
    theirs, ours = ragged_probes.outcomes(), ragged_probes.tried(dynograd)
    passed = [sum(item is None for item in side.values()) for side in (theirs, ours)]
    yield ""
    yield f"Of {len(ours)} probes, torch.nested passes {passed[0]} and dynograd {passed[1]}."
    yield ""
    yield "| probe | torch 2.13.0 | dynograd |"
    yield "| --- | --- | --- |"
    for text in ragged_probes.PROBES:
        cells = ["works" if side[text] is None else _short(side[text]) for side in (theirs, ours)]
        yield f"| `{text.replace('|', '/')}` | {cells[0]} | {cells[1]} |"
    yield ""


def _short(error: str | None) -> str:
    return f"fails: {str(error).replace('|', '/').replace('<', '').replace('`', '')[:70]}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(registry)} entries, {len(ragged_probes.PROBES)} probes")


if __name__ == "__main__":
    sys.exit(programs.run_alone(main, __doc__))
