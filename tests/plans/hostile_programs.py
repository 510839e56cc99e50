"""Programs of hostile users: what is legal, and what nobody expects of a step. Each is a function of `compile`, and gives (step, watched) as those of `programs.py`."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from dynograd.utils.checkpoint import checkpoint
from tests.plans.programs import F, batch, network, watching

__all__ = ["HOSTILE"]

HOSTILE: dict[str, Callable[[Any], tuple[Callable[[int], Any], Callable[[], Any]]]] = {}


def hostile(function: Any) -> Any:
    HOSTILE[function.__name__] = function
    return function


def learner(compile: Any, model: Any, *, lr: float = 0.1) -> Any:
    """A step that learns `x -> y` by hand."""

    @compile
    def step(x: Any, y: Any) -> Any:
        model.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= lr * parameter.grad
        return loss

    return step


@hostile
def new_sizes_in_each_call(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)
    return lambda n: step(batch(n, 3 + n * 7 % 31, 4), batch(n, 3 + n * 7 % 31, 2)), watching(model)


@hostile
def new_objects_in_each_call(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(bundle: Any) -> Any:
        return model(bundle.x * bundle.options["scale"]).tanh() + bundle.shift

    def run(n: int) -> Any:
        return step(SimpleNamespace(x=batch(n, 3, 4), options={"scale": 1.0 + n % 3, "n": n}, shift=n % 2))

    return run, watching(model)


@hostile
def new_closures_in_each_call(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(x: Any, activation: Any) -> Any:
        return activation(model(x)).sum()

    def run(n: int) -> Any:
        factor = torch.tensor(1.0 + n)
        loss = step(batch(n, 3, 4), lambda h: (h * factor).tanh() if n % 4 else h.relu() * n)
        loss.backward()
        return loss

    return run, watching(model)


@hostile
def exceptions_half_way(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any, fails: int) -> Any:
        optimizer.zero_grad()
        h = model(x)
        if fails == 1:
            raise ValueError("before backward")
        loss = F.mse_loss(h, y)
        loss.backward()
        if fails == 2:
            raise ValueError(f"behind backward of {loss.item():.3f}")
        optimizer.step()
        if fails == 3:
            raise ValueError("behind the step")
        return loss

    return lambda n: step(batch(n, 3, 4), batch(n, 3, 2), [0, 0, 0, 1, 0, 2, 0, 3][n % 8]), watching(model, optimizer)


@hostile
def errors_of_ops_caught_inside(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(x: Any, y: Any) -> Any:
        h = model(x)
        try:
            h = h @ y
        except RuntimeError as error:
            return h.sum() * len(type(error).__name__)
        return h.sum()

    return lambda n: step(batch(n, 3, 4), batch(n, 3 if n % 3 else 2, 3)), watching(model)


@hostile
def generators_inside(compile: Any) -> Any:
    model = network(4, 4, 4)

    def states(x: Any, count: int) -> Iterator[Any]:
        for _ in range(count):
            x = model(x).tanh()
            received = yield x
            if received is not None:
                x = x + received

    @compile
    def step(x: Any, count: int) -> Any:
        outputs, source = [], states(x, count)
        outputs.append(next(source))
        with contextlib.suppress(StopIteration):
            while True:
                outputs.append(source.send(outputs[-1] * 0.5))
        loss = torch.stack(outputs).square().mean()
        model.zero_grad()
        loss.backward()
        return loss

    return lambda n: step(batch(n, 3, 4), 2 + n % 2), watching(model)


@hostile
def a_generator_that_outlives_its_call(compile: Any) -> Any:
    """The second half of the function runs outside of the call that began it."""
    model = network(4, 4)

    @compile
    def step(x: Any) -> Any:
        h = model(x)

        def rest() -> Iterator[Any]:
            yield h * 2
            yield model(h).tanh()

        source = rest()
        return next(source), source

    def run(n: int) -> Any:
        first, source = step(batch(n, 3, 4))
        second = next(source)
        if n % 3 == 2:
            second.sum().backward()
        return first, second

    return run, watching(model)


@hostile
def coroutines_inside(compile: Any) -> Any:
    model = network(4, 4)

    class Turn:
        def __await__(self) -> Iterator[None]:
            yield

    async def part(x: Any, turns: int) -> Any:
        for _ in range(turns):
            await Turn()
            x = model(x).tanh()
        return x

    def finish(coroutines: list[Any]) -> list[Any]:
        results: dict[int, Any] = {}
        while len(results) < len(coroutines):
            for place, coroutine in enumerate(coroutines):
                if place not in results:
                    try:
                        coroutine.send(None)
                    except StopIteration as stop:
                        results[place] = stop.value
        return [results[place] for place in range(len(coroutines))]

    @compile
    def step(x: Any, turns: int) -> Any:
        loss = sum([value.square().sum() for value in finish([part(x, 2), part(-x, turns)])])
        model.zero_grad()
        loss.backward()
        return loss

    return lambda n: step(batch(n, 3, 4), 1 + n // 4 % 2), watching(model)


@hostile
def a_compiled_coroutine(compile: Any) -> Any:
    model = network(4, 4)

    @compile
    async def step(x: Any) -> Any:
        h = model(x)
        return (h * h).sum()

    def run(n: int) -> Any:
        coroutine = step(batch(n, 3, 4))
        try:
            coroutine.send(None)
        except StopIteration as stop:
            stop.value.backward()
            return stop.value

    return run, watching(model)


@hostile
def recursion_through_itself(compile: Any) -> Any:
    model = network(4, 4)

    @compile
    def step(x: Any, depth: int) -> Any:
        h = model(x).tanh()
        return h if depth == 0 else step(h, depth - 1) + h

    def run(n: int) -> Any:
        model.zero_grad()
        y = step(batch(n, 3, 4), n // 3 % 3)
        y.sum().backward()
        return y

    return run, watching(model)


@hostile
def threads_that_share_it(compile: Any) -> Any:
    """Eight threads call one compiled function, without learning; each compares what it gets with its own call."""
    model = network(4, 5, 2)
    step = compile(lambda x: model(x).softmax(-1))

    def run(n: int) -> Any:
        results: dict[int, Any] = {}

        def work(number: int) -> None:
            for turn in range(3):
                results[number * 10 + turn] = (
                    step(batch(n, 3 + number % 2, 4, seed=number * 10 + turn)).detach().tolist()
                )

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[key] for key in sorted(results)]

    return run, watching(model)


@hostile
def threads_inside(compile: Any) -> Any:
    """The step starts a thread that computes with what the step has made."""
    model = network(4, 4)

    @compile
    def step(x: Any) -> Any:
        h = model(x)
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append((h * 2).tanh()))
        thread.start()
        thread.join()
        return (box[0] + h).sum()

    def run(n: int) -> Any:
        loss = step(batch(n, 3, 4))
        loss.backward()
        return loss

    return run, watching(model)


@hostile
def compiled_functions_in_each_other(compile: Any) -> Any:
    encoder, decoder = network(4, 3), network(3, 4)
    encode, decode = compile(encoder), compile(lambda h, scale: decoder(h) * scale)

    @compile
    def step(x: Any, scale: float) -> Any:
        return F.mse_loss(decode(encode(x), scale), x)

    def run(n: int) -> Any:
        encoder.zero_grad()
        loss = (
            step(batch(n, 3, 4), 1.0 + n % 2)
            if n % 3
            else F.mse_loss(decode(encode(batch(n, 3, 4)), 2.0), batch(n, 3, 4))
        )
        loss.backward()
        return loss

    return run, watching(encoder, decoder)


@hostile
def batched_in_compile_in_checkpoint(compile: Any) -> Any:
    cell, head = nn.Linear(8, 4), nn.Linear(4, 2)

    @torch.batched
    def fold(tree: Any) -> Any:
        return tree if isinstance(tree, torch.Tensor) else cell(torch.cat([fold(tree[0]), fold(tree[1])])).tanh()

    @compile
    def step(words: Any, scale: Any) -> Any:
        trees = [((words[0], words[1]), words[2]), (words[1], (words[0], words[3]))]
        with torch.autobatch():
            return torch.stack([head(fold(tree)) for tree in trees]) * scale

    def run(n: int) -> Any:
        cell.zero_grad()
        words, scale = list(batch(n, 4, 4)), batch(n, 2, 2).requires_grad_()
        out = checkpoint(step, words, scale, use_reentrant=n % 2 == 0)
        out.square().sum().backward()
        return out, scale.grad

    return run, watching(cell, head)


@hostile
def checkpoint_in_compile_in_checkpoint(compile: Any) -> Any:
    first, second = network(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    @compile
    def step(x: Any) -> Any:
        h = checkpoint(second, first(x).tanh(), use_reentrant=False)
        return (h * x).sum()

    def run(n: int) -> Any:
        torch.manual_seed(n)
        x = batch(n, 3, 4).requires_grad_()
        loss = checkpoint(step, x, use_reentrant=False) if n % 2 else step(x)
        loss.backward()
        return loss, x.grad

    return run, watching(first, second)


@hostile
def copies_of_compiled_modules(compile: Any) -> Any:
    model = compile(network(4, 5, 2))
    state = SimpleNamespace(model=model)

    def run(n: int) -> Any:
        if n == 4:
            state.model = copy.deepcopy(state.model)
        if n == 8:
            state.model = pickle.loads(pickle.dumps(state.model))
        if n == 11:
            state.model = copy.copy(state.model)
        y = state.model(batch(n, 3, 4))
        y.sum().backward()
        with torch.no_grad():
            for parameter in state.model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        names = [name.removeprefix("_orig_mod.") for name in state.model.state_dict()]
        return y, names, [parameter.detach().clone() for parameter in model.parameters()]

    return run, lambda: [*state.model.state_dict().values(), *model.state_dict().values()]


@hostile
def states_loaded_between_calls(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)
    states = [copy.deepcopy(model.state_dict())]

    def run(n: int) -> Any:
        if n % 5 == 3:
            model.load_state_dict({key: value * 0.5 + n for key, value in states[0].items()}, assign=n % 2 == 0)
        return step(batch(n, 3, 4), batch(n, 3, 2))

    return run, watching(model)


@hostile
def parameters_exchanged(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    box = [optimizer]

    @compile
    def step(x: Any, y: Any) -> Any:
        box[0].zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        box[0].step()
        return loss

    def run(n: int) -> Any:
        if n % 5 == 4:
            model[0].weight = nn.Parameter(model[0].weight.detach() * 0.5)
            model[2].bias = None if n == 9 else nn.Parameter(torch.full((2,), 0.25 * n))
            box[0] = (torch.optim.SGD if n == 9 else torch.optim.AdamW)(model.parameters(), lr=0.05)
        return step(batch(n, 3, 4), batch(n, 3, 2))

    return run, lambda: watching(model, box[0])()


@hostile
def layers_exchanged(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    compiled = compile(model)

    def run(n: int) -> Any:
        if n == 4:
            model[1] = nn.Tanh()
        if n == 7:
            model[2] = nn.Linear(4, 3)
        if n == 10:
            model.append(nn.Softmax(-1))
        if n == 13:
            model[0].forward = lambda x: x * 2
        model.zero_grad()
        y = compiled(batch(n, 3, 4))
        y.square().sum().backward()
        return y

    return run, watching(model)


@hostile
def flags_of_gradients_flip(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)

    def run(n: int) -> Any:
        if n % 3 == 2:
            model[0].weight.requires_grad_(n % 2 == 0)
        if n % 4 == 3:
            model[2].requires_grad_(n % 8 != 3)
        x = batch(n, 3, 4).requires_grad_(n % 5 == 4)
        return step(x, batch(n, 3, 2)), x.grad

    return run, watching(model)


@hostile
def dtypes_change(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16]

    def run(n: int) -> Any:
        dtype = dtypes[n // 3 % 4]
        model.to(dtype)
        return step(batch(n, 3, 4).to(dtype), batch(n, 3, 2).to(dtype))

    return run, watching(model)


@hostile
def hooks_come_and_go(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)
    handles: list[Any] = []
    counts = [0]

    def count(*_: Any) -> None:
        counts[0] += 1

    def run(n: int) -> Any:
        hooks = {
            3: lambda: model[0].register_forward_hook(lambda module, args, out: out * 2),
            5: lambda: model[0].weight.register_hook(lambda g: g * 3),
            7: lambda: model.register_full_backward_hook(count),
            9: lambda: model[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
            11: lambda: model[2].bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2)),
        }
        if n in hooks:
            handles.append(hooks[n]())
        if n % 2 == 0 and handles and n % 4 == 0:
            handles.pop(0).remove()
        return step(batch(n, 3, 4), batch(n, 3, 2)), counts[0]

    return run, watching(model)


@hostile
def seeds_inside(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    @compile
    def step(x: Any, seed: int) -> Any:
        before = torch.rand(2)
        torch.manual_seed(seed)
        noise = torch.randn(3, 4)
        h = model(x + noise)
        state = torch.get_rng_state()
        again = torch.rand(3)
        torch.set_rng_state(state)
        return h, before, again, torch.rand(3), torch.randperm(5)

    return lambda n: (step(batch(n, 3, 4), n // 3), torch.rand(1)), watching(model)


@hostile
def default_dtype_changes(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        return x * torch.full((4,), 0.1), torch.zeros(2) + 0.1, torch.arange(3) / 3, torch.tensor([0.1, 0.2]) * 2

    def run(n: int) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if n % 4 == 3 else torch.float32)
        try:
            return step(batch(n, 3, 4))
        finally:
            torch.set_default_dtype(before)

    return run, watching()


FACTOR = 2.0
LAYERS: list[Any] = []


@hostile
def globals_and_closures_change(compile: Any) -> Any:
    global FACTOR
    FACTOR = 2.0
    model, scale, table = network(4, 4), 1.0, {"bias": torch.zeros(4)}

    def shifted(x: Any, shift: Any = [0.5]) -> Any:  # noqa: B006 (a default that is written is what is tried)
        return x + shift[0]

    @compile
    def step(x: Any) -> Any:
        h = model(x) * FACTOR * scale + table["bias"]
        for layer in LAYERS:
            h = layer(h)
        return shifted(h)

    def run(n: int) -> Any:
        nonlocal scale
        global FACTOR
        if n % 6 == 3:
            FACTOR = 2.0 + n
        if n % 6 == 4:
            scale = 1.0 / n
        if n % 6 == 5:
            table["bias"] = torch.full((4,), float(n))
            shifted.__defaults__[0][0] = n
        LAYERS[:] = [torch.tanh, torch.sigmoid][: 1 + (n >= 8)]
        if n == 11:
            shifted.__code__ = (lambda x, shift: x * 2).__code__
        return step(batch(n, 3, 4))

    return run, watching(model)


@hostile
def arrays_written_in_place(compile: Any) -> Any:
    array = numpy.zeros((3, 4), numpy.float32)
    shared = torch.from_numpy(array)
    model = network(4, 4)

    @compile
    def step(values: Any, tensor: Any) -> Any:
        return model(torch.from_numpy(values)) + tensor.sum() + torch.tensor(values), torch.as_tensor(values) * 2

    def run(n: int) -> Any:
        array[...] = batch(n, 3, 4).numpy()
        result = step(array, shared)
        before = [value.detach().clone() for value in result]
        array[n % 3] = 7
        return before, result[0]

    return run, watching(model, shared)


@hostile
def views_that_overlap(compile: Any) -> Any:
    series = batch(0, 40)

    @compile
    def step(first: Any, second: Any) -> Any:
        second += 1
        total = (first * second).sum()
        first *= 0.5
        return total, first + second

    def run(n: int) -> Any:
        start, distance = n % 5, [4, 0, 2, 8, 10][n // 3 % 5]
        return step(series[start : start + 8], series[start + distance : start + distance + 8])

    return run, watching(series)


@hostile
def one_tensor_twice(compile: Any) -> Any:
    @compile
    def step(x: Any, y: Any) -> Any:
        z = x * 2 + y
        y.mul_(0.5)
        return z.sum() + x.sum(), x

    def run(n: int) -> Any:
        x = batch(n, 3, 4)
        other = batch(n, 3, 4, seed=1)
        return *step(x, [x, other, x.view(3, 4), x.detach(), x.T.T][n // 2 % 5]), x, other

    return run, watching()


@hostile
def one_leaf_twice(compile: Any) -> Any:
    @compile
    def step(x: Any, y: Any) -> Any:
        loss = (x * y.tanh()).sum()
        loss.backward()
        return loss

    def run(n: int) -> Any:
        x, y = batch(n, 3, 4).requires_grad_(), batch(n, 3, 4, seed=1).requires_grad_()
        loss = step(x, x if n // 3 % 2 else y)
        return loss, x.grad, y.grad

    return run, watching()


@hostile
def results_written_by_the_caller(compile: Any) -> Any:
    model = network(4, 5, 2)
    kept: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        h = model(x)
        return h, h.detach(), h.T, x

    def run(n: int) -> Any:
        h, detached, turned, x = step(batch(n, 3, 4))
        kept.append((h, detached, turned))
        if n % 4 == 1:
            detached.mul_(2)
        if n % 4 == 2:
            with torch.no_grad():
                turned += 1
            x.zero_()
        if n % 4 == 3:
            detached.numpy()[...] = n
        return [list(values) for values in kept[-3:]], x

    return run, watching(model)


@hostile
def inputs_written_before_backward(compile: Any) -> Any:
    """Backward needs an input that the caller has written meanwhile."""
    model = network(4, 5, 2)
    compiled = compile(model)

    def run(n: int) -> Any:
        model.zero_grad()
        x = batch(n, 3, 4)
        y = compiled(x).square().sum()
        if n % 4 == 3:
            x.add_(1)
        try:
            y.backward()
        except RuntimeError:
            model.zero_grad()  # the last layers have their gradients already as it is written
            raise
        return y

    return run, watching(model)


@hostile
def results_held_for_long(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)
    kept: list[Any] = []

    def run(n: int) -> Any:
        for turn in range(12):
            kept.append(step(batch(12 * n + turn, 3, 4), batch(n, 3, 2)))
        return kept[:: 1 + n]

    return run, watching(model)


@hostile
def warnings_are_errors(compile: Any) -> Any:
    model = network(4, 1)

    @compile
    def step(x: Any, y: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            h = model(x)
            return F.mse_loss(h, y)  # warns where the shapes differ

    return lambda n: step(batch(n, 3, 4), batch(n, *([3, 1] if n % 4 else [3]))), watching(model)


@hostile
def traced_by_a_debugger(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = learner(compile, model)

    def run(n: int) -> Any:
        lines = [0]

        def trace(frame: Any, event: str, arg: Any) -> Any:
            lines[0] += 1
            return trace

        before = sys.gettrace()
        if n % 3:
            sys.settrace(trace)
        try:
            return step(batch(n, 3, 4), batch(n, 3, 2))
        finally:
            sys.settrace(before)

    return run, watching(model)


class Interrupts:
    """Raises at the n-th time that it is asked."""

    def __init__(self) -> None:
        self.left, self.error = -1, KeyboardInterrupt

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


@hostile
def interrupts_inside(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    interrupts = Interrupts()

    @compile
    def step(x: Any, y: Any) -> Any:
        interrupts()
        optimizer.zero_grad()
        interrupts()
        loss = F.mse_loss(model(x), y)
        interrupts()
        loss.backward()
        interrupts()
        optimizer.step()
        interrupts()
        return loss

    def run(n: int) -> Any:
        interrupts.left, interrupts.error = (
            (n // 2 % 5 + 1, [KeyboardInterrupt, MemoryError, SystemExit, GeneratorExit][n // 2 % 4])
            if n % 2
            else (-1, KeyboardInterrupt)
        )
        try:
            return step(batch(n, 3, 4), batch(n, 3, 2))
        except BaseException as error:
            return type(error).__name__

    return run, watching(model, optimizer)


class Labelled(torch.Tensor):
    """A subclass without a method of its own."""


class Counting(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Counting.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@hostile
def subclasses_as_arguments(compile: Any) -> Any:
    model = network(4, 5, 2)
    Counting.calls = 0

    @compile
    def step(x: Any) -> Any:
        y = model(x) * 2
        return y, type(y).__name__, (x + 1)

    def run(n: int) -> Any:
        x = batch(n, 3, 4)
        Counting.calls = 0
        y, name, z = step([x, x, x.as_subclass(Labelled), x.as_subclass(Counting), nn.Parameter(x)][n % 5])
        return y.as_subclass(torch.Tensor), name, type(z).__name__, z.as_subclass(torch.Tensor), Counting.calls

    return run, watching(model)


@hostile
def empty_batches(compile: Any) -> Any:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        optimizer.step()
        return loss, x.mean(), model(x).argmax(1)

    sizes = [3, 3, 0, 0, 3, 1, 1, 0, 5, 7, 2, 0, 1, 4, 6, 0]
    return lambda n: step(batch(n, sizes[n % 16], 4), batch(n, sizes[n % 16], classes=2)), watching(model, optimizer)


def _equal_by_chance(*pairs: tuple[int, int]) -> Callable[[int], tuple[int, int]]:
    return lambda n: pairs[n % len(pairs)]


CHANCES = {
    "equal_at_first": [(5, 5), (5, 5), (7, 7), (9, 9), (6, 6), (8, 8), (6, 8), (8, 6), (5, 9), (9, 5), (7, 7), (5, 7)],
    "ones_at_first": [(1, 1), (1, 1), (1, 4), (4, 1), (4, 4), (1, 5), (5, 1), (5, 5), (6, 4), (2, 3), (1, 3), (3, 1)],
    "twos": [(2, 2), (2, 2), (1, 2), (2, 1), (2, 4), (4, 2), (3, 2), (2, 3), (3, 3), (1, 1), (6, 2), (2, 6)],
    "as_constants": [(3, 4), (3, 4), (4, 3), (5, 4), (4, 5), (3, 3), (4, 4), (6, 3), (3, 6), (5, 5), (2, 4), (6, 5)],
    "doubled": [(4, 8), (4, 8), (5, 10), (6, 12), (7, 14), (8, 16), (5, 9), (6, 11), (7, 8), (8, 15), (4, 16), (5, 8)],
}


def _program_of_two_sizes(pairs: list[tuple[int, int]], learns: bool) -> Any:
    def two_sizes(compile: Any) -> Any:
        model, wide = nn.Linear(4, 3), nn.Linear(3, 4)

        @compile
        def step(x: Any, y: Any) -> Any:
            h, k = model(x), wide(model(y))
            scores = h @ model(y).T
            parts = [
                scores.softmax(-1) @ y,
                k.sum(0),
                scores.reshape(-1)[: len(x)],
                torch.cat([h, model(y)]).cumsum(0),
                x.new_zeros(len(y), 3) + len(x),
                scores.mean() * len(y) / len(x),
                h[:, None] - h[None],
                scores.T.flatten().view(len(y), len(x)).sum(1),
                torch.arange(len(x)) * len(y),
            ]
            if learns:
                sum([part.sum() for part in parts[:-1]], torch.zeros(())).backward()
            return parts

        sizes = _equal_by_chance(*pairs)

        def run(n: int) -> Any:
            model.zero_grad()
            wide.zero_grad()
            rows, columns = sizes(n)
            return step(batch(n, rows, 4), batch(n, columns, 4, seed=1))

        return run, watching(model, wide)

    return two_sizes


for _name, _pairs in CHANCES.items():
    HOSTILE[f"two_sizes_{_name}"] = _program_of_two_sizes(_pairs, False)
    HOSTILE[f"two_sizes_{_name}_learning"] = _program_of_two_sizes(_pairs, True)


@hostile
def broadcast_by_size(compile: Any) -> Any:
    """Rows that are one broadcast, others do not."""

    @compile
    def step(x: Any, y: Any, w: Any) -> Any:
        z = x * w + y
        loss = z.square().mean() + (x.sum(0) * y).sum()
        loss.backward()
        return z, loss

    sizes = [
        (3, 3),
        (3, 3),
        (3, 1),
        (1, 3),
        (1, 1),
        (4, 4),
        (4, 1),
        (1, 4),
        (5, 5),
        (5, 1),
        (1, 5),
        (6, 6),
        (1, 6),
        (2, 2),
        (2, 1),
        (7, 7),
    ]

    def run(n: int) -> Any:
        rows, others = sizes[n % 16]
        leaves = [
            batch(n, rows, 4).requires_grad_(),
            batch(n, others, 4).requires_grad_(),
            batch(n, 1, 4).requires_grad_(),
        ]
        return step(*leaves), [leaf.grad for leaf in leaves]

    return run, watching()


@hostile
def dies_with_its_caller(compile: Any) -> Any:
    """What a step gave is let go while its graph lives, and the other way round; the collector runs between."""
    model = network(4, 5, 2)
    step = compile(lambda x: model(x).tanh())
    graphs: list[Any] = []

    def run(n: int) -> Any:
        model.zero_grad()
        y = step(batch(n, 3, 4))
        alive = weakref.ref(y)
        graphs.append(y.sum())
        del y
        gc.collect()
        if len(graphs) > 2:
            graphs.pop(0).backward()
        return alive() is None

    return run, watching(model)


@hostile
def the_order_of_backward(compile: Any) -> Any:
    model = network(4, 5, 2)
    step = compile(lambda x: model(x).square().mean())

    def run(n: int) -> Any:
        model.zero_grad()
        losses = [step(batch(n, 3, 4, seed=seed)) for seed in range(3)]
        if n % 3 == 0:
            losses.reverse()
        for loss in losses:
            loss.backward(retain_graph=n % 4 == 1)
            if n % 4 == 1:
                loss.backward()
        return losses

    return run, watching(model)


@hostile
def gradients_kept_and_written(compile: Any) -> Any:
    model = network(4, 5, 2)
    kept: list[Any] = []

    @compile
    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    def run(n: int) -> Any:
        if n % 3 == 0:
            kept.extend([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
            model.zero_grad(set_to_none=n % 2 == 0)
        if n % 5 == 4:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(0.5)
        if n % 7 == 6:
            model[0].weight.grad = torch.ones(5, 4)
        return step(batch(n, 3, 4)), kept[-4:]

    return run, watching(model)


@dataclasses.dataclass
class State:
    h: Any
    steps: int = 0


@hostile
def states_in_dataclasses(compile: Any) -> Any:
    model = network(4, 4)
    state = State(torch.zeros(3, 4))

    @compile
    def step(x: Any, state: State) -> State:
        state.steps += 1
        state.h = (model(x) + state.h).tanh()
        return dataclasses.replace(state)

    def run(n: int) -> Any:
        if n % 5 == 4:
            state.h = torch.ones(3, 4) * n
        else:
            state.h = state.h.detach()
        return step(batch(n, 3, 4), state)

    return run, watching(model)


@hostile
def other_strides(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(x: Any) -> Any:
        return model(x), x.reshape(-1) * 2, x.is_contiguous(), x.stride(), x.view(x.shape).sum(0)

    def run(n: int) -> Any:
        whole = batch(n, 8, 8)
        ways = [
            whole[:4, :4].contiguous(),
            whole[:4, :4],
            whole[::2, ::2],
            whole[:4, :4].T,
            whole[0, :4].expand(4, 4),
            whole.flip(0)[:4, 4:],
        ]
        return step(ways[n // 2 % 6])

    return run, watching(model)


@hostile
def special_values(compile: Any) -> Any:
    """What is infinite, not a number, denormal or a negative zero."""

    @compile
    def step(x: Any, y: Any) -> Any:
        z = (x * y).softmax(-1) + x.relu() / y
        z.nansum().backward()
        return z, x.max(1).values, x.argmax(1), torch.minimum(x, y), x.sort(1).values, x.clamp(-1, 1), x.sign()

    def run(n: int) -> Any:
        x, y = batch(n, 3, 4), batch(n, 3, 4, seed=1)
        with contextlib.suppress(IndexError):
            x[n % 3, n % 4] = [float("nan"), float("inf"), -float("inf"), -0.0, 1e-42, 3e38][n % 6]
            y[n % 2, n % 3] = [0.0, -0.0, float("inf"), 1e-45, float("nan")][n % 5]
        leaves = x.requires_grad_(), y.requires_grad_()
        return step(*leaves), x.grad, y.grad

    return run, watching()


@hostile
def numbers_of_all_kinds(compile: Any) -> Any:
    values = [
        1,
        1.0,
        True,
        numpy.float32(1),
        numpy.float64(1),
        numpy.int64(1),
        torch.tensor(1),
        torch.tensor(1.0),
        1 + 0j,
        False,
        0,
        -0.0,
        numpy.bool_(True),
        2**40,
        1e-30,
        -1,
    ]

    @compile
    def step(x: Any, count: Any, number: Any) -> Any:
        return x * number, count + number, x + number, number * x

    def run(n: int) -> Any:
        return step(batch(n, 3), torch.arange(3), values[n % 16])

    return run, watching()


@hostile
def grad_modes_around(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(x: Any, inner: bool) -> Any:
        h = model[0](x)
        with torch.set_grad_enabled(inner):
            h = model[1](h)
        return model[2](h), torch.is_grad_enabled()

    def run(n: int) -> Any:
        model.zero_grad()
        around = [torch.enable_grad(), torch.no_grad(), torch.inference_mode(), torch.enable_grad()][n % 4]
        with around:
            y, enabled = step(batch(n, 3, 4), n // 4 % 2 == 0)
        if y.requires_grad:
            y.sum().backward()
        return y.detach().clone(), enabled, y.requires_grad, y.is_inference()

    return run, watching(model)


@hostile
def autocast_around(compile: Any) -> Any:
    model = network(4, 5, 2)

    @compile
    def step(x: Any) -> Any:
        return model(x)

    def run(n: int) -> Any:
        model.zero_grad()
        with torch.autocast("cpu", dtype=[torch.bfloat16, torch.float16][n // 3 % 2], enabled=n % 3 > 0):
            y = step(batch(n, 3, 4))
            loss = y.float().square().mean()
        loss.backward()
        return y, loss

    return run, watching(model)


@hostile
def patched_functions(compile: Any) -> Any:
    model = network(4, 4)
    original = F.relu

    @compile
    def step(x: Any) -> Any:
        return F.relu(model(x)).sum()

    def run(n: int) -> Any:
        F.relu = (lambda x, inplace=False: original(x) * 3) if n % 4 == 3 else original
        try:
            return step(batch(n, 3, 4))
        finally:
            F.relu = original

    return run, watching(model)


@hostile
def values_decide(compile: Any) -> Any:
    model = network(4, 4)

    @compile
    def step(x: Any) -> Any:
        h = model(x)
        count = int((h > 0).sum())
        for _ in range(count % 4):
            h = h.tanh()
        top = h[h.argmax() // 4]
        return h[: count % 3 + 1].sum(0) + top * count, count, f"{h.sum().item():.3f}", h.tolist()[0]

    return lambda n: step(batch(n, 3, 4)), watching(model)


@hostile
def iterators_used_up(compile: Any) -> Any:
    """Its batches come from an iterator that it owns, which ends."""
    model = network(4, 2)
    source: list[Any] = [iter([])]

    @compile
    def step() -> Any:
        x = next(source[0])
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    def run(n: int) -> Any:
        if n % 6 == 0:
            source[0] = iter([batch(n + k, 3 + k % 2, 4) for k in range(5)])
        try:
            return step()
        except StopIteration:
            return "over"

    return run, watching(model)


@hostile
def properties_that_compute(compile: Any) -> Any:
    """Attributes with effects, descriptors, `__getattr__`, and a class whose `__call__` is compiled."""

    class Model:
        def __init__(self) -> None:
            self.layer, self.reads = network(4, 4), 0

        @property
        def scale(self) -> float:
            self.reads += 1
            return 1.0 + self.reads % 3

        def __getattr__(self, name: str) -> Any:
            if name == "extra":
                return self.reads
            raise AttributeError(name)

        @compile
        def __call__(self, x: Any) -> Any:
            return self.layer(x) * self.scale + self.extra

    model = Model()
    return lambda n: (model(batch(n, 3, 4)), model.reads), watching(model.layer)


@hostile
def effects_outside(compile: Any) -> Any:
    """Lists that grow, dicts that are filled, counters, a text that is printed into."""
    model, log, cache = network(4, 4), [], {}

    @compile
    def step(x: Any, key: int) -> Any:
        log.append(len(log))
        if key not in cache:
            cache[key] = model(x).detach()
        log.append(cache[key].sum())
        return cache[key] * len(log)

    return lambda n: (step(batch(n, 3, 4), n % 5), len(log), log[-1], len(cache)), watching(model)


@hostile
def buffers_registered_late(compile: Any) -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.last = None

        def forward(self, x: Any) -> Any:
            self.calls += 1
            if self.last is None or self.last.shape != x.shape:
                self.last = torch.zeros_like(x)
            y = self.layer(x) + self.last * 0.5 + self.calls
            self.last = y.detach()
            return y

    model = Model()
    compiled = compile(model)

    def run(n: int) -> Any:
        model.zero_grad()
        y = compiled(batch(n, 3 if n < 9 else 5, 4))
        y.sum().backward()
        return y, model.last, model.calls.item()

    return run, watching(model)


@hostile
def double_use_of_one_optimizer(compile: Any) -> Any:
    model = network(4, 5, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    @compile
    def step(x: Any, times: int) -> Any:
        losses = []
        for _ in range(times):
            optimizer.zero_grad()
            losses.append(model(x).square().mean())
            losses[-1].backward()
            optimizer.step()
        scheduler.step()
        return losses

    def run(n: int) -> Any:
        if n == 5:
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.5})
        if n == 8:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        if n == 10:
            optimizer.param_groups[0]["weight_decay"] = 0.1
        if n == 12:
            optimizer.state.clear()
        return step(batch(n, 3, 4), 1 + n // 4 % 2)

    return run, watching(model, optimizer)


@hostile
def inner_functions_of_derivatives(compile: Any) -> Any:
    model = network(3, 3)

    @compile
    def step(x: Any) -> Any:
        return model(x).tanh().sum()

    def run(n: int) -> Any:
        x = batch(n, 3)
        if n % 4 == 1:
            return torch.func.grad(step)(x)
        if n % 4 == 2:
            return torch.func.vmap(step)(batch(n, 2, 3))
        if n % 4 == 3:
            return torch.func.hessian(step)(x)
        return step(x)

    return run, watching(model)


@hostile
def patched_layers(compile: Any) -> Any:
    model = network(4, 4)
    original = nn.Linear.forward

    @compile
    def step(x: Any) -> Any:
        return nn.functional.relu(model(x)).sum()

    def run(n: int) -> Any:
        nn.Linear.forward = (lambda self, x: original(self, x) * 3) if n % 4 == 3 else original  # type: ignore[method-assign]
        try:
            return step(batch(n, 3, 4))
        finally:
            nn.Linear.forward = original  # type: ignore[method-assign]

    return run, watching(model)


@hostile
def histories_over_an_optimizers_step(compile: Any) -> Any:
    """What was computed before the step is differentiated behind it, is dropped, and only then the program goes another way."""
    model, other = network(4, 4), network(4, 4)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)

    @compile
    def step(x: Any, goes_on: bool) -> Any:
        model.zero_grad()
        h = model(x).tanh()
        optimizer.zero_grad()
        other(x).sum().backward()
        optimizer.step()
        y = h.sin().sum()
        if goes_on:
            del h
        y.backward()
        return (y.sin(), y.grad_fn is None) if goes_on else y

    return lambda n: step(batch(n, 3, 4), n % 3 == 2), watching(model, other)


@hostile
def histories_with_weights_of_before(compile: Any) -> Any:
    """What a step gives was computed with weights that its optimizer wrote behind it, and is differentiated outside."""
    weight = nn.Parameter(torch.rand(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    @compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        shares = weight.softmax(0)
        optimizer.step()
        return shares

    def run(n: int) -> Any:
        shares = step(batch(n, 4))
        weight.grad = None
        (shares * batch(n, 4, seed=1)).sum().backward()
        return shares, weight.grad

    return run, watching(weight)


@hostile
def results_with_histories_apart(compile: Any) -> Any:
    """Of two results one cannot be differentiated any more, since the optimizer has written its weights; the other can."""
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh())
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adagrad([weight, *model.parameters()], lr=0.05)

    @compile
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.step()
        return model(x), loss, (weight - 1).softmax(0)

    def run(n: int) -> Any:
        results = step(batch(n, 5, 4), batch(n, 5, classes=4))
        results[-1].sum().backward()
        return results

    return run, watching(model, weight)


@hostile
def versions_of_views(compile: Any) -> Any:
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @compile
    def step(x: Any) -> Any:
        views = [weight.unbind()[1], weight[1:], weight.view(2, 2), x[0]]
        versions = [view._version for view in views]
        optimizer.zero_grad()
        sum([view.sum() for view in views], x.sum()).backward()
        optimizer.step()
        return [after - before for after, before in zip([view._version for view in views], versions)], versions

    return lambda n: step(batch(n, 3, 4)), watching(weight)
