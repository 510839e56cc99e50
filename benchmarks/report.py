"""The figures as tables: aligned text for a terminal, or Markdown."""

from __future__ import annotations

from benchmarks.compare import Result, compiled_label, geometric_mean

__all__ = ["TITLES", "quantity", "report"]

TITLES = {
    "overhead": "Overhead: small tensors, where the library costs more than the arithmetic",
    "training": "Training steps",
    "batches": "A training step at several batch sizes",
    "data": "Loading data",
    "kernels": "Kernels beside the machine's limits",
    "fresh": "Fresh processes: import, memory",
    "cold": "From starting Python to the end of a first training step, with an empty cache of compiled kernels",
    "plans": "What `compile` adds to the first three steps of a process",
    "warm": "From starting Python to the end of a first training step, with a cache that an earlier process has filled",
}
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def report(description: dict, results: list[Result], labels: list[str], markdown: bool) -> str:
    """The whole text: machine, a table for each group, and what did not go well."""
    parts = [machine_lines(description, markdown)]
    for group, title in TITLES.items():
        chosen = [result for result in results if result.group == group]
        if chosen:
            heading = f"## {title}" if markdown else title
            table = table_of(chosen, labels)
            parts += [heading, as_markdown(table) if markdown else as_text(table)]
            summaries = [summary_of(chosen, labels[0], peer) for peer in labels[1:]]
            summaries += [summary_of(chosen, labels[0], peer, compiled=True) for peer in labels[1:]]
            parts += [text for text in (*summaries, peaks_of(chosen), starts_of(chosen, markdown)) if text]
    troubles = troubles_of(results)
    return "\n\n".join(parts + ([troubles] if troubles else [])) + "\n"


def machine_lines(description, markdown):
    if markdown:
        return as_markdown([["", ""], *[[name, value] for name, value in description.items()]])
    width = max(map(len, description))
    return "\n".join(f"{name:{width}}  {value}" for name, value in description.items())


def table_of(results: list[Result], labels: list[str]) -> list[list[str]]:
    """Rows of cells, the header first; columns that would be empty throughout are left out."""
    own, *peers = labels
    header = ["row", *[f"{label}, median (min–max)" for label in labels]]
    header += [f"{peer} / {own} (min–max)" for peer in peers]
    header += [f"{peer} / {compiled_label(own)} (min–max)" for peer in peers]
    header += ["limit", *[f"{label}, share of the limit" for label in labels]]
    header += ["numpy", *[f"{label} over numpy, µs an op" for label in labels], "budget", "same result"]
    lines = [[result.name, *cells_of(result, labels)] for result in results]
    kept = [column for column in range(len(header)) if column == 0 or any(line[column] for line in lines)]
    return [[line[column] for column in kept] for line in [header, *lines]]


def cells_of(result, labels):
    cells = [timing_cell(result, label) for label in labels]
    for ratios in (result.ratios, result.compiled_ratios):
        for label in labels[1:]:
            middle, least, greatest = ratios.get(label, (None, None, None))
            cells.append("" if middle is None else f"{middle:.2f} ({least:.2f}–{greatest:.2f})")
    cells.append("" if result.limit is None else f"{quantity(result.limit, 's')}, {result.limited_by}")
    cells += [share_cell(result, label) for label in labels]
    cells.append("" if result.floor is None else quantity(result.floor, result.unit))
    cells += [f"{result.over[label]:.2f}" if label in result.over else "" for label in labels]
    return [*cells, budget_cell(result, labels[0]), same_cell(result)]


def timing_cell(result, label):
    if label in result.errors:
        return "failed"
    samples = result.samples.get(label)
    if not samples:
        return ""
    middle = quantity(result.median(label), result.unit)
    if len(samples) == 1:
        return middle
    return f"{middle} ({quantity(min(samples), result.unit)}–{quantity(max(samples), result.unit)})"


def share_cell(result, label):
    """How much of the measured time the machine's limit explains."""
    median = result.median(label)
    return "" if result.limit is None or not median else f"{100 * result.limit / median:.0f} %"


def budget_cell(result, label):
    if result.budget is None:
        return ""
    over = result.over.get(label)
    return f"{result.budget}" if over is None else f"{result.budget} {'kept' if over <= result.budget else 'MISSED'}"


def same_cell(result):
    if result.difference is None:
        return ""
    return "yes" if result.agrees else f"NO, {result.difference:.1g}"


def quantity(value: float, unit: str) -> str:
    """Three significant digits: 1.23 ms, 45.6 MiB."""
    if unit != "s":
        return f"{value:.1f} {unit}"
    scale, name = next((pair for pair in UNITS if abs(value) >= pair[0]), UNITS[-1])
    scaled = value / scale
    digits = 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    return f"{scaled:.{digits}f} {name}"


def summary_of(results, own, peer, compiled=False):
    """The ratios over the first side, or over its compiled form. Where a row is not compiled, the first side stands for that."""
    ratios = {}
    for result in results:
        own_ratios = result.compiled_ratios if compiled and result.compiled_ratios else result.ratios
        if peer in own_ratios:
            ratios[result.name] = own_ratios[peer][0]
    if not ratios or (compiled and not any(peer in result.compiled_ratios for result in results)):
        return ""
    own = compiled_label(own) if compiled else own
    worst, best = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    ahead = sum(ratio > 1 for ratio in ratios.values())
    return (
        f"{peer} / {own}: geometric mean {geometric_mean(list(ratios.values())):.2f} over {len(ratios)} rows, "
        f"{ahead} of them above 1; best {ratios[best]:.2f} ({best}), worst {ratios[worst]:.2f} ({worst})"
    )


def peaks_of(results):
    """The whole of what the peak rows give relative to the memory after the import."""
    return "\n".join(
        f"{result.name}, {label}: {reading['after_import']:.1f} MiB after the import, peak {reading['peak']:.1f} MiB"
        for result in results
        for label, readings in result.details.items()
        for reading in readings[:1]
        if "peak" in reading
    )


def starts_of(results, markdown):
    """Where the time of a start goes: a row for each program, a column for each part."""
    rows = {
        f"{result.name}, {label}": reading["parts"]
        for result in results
        for label, readings in result.details.items()
        for reading in readings
        if "parts" in reading
    }
    if not rows:
        return ""
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    table = [["parts, in a process of its own", *names]]
    table += [
        [title, *[quantity(parts[name], "s") if name in parts else "" for name in names]]
        for title, parts in rows.items()
    ]
    return as_markdown(table) if markdown else as_text(table)


def troubles_of(results):
    lines = []
    for result in results:
        if not result.agrees:
            lines.append(f"{result.name}: results differ by {result.difference:.1g} (allowed {result.tolerance:.0e})")
        if result.disturbed:
            lines.append(f"{result.name}: disturbed by other programs in {result.disturbed} rounds")
        for label, text in result.errors.items():
            lines.append(f"{result.name}: {label} failed: {text.strip().splitlines()[-1]}")
    return "\n".join(lines)


def as_text(table):
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(table):
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table]
    return "\n".join([lines[0], "|" + " --- |" * len(table[0]), *lines[1:]])
