"""Recording a call of a cell that has been seen before: functions written for one nesting of arguments and results."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.generated_sources import run_source
from dynograd.interpreter import TENSORS
from dynograd.transforms.autobatch.record.buckets import Bucket
from dynograd.transforms.autobatch.record.cell_forms import CellForm
from dynograd.transforms.autobatch.record.forms import casting
from dynograd.transforms.autobatch.record.new_calls import kind_for
from dynograd.transforms.autobatch.record.outlines import PLACE
from dynograd.transforms.autobatch.record.pending import Lazy
from dynograd.transforms.autobatch.record.recorder import OFTEN, Recorder


def enter(recorder: Recorder, bucket: Bucket, key: tuple) -> tuple:
    """The table's entry for calls with operands of the ports `key[3:]`, from now on."""
    slots: list[Any] = []
    for column, port in zip(bucket.columns, key[3:], strict=True):
        slots += column.append, recorder.base_of(port)
    result = recorder.table[key] = (*slots, bucket.next_row, *bucket.ports)
    return result


def _nesting(outline: Any) -> Any:
    """What of an argument's outline quick recording knows: a tensor is 1, a tuple of n tensors (n,), None 0; None for anything else."""
    if outline is PLACE:
        return 1
    if outline[0] is None:
        return 0 if outline[2].value is None else None
    if outline[0] is tuple and all([part is PLACE for part in outline[1]]):
        return (len(outline[1]),)
    return None


def quick_of(cell: Any, outline: Any, form: CellForm) -> Any:
    """`quick(*args)`: records a call that is in the table, and raises one of `NOT_QUICK` for any other.

    `form` is one of those that it is for: their arguments and results are nested as in `outline` and `form.rebuild`.
    """
    nestings = [_nesting(part) for part in outline[1][0][1]]
    if None in nestings:
        return None
    names = [f"a{place}" for place in range(len(nestings))]
    lines = [f"def quick({', '.join(names)}):", "    recorder = MODES.recorder", "    if recorder.at is not None:"]
    lines.append("        recorder.between()")
    leaves: list[str] = []
    for name, nesting in zip(names, nestings, strict=True):
        if nesting == 1:
            leaves.append(name)
            continue
        if nesting == 0:
            lines += [f"    if {name} is not None:", "        raise TypeError"]
            continue
        parts = [f"{name}_{number}" for number in range(nesting[0])]
        lines += [f"    if type({name}) is not tuple:", "        raise TypeError", f"    {', '.join(parts)}, = {name}"]
        leaves += parts
    for leaf in leaves:
        lines += [
            f"    if type({leaf}) is Lazy:",
            f"        p_{leaf} = {leaf}.pending",
            f"        r_{leaf} = {leaf}.row",
            f"    elif type({leaf}) in TENSORS:",
            f"        p_{leaf}, r_{leaf} = recorder.entry_of({leaf})",
            "    else:",
            "        raise TypeError",
        ]
    ports = [f"out{number}" for number in range(len(form.kinds))]
    training = "None" if cell.owner is None else 'held["training"]'
    entry = [name for leaf in leaves for name in (f"add_{leaf}", f"base_{leaf}")]
    key = f"(quick, MODES.grad, {training}, {', '.join(f'p_{leaf}' for leaf in leaves)})"
    lines += [
        f"    found = recorder.table.get({key})",
        "    if found is None:",
        f"        found = extend(recorder, {key})",
        f"    {', '.join([*entry, 'next_row', *ports])} = found",
        *[f"    add_{leaf}(base_{leaf} + r_{leaf})" for leaf in leaves],
        "    row = next_row()",
        f"    if row & {OFTEN} == {OFTEN}:",
        "        recorder.check_size()",
    ]
    for number, port in enumerate(ports):
        lines += [f"    made{number} = new(Lazy)", f"    made{number}.pending = {port}", f"    made{number}.row = row"]
    result = ", ".join(f"made{number}" for number in range(len(ports)))
    flat = not form.single and form.rebuild[0] is tuple and all([part is PLACE for part in form.rebuild[1]])
    lines.append(
        f"    return {result}" if form.single else f"    return ({result},)" if flat else f"    return pack([{result}])"
    )

    def extend(recorder: Recorder, key: tuple) -> tuple:
        """The table's entry for operands of other ports, where their kinds have a form already."""
        entries = [(port, 0) for port in key[3:]]
        for port, _ in entries:
            if port.bucket.recorder is not recorder:
                raise KeyError
        alike = (*key[:3], *[port.kind for port, _ in entries])
        form = recorder.table.get(alike)
        if form is None:
            kinds = tuple([kind_for(entry) for entry in entries])
            form = cell.forms.get((kinds, outline, key[1], cell.training(), casting()))
            if form is None or form.quick is not space["quick"] or cell.hooked():
                raise KeyError
            recorder.table[alike] = form
        return enter(recorder, recorder.bucket_for(form, entries), key)

    space: dict[str, Any] = dict(
        __name__=__name__,
        extend=extend,
        Lazy=Lazy,
        TENSORS=TENSORS,
        MODES=MODES,
        new=object.__new__,
        held=getattr(cell.owner, "__dict__", None),
        pack=form.pack,
    )
    return run_source("\n".join(lines) + "\n", f"autobatched cell {cell.name}", space)["quick"]
