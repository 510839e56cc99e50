"""The programs whose kernels a pack holds: rows of a table, each a few training steps of a kind of model.

Each is run with small and with large arrays, since those of more than some 65,000 elements call their kernels through a launcher. Nothing
here is about results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dynograd import nn, optim
from dynograd.tensor import Tensor

__all__ = ["PROGRAMS"]

dynograd: Any = sys.modules["dynograd"]  # the public names: these are users' programs
F = nn.functional

PROGRAMS: dict[str, Callable[[], None]] = {}


def _program(function: Callable[..., None], **rows: Any) -> Callable[..., None]:
    """Adds a row of the table, or one for each of `rows`, with its argument."""
    name = function.__name__.strip("_")
    if rows:
        PROGRAMS.update({f"{name} {row}": partial(function, argument) for row, argument in rows.items()})
    else:
        PROGRAMS[name] = function
    return function


def _rows(**rows: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda function: _program(function, **rows)


_REALS = {"float32": dynograd.float32, "float64": dynograd.float64, "bfloat16": dynograd.bfloat16}
_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "AdamW": {"lr": 1e-3},
    "Adam": {"lr": 1e-3},
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "RMSprop": {"lr": 1e-3},
    "Adagrad": {"lr": 1e-2},
}


def _train(
    model: Any, batches: Iterable[Any], loss_of: Callable[..., Any], optimizer: str = "AdamW", clip: bool = True
) -> None:
    """Steps with each batch, in the pool's threads and in one, and compiled."""
    stepper = getattr(optim, optimizer)(model.parameters(), **_OPTIMIZERS[optimizer])

    def step(*batch: Any) -> Tensor:
        stepper.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        stepper.step()
        return loss

    for batch in batches:
        for count in (2, 1):
            before = dynograd.get_num_threads()
            dynograd.set_num_threads(count)
            try:
                float(step(*batch))
                if count > 1:
                    compiled = dynograd.compile(step)
                    for _ in range(3):
                        float(compiled(*batch))
            finally:
                dynograd.set_num_threads(before)


def _classes(count: int, *shape: int) -> Tensor:
    return dynograd.randint(0, count, shape)


def _class_loss(model: Any, x: Any, y: Any) -> Tensor:
    return F.cross_entropy(model(x), y)


# --- dense -------------------------------------------------------------------------------------------------------------------


@_rows(**_REALS)
def _mlp(dtype: Any) -> None:
    for optimizer in _OPTIMIZERS:
        model = nn.Sequential(
            nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
        )
        model.to(dtype)
        batches = [(dynograd.randn(size, 784).to(dtype), _classes(10, size)) for size in (4, 64, 600)]
        _train(model, batches, _class_loss, optimizer)
    model.eval()
    with dynograd.no_grad():
        (model(batches[0][0]).argmax(1) == batches[0][1]).float().mean().item()


@_rows(**_REALS)
def _activations(dtype: Any) -> None:
    for name in (
        "ReLU",
        "GELU",
        "SiLU",
        "Tanh",
        "Sigmoid",
        "ELU",
        "LeakyReLU",
        "Softplus",
        "ReLU6",
        "Hardswish",
        "Softmax",
    ):
        module = getattr(nn, name)(*([-1] if name == "Softmax" else []))
        for rows in (4, 600):
            x = dynograd.randn(rows, 256).to(dtype).requires_grad_()
            module(x).sum().backward()


@_rows(**{name: _REALS[name] for name in ("float32", "float64")})
def _losses(dtype: Any) -> None:
    for rows in (8, 2000):
        x = dynograd.randn(rows, 50).to(dtype).requires_grad_()
        y = dynograd.rand(rows, 50).to(dtype)
        for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
            loss(x, y).backward()
        F.binary_cross_entropy(dynograd.sigmoid(x), y).backward()
        classes = _classes(50, rows)
        for options in ({}, {"label_smoothing": 0.1}, {"ignore_index": 0}, {"reduction": "sum"}, {"reduction": "none"}):
            F.cross_entropy(x, classes, **options).sum().backward()
        F.nll_loss(F.log_softmax(x, 1), classes).backward()
        F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean").backward()
        F.cosine_similarity(x, y).sum().backward()


@_program
def _chosen_rows() -> None:
    """Experts for rows that values choose, and writes at masks and at several places."""

    def loss_of(model: Any, x: Tensor) -> Tensor:
        weights, chosen = model[0](x).softmax(-1).topk(2, -1)
        mixed = dynograd.zeros_like(x)
        for number, expert in enumerate(model[1:]):
            rows, places = dynograd.where(chosen == number)
            mixed = mixed.index_add(0, rows, expert(x[rows]) * weights[rows, places, None])
        mixed[dynograd.arange(len(x)), chosen[:, 0]] = 0.5
        mixed[x[:, 0] > 0] = model[0](x).sum(-1, keepdim=True)[x[:, 0] > 0]
        return mixed[x > 0].square().mean()

    model = nn.ModuleList([nn.Linear(64, 4)])
    model.extend([nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(4)])
    _train(model, [(dynograd.randn(size, 64),) for size in (32, 2000)], loss_of)


@_program
def _pixels() -> None:
    """A class for each pixel."""
    model = nn.Conv2d(3, 5, 1)
    _train(model, [(dynograd.randn(2, 3, size, size), _classes(5, 2, size, size)) for size in (8, 200)], _class_loss)


@_rows(**_REALS)
def _elementwise(dtype: Any) -> None:
    for shape in ((4, 32), (600, 256)):
        x = (dynograd.rand(*shape) + 0.1).to(dtype).requires_grad_()
        bias, column = dynograd.rand(shape[1]).to(dtype).requires_grad_(), dynograd.rand(shape[0], 1).to(dtype)
        for name in "exp log sqrt rsqrt tanh sigmoid abs neg sin cos square reciprocal log1p".split():
            getattr(dynograd, name)(x).sum().backward()
        for value in (x + bias, x * bias, x - column, x * column, x / column, x * 2 + 1, x**2, 1 - x, x / 3, x * x - x):
            value.mean().backward()
        dynograd.where(x > 0.5, x, -x).clamp(0, 1).var().backward()
        dynograd.maximum(x, column).std(1).sum().backward()


@_rows(**_REALS)
def _reductions(dtype: Any) -> None:
    for shape in ((4, 32), (600, 256)):
        x = dynograd.randn(*shape).to(dtype).requires_grad_()
        for dim in (0, 1):
            for name in ("sum", "mean", "logsumexp", "amax"):
                getattr(x, name)(dim).sum().backward()
            x.max(dim).values.sum().backward()
            F.softmax(x, dim).square().sum().backward()
            F.log_softmax(x, dim).sum().backward()
            x.argmax(dim)
        x.cumsum(0).sum().backward()
        x.norm().backward()
        x.topk(3, 1).values.sum().backward()
        x.sort(1).values.mean().backward()


@_rows(**_REALS)
def _with_numbers(dtype: Any) -> None:
    """Tensors with Python numbers, in place and not, and into others of the same shape."""
    for shape in ((4, 32), (600, 256)):
        x = dynograd.rand(*shape).to(dtype).requires_grad_()
        for value in (x + 2, 2 + x, x - 2, 2 - x, x * 2, x / 2, 2 / x, x**2, x.clamp(min=0), x.clamp(max=1)):
            value.sum().backward()
        dynograd.where(x > 0, x, 0.0).sum().backward()
        dynograd.where(x < 0, 0.0, x).sum().backward()
        dynograd.addcmul(x, x, x, value=0.5).sum().backward()
        dynograd.lerp(x, x * 2, 0.5).sum().backward()
        F.leaky_relu(x, 0.2).sum().backward()
        with dynograd.no_grad():
            for y in (x.detach().clone(), x.detach()[:, 1:]):
                y.add_(1).sub_(1).mul_(0.5).div_(0.5).add_(y, alpha=0.1).lerp_(x.detach()[:, : y.shape[1]], 0.1).lerp_(
                    y.clone(), 0.1
                ).clamp_(-1, 1).zero_().fill_(1.0)
                y.copy_(y.clone())
                for compared in (y > 0.5, y < 0.5, y >= 0.5, y <= 0.5, y == 0.5, y != 0.5):
                    compared.any(), compared.all(), compared.sum(), compared.float().mean(), (~compared & compared)


@_rows(int64=dynograd.int64, int32=dynograd.int32, bool=dynograd.bool)
def _whole_numbers(dtype: Any) -> None:
    for shape in ((3, 5), (600, 256)):
        x = dynograd.randint(0, 2, shape).to(dtype)
        x.sum(), x.sum(1), x.any(), x.all(), (x == x).all(), x.float().mean(), x.nonzero(), x.tolist()
        dynograd.equal(x, x.clone())
        if dtype != dynograd.bool:
            x.max(), x.min(), x.max(1), x.argmax(1), x.cumsum(0), x + 1, x * 2, x // 2, x % 2, x.clamp(0, 1), 1 - x
            x.sort(1), x.argsort(1), x.flatten().unique(), x.flatten().bincount(), x.topk(2, 1), x.median()
            dynograd.searchsorted(x.flatten().sort().values, x)


@_program
def _draws() -> None:
    for count in (5, 300000):
        dynograd.randperm(count), dynograd.rand(count), dynograd.randn(count), dynograd.randint(0, 9, (count,))
        dynograd.rand(count, dtype=dynograd.float64), dynograd.randn(count, dtype=dynograd.float64)
        dynograd.bernoulli(dynograd.full((count,), 0.5)), dynograd.empty(count).exponential_()
        (
            dynograd.empty(count).bernoulli_(0.5),
            dynograd.empty(count).uniform_(-1, 1),
            dynograd.empty(count).normal_(0, 2),
        )
        dynograd.multinomial(dynograd.ones(4, 50), 3)
        nn.init.trunc_normal_(dynograd.empty(count))
    dynograd.distributions.Categorical(logits=dynograd.randn(8, 5)).sample()


@_program
def _vectors() -> None:
    """Products with vectors, and products of many matrices."""
    for rows, width in ((3, 5), (64, 128), (600, 256)):
        matrix = dynograd.randn(rows, width, requires_grad=True)
        vector = dynograd.randn(width, requires_grad=True)
        (matrix @ vector).sum().backward()
        (vector @ matrix.T).sum().backward()
        nn.Linear(width, 1)(matrix).sum().backward()
        dynograd.einsum("ij,kj->ik", matrix, matrix).sum().backward()
        dynograd.bmm(matrix.expand(4, -1, -1), matrix.T.expand(4, -1, -1)).sum().backward()
        F.bilinear(matrix, matrix, dynograd.randn(3, width, width)).sum().backward()
        with dynograd.no_grad():
            (
                F.cross_entropy(matrix.detach(), _classes(width, rows)),
                F.cross_entropy(matrix.detach(), _classes(width, rows), reduction="none"),
            )


# --- images ------------------------------------------------------------------------------------------------------------------


@_rows(**{name: _REALS[name] for name in ("float32", "bfloat16")})
def _convnet(dtype: Any) -> None:
    for channels, side in ((1, 28), (3, 32)):
        model = nn.Sequential(
            nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 1), nn.AvgPool2d(2),
            nn.Dropout(0.2), nn.Flatten(), nn.LazyLinear(10),
        )  # fmt: skip
        model(dynograd.randn(2, channels, side, side))
        model.to(dtype)
        batches = [(dynograd.randn(size, channels, side, side).to(dtype), _classes(10, size)) for size in (2, 32, 64)]
        _train(model, batches, _class_loss, "SGD")
        _train(model, batches, _class_loss, "Adam")
        model.eval()
        with dynograd.no_grad():
            model(batches[1][0]).argmax(1)


@_program
def _residual_network() -> None:
    class Block(nn.Module):
        def __init__(self, width: int, following: int, stride: int) -> None:
            super().__init__()
            self.a, self.b = (
                nn.Conv2d(width, following, 3, stride, 1, bias=False),
                nn.Conv2d(following, following, 3, 1, 1, bias=False),
            )
            self.norm_a, self.norm_b = nn.BatchNorm2d(following), nn.BatchNorm2d(following)
            self.short = nn.Conv2d(width, following, 1, stride, bias=False) if stride > 1 else nn.Identity()

        def forward(self, x: Any) -> Tensor:
            return F.relu(self.norm_b(self.b(F.relu(self.norm_a(self.a(x))))) + self.short(x))

    model = nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Block(32, 32, 1), Block(32, 64, 2), Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    _train(model, [(dynograd.randn(size, 3, 64, 64), _classes(10, size)) for size in (2, 16)], _class_loss, "SGD")


@_program
def _images() -> None:
    for size in (1, 16):
        x = dynograd.randn(size, 16, 32, 32, requires_grad=True)
        for layer in (
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 5, padding=2), nn.Conv2d(16, 8, 3, dilation=2),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.GroupNorm(4, 16), nn.InstanceNorm2d(16), nn.AvgPool2d(2),
            nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Dropout2d(0.1),
            nn.AdaptiveAvgPool2d(4), nn.AdaptiveMaxPool2d(2),
        ):  # fmt: skip
            layer(x).sum().backward()
        line = dynograd.randn(size, 16, 200, requires_grad=True)
        for part in (
            nn.Conv1d(16, 32, 3, padding=1),
            nn.Conv1d(16, 16, 5, dilation=2),
            nn.MaxPool1d(2),
            nn.BatchNorm1d(16),
        ):
            part(line).sum().backward()


@_program
def _pictures_against_a_critic() -> None:
    artist = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 7, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh()
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16),
        nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(144, 1),
    )  # fmt: skip

    def loss_of(model: Any, real: Any, noise: Any, ones: Any, zeros: Any) -> Tensor:
        drawn = model[0](noise)
        loss = F.binary_cross_entropy_with_logits(model[1](real), ones)
        loss = loss + F.binary_cross_entropy_with_logits(model[1](drawn.detach()), zeros)
        return loss + F.binary_cross_entropy_with_logits(model[1](drawn), ones)

    batches = [
        (
            dynograd.randn(size, 1, 14, 14),
            dynograd.randn(size, 8, 1, 1),
            dynograd.ones(size, 1),
            dynograd.zeros(size, 1),
        )
        for size in (4, 64)
    ]
    _train(nn.ModuleList([artist, critic]), batches, loss_of, "Adam", clip=False)


@_program
def _pictures_from_codes() -> None:
    model = nn.ModuleList(
        [nn.Linear(784, 64), nn.Linear(64, 16), nn.Linear(64, 16), nn.Linear(16, 64), nn.Linear(64, 784)]
    )

    def loss_of(model: Any, x: Any) -> Tensor:
        hidden = model[0](x).relu()
        mean, log_variance = model[1](hidden), model[2](hidden)
        code = mean + dynograd.randn_like(mean) * (0.5 * log_variance).exp()
        error = F.binary_cross_entropy_with_logits(model[4](model[3](code).relu()), x, reduction="sum")
        return (error - 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()) / len(x)

    _train(model, [(dynograd.rand(size, 784),) for size in (4, 128)], loss_of, "Adam", clip=False)


# --- sequences ---------------------------------------------------------------------------------------------------------------


class _Reader(nn.Module):
    def __init__(self, layer: Any, width: int, kind: str) -> None:
        super().__init__()
        self.words, self.layer, self.kind = nn.Embedding(1000, 64), layer, kind
        self.head = nn.Linear(width, 5)

    def forward(self, words: Any) -> Tensor:
        if self.kind == "padded":
            output, _ = self.layer(self.words(words))
            return self.head(output[:, -1])
        if self.kind == "ragged":
            output, _ = self.layer(self.words(dynograd.ragged_tensor(words)))
            return self.head(output.mean(1))
        inputs = nn.utils.rnn.pack_sequence([self.words(sentence) for sentence in words], enforce_sorted=False)
        output, state = self.layer(inputs)
        hidden = state[0] if isinstance(state, tuple) else state
        nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return self.head(dynograd.cat([hidden[0], hidden[-1]], 1)[:, : self.head.in_features])


def _sentences(count: int) -> list[Any]:
    return [dynograd.randint(0, 1000, (3 + 7 * index % 29,)) for index in range(count)]


@_rows(
    **{
        f"{layer.__name__} {kind}": (layer, kind)
        for layer in (nn.LSTM, nn.GRU, nn.RNN)
        for kind in ("packed", "padded", "ragged")
    }
)
def _recurrent(row: tuple[Any, str]) -> None:
    layer_type, kind = row
    for options in ({"bidirectional": True}, {}, {"num_layers": 2, "dropout": 0.1}):
        layer = layer_type(64, 128, batch_first=True, **options)
        model = _Reader(layer, 256 if "bidirectional" in options else 128, kind)
        batches = []
        for size in (2, 16, 64):
            words = dynograd.randint(0, 1000, (size, 20)) if kind == "padded" else _sentences(size)
            batches.append((words, _classes(5, size)))
        _train(model, batches, _class_loss, "Adam")
        with dynograd.no_grad():
            model(batches[0][0])


@_program
def _cells() -> None:
    for cell_type in (nn.LSTMCell, nn.GRUCell):
        cell = cell_type(64, 128)

        def read(cell: Any, x: Any, y: Any) -> Tensor:
            state = None
            for step in x:
                state = cell(step, state)
            assert state is not None
            return F.mse_loss(state[0] if isinstance(state, tuple) else state, y)

        _train(cell, [(dynograd.randn(5, size, 64), dynograd.randn(size, 128)) for size in (2, 64)], read)


@_rows(**{cell.__name__: cell for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell, nn.BinaryTreeLSTMCell)})
def _fused_cells(cell_type: Any) -> None:
    """Sequences or trees of different sizes, example by example."""
    cell = cell_type(64, 128)

    def state_of(words: Tensor) -> Any:
        state = cell(words[0])
        for word in words[1:]:
            state = cell(None, state, cell(word)) if cell_type is nn.BinaryTreeLSTMCell else cell(word, state)
        return state

    def read(cell: Any, *sentences: Tensor) -> Tensor:
        with dynograd.autobatch(always=True):
            states = [state_of(words) for words in sentences]
            return dynograd.stack([state[0] if isinstance(state, tuple) else state for state in states]).sum()

    _train(cell, [[dynograd.randn(size, 64) for size in sizes] for sizes in ((9,), (6, 7, 12, 20))], read)
    with dynograd.no_grad():
        read(cell, dynograd.randn(8, 64))


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_a, self.norm_b, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x: Any) -> Tensor:
        batch, time, width = x.shape
        parts = self.projections(self.norm_a(x)).chunk(3, -1)
        q, k, v = (part.reshape(batch, time, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(batch, time, width)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_b(x)))))


class _LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(500, 128), nn.Embedding(128, 128)
        self.blocks = nn.Sequential(*[_Block(128, 4) for _ in range(3)])
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 500, bias=False)

    def forward(self, words: Any) -> Tensor:
        x = self.words(words) + self.places(dynograd.arange(words.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def _next_word_loss(model: Any, words: Any) -> Tensor:
    return F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())


@_rows(**_REALS)
def _language_model(dtype: Any) -> None:
    for dropout in (True, False):
        model = _LanguageModel().to(dtype)
        model.train(dropout)
        batches = [(_classes(500, *shape),) for shape in ((1, 9), (8, 65), (16, 129))]
        _train(model, batches, _next_word_loss, "AdamW")
    with dynograd.no_grad():
        dynograd.multinomial(F.softmax(model(batches[0][0])[:, -1].float(), -1), 1)


@_program
def _transformer() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True, activation="gelu")
    model = nn.Sequential(layer, nn.LayerNorm(64), nn.Linear(64, 100))
    batches = [(dynograd.randn(size, 64, 64), _classes(100, size * 64)) for size in (2, 32)]
    _train(model, batches, lambda model, x, y: F.cross_entropy(model(x).flatten(0, 1), y))
    attention = nn.MultiheadAttention(64, 4, batch_first=True)
    for size in (2, 16):
        x = dynograd.randn(size, 40, 64, requires_grad=True)
        padding = dynograd.arange(40) >= dynograd.randint(20, 40, (size, 1))
        attention(x, x, x, key_padding_mask=padding, need_weights=False)[0].sum().backward()
        attention(x, x, x)[0].sum().backward()


# --- indices, graphs, trees --------------------------------------------------------------------------------------------------


@_rows(int64=dynograd.int64, int32=dynograd.int32)
def _indexing(index_type: Any) -> None:
    for rows in (10, 5000):
        table = dynograd.rand(rows, 64, requires_grad=True)
        index = dynograd.randint(0, rows, (2 * rows,)).to(index_type)
        F.embedding(index, table).sum().backward()
        dynograd.zeros(rows, 64).index_add(0, index, table[index]).sum().backward()
        table.index_select(0, index).sum().backward()
        dynograd.zeros(rows, 64).index_add(0, index, dynograd.ones(1, 1).expand(2 * rows, 64))
        dynograd.zeros(rows).index_add(0, index, dynograd.ones(1).expand(2 * rows))
        dynograd.zeros(rows).index_add(0, index, table[index][:, 0]).sum().backward()
        mask = dynograd.rand(rows) > 0.5
        table[mask].sum().backward()
        dynograd.cat([table, table]).transpose(0, 1).contiguous().sum().backward()
        dynograd.stack([table, table], 1).sum().backward()
        table.masked_fill(mask[:, None], 0.0).sum().backward()
    F.one_hot(index.long(), rows)
    index.unique()


@_program
def _picking() -> None:
    for rows in (10, 5000):
        x = dynograd.rand(rows, 64, requires_grad=True)
        places = dynograd.randint(0, 64, (rows, 3))
        x.gather(1, places).sum().backward()
        dynograd.zeros(rows, 64).scatter(1, places, x[:, :3]).sum().backward()
        dynograd.zeros(rows, 64).scatter_add(1, places, x[:, :3]).sum().backward()
        x[dynograd.arange(rows), places[:, 0]].sum().backward()
        x[:, places[0]].sum().backward()
        order = x.argsort(0)
        x.sort(0).values.sum().backward()
        dynograd.flip(x, (1,))[order[:, 0]].sum().backward()
        F.pad(x, (1, 1)).roll(1, 0).sum().backward()
        with dynograd.no_grad():
            y = x.detach().clone()
            y[places[:, 0] % rows], y[0], y[:, 1:3], y[y > 0.5] = 1.0, 0.0, 2.0, 3.0
            y[places[0] % rows] = x[:3]
            y.index_copy_(0, dynograd.arange(3), x[:3].detach()), y.index_fill_(0, dynograd.arange(3), 1.0)
        for layer in (
            nn.EmbeddingBag(rows, 16),
            nn.EmbeddingBag(rows, 16, mode="max"),
            nn.EmbeddingBag(rows, 16, mode="sum"),
        ):
            layer(dynograd.randint(0, rows, (32,)), dynograd.arange(0, 32, 4)).sum().backward()


@_program
def _sparse_products() -> None:
    for nodes in (20, 2000):
        edges = dynograd.randint(0, nodes, (2, 5 * nodes))
        adjacency = dynograd.sparse_coo_tensor(edges, dynograd.rand(5 * nodes), (nodes, nodes)).coalesce()
        x = dynograd.randn(nodes, 32, requires_grad=True)
        dynograd.sparse.mm(adjacency, x).sum().backward()
        model = nn.ModuleList([nn.Linear(32, 16), nn.Linear(16, 7)])
        shift = nn.Parameter(dynograd.zeros(16))
        model.register_parameter("shift", shift)

        def loss_of(model: Any, x: Any, y: Any, adjacency: Any = adjacency, shift: Any = shift) -> Tensor:
            hidden = (dynograd.sparse.mm(adjacency, model[0](x)) + shift).relu()
            return F.cross_entropy(dynograd.sparse.mm(adjacency, model[1](F.dropout(hidden, 0.5))), y)

        _train(model, [(dynograd.randn(nodes, 32), _classes(7, nodes))], loss_of, "Adam", clip=False)


@_program
def _ragged() -> None:
    for count in (3, 200):
        rows = [dynograd.randn(2 + index * 7 % 30, 64) for index in range(count)]
        x = dynograd.ragged_tensor(rows).requires_grad_()
        for value in (
            x.mean(1), x.sum(1), x.amax(1), x.amin(1), x.max(1).values, x.var(1), x.std(1), x.logsumexp(1), F.softmax(x, 1), x.cumsum(1), x.sort(1).values,
            F.log_softmax(x, 1), F.layer_norm(x, (64,)), F.gelu(x), x * 2, x + x, x - x.mean(1, keepdim=True), dynograd.cat([x, x], 1), x.flip(1),
            nn.Linear(64, 8)(x), x[:, :1], x.to_padded_tensor(0.0),
        ):  # fmt: skip
            value.sum().backward()
        x.argmax(1), x.argsort(1), x.norm(dim=1), x.tolist()
        attention = nn.MultiheadAttention(64, 4, batch_first=True)
        attention(x, x, x, need_weights=False)[0].sum().backward()


@_program
def _alignments() -> None:
    """CTC."""
    for batch, time in ((2, 12), (16, 60)):
        scores = dynograd.randn(time, batch, 20, requires_grad=True)
        lengths = dynograd.full((batch,), time)
        targets = dynograd.randint(1, 20, (batch, time // 4))
        F.ctc_loss(F.log_softmax(scores, 2), targets, lengths, lengths // 4).backward()


@_program
def _tags() -> None:
    """Conditional random fields."""
    for size in (2, 32):
        scores = dynograd.randn(size, 20, 7, requires_grad=True)
        lengths = dynograd.randint(1, 20, (size,))
        field = nn.CRF(7, batch_first=True)
        (-field(scores, _classes(7, size, 20), lengths=lengths)).backward()
        with dynograd.no_grad():
            field.decode(scores, lengths=lengths)


@_program
def _layers_of_language_models() -> None:
    for rows in (4, 2000):
        x = dynograd.randn(rows, 64, requires_grad=True)
        gate = dynograd.randn(rows, 64, requires_grad=True)
        weight = dynograd.ones(64, requires_grad=True)
        F.rms_norm(x, (64,), weight).sum().backward()
        (F.silu(gate) * x).sum().backward()
        F.glu(dynograd.cat([x, gate], 1)).sum().backward()
        F.gelu(nn.Linear(64, 128)(x), approximate="tanh").sum().backward()
        F.gelu(nn.Linear(64, 128)(x)).sum().backward()
        F.batch_norm(x, None, None, weight, weight, training=True).sum().backward()


@_rows(**{name: name for name in "Adadelta Adamax NAdam RAdam Rprop ASGD Adafactor SparseAdam AMSGrad".split()})
def _other_optimizers(name: str) -> None:
    if name == "SparseAdam":
        table = nn.Embedding(100, 16, sparse=True)
        stepper: Any = optim.SparseAdam(table.parameters())
        table(dynograd.randint(0, 100, (30,))).sum().backward()
    else:
        model = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 3))
        stepper = (
            optim.AdamW(model.parameters(), amsgrad=True)
            if name == "AMSGrad"
            else getattr(optim, name)(model.parameters())
        )
        model(dynograd.randn(4, 64)).sum().backward()
    for _ in range(2):
        stepper.step()
    stepper.zero_grad()


@_program
def _graphs() -> None:
    for nodes, edges in ((20, 60), (500, 3000), (3000, 20000)):
        source, target = dynograd.randint(0, nodes, (edges,)), dynograd.randint(0, nodes, (edges,))
        first, second = nn.Linear(64, 64), nn.Linear(64, 7)
        model = nn.ModuleList([first, second])
        degree = dynograd.zeros(nodes).scatter_add(0, target, dynograd.ones(edges)).clamp(min=1).rsqrt()
        weight = (degree[source] * degree[target]).unsqueeze(1)

        def spread(
            x: Any, nodes: int = nodes, source: Any = source, target: Any = target, weight: Any = weight
        ) -> Tensor:
            return dynograd.zeros(nodes, x.shape[1]).index_add(0, target, x[source] * weight)

        def loss_of(model: Any, x: Any, y: Any, spread: Any = spread) -> Tensor:
            hidden = F.dropout(dynograd.relu(spread(model[0](x))), 0.5)
            return F.cross_entropy(spread(model[1](hidden)), y)

        _train(model, [(dynograd.randn(nodes, 64), _classes(7, nodes))], loss_of, "Adam")
        messages = dynograd.randn(edges, 16, requires_grad=True)
        places = target[:, None].expand(-1, 16)
        dynograd.zeros(nodes, 16).scatter_add(0, places, messages).sum().backward()
        for way in ("sum", "mean", "amax"):
            dynograd.zeros(nodes, 16).scatter_reduce(0, places, messages, way, include_self=False).sum().backward()


@_rows(plain=False, cell=True)
def _trees(with_cell: bool) -> None:
    class Tree(nn.Module):
        def __init__(self, width: int = 64) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(100, width), nn.Linear(width, 5)
            self.gates, self.forget = nn.Linear(2 * width, 3 * width), nn.Linear(2 * width, 2 * width)
            self.cell = nn.LSTMCell(width, width)

        def node(self, tree: Any) -> tuple[Tensor, Tensor]:
            if isinstance(tree, int):
                h = self.words(dynograd.tensor(tree))
                return h, h
            (h_left, c_left), (h_right, c_right) = self.node(tree[0]), self.node(tree[1])
            if with_cell:
                return self.cell(h_left, (h_right, c_left + c_right))
            x = dynograd.cat([h_left, h_right])
            i, o, u = self.gates(x).chunk(3)
            f_left, f_right = self.forget(x).chunk(2)
            c = (
                dynograd.sigmoid(i) * dynograd.tanh(u)
                + dynograd.sigmoid(f_left) * c_left
                + dynograd.sigmoid(f_right) * c_right
            )
            return dynograd.sigmoid(o) * dynograd.tanh(c), c

        def forward(self, tree: Any) -> Tensor:
            return self.out(self.node(tree)[0])

    def build(leaves: int, seed: int) -> int | tuple:
        left = 1 + seed * 7 % max(leaves - 1, 1)
        return seed % 100 if leaves == 1 else (build(left, seed + 1), build(leaves - left, seed + 2))

    def loss_of(model: Any, trees: list[Any], y: Any) -> Tensor:
        with dynograd.autobatch():
            losses = [F.cross_entropy(model(tree).unsqueeze(0), y[i : i + 1]) for i, tree in enumerate(trees)]
            return sum(losses) / len(losses)

    batches = [([build(2 + (5 * i) % 15, i) for i in range(size)], _classes(5, size)) for size in (3, 16, 100)]
    _train(Tree(), batches, loss_of, "Adam")
