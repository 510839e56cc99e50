"""`torch._dynamo.explain` and `torch._dynamo.utils.counters`: what `report()` says, in PyTorch's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from dynograd.base import stubs
from dynograd.compat.compiler import OptimizedModule
from dynograd.plans.compiling import Compiled, all_compiled
from dynograd.plans.reporting.graphs import Graph
from dynograd.plans.reporting.reports import Break

__all__ = ["Counters", "ExplainOutput", "counters", "explain", "is_compile_supported"]

is_compile_supported = stubs.function("_dynamo.utils.is_compile_supported")


@dataclass(frozen=True)
class ExplainOutput:
    """What `explain` gives.

    Args:
        graphs: the record of each way through the function.
        graph_count: how many there are.
        graph_break_count: how many reasons there are not to record it.
        break_reasons: these, each with `reason`, `line` and `times`.
        op_count: how many ops the records have.
        ops_per_graph: their names.
        out_guards, compile_times: None.
    """

    graphs: list[Graph]
    graph_count: int
    graph_break_count: int
    break_reasons: list[Break]
    op_count: int
    ops_per_graph: list[list[str]] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:"]
        for number, why in enumerate(self.break_reasons, 1):
            lines += [
                f"  Break Reason {number}:",
                f"    Reason: {why.reason}",
                "    User Stack:",
                f"      {why.line}",
            ]
        for number, names in enumerate(self.ops_per_graph or (), 1):
            lines += ["Ops per Graph:"] * (number == 1) + [f"  Ops {number}:", *[f"    {name}" for name in names]]
        return "\n".join(lines) + "\n"


def explain(
    f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any
) -> ExplainOutput | Callable[..., ExplainOutput]:
    """What `compile` can record of a function or module, and why not all of it, as `explain(f)(*args)`.

    It is called three times with the arguments, as the second call is recorded and the third goes along the record; so it is for functions that
    may be: a forward pass rather than a training step.

    Args:
        f: a function or module; what `compile` has made of one counts as that.
        extra_args, extra_kwargs: arguments, for whoever calls it at once: `explain(f, *args)`.
    Returns:
        A function of the arguments that gives an `ExplainOutput`; with arguments that.

    >>> told = dynograd._dynamo.explain(lambda x: (x * 2).sum())(dynograd.ones(3))
    >>> told.graph_count, told.graph_break_count, told.op_count
    (1, 0, 2)
    """
    function = f._orig_mod if isinstance(f, OptimizedModule) else f.function if isinstance(f, Compiled) else f

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        compiled = Compiled(function.__call__ if hasattr(function, "forward") else function, always=True)
        for _ in range(3):  # as it is written, recorded, along the record
            compiled(*args, **kwargs)
        graphs = list(compiled.graphs())
        ops = [[node.name for node in graph.nodes if node.kind == "op"] for graph in graphs]
        breaks = list(compiled.report().breaks)
        return ExplainOutput(graphs, len(graphs), len(breaks), breaks, sum([len(names) for names in ops]), ops)

    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


class Counters:
    """What became of the calls of all compiled functions that there are, as PyTorch counts it: a dict of `collections.Counter`, made when it is read.

    "stats" has "calls_captured" (ops of the records) and "unique_graphs" (ways), "frames" has "total" (calls) and "ok" (those along a record),
    "graph_break" the reasons why calls went otherwise. Any other name gives an empty one.

    >>> dynograd._dynamo.utils.counters.clear()
    >>> dynograd._dynamo.utils.counters["graph_break"]
    Counter()
    """

    def __init__(self) -> None:
        self._before: WeakKeyDictionary[Compiled, dict[str, Counter[str]]] = WeakKeyDictionary()

    def __getitem__(self, name: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for compiled in all_compiled():
            before = self._before.get(compiled, {})
            total += _counts_of(compiled).get(name, Counter()) - before.get(name, Counter())
        return total

    def get(self, name: str, default: Any = None) -> object:
        """The counter of a name, or `default` where it is empty."""
        counter = self[name]
        return counter or default

    def keys(self) -> list[str]:
        """The names of counters that are not empty."""
        return [name for name in ("frames", "stats", "graph_break") if self[name]]

    def values(self) -> list[Counter[str]]:
        """Counters that are not empty."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Counter[str]]]:
        """Names and counters that are not empty."""
        return [(name, self[name]) for name in self.keys()]

    def clear(self) -> None:
        """Counts from here on."""
        self._before = WeakKeyDictionary({compiled: _counts_of(compiled) for compiled in all_compiled()})

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def _counts_of(compiled: Compiled) -> dict[str, Counter[str]]:
    graphs = compiled.graphs()
    ops = sum([node.kind == "op" for graph in graphs for node in graph.nodes])
    reasons: Counter[str] = Counter()
    for (reason, _), times in compiled.reasons.items():
        reasons[reason] += times
    return {
        "frames": Counter(total=compiled.calls, ok=compiled.walked),
        "stats": Counter(calls_captured=ops, unique_graphs=len(graphs)),
        "graph_break": reasons,
    }


counters = Counters()
