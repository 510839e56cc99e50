"""A loss that becomes NaN is traced to its step, batch, op and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.errors import NonFiniteError


def train(body, steps=20, snapshot_every=4, snapshots=3, batches=None, epochs=1, optimizer=None, check_every=1):
    """Runs `body(model, x, run) -> loss` in a checked loop; returns the run."""
    dg.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optimizer(model) if optimizer else dg.optim.SGD(model.parameters(), lr=0.1)
    if batches is None:
        batches = [dg.full((3, 2), number / 10) for number in range(steps)]
    run = dg.Run(
        None, model=model, optimizer=optimizer, snapshot_every=snapshot_every, snapshots=snapshots, extra={"seen": []}
    )
    with run:
        for _ in run.epochs(epochs):
            for x in run.steps(batches):
                loss = body(model, x, run)
                if run.step % check_every == check_every - 1 and not run.check(loss):
                    continue
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                run.extra["seen"].append(run.step)
    return run


def named(error):
    return error.value.step, error.value.batch, error.value.op


def test_an_op_in_the_forward_pass_is_named_with_its_line():
    def body(model, x, run):
        y = model(x)
        if run.step == 13:
            y = (y - y).log()  # the culprit
        return y.mean()

    with pytest.raises(
        NonFiniteError,
        match=r"step 13 \(epoch 0, batch 13\): the loss is -inf: log at .*test_nonfinite.py:\d+ in body gave inf",
    ) as error:
        train(body)
    assert named(error) == (13, 13, "log")
    line = int(error.value.line.split(":")[1].split()[0])
    assert "the culprit" in Path(__file__).read_text().splitlines()[line - 1]
    assert "all that went into it was finite; on the way to the loss: log -> mean" in str(error.value)


def test_masks_of_minus_infinity_are_not_blamed():
    def body(model, x, run):
        scores = dg.zeros(3, 3).masked_fill(dg.tensor([[False, True, True]] * 3), float("-inf"))
        weights = scores.softmax(dim=1)
        y = (weights @ model(x)).mean()
        return y / 0.0 if run.step == 6 else y

    with pytest.raises(NonFiniteError) as error:
        train(body)
    assert named(error) == (6, 6, "div")


def test_a_softmax_over_nothing_is_named_and_its_input_too():
    def body(model, x, run):
        scores = model(x).reshape(1, 3).expand(2, 3)
        if run.step == 9:
            scores = scores.masked_fill(dg.tensor([[True] * 3, [False] * 3]), float("-inf"))
        return scores.softmax(dim=1).sum()

    with pytest.raises(NonFiniteError, match=r"its input already held inf, from masked_fill at ") as error:
        train(body)
    assert error.value.step == 9 and "softmax" in error.value.op


def test_a_bad_batch_is_named_with_the_place_in_it():
    batches = [dg.full((3, 2), number / 10) for number in range(20)]
    batches[17][2, 1] = float("nan")

    with pytest.raises(
        NonFiniteError, match=r"step 37 \(epoch 1, batch 17\).*batch \(nan at index \[2, 1\], 1 of 6\) holds nan"
    ) as error:
        train(lambda model, x, run: model(x).square().mean(), batches=batches[:17] + batches[18:], epochs=1)
        train(
            lambda model, x, run: model(x if run.epoch else dg.nan_to_num(x)).square().mean(), batches=batches, epochs=2
        )
    assert error.value.batch == 17


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_sample_in_a_shuffled_loader_is_named_with_its_index(workers):
    values = dg.ones(40, 2)
    values[29, 1] = float("inf")
    model = nn.Linear(2, 1)
    generator = dg.Generator().manual_seed(7)
    loader = dg.data.DataLoader(
        dg.data.TensorDataset(values), 4, shuffle=True, num_workers=workers, generator=generator
    )
    run = dg.Run(None, model=model, loader=loader, snapshot_every=3)
    order = []
    with pytest.raises(NonFiniteError, match=r"of samples \[.*29.*\].*batch\[0\] \(inf at index") as error, run:
        for _ in run.epochs(2):
            for (x,) in run.steps():
                order.append(x)
                run.check(model(x).square().mean())
    assert 29 in error.value.indices and len(error.value.indices) == 4
    place = error.value.indices.index(29)
    assert order[-1][place, 1].item() == float("inf")


def test_a_gradient_is_named_when_the_loss_was_finite():
    def body(model, x, run):
        y = model(x)
        if run.step == 10:
            return (y - y.detach()).abs().sqrt().mean()  # 0 with an infinite slope
        return y.square().mean()

    with pytest.raises(
        NonFiniteError,
        match=r"the loss is finite, but model\.\w+\.\w+ no longer is after the step: .*forward was at .*in body",
    ) as error:
        train(body)
    assert named(error) == (10, 10, "backward of sqrt")


def test_an_optimizer_is_named_when_gradients_were_finite():
    def body(model, x, run):
        for group in run.parts["optimizer"].param_groups:
            group["lr"] = float("inf") if run.step == 5 else 0.1
        return model(x).square().mean()

    with pytest.raises(NonFiniteError, match=r"no gradient was, so it came in optimizer\.step\(\)") as error:
        train(body)
    assert named(error) == (5, 5, "optimizer.step")


@pytest.mark.parametrize("bad_step", [3, 7, 8, 12, 15])
def test_copies_that_are_nan_already_are_passed_over(bad_step):
    """The loss is only looked at every 16 steps: the last good copy is found by halving."""

    def body(model, x, run):
        return model(x).square().mean() * (float("nan") if run.step == bad_step else 1.0)

    with pytest.raises(NonFiniteError) as error:
        train(body, snapshots=10, check_every=16)
    assert error.value.step == bad_step


def test_a_parameter_that_was_set_to_nan():
    def body(model, x, run):
        if run.step == 5:
            model[0].weight.data.numpy()[1, 0] = float("nan")
        return model(x).square().mean()

    with pytest.raises(
        NonFiniteError,
        match=r"linear at .* it was given such values: model\.0\.weight \(nan at index \[1, 0\], 1 of 8\) holds nan",
    ) as error:
        train(body)
    assert error.value.step == 5


def test_in_place_ops_and_views():
    def body(model, x, run):
        y = model(x) * 1.0
        if run.step == 6:
            y[1].div_(0.0)
        return y.sum()

    with pytest.raises(NonFiniteError, match="step 6") as error:
        train(body)
    assert error.value.line and "in body" in error.value.line


def test_ragged_batches():
    batches = [dg.ragged_tensor([[1.0, 2.0], [number / 10]]) for number in range(10)]
    with pytest.raises(NonFiniteError, match="step 5 .*: log at .* all that went into it was finite") as error:
        train(
            lambda model, x, run: (x * model[0].bias[0]).sum() * ((x - 5).log().sum() if run.step == 5 else 1.0),
            batches=batches,
        )
    assert (error.value.step, error.value.op) == (5, "log")
    bad = [*batches[:7], dg.ragged_tensor([[1.0], [2.0, float("nan"), 3.0]])]
    with pytest.raises(NonFiniteError, match=r"batch \(nan at index \[2\], 1 of 4\) holds nan"):
        train(lambda model, x, run: (x * model[0].bias[0]).sum(), batches=bad)


def test_sparse_tensors_are_passed_over():
    matrix = dg.eye(3).to_sparse()

    def body(model, x, run):
        y = dg.sparse.mm(matrix, model(x)).mean()
        return y / 0.0 if run.step == 4 else y

    with pytest.raises(NonFiniteError) as error:
        train(body, batches=[dg.ones(3, 2)] * 8)
    assert error.value.op == "div"


def test_what_cannot_be_repeated_is_said():
    calls = []

    def body(model, x, run):
        calls.append(run.step)
        return model(x).mean() * (float("nan") if len(calls) == 7 else 1.0)

    with pytest.raises(
        NonFiniteError, match=r"step 6 was not finite, but came out finite when the steps were repeated"
    ):
        train(body)
    assert calls == [0, 1, 2, 3, 4, 5, 6, 4, 5, 6]


def test_without_copies_the_step_is_named_and_the_way_to_the_op():
    def body(model, x, run):
        return model(x).mean() * (float("inf") if run.step == 2 else 1.0)

    with pytest.raises(
        NonFiniteError,
        match=r"step 2 \(epoch 0, batch 2\): the loss is (-?inf|nan); to find the op, make the Run with snapshot_every=",
    ):
        train(body, snapshot_every=0)
    with pytest.raises(NonFiniteError, match=r"the oldest copy in memory has NaN already"):
        train(lambda model, x, run: model(x).mean() * float("nan"), snapshots=1, snapshot_every=2, check_every=10)


def test_losses_of_many_kinds():
    run = dg.Run(None)
    assert run.check(1) and run.check({"a": [dg.ones(2), 0.5]})
    for bad in (float("nan"), dg.tensor([1.0, float("inf")]), [dg.ones(1), dg.tensor(float("nan"))]):
        with pytest.raises(NonFiniteError):
            run.check(bad)


def test_ops_are_watched_no_longer_afterwards():
    from dynograd.autograd import engine
    from dynograd.profiler import ranges

    def body(model, x, run):
        return model(x).mean() * (float("nan") if run.step == 2 else 1.0)

    with pytest.raises(NonFiniteError):
        train(body)
    assert not ranges._listeners and not engine.observers and not dg.is_anomaly_enabled()
