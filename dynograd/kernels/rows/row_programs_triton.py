"""Triton kernels made from row programs (see `row_programs.py`): one text for rows that fit a program and for parts of long rows.

A program of the grid takes tiles of `ROWS` rows and `BLOCK` columns. Rows lie along the last dim, or (`INNER`) along the middle dim
of (outer, n, inner). A kernel computes some of a row program's values, `outputs`: its outputs, or reductions of a part of each row,
which are then reduced over the parts; those that are known already, `loaded`, it loads as numbers of each row.
"""

from __future__ import annotations

from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.formula.formulas_triton import assignments_and_results
from dynograd.kernels.rows.row_programs import COLUMN_SUM, EACH, NUMBER, ROW, VECTOR, RowProgram, Step

_HEAD = """\
def {name}(
    {parameters}, i_outer, i_n, i_inner, i_blocks, i_parts, i_tiles, i_period,
    ACC: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):
    i_part = (tl.program_id(0) % i_parts).to(tl.int64)
    i_group = (tl.program_id(0) // i_parts).to(tl.int64)
    i_start = i_part * BLOCK
    i_c = tl.arange(0, BLOCK)
    i_kept = i_c < tl.minimum(i_n - i_start, BLOCK).to(tl.int32)
    columns = (i_n + tl.zeros((), tl.int64)).to(ACC)
"""
_TILE = """\
    if INNER:
        i_i = (i_tile % i_blocks) * ROWS + tl.arange(0, ROWS)
        i_alive = i_i < i_inner
        i_row = (i_tile // i_blocks) * i_inner + i_i
        i_base = (((i_tile // i_blocks) * i_n + i_start) * i_inner + i_i)[:, None]
        i_at = (i_c.to(tl.int64) * i_inner)[None, :]
    else:
        i_row = i_tile * ROWS + tl.arange(0, ROWS)
        i_alive = i_row < i_outer
        i_base = (i_row * i_n + i_start)[:, None]
        i_at = i_c[None, :]
    i_inside = i_alive[:, None] & i_kept[None, :]
"""


def needed(program: RowProgram, outputs: list[str], loaded: frozenset[str]) -> list[Step]:
    """The steps that make `outputs` when `loaded` are known, in order."""
    result: set[str] = set()

    def need(name: str) -> None:
        if name in result or name in program.inputs or name in loaded:
            return
        result.add(name)
        for used in program.steps[name].uses:
            need(used)

    for name in outputs:
        need(name)
    return [step for step in program.steps.values() if step.name in result]


def arguments_of(program: RowProgram, outputs: list[str], loaded: frozenset[str]) -> list[str]:
    """The inputs and given values that a kernel takes, in order; `outputs` follow."""
    used = {name for step in needed(program, outputs, loaded) for name in step.uses}
    return [
        name
        for name in (*program.inputs, *program.steps)
        if name in used and (name in program.inputs or name in loaded)
    ]


def source(
    name: str,
    program: RowProgram,
    outputs: list[str],
    loaded_names: frozenset[str],
    loaded: frozenset[str],
    places: dict[str, str],
) -> str:
    """The text of the kernel that makes `outputs`.

    Args:
        given: reductions that are known.
        loaded: the numbers that lie in memory.
        places: of numbers of rows that are not one for each row: "i_row % i_period" or "i_row // i_period".
    """
    steps = needed(program, outputs, loaded_names)
    inputs = arguments_of(program, outputs, loaded_names)
    kinds = {name: EACH if name in loaded_names else program.inputs[name] for name in inputs}
    numbers = [name for name in inputs if kinds[name] == NUMBER and name not in loaded]
    parameters = [name if name in numbers else f"p_{name}" for name in inputs] + [f"p_{name}" for name in outputs]
    lines = [_HEAD.format(name=name, parameters=", ".join(parameters)).rstrip("\n")]
    sums = [name for name in outputs if program.kind_of(name) == COLUMN_SUM]
    for input_name in inputs:
        if input_name in numbers:
            lines.append(f"    {input_name} = {input_name}.to(ACC)")
        elif kinds[input_name] == NUMBER:
            lines.append(f"    {input_name} = tl.load(p_{input_name}).to(ACC)")
        elif kinds[input_name] == VECTOR:
            lines.append(
                f"    {input_name} = tl.load(p_{input_name} + i_start + i_c, i_kept, other=0).to(ACC)[None, :]"
            )
    body = [] if sums else ["    i_tile = i_group"]
    body.append(_TILE.rstrip("\n"))
    for input_name in inputs:
        if kinds[input_name] == ROW:
            body.append(f"    {input_name} = tl.load(p_{input_name} + i_base + i_at, i_inside, other=0).to(ACC)")
        elif kinds[input_name] == EACH:
            body.append(
                f"    {input_name} = tl.load(p_{input_name} + {places.get(input_name, 'i_row')}, i_alive, other=0).to(ACC)[:, None]"
            )
    for step in steps:
        body += [f"    {line}" for line in _made(step)]
    for output in outputs:
        kind = program.kind_of(output)
        if kind == ROW:
            body.append(f"    tl.store(p_{output} + i_base + i_at, {output}, i_inside)")
        elif kind == EACH and program.steps[output].reduction is not None:
            body.append(f"    tl.store(p_{output} + (i_row * i_parts + i_part)[:, None], {output}, i_alive[:, None])")
        elif kind == EACH:
            body.append(f"    tl.store(p_{output} + i_row[:, None], {output}, i_alive[:, None] & (i_part == 0))")
    if sums:
        lines += [f"    sum_{name} = tl.zeros((ROWS, BLOCK), ACC)" for name in sums]
        lines.append("    for i_step in range(0, i_tiles):")
        lines.append("        i_tile = i_group * i_tiles + i_step")
        body = [f"    {line}" for text in body for line in text.splitlines()]
    lines += body
    lines += [f"    tl.store(p_{name} + i_group * i_n + i_start + i_c, tl.sum(sum_{name}, 0), i_kept)" for name in sums]
    return "\n".join(lines) + "\n"


def _made(step: Step) -> list[str]:
    """The lines that compute a step."""
    lines, (text,), _ = assignments_and_results([_plain(step.expression)], (), False, f"{step.name}_t")
    if step.reduction == "sum":
        text = f"tl.sum(tl.where(i_inside, {text}, 0.0), 1)[:, None]"
    elif step.reduction == "max":
        lines.append(f"{step.name}_v = {text}")
        value = f"tl.where(i_inside & ({step.name}_v == {step.name}_v), {step.name}_v, float('-inf'))"
        text = f"tl.max({value}, 1)[:, None]"
    elif step.reduction == "column_sum":
        return [*lines, f"sum_{step.name} += tl.where(i_inside, {text}, 0.0)"]
    return [*lines, f"{step.name} = {text}"]


def _plain(tree: Tree) -> Tree:
    """The tree with `minus` as a subtraction, for nothing here reorders one, divisions as quotients, squares as products."""
    if tree.head in ("name", "number"):
        return tree
    if tree.head == "**" and tree.parts[1].parts[0] == 2:
        return Tree("*", (_plain(tree.parts[0]),) * 2)
    return Tree({"minus": "-", "/": "quotient"}.get(tree.head, tree.head), tuple(_plain(part) for part in tree.parts))
