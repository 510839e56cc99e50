"""What Python allows in a step: how it is called, what it keeps, what comes between calls. They are entered among the hostile programs."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import operator
import pickle
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy

import dynograd as torch
from dynograd import nn
from dynograd.utils.checkpoint import checkpoint
from tests.plans.hostile_programs import hostile
from tests.plans.programs import F, batch, network, watching

__all__: list[str] = []

SIZES = [5, 5, 5, 3, 7, 5, 4, 6, 6, 1, 1, 8, 5, 2, 9, 3]


# --- writes, views, gradients -------------------------------------------------------------------------------------------------


@hostile
def sums_of_views_behind_a_write(compile: Any) -> Any:
    """Gradients of a base and of its views are added in one order, whenever a view is used first behind the write."""
    layer = nn.Linear(4, 4)

    @compile
    def step(x: Any, late: bool) -> Any:
        layer.zero_grad()
        h = layer(x).clone()
        row, column = h[len(h) // 2], h[:, 1]
        F.leaky_relu(row, 0.2, inplace=True)
        if late:
            y = torch.min(h, h) * 1.5
        part = column.sin().sum() + row.cumprod(0).mean()
        if not late:
            y = torch.min(h, h) * 1.5
        (y.sum() + part + h.exp().sum() * 0.3).backward(torch.tensor(0.5))
        return part

    return lambda n: step(batch(n, SIZES[n] + 1, 4), n // 4 % 2 == 0), watching(layer)


@hostile
def writes_at_places_that_the_step_has_found(compile: Any) -> Any:
    """A tensor of indices that the step has made stands among those of a write that has a history."""
    weight = nn.Parameter(torch.ones(6, 2))

    @compile
    def step(x: Any, chosen: Any) -> Any:
        weight.grad = None
        out = torch.zeros_like(x)
        for number in range(2):
            rows, places = torch.where(chosen == number)
            out[rows] += weight[rows, places, None] * x[rows]
        out.square().sum().backward()
        return out

    def run(n: int) -> Any:
        return step(batch(n, 6, 4), (batch(n + n // 3, 6, 2) * 5).long() % 3)

    return run, watching(weight)


@hostile
def writes_behind_a_checkpoint(compile: Any) -> Any:
    """What a checkpointed function gave is written: nothing has saved it as it is written."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any, kind: int) -> Any:
        weight.grad = None
        h = checkpoint(torch.tanh, weight * x, use_reentrant=False)
        if kind == 1:
            h.register_hook(lambda g: g * 2)
        if kind == 2:
            torch.autograd.grad(h.sum(), weight, retain_graph=True)
        h += 1
        (h * x).sum().backward()
        return h

    return lambda n: step(batch(n, 3, 4), [0, 0, 0, 0, 1, 0, 2, 2, 0][n % 9]), watching(weight)


@hostile
def parameters_that_an_optimizer_leaves(compile: Any) -> Any:
    """A parameter without a gradient is not written by the step: what was computed from it is differentiated behind it."""
    weight, other = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))
    optimizer = torch.optim.SGD([weight, other], lr=0.1)

    @compile
    def step(x: Any, also: bool) -> Any:
        optimizer.zero_grad()
        shares = weight.softmax(0)
        loss = (other * x).sum()
        if also:
            loss = loss + 0 * weight.sum()
        loss.backward()
        optimizer.step()
        return shares

    def run(n: int) -> Any:
        shares = step(batch(n, 3, 4), n in (9, 12))
        shares.square().sum().backward()
        return shares, weight.grad

    return run, watching(weight, other)


@hostile
def bases_of_views(compile: Any) -> Any:
    """Which tensor a view is a view of, of arguments, results, and what is written."""
    table = torch.ones(6, 4)

    @compile
    def step(x: Any) -> Any:
        h = x * 2
        row, again = h[0], h.view(-1)[:2]
        of_x, of_table = x[1:], table[2:4].t()
        told = [row._base is h, again._base is h, of_x._base is x, of_table._base is table, h._base is None]
        told += [h.detach()._base is None, x.view_as(x)._base is x, h.expand(2, *h.shape)._base is h]
        row.add_(1)
        return told, row, h, again, of_x, of_table

    def run(n: int) -> Any:
        x = batch(n, 3 + n // 5, 4)
        told, row, h, again, of_x, of_table = step(x)
        told += [row._base is h, again._base is h, of_x._base is x, of_table._base is table]
        if n % 3 == 2:
            row.mul_(3)
            of_x.zero_()
        return told, row, h, again, x, of_table

    return run, watching(table)


@hostile
def views_that_are_given_and_written(compile: Any) -> Any:
    """The caller writes into views of a result, or into what they are views of: the history goes from one to the other."""
    weight = nn.Parameter(torch.ones(4))

    def views(x: Any, kind: int) -> Any:
        h = (x * weight).exp() * 1.5
        if kind == 0:
            return h, h[0], h.view(-1)
        if kind == 1:
            return None, h.t()[1:], h.view(-1)
        if kind == 2:
            return h, *h.chunk(2, 1)
        if kind == 3:
            return weight, weight[:2], weight.view(2, 2)
        if kind == 4:
            return x, x[1], x.t()
        k = h.detach() * 2
        k.tolist()
        return k, k[1], k.view(-1).view(k.shape).t()

    steps = [compile(functools.partial(views, kind=kind)) for kind in range(6)]

    def result(n: int, step: Any) -> Any:
        weight.grad = None
        x = batch(n, 3 + n % 2, 4)
        base, row, whole = step(x)
        written = row if n % 3 or base is None else base
        bases = [row._base is base, whole._base is row._base]
        try:
            written.mul_(3 * weight[0] if n % 2 else 3)
        except RuntimeError as error:  # a leaf
            return type(error).__name__
        if whole.requires_grad:
            (whole * whole).sum().backward()
        return bases, base, row, whole, weight.grad, x

    return lambda n: [result(n, step) for step in steps], lambda: [weight.detach()]


@hostile
def a_graph_that_is_gone_over_twice(compile: Any) -> Any:
    """Losses with fused rules, `retain_graph`, and passes one after another, with gradients read in between."""
    model = network(4, 5, 3)

    @compile
    def step(x: Any, y: Any, times: int) -> Any:
        model.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores, y, label_smoothing=0.1) + scores.logsumexp(-1).square().mean()
        norms = []
        for turn in range(times):
            loss.backward(retain_graph=turn + 1 < times)
            norms.append(model[0].weight.grad.norm())
        return loss, norms

    return lambda n: step(
        batch(n, SIZES[n], 4), batch(n, SIZES[n], classes=3), [1, 1, 1, 2, 2, 2, 3, 2][n % 8]
    ), watching(model)


@hostile
def second_passes_that_fail(compile: Any) -> Any:
    model = network(4, 5, 3)
    other = nn.Parameter(torch.ones(3))

    @compile
    def step(x: Any, y: Any, again: bool) -> Any:
        other.grad = None
        model.zero_grad()
        loss = F.cross_entropy(model(x) * other, y)
        loss.backward()
        if again:
            loss.backward()
        return loss

    return lambda n: step(batch(n, 4, 4), batch(n, 4, classes=3), n % 5 == 4), watching(model, other)


@hostile
def indices_of_all_kinds(compile: Any) -> Any:
    """Indices that are computed: tensors without dims, NumPy numbers, slices that move, None, ellipses, masks, steps."""
    weight = nn.Parameter(batch(0, 4))

    @compile
    def step(x: Any, i: Any, start: int, mask: Any) -> Any:
        h = x * weight
        parts = [
            h[i],
            h[None, i],
            h[i, ..., None],
            h[start : start + 2],
            h[..., start % 4],
            h[start % 2 :: 2],
            h[-1 - start % 2],
            h[h[:, 0].argmax()],
            h.narrow(0, start, 1),
            torch.select(h, 0, start),
            h[mask],
            h[mask, 1],
            h[[start, 0]],
            h[torch.tensor([start, 1]), torch.tensor([0, start % 4])],
            h.take(i * 2),
            h.index_select(0, i.reshape(1)),
            h[numpy.int64(start)],
            h[:, None][start],
            h.flatten()[i:],
        ]
        loss = sum([(part * (k + 1)).sum() for k, part in enumerate(parts)])
        weight.grad = None
        loss.backward()
        return [part.shape for part in parts], parts, loss

    def run(n: int) -> Any:
        x = batch(n, 6, 4)
        place = n % 5 if n != 13 else 99
        return step(x, torch.tensor(place if n % 4 else place - 6), n % 4, x[:, 0] > 0)

    return run, watching(weight)


@hostile
def indices_out_of_range(compile: Any) -> Any:
    """Each of them raises in one call of four, and names the index."""
    table = nn.Parameter(batch(0, 5, 3))
    ways: list[Any] = [
        lambda x, i: x[i],
        lambda x, i: x[None, i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: F.embedding(i, x),
        lambda x, i: x.gather(0, i[:, None]),
        lambda x, i: x[i, 1:],
        lambda x, i: x[i, i % 3],
    ]

    @compile
    def step(x: Any, i: Any, way: int) -> Any:
        h = ways[way](x * table, i)
        table.grad = None
        h.square().sum().backward()
        return h

    def run(n: int) -> Any:
        results: list[Any] = []
        for way in range(len(ways)):
            for k in range(4):
                i = batch(n, 2, classes=5, seed=k)
                if k == 3 and n > 2:
                    i[k % 2] = [77, -78][n % 2]
                try:
                    results.append(step(batch(n, 5, 3), i, way))
                except Exception as error:
                    results.append(
                        f"{type(error).__name__}: {error}".partition(" is out")[0]
                    )  # then shapes, of the view or of its base
        return results

    return run, list


@hostile
def experts_that_get_no_rows(compile: Any) -> Any:
    """Each expert gets the rows that chose it: counts change, and are zero at times."""
    gate, experts = nn.Linear(4, 3), nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    optimizer = torch.optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.1)

    @compile
    def step(x: Any, y: Any, bias: Any) -> Any:
        chances = (gate(x) + bias).softmax(-1)
        weights, chosen = chances.topk(2, sorted=False)
        out = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            rows, places = torch.where(chosen == number)
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        loss = F.mse_loss(out, y) + chances.mean(0).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, out

    def run(n: int) -> Any:
        bias = torch.tensor([0.0, 0.0, -50.0 if n % 5 == 4 else 0.0])
        return step(batch(n, SIZES[n], 4), batch(n, SIZES[n], 4, seed=1), bias)

    return run, watching(gate, experts, optimizer)


@hostile
def masks_that_change(compile: Any) -> Any:
    weight = nn.Parameter(batch(0, 4))

    @compile
    def step(x: Any, mask: Any) -> Any:
        h = x * weight
        chosen = h[mask]
        h = h.masked_fill(~mask, 0.0)
        h[mask & (h > 1)] = 1.0
        count = mask.sum()
        loss = chosen.square().sum() / count.clamp(min=1) + h.sum() + torch.where(mask, h, 0.5).mean()
        weight.grad = None
        loss.backward()
        return loss, chosen, count, mask.nonzero(), chosen.numel()

    def run(n: int) -> Any:
        x = batch(n, SIZES[n], 4)
        return step(x, [x > 0, x > 9, x > -9, x > 0.5, (x > 0)[:, :1].expand(-1, 4)][n % 5])

    return run, watching(weight)


@hostile
def results_of_which_views_are_written(compile: Any) -> Any:
    """Outputs that alias each other, an input, a buffer and a parameter; the caller writes into all of them."""
    weight, buffer = nn.Parameter(torch.ones(3, 4)), torch.zeros(3, 4)

    @compile
    def step(x: Any) -> Any:
        h = x * weight
        return h, h.view(-1), h.detach()[1], x.T, buffer[1:], weight.data[0], x, buffer

    def run(n: int) -> Any:
        x = batch(n, 3, 4)
        h, whole, row, turned, rows, data, same, its = step(x)
        told = [same is x, its is buffer, whole.data_ptr() == h.data_ptr(), turned.data_ptr() == x.data_ptr()]
        with torch.no_grad():
            [whole, row, turned, rows, data, h][n % 6].add_(n)
        return told, h, whole, row, turned, rows, data, x

    return run, watching(weight, buffer)


@hostile
def inputs_written_inside(compile: Any) -> Any:
    model = network(4, 4)

    @compile
    def step(x: Any, y: Any, kind: int) -> Any:
        h = model(x)
        if kind == 0:
            x.mul_(2)
        if kind == 1:
            x[0] = y
            y.zero_()
        if kind == 2:
            x.copy_(h.detach())
        if kind == 3:
            x.t_()
            x.t_()
        if kind == 4:
            y.resize_(2, 2).fill_(1)
        try:
            h.sum().backward()
        except RuntimeError as error:
            return type(error).__name__
        return h, x, x._version

    def run(n: int) -> Any:
        model.zero_grad()
        x, y = batch(n, 3, 4), batch(n, 4)
        return step(x, y, n // 3 % 6), x, y

    return run, watching(model)


@hostile
def attributes_of_tensors(compile: Any) -> Any:
    """What is set on tensors: marks of the program's own, names, `requires_grad`, `grad`, `data`."""
    weight = nn.Parameter(torch.ones(4))

    @compile
    def step(x: Any, flips: bool) -> Any:
        h = x * weight
        h.mark = ["seen"]
        x.mark = getattr(x, "mark", 0) + 1
        k = h * 2
        told = [getattr(k, "mark", None), h.mark, x.mark]
        x.requires_grad = flips
        loss = (k * x).sum()
        loss.backward()
        told.append(x.grad is None)
        x.data = x.data * 2
        return loss, h, told

    def run(n: int) -> Any:
        weight.grad = None
        x = batch(n, 3, 4)
        loss, h, told = step(x, n // 3 % 2 == 1)
        return loss, h, told, getattr(h, "mark", None), x.mark, x, x.grad

    return run, watching(weight)


# --- how it is called -----------------------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Flags(enum.Flag):
    TANH = enum.auto()
    SCALE = enum.auto()
    NONE = 0


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclasses.dataclass(frozen=True)
class Options:
    mode: Mode = Mode.SUM
    flags: Flags = Flags.NONE
    names: tuple[str, ...] = ()


@hostile
def options_of_all_kinds(compile: Any) -> Any:
    """Enums, flags, frozen dataclasses, named tuples, texts, bytes, slices, ranges, sets, keywords alone, and what is left over."""
    model = network(4, 4)

    @compile
    def step(pair: Pair, /, *others: Any, options: Options = Options(), reduce: str = "sum", **rest: Any) -> Any:
        h = model(pair.first)
        if pair.second is not None:
            h = h + pair.second
        if Flags.TANH in options.flags:
            h = h.tanh()
        if options.flags & Flags.SCALE:
            h = h * len(options.names)
        for other in others:
            h = h[other] if isinstance(other, (slice, range, list)) else h * (1 + other)
        for name in sorted(rest):
            h = h + rest[name] * ord(name[0]) % 7
        total = h.sum() if options.mode is Mode.SUM else h.mean()
        return {"total": getattr(h, reduce)(), options.mode: total, ("pair", len(others)): Pair(h, pair)}

    calls: list[Any] = [
        lambda x: step(Pair(x)),
        lambda x: step(Pair(x, x)),
        lambda x: step(Pair(x), 2, 0.5),
        lambda x: step(Pair(x), slice(0, 2)),
        lambda x: step(Pair(x), options=Options(Mode.MEAN)),
        lambda x: step(Pair(x), options=Options(flags=Flags.TANH | Flags.SCALE, names=("a", "b"))),
        lambda x: step(Pair(x), reduce="mean", z=1.5, a=x),
        lambda x: step(Pair(x), reduce="mean", a=x, z=1.5),
        lambda x: step(Pair(x), [0, 1], True),
        lambda x: step(Pair(x), reduce="no_such_method"),
        lambda x: step(pair=Pair(x)),
    ]

    def run(n: int) -> Any:
        model.zero_grad()
        results = []
        for turn in range(3):
            result = calls[(n * 3 + turn // 2) % len(calls)](batch(n, 3, 4, seed=turn))
            next(iter(result.values())).backward()
            results.append([[str(key), value] for key, value in result.items()])
        return results

    return run, watching(model)


class Slotted:
    __slots__ = ("calls", "scale", "weight", "__dict__")

    def __init__(self) -> None:
        self.weight, self.scale, self.calls = nn.Parameter(torch.ones(4)), 1.0, 0


@hostile
def methods_of_unusual_classes(compile: Any) -> Any:
    """Slots, static and class methods, partials, `functools` wrappers, properties, `operator` calls, bound methods of several objects."""

    class Model(Slotted):
        factor = 2.0

        @compile
        def method(self, x: Any) -> Any:
            self.calls += 1
            return x * self.weight * self.scale

        @staticmethod
        @compile
        def fixed(x: Any) -> Any:
            return x.tanh() * 2

        @classmethod
        @compile
        def of_class(cls, x: Any) -> Any:
            return x * cls.factor

    models = [Model(), Model()]
    partial = functools.partial(compile(lambda x, y, *, z: x * y + z), z=0.5)
    call = operator.methodcaller("method", batch(0, 2, 4))

    @functools.lru_cache(maxsize=3)
    def table(size: int) -> Any:
        return torch.arange(float(size))

    @compile
    @functools.wraps(table)
    def with_cache(size: int) -> Any:
        return table(size) * models[0].weight[0]

    def run(n: int) -> Any:
        model = models[n % 2]
        model.scale = 1.0 + n // 4
        Model.factor = 2.0 + n // 5
        x = batch(n, SIZES[n], 4)
        result = [
            model.method(x),
            Model.fixed(x),
            model.fixed(x),
            Model.of_class(x),
            partial(x, n % 3),
            partial(x, x, z=x),
        ]
        result += [call(model), with_cache(2 + n % 4), [each.calls for each in models]]
        model.weight.grad = None
        sum([part.sum() for part in result[:-1]]).backward()
        return result

    return run, lambda: [each.weight for each in models]


@hostile
def lambdas_of_a_loop(compile: Any) -> Any:
    """Functions that are made in a loop share a variable; each is compiled by itself."""
    weights = [nn.Parameter(torch.full((4,), float(k))) for k in range(3)]
    shared, own = [], []
    for k in range(3):
        shared.append(compile(lambda x: x * weights[k] + k))  # noqa: B023 (the variable that they share is what is tried)
        own.append(compile(lambda x, k=k: x * weights[k] + k))

    def run(n: int) -> Any:
        nonlocal k
        k = n // 4 % 3
        results = [function(batch(n, 2, 4)) for function in [*shared, *own]]
        for weight in weights:
            weight.grad = None
        sum([result.sum() for result in results]).backward()
        return results

    return run, lambda: list(weights)


@hostile
def dicts_in_another_order(compile: Any) -> Any:
    """Dicts whose order changes, default dicts, ordered ones, sets, nested containers, keys that are tensors."""
    layers = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})

    @compile
    def step(inputs: Any) -> Any:
        h = torch.zeros(3, 4)
        for name, (x, *others) in inputs["parts"].items():
            h = (h * 0.5 + layers[name](x)).tanh()
            for other in others:
                h = h + sum(other) if isinstance(other, (list, set, frozenset)) else h * other
        counts = collections.Counter(inputs["names"])
        inputs["log"].append(len(inputs["log"]))
        return {name: h * count for name, count in counts.items()}, inputs.get("extra")

    def run(n: int) -> Any:
        layers.zero_grad()
        x, y = batch(n, 3, 4), batch(n, 3, 4, seed=1)
        parts = {"a": (x, [1, 2.5]), "b": (y, {3})} if n // 3 % 2 else {"b": (y, frozenset({3})), "a": (x, 2, [x, y])}
        inputs = collections.defaultdict(list, parts=collections.OrderedDict(parts), names="aab" if n % 4 else "bba")
        result, extra = step(inputs)
        sum([value.sum() for value in result.values()]).backward()
        return list(result.items()), extra, inputs["log"]

    return run, watching(layers)


@hostile
def decorated_functions(compile: Any) -> Any:
    """`no_grad`, `inference_mode`, `autocast` and context managers of the program's own as decorators, above and below."""
    model = network(4, 4)
    entered = [0]

    @contextmanager
    def counted(label: str) -> Iterator[None]:
        entered[0] += 1
        try:
            yield
        finally:
            entered[0] += 10

    @compile
    @torch.no_grad()
    def without(x: Any) -> Any:
        return model(x)

    @torch.no_grad()
    @compile
    def around(x: Any) -> Any:
        return model(x)

    @compile
    @torch.autocast("cpu", torch.bfloat16)
    def low(x: Any) -> Any:
        return model(x)

    @compile
    @counted("step")
    def with_own(x: Any) -> Any:
        with torch.enable_grad():
            return model(x) * entered[0]

    @torch.inference_mode()
    @compile
    def inferred(x: Any) -> Any:
        return model(x) + 1

    def run(n: int) -> Any:
        x = batch(n, SIZES[n], 4)
        results = [function(x) for function in (without, around, low, with_own, inferred)]
        model.zero_grad()
        results[3].sum().backward()
        told = [(result.requires_grad, str(result.dtype), result.is_inference()) for result in results]
        return [result.float().detach().clone() for result in results], told, entered[0]

    return run, watching(model)


@hostile
def copies_of_compiled_functions(compile: Any) -> Any:
    """A compiled method's owner is copied and pickled, calls go to both."""

    class Learner:
        def __init__(self) -> None:
            self.model = network(4, 4, 2)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.history: list[float] = []

        @compile
        def step(self, x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.history.append(loss.item())
            return loss

    learners = [Learner()]

    def run(n: int) -> Any:
        if n in (5, 9):
            learners.append(copy.deepcopy(learners[0]))
        if n == 12:
            learners[0].model.load_state_dict(pickle.loads(pickle.dumps(learners[1].model.state_dict())))
        results = [learner.step(batch(n, 3, 4, seed=k)) for k, learner in enumerate(learners)]
        return results, [learner.history for learner in learners]

    return run, lambda: [watching(learner.model)() for learner in learners]


@hostile
def errors_and_tries_again(compile: Any) -> Any:
    """A step fails in its midst, is called again with the same batch, and goes on; the error is kept with its traceback."""
    model = network(4, 5, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    errors: list[Any] = []
    plan = {"fail": 0}

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        h = model[0](x)
        if plan["fail"] == 1:
            raise OSError("no space left")
        h = model[2](model[1](h))
        if plan["fail"] == 2:
            h = h @ torch.ones(7, 7)
        loss = F.mse_loss(h, y)
        loss.backward()
        try:
            if plan["fail"] == 3:
                raise KeyError("inner")
            optimizer.step()
        finally:
            plan["fail"] = 0
        return loss

    def run(n: int) -> Any:
        plan["fail"] = [0, 0, 0, 1, 2, 0, 3, 0, 1, 0, 2, 3][n % 12]
        x, y = batch(n, SIZES[n], 4), batch(n, SIZES[n], 2)
        for turn in range(3):
            try:
                return step(x, y), turn, [str(error) for error in errors]
            except (OSError, RuntimeError, KeyError) as error:
                errors[:] = [error]
                plan["fail"] = 0

    return run, watching(model, optimizer)


@hostile
def warnings_of_a_step(compile: Any) -> Any:
    """Warnings come as often as they do as it is written, with the program's line."""
    model = network(4, 1)

    @compile
    def step(x: Any, y: Any) -> Any:
        if float(y.sum()) > 0:
            warnings.warn("of the program", UserWarning, stacklevel=1)
        loss = F.mse_loss(model(x), y)
        return loss + F.l1_loss(model(x), y)

    def run(n: int) -> Any:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always" if n % 4 else "default")
            loss = step(batch(n, 3, 4), batch(n, *[(3, 1), (3,)][n // 2 % 2]))
        return loss, [
            (warning.category.__name__, str(warning.message)[:60], warning.filename == __file__) for warning in seen
        ]

    return run, watching(model)


@hostile
def threads_that_learn(compile: Any) -> Any:
    """Each thread has its own model and one compiled function; a lock makes the order certain."""
    models = [network(4, 4, 2) for _ in range(3)]
    lock = threading.Lock()

    @compile
    def step(model: Any, x: Any) -> Any:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        return loss

    def run(n: int) -> Any:
        results: dict[int, Any] = {}

        def work(number: int) -> None:
            for turn in range(2):
                with lock:
                    results[number * 10 + turn] = step(models[number], batch(n, 3, 4, seed=number + 10 * turn)).item()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[key] for key in sorted(results)]

    return run, lambda: [watching(model)() for model in models]


@hostile
def generators_that_are_sent_batches(compile: Any) -> Any:
    """A compiled generator function, and a learner that is a generator around a compiled step."""
    model = network(4, 4)

    @compile
    def layers(x: Any) -> Iterator[Any]:
        for layer in model:
            x = layer(x).tanh()
            yield x

    step = compile(lambda x: model(x).square().mean())

    def learner() -> Iterator[Any]:
        x = yield
        while True:
            model.zero_grad()
            loss = step(x)
            loss.backward()
            x = yield loss

    source = learner()
    next(source)

    def run(n: int) -> Any:
        x = batch(n, SIZES[n], 4)
        return source.send(x), list(layers(x))

    return run, watching(model)


@hostile
def arrays_among_the_arguments(compile: Any) -> Any:
    """NumPy arrays, numbers and texts of NumPy; some are written in place between calls, some within."""
    weight = nn.Parameter(torch.ones(4))
    table = numpy.zeros((3, 4), numpy.float32)
    settings = {"limits": numpy.array([0.0, 1.0]), "order": numpy.array([2, 0, 1])}

    @compile
    def step(x: Any, factor: Any) -> Any:
        h = x[settings["order"]] * weight * factor
        h = h.clamp(float(settings["limits"][0]) - 5, settings["limits"][1] + 5)
        table[0] += 1
        h = h + torch.from_numpy(table) + torch.tensor(settings["limits"].tolist()).sum()
        weight.grad = None
        h.sum().backward()
        return h, h.detach().numpy().sum()

    def run(n: int) -> Any:
        if n % 4 == 3:
            settings["order"][:] = numpy.roll(settings["order"], 1)
        if n % 5 == 4:
            settings["limits"] += 0.5
        h, total = step(batch(n, 3, 4), [1.5, numpy.float32(0.5), numpy.array(2.0), numpy.int32(3)][n // 3 % 4])
        return h, float(total)

    return run, lambda: [weight, table]


@hostile
def constants_of_the_module(compile: Any) -> Any:
    """Defaults that are changed, functions that are replaced on modules and classes, `__call__` of an instance, `exec`."""
    space: dict[str, Any] = {"F": F}
    exec("def act(x, slope=[0.1]):\n    return F.leaky_relu(x, slope[0])\n", space)
    model = network(4, 4)

    class Layer:
        scale = 1.0

        def __call__(self, x: Any) -> Any:
            return x * self.scale

    layer = Layer()

    @compile
    def step(x: Any, *, bias: Any = [0.0]) -> Any:  # noqa: B006 (what is written into it is what is tried)
        bias[0] += 0.5
        return layer(space["act"](model(x))) + bias[0], len(bias)

    def run(n: int) -> Any:
        if n == 5:
            space["act"].__defaults__[0][0] = 0.3
        if n == 7:
            exec("def act(x, slope=[0.1]):\n    return x.tanh() * slope[0]\n", space)
        if n == 9:
            Layer.scale = 3.0
        if n == 11:
            layer.scale = -1.0
        if n == 13:
            Layer.__call__ = lambda self, x: x + self.scale  # type: ignore[method-assign]
        return step(batch(n, 3, 4))

    return run, watching(model)


@hostile
def objects_with_tensors_that_come_and_go(compile: Any) -> Any:
    """A cache object keeps tensors of the call before; entries are dropped, replaced by plain ones, and shared by two caches."""
    model = network(4, 4)

    class Cache:
        def __init__(self) -> None:
            self.rows: list[Any] = []
            self.best: Any = None
            self.by_name: dict[str, Any] = {}

    caches = [Cache(), Cache()]

    @compile
    def step(x: Any, cache: Any) -> Any:
        h = model(x).detach()
        cache.rows.append(h)
        del cache.rows[:-3]
        score = h.sum()
        if cache.best is None or score > cache.best:
            cache.best, cache.by_name["best"] = score, h
        return torch.stack(cache.rows).mean(0) + cache.by_name["best"]

    def run(n: int) -> Any:
        if n == 6:
            caches[1].rows = caches[0].rows
        if n == 9:
            caches[0].best = None
        if n == 11:
            caches[1].by_name["best"] = torch.zeros(3, 4)
        y = step(batch(n, 3, 4), caches[n % 2])
        return y, [[cache.rows, cache.best, dict(cache.by_name)] for cache in caches]

    return run, watching(model)


@hostile
def managers_and_matches(compile: Any) -> Any:
    """Context managers that swallow errors, `finally`, `for ... else`, the walrus, `match`."""
    model, log = network(4, 4), []

    class Guard:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            log.append(None if kind is None else kind.__name__)
            return kind is ValueError

    @compile
    def step(x: Any, command: Any) -> Any:
        h = model(x)
        with Guard():
            h = h.tanh()
            if command == "raise":
                raise ValueError("swallowed")
            h = h * 2
        match command:
            case "twice":
                h = h + h
            case {"scale": scale}:
                h = h * scale
            case [first, *_]:
                h = h - first
        for row in h:
            if (total := row.sum()) > 1.5:
                break
        else:
            total = h.mean()
        return h, total, len(log)

    commands = ["twice", "twice", "twice", {"scale": 2.0}, {"scale": 3.0}, [1, 2], "raise", "raise", "raise", None]
    return lambda n: (step(batch(n, 3, 4), commands[n % 10]), list(log)[-4:]), watching(model)


@hostile
def namespaces_of_results(compile: Any) -> Any:
    """Results within objects of all kinds, some of them the caller's own, some with functions that close over tensors."""
    model = network(4, 4)

    @compile
    def step(x: Any, out: Any) -> Any:
        h = model(x)
        out.append(h)
        return SimpleNamespace(
            h=h, rows=list(h), later=lambda: h * 2, nested=({"h": [h.sum()]}, Pair(h, None), {1, 2}), none=None
        )

    kept: list[Any] = []

    def run(n: int) -> Any:
        model.zero_grad()
        out: list[Any] = []
        result = step(batch(n, SIZES[n], 4), out)
        kept.append(result.later)
        later = kept[-3:][0]()
        (result.h.sum() + result.nested[0]["h"][0] * 0.5 + sum([row.mean() for row in result.rows])).backward()
        return result.h, later.detach(), out[0] is result.h, len(result.rows), result.nested[1]

    return run, watching(model)
