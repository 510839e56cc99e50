"""The tables that the compiled kernels of convolution run over, as one flat array: numbers at the places named here, then lists.

See `convolutions_plans` for what they mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# fmt: off
NAMES = """BATCH GROUP BLOCKS ROWS FIRST LAST GROUPS INNER OUTER ROOM SCRATCH VECTORS DIRECT IMAGE PLANE STEP_A STEP_B SPAN
X_N X_C X_A X_B X_W SIZE_A SIZE_B PAD_A PAD_B LINE_A LINE_B REACH_A LINES_B JUMP_A JUMP_B TAKE_A TAKE_B TAKE_W SPLIT
DEPTH OUT_N OUT_C OUT_A OUT_B OUT_W
PHASES_AT PHASES STEPS_AT PARTS_AT PARTS ROWS_AT HEIGHTS OFFSETS_AT OFFSETS
SLICES THICKNESS COLUMN SHARES TOGETHER PACE_N PACE_C PACE_A PACE_B PACE_ITEM CHUNK LOOSE STEP_W JUMP_W TURN""".split()
(BATCH, GROUP, BLOCKS, ROWS, FIRST, LAST, GROUPS, INNER, OUTER, ROOM, SCRATCH, VECTORS, DIRECT, IMAGE, PLANE, STEP_A, STEP_B, SPAN,
 X_N, X_C, X_A, X_B, X_W, SIZE_A, SIZE_B, PAD_A, PAD_B, LINE_A, LINE_B, REACH_A, LINES_B, JUMP_A, JUMP_B, TAKE_A, TAKE_B, TAKE_W,
 SPLIT, DEPTH, OUT_N, OUT_C, OUT_A, OUT_B, OUT_W, PHASES_AT, PHASES, STEPS_AT, PARTS_AT, PARTS, ROWS_AT,
 HEIGHTS, OFFSETS_AT, OFFSETS,
 SLICES, THICKNESS, COLUMN, SHARES, TOGETHER, PACE_N, PACE_C, PACE_A, PACE_B, PACE_ITEM, CHUNK, LOOSE, STEP_W, JUMP_W, TURN) = range(len(NAMES))
TAPS, TAPS_AT, WEIGHTS_AT, MODE, LOW_A, COUNT_A, AT_A, LOW_B, COUNT_B, AT_B, LOW_W, COUNT_W, AT_W = range(13)
# fmt: on


def tables_of(
    values: dict[str, int], phases: Any = (), steps: Any = (), parts: Any = (), rows: Any = (), offsets: Any = ()
) -> Any:
    """All tables of a plan in one flat array: first `values` in the order of the names above, then the tables."""
    values = dict.fromkeys(NAMES, 0) | values
    values |= {"PHASES": len(phases), "PARTS": len(parts), "HEIGHTS": len(rows), "OFFSETS": len(offsets)}
    at, tail = len(NAMES), []
    for name, table in (("PHASES", phases), ("STEPS", steps), ("PARTS", parts), ("ROWS", rows), ("OFFSETS", offsets)):
        flat = np.asarray(table, np.int64).reshape(-1)
        values[f"{name}_AT"] = at
        at += flat.size
        tail.append(flat)
    return np.concatenate([np.array([values[name] for name in NAMES], np.int64), *tail])
