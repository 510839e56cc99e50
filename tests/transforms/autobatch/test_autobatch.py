"""`autobatch`: reading, writing, hooks, errors, depth, threads, modes."""

import contextlib
import io
import threading

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.errors import InplaceError, ShapeError
from dynograd.transforms.autobatch.record.pending import Lazy, Row


def layer(width=3, seed=0):
    dynograd.manual_seed(seed)
    return nn.Linear(width, width)


def inputs(count, width=3):
    return [dynograd.arange(width) * 0.1 + k for k in range(count)]


def test_one_group_for_all_examples():
    net, xs = layer(), inputs(5)
    expected = [net(x).tanh() for x in xs]
    with dynograd.autobatch(always=True) as report:
        results = [net(x).tanh() for x in xs]
        assert all(type(result) is Lazy for result in results)
        assert results[0].shape == (3,) and results[0].dtype is dynograd.float32 and results[0].requires_grad
        assert report.launches == 0
    assert report.calls == 10 and report.launches == 2
    for element, other in zip(results, expected):
        numpy.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), rtol=1e-6)
    assert all(type(result) is Row for result in results)


READS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "print": str,
    "format": lambda x: f"{x.sum():.3f}",
    "numpy": lambda x: x.detach().numpy().tolist(),
    "tolist": lambda x: x.tolist(),
    "bool": lambda x: bool(x.sum() > 0),
    "array": lambda x: numpy.asarray(x.detach()).tolist(),
    "argmax": lambda x: int(x.argmax()),
    "index": lambda x: "abc"[x.argmax()] + "abc"[x.argmax(0, keepdim=True)],
    "contains": lambda x: 0.5 in x,
    "tensor": lambda x: dynograd.tensor(x).tolist(),
    "version": lambda x: x._version,
    "deepcopy": lambda x: __import__("copy").deepcopy(x.detach()).tolist(),
    "raw array": lambda x: x.array.tolist(),
    "numpy function": lambda x: float(numpy.sum(x.detach().array)),
    "iter": lambda x: [float(element) for element in x],
    "data": lambda x: x.data.tolist(),
    "nonzero": lambda x: x.nonzero().tolist(),
    "mask": lambda x: x[x > 0].tolist(),
    "stride": lambda x: x.stride(),
}


@pytest.mark.parametrize("name", READS)
def test_reading(name):
    net, x = layer(), inputs(2)[1]
    expected = READS[name](net(x) * 2)
    with dynograd.autobatch(always=True):
        result = READS[name](net(x) * 2)
    if isinstance(expected, float) or (isinstance(expected, list) and isinstance(expected[0], float)):
        assert result == pytest.approx(expected, rel=1e-6)
    else:
        assert type(result) is type(expected) and str(result).split("grad_fn")[0] == str(expected).split("grad_fn")[0]


def test_a_read_runs_only_what_it_needs():
    net, xs = layer(), inputs(4)
    with dynograd.autobatch(always=True) as report:
        first = [net(x) for x in xs]
        second = [element.exp() for element in first]
        other = [x * 2 for x in xs]
        float(first[0].sum())
        assert {label.split()[0] for label in report.groups} == {"linear", "sum"}
        assert type(second[0]) is Lazy and type(other[0]) is Lazy and not other[0].pending.bucket.done
    assert report.launches == 4


def test_losses_at_different_depths_wait_for_each_other():
    net, xs = layer(), inputs(8)
    with dynograd.autobatch(always=True) as report:
        for k, x in enumerate(xs):
            for _ in range(k + 1):
                x = net(x).tanh()
            x.exp()
    assert len(report.groups["linear -> float32[3]"]) == 8
    assert len(report.groups["exp -> float32[3]"]) <= 3


# --- writes -------------------------------------------------------------------------------------------------------------------------


def test_writing_a_waiting_value_stays_recorded():
    with dynograd.autobatch(always=True) as report:
        results = []
        for x in inputs(4):
            y = x * 2
            y += 1
            y.mul_(3)
            results.append(y)
        assert report.launches == 0
    for element, x in zip(results, inputs(4)):
        numpy.testing.assert_allclose(element.numpy(), (x.numpy() * 2 + 1) * 3, rtol=1e-6)


def test_writes_are_seen_through_views():
    with dynograd.autobatch(always=True):
        base = inputs(2)[1] * 2
        view = base[1:]
        deeper = view[0]
        alias = base.detach()
        base.add_(10)
        view[0] = -1
    assert base.tolist() == pytest.approx([12.0, -1.0, 12.4])
    assert view.tolist() == pytest.approx([-1.0, 12.4]) and deeper.item() == -1 and alias.tolist() == base.tolist()


def test_operands_written_before_their_calls_run():
    x, row = inputs(2)
    with dynograd.autobatch(always=True):
        before = [x + 1, x * 2]
        x.add_(100)
        after = x + 1
        x[0] = 7
        y = row * 2
        kept = y + 1
        float(y.sum())  # y has memory now
        y.zero_()
    assert before[0].tolist() == pytest.approx([1, 1.1, 1.2]) and before[1].tolist() == pytest.approx([0, 0.2, 0.4])
    assert after.tolist() == pytest.approx([101, 101.1, 101.2])
    assert kept.tolist() == pytest.approx([3, 3.2, 3.4]) and y.tolist() == [0, 0, 0]


def test_equal_calls_do_not_share_memory():
    x = inputs(1)[0]
    with dynograd.autobatch(always=True):
        results = [x + 1 for _ in range(3)]
        together = [result * 1 for result in results]
    together[0].add_(5)
    assert together[1].tolist() == pytest.approx([1, 1.1, 1.2])


def test_a_write_that_nobody_told_of_is_an_error():
    x = dynograd.zeros(3)
    with (
        pytest.raises(InplaceError, match=r"an operand of shape \(3,\) was written by .*clone"),
        dynograd.autobatch(always=True),
    ):
        x + 1
        from dynograd.autograd.writes import stamp

        x.array += 1
        stamp(x.array)


# --- gradients ----------------------------------------------------------------------------------------------------------------------


def test_hooks_see_the_whole_gradient():
    def run(scope):
        net, seen = layer(), []

        def body():
            total = 0
            for x in inputs(3):
                h = net(x)
                y = h * h
                h.register_hook(lambda g: seen.append(g.tolist()))
                total = total + (y + h).sum()
            return total

        if scope:
            with dynograd.autobatch(always=True):
                total = body()
        else:
            total = body()
        total.backward()
        return sorted(seen), net.weight.grad.tolist()

    result, expected = run(True), run(False)
    numpy.testing.assert_allclose(result[0], expected[0], rtol=1e-5)
    numpy.testing.assert_allclose(result[1], expected[1], rtol=1e-5)


def test_a_hook_that_changes_the_gradient_and_retain_grad():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        hidden = [net(x) for x in xs]
        loss = sum((element * 2).sum() for element in hidden)
        hidden[0].register_hook(lambda g: g * 0)
        hidden[1].retain_grad()
    loss.backward()
    assert hidden[1].grad.tolist() == [2, 2, 2]
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert hidden[0].grad is None
    assert net.bias.grad.tolist() == [4, 4, 4]


def test_grad_with_respect_to_a_value_inside():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        hidden = [net(x) for x in xs]
        loss = sum((each**2).sum() for each in hidden)
    results = dynograd.autograd.grad(loss, hidden, retain_graph=True)
    for g, element in zip(results, hidden):
        numpy.testing.assert_allclose(g.numpy(), 2 * element.detach().numpy(), rtol=1e-5)
    (weight,) = dynograd.autograd.grad(loss, [net.weight])
    assert weight.shape == (3, 3)


@pytest.mark.parametrize("depths", [(1, 2), (3, 1, 2), (2, 2, 1)])
def test_gradients_of_rows_that_lead_to_each_other(depths):
    """What comes to a group from several sides is added up once, whoever asks for it: the pass, and each row of it."""
    weight = dynograd.tensor([[0.3, -0.8], [1.2, 0.4], [-0.5, 0.9]], requires_grad=True)

    def states():
        results = []
        for number, depth in enumerate(depths):
            x = (weight[0] * (number + 1)).tanh()
            for _ in range(depth):
                x = (x * weight[1] + weight[2]).tanh()
            results.append(x)
        return results, sum((x.tanh() * x).sum() for x in results)

    with dynograd.autobatch(always=True):
        results, loss = states()
    expected, plain = states()
    gradients = dynograd.autograd.grad(loss, [*results, weight])
    for g, other in zip(gradients, dynograd.autograd.grad(plain, [*expected, weight]), strict=True):
        assert numpy.allclose(g.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_second_order():
    def run(scope):
        net = layer().double()

        def body():
            return sum((net(x.double()).tanh() ** 2).sum() for x in inputs(3))

        if scope:
            with dynograd.autobatch(always=True):
                loss = body()
        else:
            loss = body()
        (g,) = dynograd.autograd.grad(loss, net.weight, create_graph=True)
        (g * g).sum().backward()
        return net.weight.grad.numpy()

    numpy.testing.assert_allclose(run(True), run(False), rtol=1e-10)


def test_several_losses_and_two_backwards():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        hidden = [net(x).sum() for x in xs]
        first, second = hidden[0] + hidden[1], hidden[1] * hidden[2]
    first.backward(retain_graph=True)
    second.backward()
    again = layer()
    (again(xs[0]).sum() + again(xs[1]).sum() + again(xs[1]).sum() * again(xs[2]).sum()).backward()
    numpy.testing.assert_allclose(net.weight.grad.numpy(), again.weight.grad.numpy(), rtol=1e-5)


def test_backward_inside_the_scope():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        losses = [net(x).sum() for x in xs]
        (losses[0] + losses[1]).backward()
        assert net.weight.grad is not None
        losses[2].backward()
    again = layer()
    sum(again(x).sum() for x in xs).backward()
    numpy.testing.assert_allclose(net.weight.grad.numpy(), again.weight.grad.numpy(), rtol=1e-6)


def test_no_grad_inside_and_around():
    net, xs = layer(), inputs(3)
    with dynograd.no_grad(), dynograd.autobatch(always=True):
        outside = [net(x) for x in xs]
    with dynograd.autobatch(always=True):
        with dynograd.no_grad():
            inside = [net(x) for x in xs]
        recorded = [net(x) + element for x, element in zip(xs, inside)]
    assert not any(element.requires_grad for element in outside + inside) and all(
        element.requires_grad for element in recorded
    )
    numpy.testing.assert_allclose(recorded[1].detach().numpy(), 2 * inside[1].numpy(), rtol=1e-6)


def test_checkpoint_and_anomaly_mode_run_at_once():
    from dynograd.utils.checkpoint import checkpoint

    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True) as report:
        loss = sum(checkpoint(lambda x: net(x).tanh(), x, use_reentrant=False).sum() for x in xs)
        with dynograd.autograd.detect_anomaly():
            loss = loss + net(xs[0]).sum()
    loss.backward()
    again = layer()
    (sum(again(x).tanh().sum() for x in xs) + again(xs[0]).sum()).backward()
    numpy.testing.assert_allclose(net.weight.grad.numpy(), again.weight.grad.numpy(), rtol=1e-5)
    assert any("watches the tape" in why for _, why, _ in report.refused)


# --- random numbers -----------------------------------------------------------------------------------------------------------------


def test_dropout_draws_as_in_the_loop():
    def run(scope):
        dynograd.manual_seed(7)
        drop = nn.Dropout(0.5)
        if scope:
            with dynograd.autobatch(always=True):
                return [drop(x + 1).tolist() for x in [dynograd.ones(8) for _ in range(4)]]
        return [drop(x + 1).tolist() for x in [dynograd.ones(8) for _ in range(4)]]

    assert run(True) == run(False)


# --- errors, depth, size, threads -----------------------------------------------------------------------------------------------------


def test_a_wrong_shape_is_an_error_at_its_line():
    with dynograd.autobatch(always=True), pytest.raises(ShapeError, match=r"linear.*5 features"):
        layer()(dynograd.ones(5))


def test_one_failing_example_leaves_the_others_unharmed():
    table, head = dynograd.ones(4, 2, requires_grad=True), nn.Linear(2, 1)
    emb = nn.Embedding(4, 2, _weight=table.detach().clone())
    with pytest.raises(IndexError, match="index 9") as caught, dynograd.autobatch(always=True):
        result = [head(emb(dynograd.tensor(k))) for k in (0, 9, 2)]
        assert result[0].shape == (1,)
        numpy.testing.assert_allclose(result[2].tolist(), head(emb(dynograd.tensor(2))).tolist(), rtol=1e-6)
        with pytest.raises(IndexError, match="index 9"):
            result[1].item()
    assert any("call 1 of a group of 3" in note for note in caught.value.__notes__)


def test_deep_chains():
    net = layer()
    with dynograd.autobatch(always=True):
        h = dynograd.zeros(3)
        for _ in range(10_000):
            h = (net(h) * 0.5).tanh()
        loss = h.sum()
    loss.backward()
    assert net.weight.grad.shape == (3, 3)


def test_waiting_calls_are_bounded():
    with dynograd.autobatch(limit=1000, always=True) as report:
        x = dynograd.ones(2)
        for k in range(3000):
            x = x * 1.0 if k % 2 else x + 0.0
    assert any("limit" in why for why, _ in report.flushes)
    with pytest.raises(ValueError, match="positive number of calls, got 0"):
        dynograd.autobatch(limit=0)


def test_scopes_nest_and_are_left_clean():
    x = dynograd.ones(2)
    with dynograd.autobatch(always=True) as outer:
        y = x + 1
        with dynograd.autobatch(always=True) as inner:
            z = x + 1
        assert inner is outer and type(z) is Lazy
    assert y.tolist() == z.tolist() == [2, 2]
    assert type(x + 1) is dynograd.Tensor
    with pytest.raises(ZeroDivisionError), dynograd.autobatch(always=True):
        x + 1
        raise ZeroDivisionError
    assert type(x + 1) is dynograd.Tensor


def test_threads_have_records_of_their_own():
    net, results = layer(), {}

    def work(number):
        if number == 3:
            results[number] = sum(net(x).sum() for x in inputs(3)).item()
            return
        with dynograd.autobatch(always=True):
            results[number] = sum(net(x).sum() for x in inputs(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({round(float(result), 4) for result in results.values()}) == 1


def test_vmap_and_custom_functions_inside():
    class Double(dynograd.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        hidden = [net(x) for x in xs]
        doubled = [Double.apply(element) for element in hidden]
        sums = dynograd.vmap(lambda row: (row * row).sum())(dynograd.stack(hidden))
    numpy.testing.assert_allclose(doubled[1].detach().numpy(), 2 * hidden[1].detach().numpy())
    numpy.testing.assert_allclose(sums[2].item(), float((hidden[2] ** 2).sum()), rtol=1e-5)


def test_as_a_decorator_and_report():
    net = layer()

    @dynograd.autobatch(always=True)
    def total(xs):
        return sum(net(x).sum() for x in xs)

    assert float(total(inputs(4))) == pytest.approx(float(sum(net(x).sum() for x in inputs(4))), rel=1e-5)
    text = str(dynograd.autobatch.report())
    assert "calls in" in text and "linear" in text


def test_sums_over_many_examples_are_one_group():
    def run(scope, way):
        net = layer(seed=2)

        def body():
            losses = [(net(x) ** 2).sum() for x in inputs(30)]
            if way == "sum":
                return sum(losses), losses
            if way == "stack":
                return dynograd.stack(losses).sum(), losses
            total, partial = dynograd.zeros(()), []
            for k, each in enumerate(losses):
                if way == "add":
                    total = total + each
                else:
                    total = total * 1
                    total += each
                    for other in losses[k + 1 : k + 1 + 10 * (k == 3)]:
                        total += other
                    partial.append(total * 0.5)
            return total + sum(partial), losses

        if scope:
            with dynograd.autobatch(always=True) as report:
                total, _ = body()
                again = total * total
            assert way == "+=" or report.launches < 20
        else:
            total, _ = body()
            again = total * total
        again.backward()
        return float(total), float(again), net.weight.grad.tolist()

    for way in ("sum", "stack", "add", "+="):
        for element, other in zip(run(True, way), run(False, way)):
            numpy.testing.assert_allclose(element, other, rtol=2e-5)


def test_numbers_that_differ_from_example_to_example():
    xs = inputs(6)
    weight = dynograd.ones(3, requires_grad=True)
    with dynograd.autobatch(always=True) as report:
        results = [2 - (weight * x) * (k + 1) / 3.0 for k, x in enumerate(xs)]
        kinds = [(x > k, x.long() + k) for k, x in enumerate(xs)]
    assert len(report.groups["mul -> float32[3]"]) == 2 and max(report.groups["mul -> float32[3]"]) == 6
    for k, (element, x) in enumerate(zip(results, xs)):
        numpy.testing.assert_allclose(element.detach().numpy(), 2 - x.numpy() * (k + 1) / 3, rtol=1e-6)
        assert kinds[k][0].tolist() == (x > k).tolist() and kinds[k][1].tolist() == (x.long() + k).tolist()
        assert element.dtype is dynograd.float32 and kinds[k][1].dtype is dynograd.int64
    sum(result.sum() for result in results).backward()
    expected = -sum(x.numpy() * (k + 1) / 3 for k, x in enumerate(xs))
    numpy.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-5)


def test_the_picture_of_a_report():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True) as report:
        for x in xs:
            net(x).tanh()
    assert report.dot().splitlines() == [
        "digraph autobatch {",
        '  node [shape=box, fontname="sans-serif"];',
        '  g0 [label="linear -> float32[3]\\n3 calls in 1 group"];',
        '  g1 [label="tanh -> float32[3]\\n3 calls in 1 group"];',
        '  g0 -> g1 [label="1"];',
        "}",
    ]


def test_a_scope_that_gains_nothing_is_skipped_the_next_times():
    net, xs = layer(), inputs(40)
    recorded = []
    for count in [1] * 12 + [40] * 9 + [1] * 3:
        with dynograd.autobatch() as report:
            losses = [net(x).tanh().sum() for x in xs[:count]]
        recorded.append(not report.skipped)
        assert len(losses) == count and losses[0].requires_grad
    assert recorded == [True, False, True, False, False, False, True, *[False] * 7, *[True] * 9, False]
    assert "not recorded" in str(report)


def steps_with_reads(net, x, reads):
    for _ in range(reads):
        x = net(x).tanh()
        if float(x.detach().sum()) > 1e9:
            break
    return x.sum()


def test_recording_ends_where_reads_leave_nothing_together():
    net, xs = dynograd.nn.Linear(3, 3), inputs(9)
    gradients = []
    for plain in (True, False):
        net.zero_grad()
        with contextlib.nullcontext() if plain else dynograd.autobatch() as report:
            total = sum(steps_with_reads(net, x, 5) for x in xs)
        total.backward()
        gradients.append(net.weight.grad.numpy().copy())
    numpy.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)
    assert "16 reads" in report.ended and report.calls < 100
    assert "recording ended within the scope: 16 reads left 1." in str(report) and "dynograd.batched" in str(report)
    with dynograd.autobatch(always=True) as report:
        sum(steps_with_reads(net, x, 5) for x in xs)
    assert report.ended is None and report.calls > 150


def test_recording_goes_on_where_each_read_is_for_all():
    net = dynograd.nn.Linear(3, 3)
    with dynograd.autobatch() as report:
        xs = inputs(12)
        for _ in range(40):
            xs = [net(x).tanh() for x in xs]
            if xs[0].sum().item() > 1e9:
                break
    assert report.ended is None and report.launches < 200 and report.calls > 900


def test_a_scope_within_goes_on_when_recording_ended():
    net, xs = dynograd.nn.Linear(3, 3), inputs(6)
    with dynograd.autobatch() as outer:
        for x in xs:
            steps_with_reads(net, x, 5)
        assert outer.ended
        with dynograd.autobatch() as inner:
            result = [net(x).exp() for x in xs]
        assert result[0].shape == (3,)
    assert inner is not outer and inner.launches == 2


def test_autocast_where_calls_are_recorded_decides():
    net, xs = layer(), inputs(3)
    with dynograd.autobatch(always=True):
        with dynograd.autocast("cpu", dtype=dynograd.bfloat16):
            low = [net(x) for x in xs]
        high = [net(x) for x in xs]
    with dynograd.autocast("cpu", dtype=dynograd.bfloat16):
        expected = net(xs[1])
        with dynograd.autobatch(always=True):
            inner = [net(x) for x in xs]
            with dynograd.autocast("cpu", enabled=False):
                plain = [net(x) for x in xs]
    for element, other in ((low, expected), (inner, expected), (high, net(xs[1])), (plain, net(xs[1]))):
        assert element[1].dtype is other.dtype
        numpy.testing.assert_allclose(element[1].float().detach().numpy(), other.float().detach().numpy(), rtol=1e-2)


def test_a_waiting_value_belongs_to_its_thread():
    caught = []

    def read(x):
        try:
            x.item()
        except RuntimeError as error:
            caught.append(str(error))

    with dynograd.autobatch(always=True):
        x = inputs(2)[1].sum() * 2
        thread = threading.Thread(target=read, args=(x,))
        thread.start()
        thread.join()
        assert "another thread has recorded" in caught[0] and type(x) is Lazy
        assert x.item() == pytest.approx(6.6)
    with pytest.raises(ZeroDivisionError), dynograd.autobatch(always=True):
        left = inputs(2)[1] * 3
        raise ZeroDivisionError
    thread = threading.Thread(target=lambda: caught.append(left.tolist()))
    thread.start()
    thread.join()
    assert caught[1] == pytest.approx([3.0, 3.3, 3.6])


def test_lookups_read_no_indices():
    table = dynograd.randn(9, 3).requires_grad_()
    numbers = [dynograd.tensor(float(k)) for k in range(5)]

    def run():
        result = []
        for number in numbers:
            index = (number * 2).long()
            result.append(
                nn.functional.embedding(index, table, padding_idx=2) * (1 + nn.functional.embedding(index, table))
            )
            result.append(nn.functional.embedding(dynograd.stack([index, index // 2]), table).sum(0))
        return result

    with dynograd.autobatch(always=True) as report:
        results = run()
        loss = sum(result.pow(2).sum() for result in results)
        assert not report.flushes
    loss.backward()
    gradient, table.grad = table.grad, None
    expected = run()
    sum(each.pow(2).sum() for each in expected).backward()
    for element, other in zip([gradient, *results], [table.grad, *expected]):
        numpy.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), rtol=1e-5)
    assert max(report.groups["embedding -> float32[3]"]) == 5
    with dynograd.autobatch(always=True), pytest.raises(ValueError, match="Padding_idx"):
        nn.functional.embedding(numbers[0].long(), table, padding_idx=9)
    by_frequency = nn.Embedding(4, 2, scale_grad_by_freq=True)
    with dynograd.autobatch(always=True):
        total = sum(by_frequency(dynograd.tensor([1, 1])).sum() for _ in range(3))
    total.backward()
    assert by_frequency.weight.grad.tolist() == [[0, 0], [3, 3], [0, 0], [0, 0]]


def test_what_waits_can_be_saved():
    with dynograd.autobatch(always=True):
        results = [x * 2 for x in inputs(3)]
        file = io.BytesIO()
        dynograd.save({"found": [result.detach() for result in results], "first": results[0]}, file)
    file.seek(0)
    loaded = dynograd.load(file)
    assert loaded["first"].tolist() == results[0].tolist() and loaded["found"][2].tolist() == results[2].tolist()


MODULES = {
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 4)), {}),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), {}),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), {}),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), {}),
}


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_modules_that_are_cells(name, weights):
    dynograd.manual_seed(2)
    net = MODULES[name][0]().double()

    def one(x):
        if name == "MultiheadAttention":
            actual, argument = net(x, x, x, need_weights=weights)
            assert (argument is None) != weights
            return actual.sum() if argument is None else actual.sum() + (argument**2).sum()
        return (net(x, x) if "Decoder" in name else net(x)).pow(2).sum()

    xs = [dynograd.randn(1 + k % 3, 4, dtype=dynograd.float64) for k in range(9)]

    def run(scope):
        dynograd.manual_seed(3)
        net.zero_grad()
        if scope:
            with dynograd.autobatch(always=True) as report:
                loss = sum(one(x) for x in xs)
            assert [len(sizes) for label, sizes in report.groups.items() if "cell " + name in label] == [1, 1, 1]
        else:
            loss = sum(one(x) for x in xs)
        loss.backward()
        return [loss.detach().numpy(), *[parameter.grad.numpy() for parameter in net.parameters()]]

    for result, expected in zip(run(True), run(False)):
        numpy.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity"])
def test_losses_read_nothing(loss):
    net, xs = layer(), inputs(4)
    with dynograd.autobatch(always=True) as report:
        results = [getattr(nn.functional, loss)(net(x), net(x) * 2, **{"dim": 0} if "cos" in loss else {}) for x in xs]
        assert not report.flushes
    for element, x in zip(results, xs):
        other = getattr(nn.functional, loss)(net(x), net(x) * 2, **{"dim": 0} if "cos" in loss else {})
        numpy.testing.assert_allclose(element.detach().numpy(), other.detach().numpy(), rtol=1e-5)


def test_reports_name_cells_by_class_and_line():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        @dynograd.cell
        def forward(self, a, b):
            return self.layer(dynograd.cat([a, b]))

    class Plain(nn.Module):
        def forward(self, x):
            return x.tanh() * 2

    joined, plain, library = Joined(), dynograd.cell(Plain()), nn.Sequential(nn.Tanh())
    xs = inputs(3)
    with dynograd.autobatch(always=True) as report:
        for x in xs:
            library(plain(joined(x, x)))
    assert list(report.groups) == [
        f"cell Joined (test_autobatch.py:{Joined.forward.cell.body.__code__.co_firstlineno}) -> float32[3]",
        f"cell Plain (test_autobatch.py:{Plain.forward.__code__.co_firstlineno}) -> float32[3]",
        "cell Sequential -> float32[3]",
    ]


def test_cells_keep_their_signature():
    @dynograd.cell
    def scaled(x, factor=2.0, *, shift=None):
        return x * factor if shift is None else x * factor + shift

    @dynograd.cell
    def plain(x, y=None, factor=3):
        return x * factor if y is None else x * factor + y

    class Method(nn.Module):
        @dynograd.cell
        def forward(self, x, y=None):
            return plain.cell.body(x, y, 2)

    net, xs = Method(), inputs(3)
    calls = [
        lambda x: scaled(x),
        lambda x: scaled(x, 4.0, shift=x),
        lambda x: plain(x),
        lambda x: plain(x, factor=5, y=x),
        lambda x: plain(x, None, 2),
        lambda x: net(x) + net(x, x),
        lambda x: net(x, y=x),
    ]
    for call in calls:
        with dynograd.autobatch(always=True) as report:
            results = [call(x) for x in xs]
        for element, x in zip(results, xs):
            numpy.testing.assert_allclose(element.numpy(), call(x).numpy(), rtol=1e-6)
        assert not report.refused and any(label.startswith("cell ") for label in report.groups)
    with dynograd.autobatch(always=True), pytest.raises(TypeError, match="missing 1 required"):
        plain()


def test_leaves_of_each_examples_own_do_not_split_groups():
    shared, xs = dynograd.ones(3, requires_grad=True), inputs(6)
    own = [(x.clone().requires_grad_(), dynograd.eye(3).mul(k + 1).requires_grad_()) for k, x in enumerate(xs)]

    def body():
        result = []
        for x, (v, w) in zip(xs, own):
            h = nn.functional.linear(x * v, w, shared)
            result.append((h.tanh() * shared - dynograd.where(x > 1, v, shared)).sum() + dynograd.dot(v, h))
        return result

    with dynograd.autobatch(always=True) as report:
        losses = body()
    assert report.launches < 16 and max(report.groups["linear -> float32[3]"]) == 6
    sum(losses).backward()
    results = [each.grad.clone() for each in [shared, *[leaf for pair in own for leaf in pair]]]
    for element in [shared, *[leaf for pair in own for leaf in pair]]:
        element.grad = None
    expected = body()
    sum(expected).backward()
    for element, other in zip(losses, expected):
        assert element.item() == pytest.approx(other.item(), rel=1e-5)
    for element, other in zip(results, [shared, *[leaf for pair in own for leaf in pair]]):
        numpy.testing.assert_allclose(element.numpy(), other.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_large_weights_of_each_examples_own_stay_apart():
    weights = [dynograd.full((200, 200), 0.01 * k).requires_grad_() for k in range(3)]
    x = dynograd.ones(200)
    with dynograd.autobatch(always=True) as report:
        result = [w @ x for w in weights]
    assert report.launches == 3 and result[2][0].item() == pytest.approx(4.0)


@dynograd.cell
def dropping(a, b):
    return nn.functional.dropout(a, 0.5) * b


@pytest.mark.parametrize("program", [
    lambda x, xs: [nn.functional.dropout(x, 0.5) for _ in xs],
    lambda x, xs: [dropping(x, element) for element in xs],
    lambda x, xs: [dropping(x, x) for _ in xs],
    lambda x, xs: [nn.functional.alpha_dropout(x, 0.5, True) + element for element in xs],
    lambda x, xs: [nn.functional.dropout(x, 0.5) + dynograd.rand(8) for _ in xs] + [x.multinomial(3) for _ in xs],
], ids=["op", "cell", "cell of one", "alpha", "others"])  # fmt: skip
@pytest.mark.parametrize("leaf", [False, True])
def test_one_operand_in_all_calls_is_dropped_anew_each_time(program, leaf):
    x, xs = dynograd.ones(8), inputs(5, 8)
    x.requires_grad = leaf
    results = []
    for scope in (contextlib.nullcontext(), dynograd.autobatch(always=True)):
        dynograd.manual_seed(2)
        with scope:
            rows = program(x, xs)
        results.append([row.tolist() for row in rows])
    assert results[0] == results[1]
    assert len({str(result) for result in results[1]}) > 1
