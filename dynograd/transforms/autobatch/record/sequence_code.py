"""The code with which a sequence begins and ends, written for its inputs and for the results that are given out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base.generated_sources import run_source
from dynograd.transforms.autobatch.record.buckets import Port
from dynograd.transforms.autobatch.record.pending import Lazy, note_view
from dynograd.transforms.autobatch.record.sequence_steps import (
    AGAIN,
    INPUT,
    INSIDE,
    STATIC,
    is_constant,
    is_value,
    row_of,
)

OFTEN = (1 << 10) - 1  # after so many calls of ops it is looked whether too many wait


def beginning_of(sequence: Any) -> Callable[[Any, tuple], bool]:
    """`begin(recorder, args)`: whether a call of the first op begins the sequence; then its inputs are noted."""
    step, names = sequence.steps[0], {f"a{place}": value for place, value in enumerate(sequence.steps[0].args)}
    lines = ["def begin(recorder, args):", f"    {', '.join(names)}, = args"]
    places: dict[int, str] = {}
    known: dict[str, Any] = dict(
        __name__=__name__, Lazy=Lazy, Port=Port, row_of=row_of, is_value=is_value, following=step.next
    )
    for name, place in names.items():
        parts = [f"{name}_{part}" for part in place] if type(place) is list else [name]
        if type(place) is list:
            lines.append(f"    {', '.join(parts)}, = {name}")
        places |= zip(place if type(place) is list else [place], parts)
    inputs: list[str] = []
    noted = []
    for place, (what, content) in enumerate(step.wants):
        name = places[place]
        known[f"known_{name}"] = content
        if what == INPUT:
            inputs.append(name)
            noted.append(f"({name}, p_{name}, r_{name})")
            lines += [
                f"    if type({name}) is Lazy and type(p_{name} := {name}.pending) is Port and p_{name}.kind is known_{name} "
                f"and p_{name}.bucket.recorder is recorder:",
                f"        r_{name} = {name}.row",
                f"    elif (entry := row_of(recorder, {name}, known_{name})) is not None:",
                f"        p_{name}, r_{name} = entry",
                "    else:",
                "        return False",
            ]
        elif what == STATIC:
            known[f"known_{name}"], known[f"key_{name}"] = content[1], content[0]
            is_same = f"{name} is known_{name} or " if is_constant(content[1]) else ""
            lines += [f"    if not ({is_same}is_value({name}, key_{name})):", "        return False"]
        else:
            lines += [
                f"    if {name} is not {inputs[content] if what == AGAIN else f'known_{name}'}:",
                "        return False",
            ]
    lines += [f"    recorder.operands = [{', '.join(noted)}]", "    recorder.at = following", "    return True"]
    return run_source("\n".join(lines) + "\n", f"beginning of autobatched {sequence.form.label}", known)["begin"]


def end_of(sequence: Any) -> Callable[[Any], None]:
    """`finish(recorder)`: the call enters the record, and the results that are given out are rows of it. Written for what is given out now."""
    places = range(sequence.inputs)
    ports = ", ".join([f"p{place}" for place in places])
    lines = [
        "def finish(recorder):",
        "    operands = recorder.operands",
        f"    {''.join(f'(_, p{place}, r{place}), ' for place in places)} = operands",
        f"    entry = recorder.table.get((form, {ports}))",
        "    if entry is None:",
        f"        entry = recorder.table[form, {ports}] = enter(recorder, operands)",
        f"    {''.join(f'add{place}, base{place}, ' for place in places)}next_row, ports = entry",
        *[f"    add{place}(base{place} + r{place})" for place in places],
        "    row = next_row()",
        "    recorder.operands = []",
        "    if first_other(words, 0, count) != count:",
        "        return sequence.give_more(row, ports, operands)",
    ]
    for number in sequence.given:
        lines += [f"    lazy = lazies[{number}]", f"    lazy.pending = ports[{number}]", "    lazy.row = row"]
    for number in sequence.given:
        base = sequence.base[number]
        if base is not None:
            what, place = base
            of = f"lazies[{place}]" if what == INSIDE else f"operands[{place}][0]"
            lines.append(f"    note_view(lazies[{number}], {of})")
    names: dict[str, Any] = {}
    for number in sequence.given:
        lines += [
            f"    lazies[{number}] = lazy = new(Lazy)",
            f"    lazy.pending = port{number}",
            "    lazy.row = 0",
        ]
        names[f"port{number}"] = sequence.ports[number]
        step = sequence.makers[number]
        names[f"maker{number}"] = step if step.pack is None else step.result
        target = "result" if step.pack is None else number - step.results[0]
        lines.append(f"    maker{number}.result = lazy" if step.pack is None else f"    maker{number}[{target}] = lazy")
        for use, (user, field) in enumerate(sequence.uses[number]):
            names[f"user{number}_{use}"] = user
            lines.append(f"    user{number}_{use}.{field} = lazy")
    often = (OFTEN + 1 >> len(sequence.steps).bit_length()) - 1  # rows that make as many calls
    lines += [f"    if row & {often} == {often}:", "        recorder.check_size()"]
    first_other, words, count = sequence.watch.question()
    names |= dict(
        __name__=__name__,
        form=sequence.form,
        enter=sequence._enter,
        sequence=sequence,
        first_other=first_other,
        words=words,
        count=count,
        lazies=sequence.lazies,
        note_view=note_view,
        new=object.__new__,
        Lazy=Lazy,
    )
    return run_source("\n".join(lines) + "\n", f"autobatched {sequence.form.label}", names)["finish"]
