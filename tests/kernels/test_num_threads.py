"""Several Python threads that train models of their own get, bit for bit, what each gets alone."""

import threading

import pytest

import dynograd
from dynograd import nn, optim
from dynograd.kernels.build import threads as kernel_threads
from dynograd.nn import functional as F

STEPS = 3


def mlp(generator):
    return nn.Sequential(
        nn.Linear(300, 200), nn.GELU(), nn.LayerNorm(200), nn.Linear(200, 150), nn.ReLU(), nn.Linear(150, 10)
    ), (dynograd.randn(64, 300, generator=generator))


def convolutions(generator):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 36, 10),
    ), dynograd.randn(32, 3, 16, 16, generator=generator)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(40, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def recurrent(generator):
    return Recurrent(), dynograd.randn(32, 12, 40, generator=generator)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(64, 4, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].mean(1))


def attention(generator):
    return Attention(), dynograd.randn(16, 24, 64, generator=generator)


MODELS = [mlp, convolutions, recurrent, attention]


def jobs():
    """Eight models made one after another, each with data, a generator and an optimizer of its own."""
    created = []
    for number in range(8):
        dynograd.manual_seed(number)
        generator = dynograd.Generator().manual_seed(100 + number)
        model, x = MODELS[number % len(MODELS)](generator)
        y = dynograd.randint(0, 10, (x.shape[0],), generator=generator)
        kind = [optim.AdamW, optim.Adam, optim.SGD][number % 3]
        options = dict(lr=0.01, momentum=0.9) if kind is optim.SGD else dict(lr=0.01, amsgrad=number > 4)
        created.append((model, x, y, generator, kind(model.parameters(), **options)))
    return created


def train(model, x, y, generator, optimizer):
    """The losses and all that was learned, as bytes."""
    result = []
    for _ in range(STEPS):
        noise = dynograd.randn(*x.shape, generator=generator)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + 0.1 * noise), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        result.append(loss.detach().numpy().tobytes())
    return result + [value.numpy().tobytes() for value in model.state_dict().values()]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_eight_threads_train_as_each_alone(count, monkeypatch):
    monkeypatch.setattr(kernel_threads, "_threads", count)
    expected = [train(*job) for job in jobs()]
    results, errors = [None] * 8, []
    start = threading.Barrier(8)

    def work(number, job):
        try:
            start.wait()
            results[number] = train(*job)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=job) for job in enumerate(jobs())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    for number, (mine, reference) in enumerate(zip(results, expected, strict=True)):
        assert mine == reference, f"{MODELS[number % len(MODELS)].__name__} (thread {number}) differs"


def test_modes_and_backward_of_threads_do_not_meet():
    seen = {}

    def work(name, recording):
        with dynograd.set_grad_enabled(recording):
            for _ in range(50):
                x = dynograd.ones(50, requires_grad=True)
                y = (x * 3).sum()
                if recording:
                    y.backward()
                    seen[name] = x.grad.tolist() == [3.0] * 50
                else:
                    seen[name] = not y.requires_grad

    threads = [threading.Thread(target=work, args=(number, number % 2 == 0)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == dict.fromkeys(range(8), True)
