"""Policies of checkpoints: which ops keep their results, that those are not computed again, and that gradients stay what they are."""

import contextlib
import functools
import threading
from collections import Counter

import pytest

import dynograd as dg
import dynograd.nn.functional as F
from dynograd import library
from dynograd.ops.op import registry
from dynograd.ops.pytorch_names import NAMES
from dynograd.ops.readers import Reader
from dynograd.utils import selective_checkpoints
from dynograd.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

aten = dg.ops.aten
SAVE, RECOMPUTE = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE


class Computing(Reader):
    """Counts the calls that reach the ops: it came before the policies' reader, so it stands below."""

    name, sets_aside = "checkpoint", ("",)

    def sees(self, entry):
        return entry.op is not None and entry.op.kind != "composed" and not entry.key.endswith(".public")

    def call(self, entry, below, args, kwargs):
        self.counts[entry.op.name] += 1
        return below(*args, **kwargs)


@pytest.fixture
def computed():
    reader = Computing()
    reader.counts = Counter()
    reader.turn_on()
    yield reader.counts
    reader.turn_off()


def leaf(*shape):
    return dg.rand(*shape, requires_grad=True)


def every(policy):
    return lambda context, op, *args, **kwargs: policy


def selective(policy, **options):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


def layers(x, w, b):
    h = F.gelu(F.linear(x, w, b))
    h = F.dropout(F.dropout(h, 0.5) @ w, 0.3)
    h = F.layer_norm(h, (8,)).softmax(-1) @ w
    return h.sort(descending=True)[0].sin().sum()


def written(x, w, b):
    h = (x @ w) * 2
    h = h.clone()
    h[0] = 0.0
    h += b
    return h.relu_().t().tanh().sum() + x.mean()


def attention(x, w, b):
    q = (x @ w).view(1, 2, -1, 4)
    with dg.no_grad():
        scale = q.norm()
    return (F.scaled_dot_product_attention(q, q, q) * scale).logsumexp(-1).sum()


def convolution(x, w, b):
    images = x.reshape(1, 1, -1, 8)
    pooled = F.max_pool2d(F.conv2d(images, w[None, None, :3, :3]), 2)
    return pooled.std() * F.batch_norm(x, None, None, training=True).amax()


def cell(x, w, b):
    torn = dg.einsum("bi,ij->bj", x, w).chunk(2, -1)
    return (dg.sigmoid(torn[0]) * dg.cat([torn[1], torn[1]], 1)[:, :4]).cumsum(0).max(0).values.sum()


def nested(x, w, b):
    inner = checkpoint(lambda x: (x @ w).exp(), x, use_reentrant=False)
    return layers(inner / 100, w, b)


def recurrent(x, w, b):
    dg.manual_seed(3)
    return dg.nn.LSTM(8, 4)(x[:, None])[0].pow(2).sum() + w.sum() * b.sum()


def ragged(x, w, b):
    rows = dg.ragged_tensor(list(x.split([4, 2])))
    return F.layer_norm((rows @ w).softmax(-1) + b, (8,)).exp().sum()


PARTS = [layers, written, attention, convolution, cell, nested, recurrent, ragged]
POLICIES = {
    "every op": every(SAVE),
    "none": every(RECOMPUTE),
    "on the host": every(CheckpointPolicy.PREFER_CPU_OFFLOAD),
    "products": lambda context, op, *args, **kwargs: op in {aten.mm.default, aten.addmm.default, aten.bmm.default},
    "all but products": lambda context, op, *args, **kwargs: op not in (aten.mm.default, aten.addmm.default),
    "a list": [aten.mm.default, aten.native_dropout, "linear", dg.softmax, dg.ops.dynograd.sort.default],
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=[*POLICIES])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_gradients_are_those_without_checkpoint_to_the_bit(part, policy):
    dg.manual_seed(0)
    operands = leaf(6, 8), leaf(8, 8), leaf(8)
    dg.manual_seed(1)
    expected = part(*operands)
    gradients = dg.autograd.grad(expected, operands, allow_unused=True)
    dg.manual_seed(1)
    result = selective(policy)(part, *operands)
    assert dg.equal(result, expected)
    if part is written and policy not in (POLICIES["none"], POLICIES["products"], POLICIES["a list"]):
        with pytest.raises(CheckpointError, match="has been mutated"):
            result.backward()
        return
    for retain_graph in (True, False):
        again = dg.autograd.grad(result, operands, retain_graph=retain_graph, allow_unused=True)
        for gradient, reference in zip(again, gradients):
            assert (gradient is reference is None) or dg.equal(gradient, reference)


def test_what_is_kept_is_not_computed_again(computed):
    x, w, b = leaf(6, 8), leaf(8, 8), leaf(8)
    whole = {"linear": 1, "gelu": 1, "dropout": 2, "matmul": 2, "layer_norm": 1, "softmax": 1, "sort": 1, "sin": 1}
    rows = [  # what is kept, what the second run does not compute
        (every(RECOMPUTE), ()),
        (every(SAVE), whole),
        ([aten.mm.default], ["matmul"]),
        (["gelu", F.linear, aten.native_dropout.default, "sort"], ["gelu", "linear", "dropout", "sort"]),
    ]
    layers(x, w, b).backward()
    for policy, left_out in rows:
        counts = []
        for result in (layers(x, w, b), selective(policy)(layers, x, w, b)):
            computed.clear()
            result.backward()
            counts.append(Counter(computed))
        assert dict(counts[1] - counts[0]) == {name: count for name, count in whole.items() if name not in left_out}


def test_memory_lies_between_all_and_nothing():
    w = dg.rand(512, 512)

    def part(x):
        for _ in range(4):
            x = ((x @ w).sin().cos() / 50).sigmoid()
        return x

    def used(run):
        x = leaf(512, 512)
        dg.memory.release()  # a kept buffer that is a little larger would be counted with its size
        before = dg.memory.statistics()["in_use"]
        y = run(x)
        assert y.requires_grad
        return dg.memory.statistics()["in_use"] - before

    nothing, products, everything = [
        used(functools.partial(selective(policy), part)) for policy in ([], [aten.mm.default], every(SAVE))
    ]
    assert nothing < products < used(part) <= everything
    assert products - nothing == 4 * w.numel() * 4


def test_a_policy_is_told_of_operators_by_pytorchs_names_and_of_results():
    x, y, seen = leaf(4, 4), dg.rand(2, 4, 4), set()

    def policy(context, op, *args, **kwargs):
        assert not context.is_recompute and isinstance(context.op_output, (dg.Tensor, tuple))
        seen.add(f"{op} {context.op_name}")
        return RECOMPUTE

    def part(x):
        x = F.linear(x, x) @ x + 1
        x = (y @ x)[0] @ x[0]
        x = x[None].expand(4, 4)
        x = (x == 0) + x**2 + x.sum() + x.softmax(0) + x.norm()
        return F.dropout(x.sum(-1, keepdim=True), 0.5) + F.linear(x, x, x[0]) + F.layer_norm(x, (4,))

    selective(policy)(part, x)
    expected = (
        "aten.mm.default linear|aten.mm.default matmul|aten.add.Tensor add|aten.bmm.default matmul|aten.mv.default matmul|aten.eq.Scalar eq|"
        "aten.sum.default sum|aten._softmax.default softmax|aten.linalg_vector_norm.default vector_norm|aten.addmm.default linear|"
        "aten.sum.dim_IntList sum|aten.native_dropout.default dropout|aten.native_layer_norm.default layer_norm"
    )
    assert set(expected.split("|")) - seen == set(), seen


def test_every_op_has_an_operator():
    for name in NAMES:
        assert name in registry
    for op in registry.values():
        if op.kind != "composed":
            operator = selective_checkpoints._operator_of(op, (dg.ones(2), dg.ones(2)), {})
            assert callable(operator) and str(operator).split(".")[0] in ("aten", "dynograd")
    assert (
        str(selective_checkpoints._operator_of(registry["segment_softmax"], (), {}))
        == "dynograd.segment_softmax.default"
    )


def test_what_a_list_and_a_policy_may_be():
    rows = [
        (3, TypeError, "either a function or a list of ops, got int"),
        ([3], ValueError, "expected ops in the list, such as ops.aten.mm.default.*got 3 of type int"),
        (["matmull"], ValueError, "got 'matmull' of type str"),
        ([dg.conv2d], ValueError, "conv2d.*it is made of other ops, name those"),
    ]
    for policy, error, text in rows:
        with pytest.raises(error, match=text):
            create_selective_checkpoint_contexts(policy)
    with pytest.raises(
        TypeError, match="the policy returned 'save' for .*aten.exp.*expected a CheckpointPolicy such as"
    ):
        selective(every("save"))(dg.exp, leaf(2))
    context = SelectiveCheckpointContext(is_recompute=True, op_output=3)
    assert context.is_recompute and context.op_output == 3 and context.op_name is None


def test_writing_into_a_kept_result_is_an_error_unless_it_is_allowed():
    def part(x):
        y = x.sin()
        z = y * 1
        y.mul_(2)
        return z.exp()

    for allow in (False, True):
        y = selective([dg.sin], allow_cache_entry_mutation=allow)(part, leaf(3))
        text = "the result of .*aten.sin.* that a policy kept has been mutated.*allow_cache_entry_mutation=True"
        with contextlib.nullcontext() if allow else pytest.raises(CheckpointError, match=text):
            y.sum().backward()


def test_another_second_run_is_an_error():
    calls = []

    def part(x):
        calls.append(1)
        for _ in calls:
            x = x.sin()
        return x.exp()

    text = "aten.sin.*is called once more when the part runs again, after 1 calls in the forward"
    with pytest.raises(CheckpointError, match=text):
        selective([dg.sin])(part, leaf(2)).sum().backward()


def test_operators_of_the_program_are_kept():
    calls = []

    @library.custom_op("selective_tests::doubled", mutates_args=())
    def doubled(x: dg.Tensor) -> dg.Tensor:
        calls.append(1)
        return x * 2

    doubled.register_autograd(lambda ctx, g: g * 2)
    operator = dg.ops.selective_tests.doubled.default
    for policy, expected in [([operator], 1), (lambda context, op, *args: op is operator, 1), ([], 2)]:
        calls.clear()
        x = leaf(3)
        selective(policy)(lambda x: doubled(x).exp(), x).sum().backward()
        dg.testing.assert_close(x.grad, 2 * (2 * x.detach()).exp())
        assert len(calls) == expected


@pytest.mark.parametrize("policy", [every(SAVE), [aten.mm.default, "linear"]])
def test_under_autocast(policy):
    x, w = leaf(4, 4), leaf(4, 4)
    gradients = []
    for run in (lambda part, x: part(x), selective(policy)):
        with dg.autocast("cpu"):
            y = run(lambda x: F.linear((x @ w).exp(), w).softmax(-1), x)
        gradients.append(dg.autograd.grad(y.float().square().sum(), (x, w)))
    assert all(dg.equal(*pair) for pair in zip(*gradients))


def test_second_gradients():
    x, w = leaf(3, 3), leaf(3, 3)

    def second(y):
        (g,) = dg.autograd.grad(y.sum(), x, create_graph=True)
        return dg.autograd.grad(g.square().sum(), (x, w))

    def part(x):
        return (x @ w).sin()

    for gradient, expected in zip(second(selective(every(SAVE))(part, x)), second(part(x))):
        dg.testing.assert_close(gradient, expected)


def test_other_threads_are_not_asked():
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append(op)
        return SAVE

    def part(x):
        thread = threading.Thread(target=lambda: dg.ones(3).cos())
        thread.start()
        thread.join()
        return x.sin()

    selective(policy)(part, leaf(2))
    assert seen == [aten.sin.default]
