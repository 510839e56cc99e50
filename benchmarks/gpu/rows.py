"""The rows of a GPU: each takes a library under the name `torch` and gives steps to time on its device "cuda".

Sizes are those of real training; `small` ones let the emulated device run every row once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy

from benchmarks.rows import convnets

__all__ = ["GPU_ROWS", "GpuRow", "Step"]


@dataclass(frozen=True)
class Step:
    """What is timed, the bytes it must read and write, and the operations of its products."""

    run: Callable[[], object]
    moved: int = 0
    flops: int = 0


@dataclass(frozen=True)
class GpuRow:
    name: str
    build: Callable[[object, bool], Step]
    compiles: bool = True
    """Whether the sides that compile take part."""


GPU_ROWS: dict[str, GpuRow] = {}


def row(name: str, compiles: bool = True):
    def register(build):
        GPU_ROWS[name] = GpuRow(name, build, compiles)
        return build

    return register


def tensor(torch, *shape, dtype="float32", grad=False):
    """Normal numbers on the device; the same for every library. A million of them, over and over."""
    count = math.prod(shape)
    drawn = numpy.random.default_rng(len(shape)).standard_normal(min(count, 1 << 20), numpy.float32)
    numbers = numpy.resize(drawn, shape)
    tensor = torch.from_numpy(numbers).to("cuda").to(getattr(torch, dtype))
    return tensor.requires_grad_() if grad else tensor


def _maybe_compiled(torch, function):
    return getattr(torch, "benchmark_compile", lambda same: same)(function)


def _training(torch, optimizer, loss_of, x, y):
    """A step of training. torch.compile gets the loss, as its users write it, dynograd.compile the whole step."""
    whole = getattr(torch, "benchmark_compiles_steps", False)
    compute = loss_of if whole else _maybe_compiled(torch, loss_of)

    def step(x, y):
        optimizer.zero_grad()
        compute(x, y).backward()
        optimizer.step()

    run = _maybe_compiled(torch, step) if whole else step
    return lambda: run(x, y)


# --- memory ----------------------------------------------------------------------------------------------------------------------


@row("copy", compiles=False)
def copy(torch, small):
    """What the card's memory gives: the other rows are compared with it."""
    count = 1 << (10 if small else 28)
    x = tensor(torch, count)
    y = torch.empty_like(x)
    return Step(lambda: y.copy_(x), moved=8 * count)


def _bandwidth_rows():
    def elementwise(name, function, reads):
        def build(torch, small, dtype):
            count = 1 << (10 if small else 27)
            operands = [tensor(torch, count, dtype=dtype) for _ in range(reads)]
            compute = _maybe_compiled(torch, lambda: function(torch, *operands))
            return Step(compute, moved=(reads + 1) * operands[0].element_size() * count)

        for dtype in ("float32", "bfloat16"):
            row(f"{name}.{dtype}")(lambda torch, small, dtype=dtype: build(torch, small, dtype))

    elementwise("add", lambda torch, x, y: x + y, 2)
    elementwise("gelu", lambda torch, x: torch.nn.functional.gelu(x), 1)
    elementwise("exp", lambda torch, x: x.exp(), 1)

    def rows_of(name, function, moved):
        def build(torch, small, dtype, backward):
            lines, width = (4, 64) if small else (8192, 4096)
            x = tensor(torch, lines, width, dtype=dtype, grad=backward)
            w = tensor(torch, width, dtype=dtype, grad=backward)
            labels = torch.from_numpy(numpy.arange(lines) % width).to("cuda")
            compute = _maybe_compiled(torch, lambda: function(torch, x, w, labels))
            reading, writing = moved
            size = x.element_size() * lines * width
            if not backward:
                return Step(compute, moved=(reading + writing) * size)

            def step():
                x.grad = w.grad = None
                compute().sum().backward()

            return Step(step, moved=(reading + writing + 3) * size)

        for dtype in ("float32", "bfloat16"):
            for backward in (False, True):
                text = f"{name}.{dtype}{'.backward' if backward else ''}"
                row(text)(lambda torch, small, dtype=dtype, backward=backward: build(torch, small, dtype, backward))

    rows_of("softmax", lambda torch, x, w, y: torch.nn.functional.softmax(x, -1), (1, 1))
    rows_of("layer_norm", lambda torch, x, w, y: torch.nn.functional.layer_norm(x, (x.shape[-1],), w, w), (1, 1))
    rows_of("cross_entropy", lambda torch, x, w, y: torch.nn.functional.cross_entropy(x, y), (1, 0))
    rows_of("sum", lambda torch, x, w, y: x.sum(-1), (1, 0))


_bandwidth_rows()


# --- products --------------------------------------------------------------------------------------------------------------------


def _matmul(size, dtype, tf32=False):
    def build(torch, small):
        n = 32 if small else size
        if hasattr(torch, "set_float32_matmul_precision"):
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
        x, y = tensor(torch, n, n, dtype=dtype), tensor(torch, n, n, dtype=dtype)
        return Step(lambda: x @ y, flops=2 * n**3)

    return build


for _size in (1024, 2048, 4096, 8192):
    for _dtype in ("bfloat16", "float16", "float32", "float64"):
        if _dtype != "float64" or _size <= 4096:
            row(f"matmul.{_size}.{_dtype}", compiles=False)(_matmul(_size, _dtype))
    row(f"matmul.{_size}.tf32", compiles=False)(_matmul(_size, "float32", tf32=True))


def _attention(causal, backward, time):
    def build(torch, small):
        batch, heads, length, width = (1, 1, 16, 16) if small else (4, 16, time, 64)
        q, k, v = (tensor(torch, batch, heads, length, width, dtype="bfloat16", grad=backward) for _ in range(3))
        attend = torch.nn.functional.scaled_dot_product_attention
        flops = 4 * batch * heads * length * length * width // (2 if causal else 1)
        if not backward:
            return Step(lambda: attend(q, k, v, is_causal=causal), flops=flops)
        g = tensor(torch, batch, heads, length, width, dtype="bfloat16")

        def step():
            q.grad = k.grad = v.grad = None
            attend(q, k, v, is_causal=causal).backward(g)

        return Step(step, flops=flops * 7 // 2)

    return build


for _causal in (False, True):
    for _backward in (False, True):
        for _time in (1024, 4096):
            _name = f"attention.{_time}{'.causal' if _causal else ''}{'.backward' if _backward else ''}"
            row(_name, compiles=False)(_attention(_causal, _backward, _time))


# --- training --------------------------------------------------------------------------------------------------------------------


@row("adamw")
def adamw(torch, small):
    """AdamW of 148 parameters, 300 million elements in all."""
    width = 16 if small else 2048
    shapes = [(width, width)] * (2 if small else 74) + [(width,)] * (2 if small else 74)
    parameters = [tensor(torch, *shape, grad=True) for shape in shapes]
    for p in parameters:
        p.grad = tensor(torch, *p.shape)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    return Step(optimizer.step, moved=28 * sum(p.numel() for p in parameters))


@row("clip")
def clip(torch, small):
    """clip_grad_norm_ of the same."""
    width = 16 if small else 2048
    parameters = [tensor(torch, width, width, grad=True) for _ in range(2 if small else 74)]
    for p in parameters:
        p.grad = tensor(torch, *p.shape)
    norm = torch.nn.utils.clip_grad_norm_
    return Step(lambda: norm(parameters, 1e-3), moved=12 * sum(p.numel() for p in parameters))


def _mlp(batch, *sizes, dropped=0.0):
    def build(torch, small):
        nn, kept = torch.nn, [min(size, 8) for size in sizes] if small else sizes
        count = min(batch, 4) if small else batch
        between = [nn.ReLU(), nn.Dropout(dropped)] if dropped else [nn.ReLU()]
        layers = [part for a, b in itertools.pairwise(kept) for part in (nn.Linear(a, b), *between)]
        model = nn.Sequential(*layers[: -len(between)]).to("cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        x, y = tensor(torch, count, kept[0]), torch.from_numpy(numpy.arange(count) % kept[-1]).to("cuda")
        step = _training(torch, optimizer, lambda x, y: nn.functional.cross_entropy(model(x), y), x, y)
        return Step(step, flops=6 * count * sum(a * b for a, b in itertools.pairwise(kept)))

    return build


row("mlp.small")(_mlp(16, 64, 64, 64, 10))
row("mlp")(_mlp(64, 784, 256, 128, 10))
row("mlp.dropout")(_mlp(64, 784, 256, 128, 10, dropped=0.2))


@row("lengths")
def lengths(torch, small):
    """Steps of four lengths, one after the other: a layer of tokens, widened and narrowed, 256 features; clipped gradients, AdamW."""
    width, counts = (8, (3, 5)) if small else (256, (384, 512, 448, 640))
    nn = torch.nn
    model = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    model = model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    texts = [tensor(torch, count, width) for count in counts]
    whole = getattr(torch, "benchmark_compiles_steps", False)

    def loss_of(x):
        return (model(x) - x).square().mean()

    compute = loss_of if whole else _maybe_compiled(torch, loss_of)

    def step(x):
        optimizer.zero_grad()
        compute(x).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    run = _maybe_compiled(torch, step) if whole else step
    return Step(lambda: [run(x) for x in texts], flops=6 * sum(counts) * 8 * width * width)


@row("resnet20")
def resnet20(torch, small):
    """ResNet-20 on 32 pictures of 32x32: its batch norms keep running statistics; SGD with momentum."""
    count, size, blocks = (2, 8, 1) if small else (32, 32, 3)
    nn, model = torch.nn, convnets.resnet20(torch, blocks).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    x, y = tensor(torch, count, 3, size, size), torch.from_numpy(numpy.arange(count) % convnets.CLASSES).to("cuda")
    step = _training(torch, optimizer, lambda x, y: nn.functional.cross_entropy(model(x), y), x, y)
    return Step(step, flops=6 * 40_800_000 * count)  # multiplications of a picture, forward and two gradients


def _chain(torch, small):
    """Twelve elementwise operations and a sum, forward and backward: what a compiler makes of neighbours."""
    count = 1 << (10 if small else 24)
    x, w, b = (tensor(torch, count, grad=True) for _ in range(3))

    def loss_of():
        y = torch.tanh(x * w + b)
        y = torch.nn.functional.gelu(y * 2 - w) * torch.where(y > 0, y, 0.1 * y)
        return (torch.sigmoid(y) * torch.clamp(y, max=0.7)).sum()

    whole = getattr(torch, "benchmark_compiles_steps", False)
    compute = loss_of if whole else _maybe_compiled(torch, loss_of)

    def step():
        x.grad = w.grad = b.grad = None
        compute().backward()

    return Step(_maybe_compiled(torch, step) if whole else step, moved=9 * 4 * count)


row("chain.backward")(_chain)


@row("gpt")
def gpt(torch, small):
    """GPT of 12 layers, 1024 features, 16 heads; 8 texts of 1024 symbols of 50304, bfloat16 autocast, AdamW."""
    return _gpt(torch, *((1, 32, 2, 16, 1, 64) if small else (12, 1024, 16, 1024, 8, 50304)), "bfloat16")


@row("gpt.small")
def gpt_small(torch, small):
    """GPT of 3 layers, 128 features, 4 heads; 4 texts of 64 symbols of 256, float32, AdamW."""
    return _gpt(torch, *((1, 32, 2, 16, 1, 64) if small else (3, 128, 4, 64, 4, 256)), None)


def _gpt(torch, layers, width, heads, time, batch, symbols, kind):
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            split = self.attention(self.norm1(x)).view(x.shape[0], x.shape[1], 3, heads, width // heads)
            q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.merge(y.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(functional.gelu(self.widen(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(symbols, width), nn.Embedding(time, width)
            self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
            self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)

        def forward(self, x, places):
            return self.linear(self.norm(self.layers(self.embedding(x) + self.positions(places))))

    model = Model().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    text = numpy.random.default_rng(0).integers(0, symbols, (batch, time + 1))
    x, y = (torch.from_numpy(part.copy()).to("cuda") for part in (text[:, :-1], text[:, 1:]))
    places = torch.from_numpy(numpy.arange(time)).to("cuda")

    def loss_of(x, y):
        if kind is None:
            return functional.cross_entropy(model(x, places).flatten(0, 1), y.flatten())
        with torch.autocast("cuda", dtype=getattr(torch, kind)):
            return functional.cross_entropy(model(x, places).flatten(0, 1), y.flatten())

    weights = sum(p.numel() for p in model.parameters())
    return Step(
        _training(torch, optimizer, loss_of, x, y), flops=batch * time * (6 * weights + 6 * layers * time * width)
    )
