"""Modules in notebooks: a tree that opens, with the shapes of parameters and how many numbers they are."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from dynograd.nn.parameter import is_lazy

if TYPE_CHECKING:
    from dynograd.nn.module import Module

__all__ = ["tree_html"]

_MOST = 1000  # modules; those behind them are counted
_OPEN = 12  # children of the root are shown at once if there are no more


def tree_html(module: Module) -> str:
    """The HTML of a module: `<details>` for each one, parameters and buffers with their shapes; a shared module is written out once."""
    parameters = list(module.parameters())
    known = [parameter for parameter in parameters if not is_lazy(parameter)]
    count = sum([parameter.numel() for parameter in known])
    trained = sum([parameter.numel() for parameter in known if parameter.requires_grad])
    told = f"{count:,} parameters ({_bytes(sum([parameter.nbytes for parameter in known]))})"
    if trained != count:
        told += f", {trained:,} of them trained"
    if len(known) < len(parameters):
        told += f", and {len(parameters) - len(known)} tensors whose shapes the first batch will tell"
    lines: list[str] = []
    names: dict[int, str] = {}
    _write(module, "", lines, names, depth=0)
    more = sum([1 for _ in module.modules()]) - len(names)
    rest = f"<div>and {more:,} more modules</div>" if more else ""
    return f'<div style="font-family:monospace;font-size:12px">{"".join(lines)}{rest}<div>{told}</div></div>'


def _write(module: Any, name: str, lines: list[str], names: dict[int, str], depth: int) -> None:
    label = f"{name.rpartition('.')[2]}: " if name else ""
    kind = f"<b>{escape(type(module).__name__)}</b>"
    if id(module) in names:
        lines.append(f"<div>{escape(label)}{kind} shared with {escape(names[id(module)] or 'the root')}</div>")
        return
    if len(names) >= _MOST:
        return
    names[id(module)] = name
    extra = escape(module.extra_repr().replace("\n", ", "))
    own = sum([parameter.numel() for parameter in module.parameters() if not is_lazy(parameter)])
    head = f"{escape(label)}{kind}({extra})" + (f" <i>{own:,}</i>" if own else "")
    children = list(module._modules.items())
    tensors = [*_tensors(module._parameters), *_tensors(module._buffers, "buffer")]
    if not children and not tensors:
        lines.append(f"<div>{head}</div>")
        return
    opened = ' open=""' if depth == 0 and len(children) <= _OPEN else ""
    lines.append(f"<details{opened}><summary>{head}</summary><div style='margin-left:1.5em'>")
    lines.extend(tensors)
    for key, child in children:
        if child is None:
            lines.append(f"<div>{escape(key)}: None</div>")
        else:
            _write(child, f"{name}.{key}" if name else key, lines, names, depth + 1)
    lines.append("</div></details>")


def _tensors(group: dict[str, Any], word: str = "") -> list[str]:
    lines = []
    for name, tensor in group.items():
        if tensor is None:
            continue
        shape = "shape not known yet" if is_lazy(tensor) else str(tuple(tensor.shape))
        notes = [str(tensor.dtype).removeprefix("dynograd."), word, "" if word or tensor.requires_grad else "frozen"]
        if tensor.device.type != "cpu":
            notes.append(str(tensor.device))
        lines.append(f"<div>{escape(name)} {shape} {' '.join([note for note in notes if note])}</div>")
    return lines


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
