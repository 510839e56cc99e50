"""Compiled steps on a GPU give what they give as they are written: results, parameters, statistics, random numbers, what a caller keeps."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import triton
import triton.language as tl

import dynograd as torch
from dynograd import nn
from dynograd.cuda import driver
from dynograd.nn import functional as F
from dynograd.plans.compiling import Compiled
from dynograd.plans.gpu import loops, pieces
from tests.gpu.compiled_twins import batch, check_same, compiling, mlp, plain, run_twins
from tests.plans.test_writes_into_gradients import OTHERS as OTHER_GRADIENTS
from tests.plans.test_writes_into_gradients import WALKED as GRADIENTS
from tests.plans.test_writes_into_gradients import after

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enters a program: given what compiles, a function of the step's number, and what is watched."""
    PROGRAMS[make.__name__] = make
    return make


def trained(model: nn.Module, optimizer: Any, compile: Any, read: bool = False, after: Any = None) -> Any:
    """A program that trains."""

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        told = loss.item() if read else 0.0
        loss.backward()
        optimizer.step()
        return loss, told

    def run(n: int) -> Any:
        result = step(batch(n, 4, 6), batch(n, 4, classes=3))
        if after is not None:
            after(n)
        return result

    return run, lambda: [*model.state_dict().values(), optimizer.state_dict()["state"]]


@program
def gradient_descent(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), compile)


def of_gradients(text: str) -> Callable[[Any], Any]:
    """A program that changes the gradients behind a backward pass, or the parameters, by hand."""

    def make(compile: Any) -> Any:
        model, change = mlp(), after(text)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @compile
        def step(x: Any, y: Any, n: int) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            gradient = change(model, x, y, n, optimizer)
            optimizer.step()
            return loss, gradient

        kept = change.__globals__["kept"]
        return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3), n), lambda: [*model.state_dict().values(), kept]

    return make


@program
def inputs_that_share_memory(compile: Any) -> Any:
    """One lies within the other where the step is recorded, and elsewhere later."""
    model = mlp()

    @compile
    def step(x: Any, y: Any) -> Any:
        model.zero_grad()
        loss = model(x).square().sum() - 2 * model(y).sum()
        loss.backward()
        return loss

    def run(n: int) -> Any:
        x = batch(n, 8, 6)
        return step(x, x[2:6] if n < 3 else batch(50 + n, 4, 6))

    return run, lambda: [parameter.grad for parameter in model.parameters()]


@program
def value_read_before_backward(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.AdamW(model.parameters(), lr=0.1), compile, read=True)


@program
def steps_counted_on_the_device(compile: Any) -> Any:
    model = mlp()
    return trained(model, torch.optim.Adam(model.parameters(), lr=0.1, fused=True), compile)


@program
def learning_rate_of_a_scheduler(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    return trained(model, optimizer, compile, after=lambda n: scheduler.step())


@program
def dropout(compile: Any) -> Any:
    model = mlp(nn.Dropout(0.4))
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), compile)


@program
def dropout_of_whole_features(compile: Any) -> Any:
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Dropout1d(0.5), nn.Flatten(), nn.Linear(6, 3)).to("cuda")

    @compile
    def forward(x: Any) -> Any:
        return model(x)

    def step(n: int) -> Any:
        loss = forward(batch(n, 4, 2, 3)).square().sum()
        model.zero_grad()
        loss.backward()
        return loss.detach()

    return step, lambda: [p.grad for p in model.parameters()]


@program
def running_statistics(compile: Any) -> Any:
    model = mlp(nn.BatchNorm1d(8))
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1), compile)


@program
def clipped_gradients(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return norm

    return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3)), lambda: list(model.parameters())


@program
def gradients_of_two_batches(compile: Any) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def add(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    def step(n: int) -> Any:
        optimizer.zero_grad()
        losses = [add(batch(2 * n + k, 4, 6), batch(2 * n + k, 4, classes=3)) for k in range(2)]
        optimizer.step()
        return losses

    return step, lambda: [p.grad for p in model.parameters()] + list(model.parameters())


@program
def gradients_of_the_step_before(compile: Any) -> Any:
    """They are there until they are cleared, although a part of the next step has been computed."""
    model = mlp(nn.Tanh(), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        told = [loss.item()]
        told += [p.grad.tolist() for p in model.parameters() if p.grad is not None]
        optimizer.zero_grad()
        loss.backward()
        return loss.detach(), told

    return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3)), list


@program
def attention(compile: Any) -> Any:
    embed, layer = nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(embed, layer, nn.Linear(8, 11)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @compile
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return lambda n: step(batch(n, 2, 5, classes=11)), lambda: list(model.parameters())


@program
def module_differentiated_outside(compile: Any) -> Any:
    model = mlp(nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = compile(lambda x: model(x))

    def step(n: int) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(batch(n, 4, 6)), batch(n, 4, classes=3))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [p.grad for p in model.parameters()] + list(model.parameters())


@program
def lengths_that_change(compile: Any) -> Any:
    model = mlp()

    @compile
    def forward(x: Any) -> Any:
        with torch.no_grad():
            return model(x).softmax(-1).sum(0)

    return lambda n: forward(batch(n, 3 + n % 2, 6)), list


@program
def views_that_are_kept(compile: Any) -> Any:
    weight = batch(0, 4, 6)

    @compile
    def step(x: Any) -> Any:
        y = torch.tanh(x * weight)
        return y, y[1:], y.T, x.view(-1), weight[0], y.sum()

    return lambda n: step(batch(n, 4, 6)), lambda: weight


@program
def written_in_place(compile: Any) -> Any:
    counter = torch.zeros(3, device="cuda")

    @compile
    def step(x: Any) -> Any:
        y = x * 2
        y += 1
        y[:, 0] = 0.5
        y.relu_()
        counter.add_(y.sum(0)[:3])
        return y * counter.sum()

    return lambda n: step(batch(n, 4, 6)), lambda: counter


def with_statistics(step_of: Callable[[Any, Any, Any, int], Any], after: Any = None) -> Callable[[Any], Any]:
    """A program that trains a model with batch norm; `step_of(model, x, loss, n)` does something more in the step."""

    def make(compile: Any) -> Any:
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x: Any, y: Any, n: int) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            told = step_of(model, x, loss, n)
            loss.backward()
            optimizer.step()
            return loss.detach(), told

        def run(n: int) -> Any:
            try:
                result = step(batch(n, 4, 6), batch(n, 4, classes=3), n if n == 5 else 0)
            except ValueError as error:
                return str(error)
            if after is not None:
                after(model, n)
            return result

        return run, lambda: list(model.state_dict().values())

    return make


def _raises(model: Any, x: Any, loss: Any, n: int) -> Any:
    if n:
        raise ValueError("five")


WITH_STATISTICS: dict[str, Any] = {
    "read": lambda model, x, loss, n: model[1].running_mean.tolist(),
    "counted": lambda model, x, loss, n: int(model[1].num_batches_tracked),
    "by_another_op": lambda model, x, loss, n: (model[1].running_mean * 2).sum().item(),
    "copied": lambda model, x, loss, n: copy.deepcopy(model).state_dict(),
    "twice": lambda model, x, loss, n: model(x * 2).detach(),
    "evaluated": lambda model, x, loss, n: (model.eval()(x).detach(), model.train())[0],
    "left_before": lambda model, x, loss, n: loss.exp().detach() if n else loss.sin().detach(),
    "left_behind": lambda model, x, loss, n: loss.exp().detach() if loss.item() < 0 or n else loss.sin().detach(),
    "reset": lambda model, x, loss, n: model[1].reset_running_stats(),
    "raised": _raises,
    "assigned": lambda model, x, loss, n: setattr(model[1], "running_mean", model[1].running_mean.clone()) if n else 0,
    "part": lambda model, x, loss, n: model[1].running_mean[2:].add_(1).sum().item(),
    "moved_on": lambda model, x, loss, n: len(model[1].running_mean.mul_(0.5).add_(loss.detach())),
}
for _name, _step_of in WITH_STATISTICS.items():
    PROGRAMS[f"statistics_{_name}"] = with_statistics(_step_of)
PROGRAMS["statistics_between"] = with_statistics(
    lambda model, x, loss, n: None,
    lambda model, n: model[1].running_mean.mul_(0.5) if n % 2 else model[1].reset_running_stats(),
)


@program
def module_with_statistics_differentiated_outside(compile: Any) -> Any:
    model = mlp(nn.BatchNorm1d(8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = compile(lambda x: model(x))

    def step(n: int) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(batch(n, 4, 6)), batch(n, 4, classes=3))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: [p.grad for p in model.parameters()] + list(model.state_dict().values())


@program
def module_that_reads_its_statistics_differentiated_outside(compile: Any) -> Any:
    layer, average = nn.Linear(6, 3).cuda(), torch.zeros(3, device="cuda")

    @compile
    def forward(x: Any) -> Any:
        h = layer(x)
        with torch.no_grad():
            average.copy_(average * 0.9 + h.mean(0) * 0.1)
        return (h - average).tanh()

    def step(n: int) -> Any:
        layer.zero_grad()
        loss = forward(batch(n, 4, 6)).square().sum()
        loss.backward()
        return loss.detach()

    return step, lambda: [average, *[p.grad for p in layer.parameters()]]


@program
def averaged_weights(compile: Any) -> Any:
    model = mlp()
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for kept, p in zip(average.parameters(), model.parameters()):
                kept.mul_(0.9).add_(p, alpha=0.1)
        return loss.detach()

    return lambda n: step(batch(n, 4, 6), batch(n, 4, classes=3)), lambda: [*average.parameters(), *model.parameters()]


@program
def decisions(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        y = x.exp() if x.sum() > 0 else x.sin()
        return y.mean() if y.max() > 2 else y.sum()

    return lambda n: step(batch(n, 4, 6)), list


@program
def data_from_the_host(compile: Any) -> Any:
    model = mlp()

    @compile
    def step(x: Any) -> Any:
        scaled = (x * 2 + 1).to("cuda")
        y = model(scaled).detach()
        return y, y.cpu() + 1, y.sum().cpu().numpy()

    return lambda n: step(batch(n, 4, 6).cpu()), list


@program
def draws(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(6, device="cuda")

    return lambda n: step(batch(n, 4, 6)), list


@program
def places_in_a_list(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        y = (x * 2).tanh()
        return y[:, [-1, 0]] * 3 + y[:, :2]

    return lambda n: step(batch(n, 4, 6)), list


@program
def losses_of_alignments(compile: Any) -> Any:
    model = nn.Linear(6, 5).to("cuda")
    lengths, sizes = torch.tensor([7, 5, 6], device="cuda"), torch.tensor([3, 1, 2], device="cuda")

    @compile
    def step(x: Any, labels: Any) -> Any:
        model.zero_grad()
        loss = F.ctc_loss(model(x).log_softmax(-1), labels + 1, lengths, sizes)
        loss.backward()
        return loss.detach()

    return lambda n: step(batch(n, 7, 3, 6), batch(n, 3, 3, classes=4)), lambda: [p.grad for p in model.parameters()]


@program
def what_cannot_be_captured(compile: Any) -> Any:
    @compile
    def step(x: Any) -> Any:
        square = x[:, :4] + 4 * torch.eye(4, device="cuda")
        return torch.linalg.inv(square * 2).sin()

    return lambda n: step(batch(n, 4, 6)), list


# What the latest step of the first way was computed in, where it is not one graph: graphs and calls between them.
PIECES = {
    "value_read_before_backward": 2,
    "gradients_of_the_step_before": 2,
    "dropout_of_whole_features": 2,  # the backward pass is the program's
    "attention": 6,
    "module_differentiated_outside": 2,
    "decisions": 3,
    "statistics_read": 2,
    "statistics_counted": 2,
    "statistics_by_another_op": 2,
    "statistics_copied": 7,  # copies of parameters are read when they are made
    "statistics_left_behind": 2,
    "statistics_reset": 3,
    "statistics_assigned": 0,  # its way is recorded anew in the last call
    "statistics_moved_on": 2,
    "module_with_statistics_differentiated_outside": 2,
    "data_from_the_host": 2,
    "places_in_a_list": 3,
    "what_cannot_be_captured": 3,
}

NEVER = {
    "statistics_part": "a write in place into the memory of a tensor from outside",
    "losses_of_alignments": "gt came where the record has gt",  # numbers of steps are put on the device in each call
}


@pytest.mark.filterwarnings("ignore:.*has no kernel for GPUs")
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_give_what_they_give_as_they_are_written(name: str) -> None:
    report = run_twins(PROGRAMS[name], name)
    if name in NEVER:
        assert NEVER[name] in str(report)
        return
    assert report.walked >= 3, str(report)
    assert report.ways[0].launches == PIECES.get(name, 1), str(report)


@pytest.mark.parametrize("name", [name for name in {**GRADIENTS, **OTHER_GRADIENTS} if "numpy" not in name])
def test_writes_into_gradients(name: str) -> None:
    report = run_twins(of_gradients({**GRADIENTS, **OTHER_GRADIENTS}[name]), name)
    # Numbers that the program computes in Python are others in each step, for which a graph would have to be captured.
    assert report.walked >= 3 or name in (*OTHER_GRADIENTS, "the norm is read", "of other numbers"), str(report)


class _Counted:
    """Counts what the host puts on the emulated device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.works = self.graphs = 0
        used: Any = driver.get("a test")
        put, launch = used.put, used.launch_graph

        def counted(work: Any) -> None:
            self.works += not used._recording
            put(work)

        def started(*args: Any) -> None:
            self.graphs += 1
            launch(*args)

        monkeypatch.setattr(used, "put", counted)
        monkeypatch.setattr(used, "launch_graph", started)

    def of(self, run: Callable[[], Any]) -> tuple[int, int]:
        before = self.works, self.graphs
        run()
        return self.works - before[0], self.graphs - before[1]


@pytest.mark.skipif(not driver.is_emulated(), reason="counts what is put on the emulated device")
@pytest.mark.parametrize(
    "name, eager, walked",
    [
        # 2 copies of what has changed, the check of the labels; the optimizer's step is in the graph
        ("gradient_descent", 16, 3),
        ("steps_counted_on_the_device", 17, 3),
        # the loss of the step before is copied for who has it; places in the random stream
        ("dropout", 18, 4),
        # the rates of the step, which the host counts
        ("learning_rate_of_a_scheduler", 16, 4),
        ("views_that_are_kept", 3, 1),
    ],
)
def test_launches_of_a_step(name: str, eager: int, walked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _Counted(monkeypatch)
    (plainly, _), (step, _) = PROGRAMS[name](lambda function: function), PROGRAMS[name](compiling([]))
    for n in range(4):
        plainly(n), step(n)
    inputs = counted.of(lambda: (batch(4, 4, 6), batch(4, 4, classes=3)))[0] * (name != "views_that_are_kept")
    inputs = inputs or counted.of(lambda: batch(4, 4, 6))[0]
    works, graphs = counted.of(lambda: plainly(4))
    assert (works - inputs, graphs) == (eager, 0)
    works, graphs = counted.of(lambda: step(4))
    assert (works - inputs, graphs) == (walked, 1)


def test_a_graph_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls are made one by one."""
    captured = pieces.Pieces._captured

    def spoiled(self: Any, graph: Any, *args: Any) -> Any:
        piece = captured(self, graph, *args)
        used: Any = driver.get("a test")
        used._graphs[graph._executable].pop()
        return piece

    monkeypatch.setattr(pieces.Pieces, "_captured", spoiled)
    compiled: list[Compiled] = []
    twins = [PROGRAMS["gradient_descent"](each) for each in (lambda function: function, compiling(compiled))]
    with torch.no_grad():
        for element, other in zip(twins[0][1](), twins[1][1]()):
            if isinstance(element, torch.Tensor):
                other.copy_(element)
    for n in range(4):
        check_same(*[plain([step(n), watched()]) for step, watched in twins], f"step {n}")
    (way,) = compiled[0].report().ways
    assert way.walked == 2 and way.in_kernels == 0
    assert "a graph of it gave something else than its calls" in {row.why for row in way.in_python}


def test_a_captured_function_is_left_as_it_is_written() -> None:
    """Inside somebody else's capture nothing is recorded or walked."""
    step, x = torch.compile(lambda x: x * 2 + 1), torch.ones(3, device="cuda")
    for _ in range(3):
        step(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step(x)
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [9.0] * 3


def test_what_a_report_says() -> None:
    compiled: list[Compiled] = []
    step, _ = PROGRAMS["attention"](compiling(compiled))
    for n in range(4):
        step(n)
    text = str(compiled[0].report())
    assert "in Python: 1 x scaled_dot_product_attention" in text and "place its kernels do not read from" in text


@triton.jit
def add_one_kernel(x, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + place, tl.load(x + place, mask=place < count) + 1, mask=place < count)


def test_a_kernel_of_the_programs_own_is_seen() -> None:
    """What it writes no op has written, so the function runs as it is written."""
    compiled: list[Compiled] = []

    def body(x: Any) -> Any:
        y = x * 2
        z = y.sin()
        add_one_kernel[(1,)](y, 24, BLOCK=32)
        return z + y, y

    step = compiling(compiled)(body)
    for n in range(4):
        check_same(plain(body(batch(n, 4, 6))), plain(step(batch(n, 4, 6))), f"step {n}")
    assert compiled[0].walked == 0 and "a kernel of the program's own" in str(compiled[0].report())


def test_another_stream_is_left() -> None:
    """Graphs are started on the stream on which the first ones were: what they leave in memory is not read from another one."""
    step, x = torch.compile(lambda x: x * 2 + 1), torch.ones(3, device="cuda")
    for _ in range(3):
        step(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        assert step(x).tolist() == [3.0] * 3
    assert step.walked == 1 and "it is called on another stream" in str(step.report())


def _asks_for_gradients(x: Any, w: Any) -> Any:
    (slope,) = torch.autograd.grad((x * w).tanh().sum(), [w])
    return slope


def _differentiates_gradients(x: Any, w: Any) -> Any:
    (slope,) = torch.autograd.grad((x * w).tanh().sum(), [w], create_graph=True)
    w.grad = None
    slope.square().sum().backward()
    return w.grad.clone()


def _makes_a_leaf(x: Any, w: Any) -> Any:
    leaf = (x * 2).requires_grad_()
    (leaf * w.detach()).tanh().sum().backward()
    return leaf.grad.clone()


def _has_a_hook(x: Any, w: Any) -> Any:
    w.grad = None
    handle = w.register_hook(lambda g: g * 2)
    (x * w).tanh().sum().backward()
    handle.remove()
    return w.grad.clone()


@pytest.mark.parametrize("step", [_asks_for_gradients, _differentiates_gradients, _makes_a_leaf, _has_a_hook])
def test_what_is_recorded_on_the_cpu_alone_runs_as_it_is_written(step: Any) -> None:
    w = torch.linspace(-1, 1, 5, device="cuda").requires_grad_()
    compiled: Any = torch.compile(step)
    for n in range(5):
        x = batch(n, 5)
        assert compiled(x, w).tolist() == step(x, w).tolist()
    assert compiled.walked == 0 and " on a GPU" in str(compiled.report()) + " on a GPU" * (step is _makes_a_leaf)


def test_mode_replay_walks() -> None:
    w = torch.linspace(-1, 1, 5, device="cuda")
    step: Any = torch.compile(lambda x: (x * w).tanh().sum(), mode="replay")
    for n in range(6):
        x = batch(n, 5)
        assert step(x).item() == (x * w).tanh().sum().item()
    assert step.walked >= 3 and "not replayed: it is computed on a GPU" in str(step.report())


def test_each_size_is_recorded() -> None:
    step: Any = torch.compile(lambda x: (x * 2).tanh().sum())
    for n in range(18):
        x = batch(n, 3 + n % 6)
        assert step(x).item() == (x * 2).tanh().sum().item()
    assert step.ways == 6 and step.walked >= 10


def _chain(x: Any, w: Any) -> Any:
    w.grad = None
    h = (x * w + 1).tanh()
    h = F.gelu(h * 2 - w) * torch.where(x > 0, h, 0.1 * h)
    loss = (h.sigmoid() * h.clamp(max=0.7)).sum()
    loss.backward()
    return loss.detach(), w.grad.clone()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_neighbours_of_other_dtypes(dtype: Any) -> None:
    """Halves are rounded where each op rounds them."""
    w = torch.linspace(-1, 1, 6, device="cuda", dtype=dtype).requires_grad_()
    step = Compiled(_chain, always=True)
    for n in range(4):
        x = batch(n, 4, 6).to(dtype)
        expected, arguments = _chain(x, w), step(x, w)
        assert [argument.tolist() for argument in arguments] == [element.tolist() for element in expected]
    (way,) = step.report().ways
    assert way.walked == 2 and len(way.groups) >= 2, str(step.report())


@pytest.mark.skipif(not driver.is_emulated(), reason="looks into graphs of the emulated device")
@pytest.mark.parametrize("exact", [False, True])
def test_elementwise_neighbours_are_one_launch(exact: bool) -> None:
    """Forward, backward, and between them what adds up; in exact mode each op by itself."""
    used: Any = driver.get("a test")
    before = set(used._graphs)
    w = torch.linspace(-1, 1, 6, device="cuda").requires_grad_()
    step = Compiled(_chain, always=True, exact=exact)
    for n in range(4):
        x = batch(n, 4, 6)
        check_same(plain(_chain(x, w)), plain(step(x, w)), f"step {n}")
    (way,) = step.report().ways
    (works,) = [len(used._graphs[name]) for name in set(used._graphs) - before]
    assert (len(way.groups), works) == ((0, 32) if exact else (2, 7)), str(step.report())


def test_a_group_is_computed_one_by_one_where_somebody_has_what_it_does_not_write() -> None:
    kept: list[Any] = []

    def body(x: Any, keep: bool) -> Any:
        y = x * 2 + 1
        z = y.tanh()
        if keep:
            kept.append(z)
        return (z * y).exp()

    step: Any = Compiled(body, always=True)
    for n in range(7):
        x = batch(n, 4, 6)
        check_same(plain(body(x, n == 5)), plain(step(x, n == 5)), f"step {n}")
    assert step.walked == 5 and len(step.report().ways[0].groups) == 1, str(step.report())
    check_same(*[plain(element) for element in kept], "kept")


def test_a_group_that_gives_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls are in the graph one by one."""
    run = loops.LoopGroup.__init__

    def spoiled(self: Any, *args: Any) -> None:
        run(self, *args)
        self.loop.numbers = dict.fromkeys(self.loop.numbers, 3.0)

    monkeypatch.setattr(loops.LoopGroup, "__init__", spoiled)
    w = torch.linspace(-1, 1, 6, device="cuda").requires_grad_()
    step = Compiled(_chain, always=True)
    for n in range(4):
        x = batch(n, 4, 6)
        check_same(plain(_chain(x, w)), plain(step(x, w)), f"step {n}")
    (way,) = step.report().ways
    assert way.walked == 2 and not way.groups and way.launches == 1, str(step.report())
    assert "no loop for the group" in str(step.report())


def test_memory_is_given_back() -> None:
    """With sizes that others took the place of, and with the function."""
    weight = batch(0, 64, 64)
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    gc.collect()
    before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    step: Any = Compiled(lambda x: (x @ weight).tanh() @ weight, always=True, most_ways=2)
    kept = []
    for n in range(30):
        step(batch(n, 64 + 64 * (n // 3), 64))
        gc.collect()
        kept.append(torch.cuda.memory_allocated() - before)
    assert step.ways == 2 and step.walked >= 10, str(step.report())
    largest = 6 * 704 * 64 * 4  # of two sizes: what comes in, two results, copies of what was given
    assert kept[-1] <= 2 * largest, kept
    del step
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() <= before and torch.cuda.memory_reserved() <= reserved
