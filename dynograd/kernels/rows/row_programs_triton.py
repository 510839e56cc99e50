"""Triton kernels made from row programs (see `row_programs.py`): one text for rows that fit a program and for parts of long rows.

A program of the grid takes tiles of `ROWS` rows and `BLOCK` columns. Rows lie along the last dim, or (`INNER`) along the middle dim
of (outer, n, inner). A kernel computes some of a row program's values, `wanted`: its outputs, or reductions of a part of each row,
which are then reduced over the parts; those that are known already, `given`, it loads as numbers of each row.
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


def needed(program: RowProgram, wanted: list[str], given: frozenset[str]) -> list[Step]:
    """The steps that make `wanted` when `given` are known, in order."""
    found: set[str] = set()

    def need(name: str) -> None:
        if name in found or name in program.inputs or name in given:
            return
        found.add(name)
        for used in program.steps[name].uses:
            need(used)

    for name in wanted:
        need(name)
    return [step for step in program.steps.values() if step.name in found]


def arguments_of(program: RowProgram, wanted: list[str], given: frozenset[str]) -> list[str]:
    """The inputs and given values that a kernel takes, in order; `wanted` follow."""
    used = {name for step in needed(program, wanted, given) for name in step.uses}
    return [
        name for name in (*program.inputs, *program.steps) if name in used and (name in program.inputs or name in given)
    ]


def source(
    name: str,
    program: RowProgram,
    wanted: list[str],
    given: frozenset[str],
    loaded: frozenset[str],
    places: dict[str, str],
) -> str:
    """The text of the kernel that makes `wanted`.

    Args:
        given: reductions that are known.
        loaded: the numbers that lie in memory.
        places: of numbers of rows that are not one for each row: "i_row % i_period" or "i_row // i_period".
    """
    steps = needed(program, wanted, given)
    inputs = arguments_of(program, wanted, given)
    kinds = {one: EACH if one in given else program.inputs[one] for one in inputs}
    numbers = [one for one in inputs if kinds[one] == NUMBER and one not in loaded]
    parameters = [one if one in numbers else f"p_{one}" for one in inputs] + [f"p_{one}" for one in wanted]
    lines = [_HEAD.format(name=name, parameters=", ".join(parameters)).rstrip("\n")]
    sums = [one for one in wanted if program.kind_of(one) == COLUMN_SUM]
    for one in inputs:
        if one in numbers:
            lines.append(f"    {one} = {one}.to(ACC)")
        elif kinds[one] == NUMBER:
            lines.append(f"    {one} = tl.load(p_{one}).to(ACC)")
        elif kinds[one] == VECTOR:
            lines.append(f"    {one} = tl.load(p_{one} + i_start + i_c, i_kept, other=0).to(ACC)[None, :]")
    body = [] if sums else ["    i_tile = i_group"]
    body.append(_TILE.rstrip("\n"))
    for one in inputs:
        if kinds[one] == ROW:
            body.append(f"    {one} = tl.load(p_{one} + i_base + i_at, i_inside, other=0).to(ACC)")
        elif kinds[one] == EACH:
            body.append(f"    {one} = tl.load(p_{one} + {places.get(one, 'i_row')}, i_alive, other=0).to(ACC)[:, None]")
    for step in steps:
        body += [f"    {line}" for line in _made(step)]
    for one in wanted:
        kind = program.kind_of(one)
        if kind == ROW:
            body.append(f"    tl.store(p_{one} + i_base + i_at, {one}, i_inside)")
        elif kind == EACH and program.steps[one].reduction is not None:
            body.append(f"    tl.store(p_{one} + (i_row * i_parts + i_part)[:, None], {one}, i_alive[:, None])")
        elif kind == EACH:
            body.append(f"    tl.store(p_{one} + i_row[:, None], {one}, i_alive[:, None] & (i_part == 0))")
    if sums:
        lines += [f"    sum_{one} = tl.zeros((ROWS, BLOCK), ACC)" for one in sums]
        lines.append("    for i_step in range(0, i_tiles):")
        lines.append("        i_tile = i_group * i_tiles + i_step")
        body = [f"    {line}" for text in body for line in text.splitlines()]
    lines += body
    lines += [f"    tl.store(p_{one} + i_group * i_n + i_start + i_c, tl.sum(sum_{one}, 0), i_kept)" for one in sums]
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
