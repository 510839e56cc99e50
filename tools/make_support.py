"""Writes docs/support.md: what each op in the table can do, read from the registry. `python tools/make_support.py`, or `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dynograd import ops  # noqa: E402
from dynograd.kernels.build.through_host_cuda import FAMILIES as ON_THE_HOST  # noqa: E402
from dynograd.kernels.build.through_host_cuda import FUNCTIONS  # noqa: E402
from dynograd.onnx.writers import form_of  # noqa: E402
from dynograd.ops.op import Op, registry  # noqa: E402
from dynograd.plans.lowering.reasons import way_of, way_of_rule  # noqa: E402
from dynograd.ragged.rules import kind_of  # noqa: E402
from dynograd.transforms import batching  # noqa: E402
from dynograd.transforms.batching.calls import RULES  # noqa: E402
from dynograd.utils import programs  # noqa: E402

PAGE = ROOT / "docs" / "support.md"

HEAD = """\
# What is supported

This page is written by `make docs` from the table of ops; do not edit it. A test keeps it up to date.

Every op below computes on the CPU and on a GPU, and every row of this page is held by tests against NumPy, against differences of the function's
values (gradient, second order, jvp), and for strided, empty and 0-d inputs.

- **gradient**: `rule` is a backward written for the op; `derivative` is generated from its formula; `parts` means that the op is made
  of other ops and has what they have; `none` means that its result is not differentiable (integers, comparisons, positions).
- **second order**: whether `create_graph=True` works through it, and with it gradients of any order.
- **jvp**: forward mode (`func.jvp`): by a rule of its own, `linear` (the op applied to the tangents), from its `derivative`, through
  its `parts`, or by two `backwards`.
- **vmap** (`func.vmap`): a `rule` computes all examples at once; `parts`, through what the op is made of; `loop`, one after another.
- **autobatch** ([Automatic batching](autobatch.md)): a `group` is computed at once, by the vmap rule; `parts`, through what the op is made
  of; [a number] points to the reason why some calls are, or each call is, run by themselves:
{reasons}
- **ragged**: how it reads ragged tensors ([Variable length without padding](ragged.md) explains the words): on the packed elements, by
  segments, rows of equal shape in `groups`, through its `parts`, or refused, with the reason.
- **GPU**: a `kernel` of its own, or made of the op's formula; `parts` means views, or other ops' kernels; `host` means that the tensor
  is copied to the CPU and back, with a warning. GPU kernels are tested in emulation against the CPU's.
- **compile** ([Compiled steps](compile.md)): what computes it in a compiled step, by the tables: `form`, launches written for the op; `formula`, one
  loop of its formula, together with its neighbours; `bound`, the compiled kernels that eager calls, with what NumPy computes between them; `trial`,
  those kernels, or of a rule the ops that it calls, where a trial proves them, else Python; `view`, nothing; `Python`, the op's own function; `parts`, what the
  op is made of; –: it is not recorded, and runs as it is written. Its backward likewise, where that is another word. Unusual dtypes, layouts and
  arguments may be left to Python: `report()` says so.
- **onnx** ([Export a model](how-to/export.md)): how it leaves as ONNX: by a `writer` of its own, by its `formula`, as the `parts` that it is made of, or
  `refused`, with the line that calls it.
- **method**, **in place**: the names on `Tensor`; –: PyTorch has none, or the op is a part of others.
"""


def page() -> str:
    """The whole page."""
    reasons = "\n".join(f"  [{number}] {reason};" for number, reason in enumerate(_reasons(), start=1))
    return "\n".join([HEAD.format(reasons=reasons[:-1] + ".").rstrip(), *_sections(), ""])


def _sections() -> Iterator[str]:
    by_family: dict[str, list[str]] = {}
    for name in {key.removesuffix(".public") for key in registry}:
        entry = registry.get(name, registry.get(f"{name}.public"))
        assert entry is not None
        by_family.setdefault(entry.forward.__module__.removeprefix("dynograd."), []).append(name)
    for family in sorted(by_family, key=lambda name: name.rpartition(".")[2]):
        yield ""
        yield f"## {family.rpartition('.')[2].replace('_', ' ').capitalize()}"
        yield ""
        yield "| op | gradient | second order | jvp | vmap | autobatch | ragged | GPU | compile | onnx | method | in place |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        for name in sorted(by_family[family]):
            yield _row(name)


def _row(name: str) -> str:
    inner = registry.get(name)
    face = registry.get(f"{name}.public")
    entry = inner or face
    assert entry is not None
    named = next((form.method for form in (face, inner) if form is not None and form.method), False)
    method = f"`{named if isinstance(named, str) else name}`" if named else "–"
    inplace = f"`{name}_`" if any(form is not None and form.inplace for form in (inner, face)) else "–"
    cells = [
        gradient(entry),
        second(entry),
        forward_mode(entry),
        vmap(entry),
        autobatch(entry),
        ragged(name),
        on_gpu(entry),
        compiled(entry),
        form_of(entry),
        method,
        inplace,
    ]
    return f"| `{name}` | {' | '.join(cells)} |"


def gradient(entry: Op) -> str:
    if entry.kind == "composed":
        return "parts"
    if entry.differentiable in (False, "refused"):
        return "none"
    if entry.kind == "elementwise":
        return "derivative"
    return "rule" if entry.backward_rule or entry.fast_backward_rule else "parts"


def second(entry: Op) -> str:
    if entry.kind == "composed":
        return "parts"
    if entry.differentiable in (False, "refused"):
        return "none"
    return "yes" if entry.derivative or entry.backward_rule or entry.decomposition else "no"


def forward_mode(entry: Op) -> str:
    if entry.kind == "composed":
        return "parts"
    if entry.differentiable in (False, "refused"):
        return "none"
    if entry.jvp_rule:
        return "rule"
    if entry.decomposition:
        return "parts"
    if entry.linear:
        return "linear"
    return "derivative" if entry.kind == "elementwise" else "backwards"


def vmap(entry: Op) -> str:
    assert batching.rules  # importing them fills the table
    if entry.kind == "elementwise" or entry.name in RULES:
        return "rule"
    return "parts" if entry.kind == "composed" or entry.decomposition else "loop"


def _reasons() -> list[str]:
    """Why calls of ops are not run in groups, each once."""
    fields = ("at_once", "partly_at_once")
    return list(dict.fromkeys([why for field in fields for entry in registry.values() if (why := entry.row[field])]))


def autobatch(entry: Op) -> str:
    if entry.row["at_once"]:
        return f"at once [{_reasons().index(entry.row['at_once']) + 1}]"
    if entry.kind == "composed":
        return "parts"
    if entry.row["partly_at_once"]:
        return f"group, partly [{_reasons().index(entry.row['partly_at_once']) + 1}]"
    return "group"


def ragged(name: str) -> str:
    return kind_of(name)[0]


def on_gpu(entry: Op) -> str:
    if entry.kind == "elementwise":
        return "host" if entry.name in FUNCTIONS else "kernel"
    if entry.kind == "composed":
        return "parts"
    families = set(re.findall(r'kernel\(\s*"(\w+)"', inspect.getsource(entry.forward)))
    if families & ON_THE_HOST:
        return "host"
    return "kernel" if families else "parts"


def compiled(entry: Op) -> str:
    way, rule = way_of(entry), way_of_rule(entry)
    return way if rule in ("", way) else f"{way}, backward {rule}"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(ops.families)} families, {len(registry)} entries")


if __name__ == "__main__":
    sys.exit(programs.run_alone(main, __doc__))
