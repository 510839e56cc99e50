"""`python -m benchmarks [rows...]`: times dynograd beside torch and prints a table; `python -m benchmarks gpu` on a GPU."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import sys
from pathlib import Path

from benchmarks import fresh, machine
from benchmarks.compare import compare_fresh, compare_steps, compiled_label
from benchmarks.limits import measure_limits
from benchmarks.report import TITLES, quantity, report
from benchmarks.rows import ROWS
from benchmarks.sides import RowFailed, Side
from dynograd.utils import programs

__all__ = ["chosen_rows", "main"]


def main(arguments=None) -> int:
    """Returns 1 when a row of the first library failed or results differ."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["gpu"] or words[:2] == ["--device", "cuda"]:
        from benchmarks.gpu import program

        return program.main(words[1:] if words[0] == "gpu" else words[2:])
    options = parser().parse_args(arguments)
    return programs.run(lambda: measured(options), "benchmarks")


def measured(options) -> int:
    everything = {**ROWS, **fresh.FRESH}
    try:
        rows = chosen_rows(options.rows, ROWS if options.against else everything)
        if options.against and not (options.against / options.library / "__init__.py").exists():
            raise ValueError(f"argument --against: there is no {options.library}/__init__.py in {options.against}.")
    except ValueError as error:
        parser().error(str(error))
    if options.list:
        print("\n".join(f"{row.group:9} {row.name}" for row in rows))
        return 0
    sides = chosen_sides(options)
    labels = [side.label for side in sides]
    description = machine.describe_machine(options.threads)
    results = []
    try:
        limits = None
        if any(row.group == "kernels" for row in rows):
            limits = measure_limits(options.threads, options.realtime)
            description |= limits.describe()
        for row in rows:
            results.append(timed(row, sides, options, limits))
            say(results[-1], labels)
        description |= versions(sides)
    finally:
        for side in sides:
            side.close()
    description["load average at the end"] = machine.load_average()
    priority = "real-time" if options.realtime else "ordinary"
    description["turns"] = f"{options.rounds} rounds of {options.seconds} s a side, in turn, at {priority} priority"
    print(report(description, results, labels, options.markdown), end="")
    if options.importtime:
        print_imports(sides)
    if options.json:
        write_json(options.json, description, results)
    return int(any(labels[0] in result.errors or not result.agrees for result in results))


def parser():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Times dynograd beside torch, the same source with both."
    )
    parser.add_argument(
        "rows",
        nargs="*",
        help=f"names, groups ({', '.join(TITLES)}) or patterns (lstm*); all when none is given",
    )
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument(
        "--rounds", type=programs.whole_number(1), default=5, help="turns of each side in a row (default 5)"
    )
    parser.add_argument("--seconds", type=programs.number(above=0), default=0.2, help="length of a turn (default 0.2)")
    parser.add_argument("--threads", type=programs.whole_number(1), default=2, help="threads of every pool (default 2)")
    parser.add_argument(
        "--steps", type=programs.whole_number(1), default=2000, help="steps of the slope rows (default 2000)"
    )
    parser.add_argument("--library", default="dynograd", help="what is timed (default dynograd)")
    parser.add_argument(
        "--peer", default="torch", help="what it is compared with, or none (default torch, if it can be imported)"
    )
    parser.add_argument(
        "--aa", action="store_true", help="compare the library with itself: what the ratios are worth here"
    )
    parser.add_argument(
        "--against", metavar="FOLDER", type=Path, help="compare with another checkout of the library: before and after"
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="beside them also what each one's compile makes; PyTorch's takes 10 to 40 s a row to start",
    )
    parser.add_argument(
        "--everywhere",
        action="store_true",
        help="with --compile, compile in all training rows, those too that one library or both leave out otherwise",
    )
    parser.add_argument(
        "--dynamic", choices=["yes", "no"], default="", help="with --compile, what compilers get for `dynamic`"
    )
    parser.add_argument(
        "--patience",
        type=programs.number(above=0),
        default=600.0,
        help="seconds after which a compiling side that gives no answer is left out of a row (default 600)",
    )
    parser.add_argument(
        "--mode", default="", help="with --compile, dynograd's in this mode (replay, exact) as a side of its own"
    )
    parser.add_argument(
        "--realtime", action="store_true", help="time at real-time priority, on a busy machine (Linux, root)"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", metavar="FILE", type=programs.file_to_write, help="write all figures there too")
    parser.add_argument("--importtime", action="store_true", help="print each library's costliest imports as well")
    return parser


def chosen_rows(patterns, everything):
    """The rows that a name, a group or a shell pattern picks, in the order of the table."""
    for pattern in patterns:
        if not any(picks(pattern, row) for row in everything.values()):
            raise ValueError(
                f"no row is called {pattern!r}. Rows: {', '.join(everything)}; groups: {', '.join(TITLES)}."
            )
    return [row for row in everything.values() if not patterns or any(picks(pattern, row) for pattern in patterns)]


def picks(pattern, row):
    return pattern == row.group or fnmatch.fnmatchcase(row.name, pattern)


def chosen_sides(options):
    """The library, and beside it itself or the peer, as it is and, if wanted, compiled."""
    shared = (options.threads, options.realtime)
    first = Side(options.library, options.library, *shared)
    if options.against:
        return [first, Side(f"{options.library} before", options.library, *shared, checkout=options.against.resolve())]
    if options.aa:
        return [first, Side(f"{options.library} again", options.library, *shared)]
    peers = [] if options.peer == "none" else [options.peer]
    if peers and importlib.util.find_spec(options.peer) is None:
        print(f"{options.peer} cannot be imported by {sys.executable}: timing {options.library} alone", file=sys.stderr)
        peers = []
    names = dict.fromkeys([options.library, *peers]) if options.compile else ()
    wishes = {"compiles": True, "everywhere": options.everywhere, "patience": options.patience}
    wishes["dynamic"] = options.dynamic
    compiling = [Side(compiled_label(name), name, *shared, **wishes) for name in names]
    if options.compile and options.mode:
        compiling.append(Side(f"dynograd.{options.mode}", "dynograd", *shared, mode=options.mode, **wishes))
    label = f"{options.peer} again" if options.peer == options.library else options.peer
    return [first, *[Side(label, peer, *shared) for peer in peers], *compiling]


def timed(row, sides, options, limits):
    if isinstance(row, fresh.FreshRow):
        return compare_fresh(row, sides, options.rounds, options.steps)
    return compare_steps(row, sides, options.rounds, options.seconds, limits)


def say(result, labels):
    """A line to the terminal as each row is done."""
    medians = [quantity(result.median(label), result.unit) if result.samples.get(label) else "-" for label in labels]
    ratios = [f"{result.ratios[label][0]:7.2f}" for label in labels if label in result.ratios]
    line = f"{result.name:36} {'   '.join(f'{text:>9}' for text in medians)} {' '.join(ratios)}"
    print(
        line + ("" if result.agrees else "   results differ") + "   disturbed" * bool(result.disturbed),
        file=sys.stderr,
        flush=True,
    )


def versions(sides):
    descriptions = {}
    for side in sides:
        try:
            descriptions |= side.ask("describe")
        except RowFailed as error:
            descriptions[side.label] = f"cannot be asked: {str(error).strip().splitlines()[-1]}"
    return descriptions


def print_imports(sides):
    for library in dict.fromkeys(side.library for side in sides):
        print(f"\nCostliest imports of {library}")
        print("\n".join(fresh.costly_imports(library, sides[0].threads)))


def write_json(path, description, results):
    figures = {"machine": description, "results": [result.as_dict() for result in results]}
    path.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
