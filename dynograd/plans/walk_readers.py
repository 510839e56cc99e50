"""The code that ops have while one function is walked along its record."""

from __future__ import annotations

import re
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.interpreter.shared import signature_of
from dynograd.ops.readers import Entry, Reader, end_rest
from dynograd.plans.comparing import same
from dynograd.plans.steps import FRESH, MOST
from dynograd.plans.walking.views import VIEW_LINES, view_names

__all__ = ["WalkReader"]


class WalkReader(Reader):
    """Sees the ops of one function's record while it is walked."""

    name = "plan"
    changes_calls = False

    def __init__(self, walk_class: type) -> None:
        super().__init__()
        self.walk_class = walk_class
        self.seen: set[Entry] = set()
        self.sets_aside: set[str] = set()

    def sees(self, entry: Entry) -> bool:
        return entry in self.seen

    def see_these(self, entries: set[Entry], aside: set[str]) -> None:
        """From now on the reader sees these functions, too."""
        end_rest()
        self.look_anew(entries - self.seen)
        self.seen |= entries
        self.sets_aside |= aside

    def write(self, entry: Entry, below: Any, names: dict[str, Any]) -> tuple[str, list[str]]:
        if entry.op is None:
            names |= view_names(entry, below, self.walk_class, self.pass_by)
            return "*args, **kwargs", VIEW_LINES
        op = entry.op
        parameters, _, call = signature_of(op)
        taken = list(op.parameter_names)
        names |= dict(below=below, this=entry, MODES=MODES, Walk=self.walk_class, same=same, pass_by=self.pass_by)
        names["FRESH"] = FRESH
        tests = []
        for place, name in enumerate(taken):
            if place >= MOST:
                break
            if name == op.row["by_row"]:
                continue
            if name in op.array_names:
                tests.append(f"(_step.a{place} is {name} or _step.a{place} is $FRESH)")
            elif op.has_inplace_argument:
                tests.append(f"_step.a{place} is {name}")
            else:
                tests.append(f"(_step.a{place} is {name} or $same(_step.a{place}, {name}))")
        result = "_step.result" if op.outputs is None else "_step.outcome()"
        simple = len(taken) <= MOST and not op.list_name and op.row["by_row"] is None
        lines = ["_walk = $MODES.plan", "if type(_walk) is not $Walk:", "    $pass_by()"]
        lines.append(f"    return $below({', '.join(call)})")
        if simple:
            lines += [
                "_step = _walk.at",
                f"if _step.of is $this and _step.grad == $MODES.grad and {' and '.join(tests)}:",
                "    if _step.fresh is None:",
                "        _walk.at = _step.next",
                f"        return {result}",
                f"    if _walk.takes(_step, ({', '.join(taken)},)):",
                f"        return {result}",
            ]
        lines.append(f"return _walk.other($this, $below, ({', '.join(taken)},))")
        return re.sub(r"=default_\w+", "=None", parameters), lines
