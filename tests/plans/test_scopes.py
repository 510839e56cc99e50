"""Compiled steps with scopes of autobatch give what the same steps give as they are written, whatever comes in them, with another batch each time."""

import gc
import subprocess
import sys
import weakref

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.transforms.autobatch.fuse import fusing
from dynograd.transforms.autobatch.group import expanding
from dynograd.transforms.autobatch.record import learning
from dynograd.transforms.autobatch.record.sequences import Sequences
from tests.transforms.autobatch.conftest import only_errors_of_examples  # noqa: F401 - a fixture

WIDTH = 6


class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        i, o, u = self.gates(x).chunk(3, -1)
        c = i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(2 * WIDTH, 5 * WIDTH)
        self.dropout = nn.Dropout(0.3)
        self.kept = None

    def forward(self, left, right):
        (h_left, c_left), (h_right, c_right) = left, right
        i, f, g, o, u = self.gates(torch.cat([h_left, h_right], -1)).chunk(5, -1)
        c = i.sigmoid() * u.tanh() + f.sigmoid() * c_left + g.sigmoid() * c_right
        self.see(c)
        return self.dropout(o.sigmoid() * c.tanh()), c

    def see(self, c):
        if self.kept is not None:
            self.kept(c)


class Trees(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.leaf, self.inner, self.head = nn.Embedding(20, WIDTH), Leaf(), Inner(), nn.Linear(WIDTH, 3)
        self.eval()

    def state(self, tree):
        if isinstance(tree, tuple):
            return self.inner(self.state(tree[0]), self.state(tree[1]))
        return self.leaf(self.words(torch.tensor(tree)))

    def forward(self, tree):
        return self.head(self.state(tree)[0])


def tree(random, leaves):
    if leaves == 1:
        return int(random.integers(20))
    left = int(random.integers(1, leaves))
    return tree(random, left), tree(random, leaves - left)


def batch(number, count=4):
    random = numpy.random.default_rng(number)
    return [tree(random, int(random.integers(2, 7))) for _ in range(count)]


def loss_of(model, trees):
    return sum(F.cross_entropy(model(element), torch.tensor(1)) for element in trees)


# ---------------------------------------------------------------- steps: from (model, optimizer, batch) to a list of tensors or numbers


def trees(model, optimizer, examples):
    with torch.autobatch(always=True):
        loss = loss_of(model, examples)
    loss.backward()
    return [loss]


def with_optimizer(model, optimizer, examples):
    optimizer.zero_grad()
    with torch.autobatch(always=True):
        loss = loss_of(model, examples)
    loss.backward()
    optimizer.step()
    return [loss]


def two_scopes(model, optimizer, examples):
    with torch.autobatch(always=True):
        first = loss_of(model, examples[:2])
    with torch.autobatch(always=True):
        other = loss_of(model, examples[2:])
        (first * other.detach()).backward()
    return [first, other]


def backward_within(model, optimizer, examples):
    with torch.autobatch(always=True):
        losses = [loss_of(model, [example]) for example in examples]
        for loss in losses:
            loss.backward()
        return [loss.item() for loss in losses]


def without_gradients(model, optimizer, examples):
    with torch.no_grad(), torch.autobatch(always=True):
        result = [model(example) for example in examples]
    with torch.autobatch(always=True):
        loss = loss_of(model, examples)
    loss.backward()
    return [*result, loss]


def kept_states(model, optimizer, examples):
    """Both states of each tree's root: the second is used on within the sequence that gives it."""
    with torch.autobatch(always=True):
        states = [model.state(example) for example in examples]
        loss = sum(F.cross_entropy(model.head(h), torch.tensor(1)) + (h * c).sum() for h, c in states)
    grads = torch.autograd.grad(loss, [c for _, c in states], retain_graph=True)
    loss.backward()
    return [loss, *grads]


def retained(model, optimizer, examples):
    """Gradients of what lies within a sequence, and is used on in it."""
    seen = []

    def keep(c):
        if len(seen) % 3 == 0:
            c.retain_grad()
        seen.append(c)

    model.inner.kept = keep
    with torch.autobatch(always=True):
        loss = loss_of(model, examples)
    loss.backward()
    return [loss, *[c.grad for c in seen if c.retains_grad]]


def hooked_later(model, optimizer, examples):
    """Results within a sequence that somebody has when the scope is over."""
    seen = []
    model.inner.kept = seen.append
    with torch.autobatch(always=True):
        loss = loss_of(model, examples)
    result = []
    for c in seen[::2]:
        c.register_hook(lambda g: result.append(g) or 2 * g)
    loss.backward()
    return [loss, torch.stack(result).sum(0), *seen]


def read_within(model, optimizer, examples):
    """A value that is read in the middle of a sequence."""
    signs = []
    model.inner.kept = lambda c: signs.append(float(c.sum())) if len(signs) < 3 else None
    return [*trees(model, optimizer, examples), *signs]


def written(model, optimizer, examples):
    """A result within a sequence is written in place now and then."""
    count = iter(range(1000))
    model.inner.kept = lambda c: c.mul_(2.0) if next(count) % 4 == 1 else None
    return trees(model, optimizer, examples)


def decisions(model, optimizer, examples):
    """Examples that wait at their own decisions."""

    def steps(tree):
        score, state = model(tree), model.leaf(model.words(torch.tensor(3)))
        for _ in range(4):
            h, c = model.inner(state, model.leaf(model.words(torch.tensor(int(score.argmax())))))
            state, score = (h, c), model.head(h)
        return score

    with torch.autobatch(always=True):
        loss = sum(F.cross_entropy(element, torch.tensor(0)) for element in torch.batched(steps, always=True)(examples))
    loss.backward()
    return [loss]


def mixed_precision(model, optimizer, examples):
    with torch.autobatch(always=True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            first = model(examples[0]).float().sum()
        loss = loss_of(model, examples) + first
    loss.backward()
    return [loss]


def written_parameters(model, optimizer, examples):
    """A parameter is written while calls with it wait."""
    with torch.autobatch(always=True):
        first = loss_of(model, examples[:2])
        first.backward()
        with torch.no_grad():
            model.inner.gates.weight.mul_(0.5)
        loss = loss_of(model, examples)
    loss.backward()
    return [first, loss]


def other_inputs(model, optimizer, examples):
    """States from outside the scope, of which one is a leaf, and one tensor that comes twice."""
    zero, leaf = torch.zeros(WIDTH), torch.full((WIDTH,), 0.5, requires_grad=True)
    with torch.autobatch(always=True):
        states = [model.state(example) for example in examples]
        states += [model.inner(state, (zero, leaf * 1)) for state in states]
        states += [model.inner(state, state) for state in states[-3:]]
        loss = sum((h * c).sum() for h, c in states)
    loss.backward()
    return [loss, leaf.grad]


def once(change):
    """`trees`, with something changed before each third call."""

    def step(model, optimizer, examples):
        model.count = getattr(model, "count", 0) + 1
        if model.count % 3 == 0:
            change(model)
        return trees(model, optimizer, examples)

    step.__name__ = change.__name__
    return step


def training(model):
    model.train(not model.training)


def frozen_weights(model):
    model.inner.gates.weight.requires_grad_(not model.inner.gates.weight.requires_grad)


def new_parameter(model):
    model.leaf.gates.weight = nn.Parameter(model.leaf.gates.weight.detach() * 0.9)


def new_memory(model):
    model.inner.gates.bias.data = model.inner.gates.bias.detach() + 0.1


def module_hook(model):
    model.inner.gates.register_forward_hook(lambda module, inputs, output: output * 1.1)


STEPS = [
    trees,
    with_optimizer,
    two_scopes,
    backward_within,
    without_gradients,
    kept_states,
    retained,
    hooked_later,
    read_within,
    written,
    decisions,
    mixed_precision,
    written_parameters,
    other_inputs,
    once(training),
    once(frozen_weights),
    once(new_parameter),
    once(new_memory),
    once(module_hook),
]


def made(cells=False):
    torch.manual_seed(0)
    model = Trees()
    if cells:
        torch.cell(model.leaf), torch.cell(model.inner)
    return model, torch.optim.Adam(model.parameters(), 0.01)


def run(step, model, optimizer, batches):
    actual = []
    torch.manual_seed(1)
    for examples in batches:
        model.inner.kept = None
        for parameter in model.parameters():
            parameter.grad = None
        result = step(model, optimizer, examples)
        actual.append([numpy.asarray(value.detach() if isinstance(value, torch.Tensor) else value) for value in result])
        actual[-1] += [parameter.grad.numpy().copy() for parameter in model.parameters() if parameter.grad is not None]
    return actual


def assert_same(results, wanted):
    for number, (element, other) in enumerate(zip(results, wanted, strict=True)):
        assert len(element) == len(other), number
        for value, expected in zip(element, other, strict=True):
            numpy.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6, err_msg=str(number))


@pytest.fixture(params=["op by op", "in rows", "fused"])
def form(request, monkeypatch):
    monkeypatch.setattr(fusing, "LEVELS", 1 if request.param == "fused" else 10**9)
    if request.param == "op by op":
        monkeypatch.setattr(expanding, "_needed_of", lambda bucket: None)
    return request.param


def sequences_of(fast):
    return [sequences for _, sequences in fast.scopes.by_place.values()]


def compiled(step):
    return torch.compile(lambda *args: step(*args))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps_are_as_they_are_written(step, form):
    batches = [batch(number % 5) for number in range(9)]
    expected = run(step, *made(), batches)
    fast = compiled(step)
    assert_same(run(fast, *made(), batches), expected)
    assert fast.scopes.calls >= 6


def test_sequences_are_gone_through(form):
    fast = compiled(trees)
    model, optimizer = made()
    model.inner.dropout = nn.Identity()
    run(fast, model, optimizer, [batch(number) for number in range(6)])
    (sequences,) = sequences_of(fast)
    assert sorted(len(sequence.steps) for sequence in sequences.all) == [8, 15]
    assert all(sequence.calls > 20 and not sequence.left for sequence in sequences.all)
    assert sequences.inside > 9 * sequences.alone
    report = fast.report()
    assert report.scoped == 5 and sorted(row.ops for row in report.sequences) == [8, 15]
    assert (
        "15 ops from cat on (test_scopes.py:" in str(report)
        and "5 calls with scopes of autobatch" in report._repr_html_()
    )
    assert [bool(element.rows) for element in sequences.all] == [form == "in rows"] * 2
    usable = [
        cell.fusing.refused is cell.refused is None for element in sequences.all for cell in element.fused.values()
    ]
    assert usable == ([True, True] if form == "fused" else [])


def test_only_calls_whose_results_somebody_has_are_op_by_op(form):
    """Where the second state of each root is kept, levels without a root run together."""
    fast = compiled(kept_states)
    batches = [[(((1, 2), (3, 4)), ((5, number), (7, 8)))] * 3 + [(number, 9)] for number in range(6)]
    expected = run(kept_states, *made(), batches)
    assert_same(run(fast, *made(), batches), expected)
    kinds = [(bool(sequence.rows), bool(sequence.fused)) for sequence in sequences_of(fast)[0].all]
    assert any(map(any, kinds)) == (form != "op by op")
    labels = {of.label for of, *_ in torch.autobatch.report().order}
    assert "sigmoid" in labels and (form == "op by op") != any("sequence from cat on" in label for label in labels)


def test_cells_stay_cells():
    batches = [batch(number) for number in range(5)]
    expected = run(trees, *made(cells=True), batches)
    assert_same(run(compiled(trees), *made(cells=True), batches), expected)


def test_exact_mode_gives_the_same_bits():
    batches = [batch(number) for number in range(6)]
    expected = run(trees, *made(), batches)
    for element, other in zip(run(torch.compile(trees, mode="exact"), *made(), batches), expected, strict=True):
        assert [value.tobytes() for value in element] == [value.tobytes() for value in other]


def test_results_of_one_call_are_not_those_of_another():
    """Tensors within a sequence are given out again only where nobody can tell."""
    seen = []
    model, optimizer = made()
    model.inner.dropout = nn.Identity()

    def step(model, optimizer, examples):
        references = []

        def keep(c):
            copied = c * 1
            if len(seen) > 2:
                references.append(weakref.ref(copied))

        model.inner.kept = keep
        result = trees(model, optimizer, examples)
        seen.append([reference() for reference in references])
        return result

    run(compiled(step), model, optimizer, [batch(number) for number in range(6)])
    gc.collect()
    assert seen[-1] and not any(value is not None for values in seen for value in values)


def test_an_error_in_a_sequence_is_the_example_s_own():
    def step(model, optimizer, examples):
        model.inner.kept = lambda c: c.view(7) if len(examples) == 3 else None
        return trees(model, optimizer, examples)

    fast, (model, optimizer) = compiled(step), made()
    run(fast, model, optimizer, [batch(number) for number in range(4)])
    with pytest.raises(Exception, match=r"view|shape"):
        run(fast, model, optimizer, [batch(1, 3)])
    assert_same(run(fast, *made(), [batch(2)]), run(step, *made(), [batch(2)]))


def test_fullgraph_names_the_scope():
    model, optimizer = made()
    with pytest.raises(RuntimeError, match=r"a scope of autobatch.*test_scopes.py"):
        run(torch.compile(trees, fullgraph=True), model, optimizer, [batch(0)])


def test_a_scope_may_come_later():
    """The way without a scope is left, and found again."""

    def step(model, optimizer, examples):
        if len(examples) > 1:
            return trees(model, optimizer, examples)
        loss = loss_of(model, examples)
        loss.backward()
        return [loss]

    batches = [batch(0, 1)] * 4 + [batch(number) for number in range(4)] + [batch(0, 1)] * 4
    fast = compiled(step)
    assert_same(run(fast, *made(), batches), run(step, *made(), batches))
    assert fast.scopes.calls >= 3 and fast.walked >= 3


# ---------------------------------------------------------------- short sequences: their ops go through all rows of a group


def reduced(model, tokens):
    """A parser that decides by the scores of two states."""
    buffer, stack, scores = list(tokens), [], model.head
    while buffer or len(stack) > 1:
        shift = len(stack) < 2
        if not shift and buffer:
            shift = int(scores(torch.cat([stack[-1], stack[-2]])[:WIDTH].sigmoid()).argmax()) == 0
        if shift:
            stack.append(model.words(torch.tensor(buffer.pop())))
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(model.inner.gates(torch.cat([left, right]))[:WIDTH].tanh())
    return stack[0]


def numbers(model, tokens):
    """Operands that are numbers."""
    h = torch.zeros(WIDTH)
    for token in tokens:
        h = (model.head(h * 0.5 + model.words(torch.tensor(token))) / 3).sum() + h.tanh()
    return h


def twice(model, tokens):
    """An input that comes again, and a result that is used twice."""
    h = torch.zeros(WIDTH)
    for token in tokens:
        x = model.words(torch.tensor(token))
        y = (x + h).tanh()
        h = y * x - y.sigmoid()
    return h


def parts(model, tokens):
    """Several results of one op, of which some stay inside."""
    h = torch.zeros(WIDTH)
    for token in tokens:
        i, o, u = model.leaf.gates(h + model.words(torch.tensor(token))).chunk(3, -1)
        h = i.sigmoid() * u
        if token % 3 == 0:
            h = h + o
    return h


def one_row(model, tokens):
    """The same row for all, and then each its own."""
    start = model.words(torch.tensor(1))
    h = model.head(start.sigmoid() * 2).tanh().sum()
    for token in tokens:
        h = (h * model.words(torch.tensor(token)).sum()).tanh().exp().sigmoid()
    return h.reshape(1)


def without_a_gradient(model, tokens):
    """A sequence whose results want no gradient, though its operands do."""
    h = torch.zeros(WIDTH)
    for token in tokens:
        x = model.words(torch.tensor(token)) + h
        place = model.head(x.sigmoid()).argmax()
        h = x * (place + 1)
    return h


def views_of_what_comes_in(model, tokens):
    """Views of the state before, some of which are kept."""
    h, kept = model.words(torch.tensor(3)), []
    for token in tokens:
        x, front, back = model.words(torch.tensor(token)), h[:2], h[2:]
        h = torch.cat([back * 2, front]).tanh() * x
        if token % 2:
            kept.append(back)
    return h[2:] + sum(kept)


EXAMPLES = [reduced, numbers, twice, parts, one_row, without_a_gradient, views_of_what_comes_in]


def sentences(number, count=4):
    random = numpy.random.default_rng(number)
    return [random.integers(20, size=random.integers(2, 7)).tolist() for _ in range(count)]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_ops_in_rows_are_as_they_are_written(example, count, form):
    def step(model, optimizer, examples):
        with torch.autobatch(always=True):
            results = torch.batched(lambda tokens: example(model, tokens), always=True)(examples)
            loss = sum((result * result).sum() for result in results)
        loss.backward()
        return [loss, *results]

    batches = [sentences(number % 7, count) for number in range(12)]
    expected = run(step, *made(), batches)
    fast = compiled(step)
    assert_same(run(fast, *made(), batches), expected)
    (sequences,) = sequences_of(fast)
    in_rows = [sequence for sequence in sequences.all if sequence.rows]
    assert form == "fused" or bool(in_rows) == (form == "in rows")
    assert not any("groups of their own" in why for _, why, _ in torch.autobatch.report().refused)


@pytest.mark.parametrize("count", [20, 40])
def test_long_sequences_are_no_kernels(count, form):
    """One of some eighty ops would be compiled for many seconds; that it is not fused has nothing to do with what its ops reach."""
    body = eval("lambda h, x: h" + ".mul(x).tanh()" * count)  # each op at a place of its own

    def step(model, optimizer, examples):
        with torch.autobatch(always=True):
            words = [model.words(torch.tensor(tokens[0])) for tokens in examples]
            loss = sum(body(body(x.sigmoid(), x), x).sum() for x in words)
        loss.backward()
        return [loss]

    batches = [sentences(number) for number in range(8)]
    fast = compiled(step)
    assert_same(run(fast, *made(), batches), run(step, *made(), batches))
    (sequence,) = [sequence for sequence in sequences_of(fast)[0].all if len(sequence.steps) >= 2 * count - 1]
    assert sequence.calls and bool(sequence.fused) == (form == "fused" and count == 20)
    assert all(cell.fusing.refused is None for cell in sequence.fused.values())


@pytest.mark.parametrize("example", [reduced, numbers], ids=lambda example: example.__name__)
def test_empty_sentences_and_batches(example, form):
    """Sentences without words, batches of nothing else, and of no sentence."""

    def step(model, optimizer, examples):
        with torch.autobatch(always=True):
            results = torch.batched(lambda tokens: example(model, tokens) if tokens else None, always=True)(examples)
            loss = sum((result * result).sum() for result in results if result is not None)
        if any(examples):
            loss.backward()
            return [loss]
        return []

    batches = [sentences(number) for number in range(5)] + [[[], *sentences(5), []], [[], []], []]
    batches += [sentences(6), [[]], sentences(7)]
    assert_same(run(compiled(step), *made(), batches), run(step, *made(), batches))


def test_an_error_in_a_row_is_the_example_s_own():
    """Where a row fails, the ops are groups of their own, and say which one."""

    def of(x):
        return torch.linalg.inv((x * 2 + torch.eye(3)).exp() - 1).tanh().sum()

    def step(values):
        with torch.autobatch(always=True):
            total = sum(of(torch.full((3, 3), value)) for value in values)
        return float(total)

    fast, good = torch.compile(step), [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
    for _ in range(5):
        numpy.testing.assert_allclose(fast(good), step(good), rtol=1e-4)
    assert any(sequence.rows for sequence in sequences_of(fast)[0].all)
    messages = []
    for function in (step, fast):
        with pytest.raises(Exception, match="singular") as error:
            function([0.5, 0.25, float("-inf"), 1.0, 0.75, 1.5])
        messages.append((type(error.value), str(error.value), error.value.__notes__[0]))
    assert any("groups of their own" in why for _, why, _ in torch.autobatch.report().refused)
    assert messages[0] == messages[1]
    numpy.testing.assert_allclose(fast(good), step(good), rtol=1e-4)


def test_each_scope_of_a_step_has_its_own_sequences():
    """A scope without sequences does not end those of another one."""

    def step(model, optimizer, examples):
        result = trees(model, optimizer, examples)
        with torch.autobatch(always=True):
            plain = [model.words(torch.tensor(number)).sum() for number in range(8)]
        return [*result, *plain]

    batches = [batch(number) for number in range(8)]
    fast = compiled(step)
    assert_same(run(fast, *made(), batches), run(step, *made(), batches))
    first, other = sequences_of(fast)
    assert first.pays and first.inside and not other.all


def test_looking_for_sequences_ends_among_cells(monkeypatch):
    """Where nearly all calls are cells hardly any are looked at, and it is long until the next look."""
    monkeypatch.setattr(learning, "_ENOUGH", 24)
    looks = []

    class Log(learning.Log):
        def __init__(self, sequences):
            super().__init__(sequences)
            looks.append((sequences.scopes, self))

    monkeypatch.setattr(Sequences, "new_log", Log)
    batches = [batch(number, 12) for number in range(24)]
    expected = run(trees, *made(cells=True), batches)
    fast = compiled(trees)
    assert_same(run(fast, *made(cells=True), batches), expected)
    (sequences,) = sequences_of(fast)
    assert [scope for scope, _ in looks] == [2, 4, 22] and not sequences.all and not sequences.pays
    assert [len(log.calls) for _, log in looks] == [24] * 3 and sequences.log is None


def test_looking_pauses_where_sequences_do_not_pay(monkeypatch):
    """Most ops follow now this one, now that one."""
    looks = []

    class Log(learning.Log):
        def __init__(self, sequences):
            super().__init__(sequences)
            looks.append(sequences.scopes)

    monkeypatch.setattr(Sequences, "new_log", Log)

    def step(examples):
        with torch.autobatch(always=True):
            results = []
            for number, x in enumerate(examples):
                x = (x * 2).tanh().relu()
                for _ in range(8 + number % 3):
                    x = x.sin()
                results.append(x)
        return results

    fast, examples = compiled(step), [torch.ones(3) * number for number in range(6)]
    for _ in range(24):
        assert [x.tolist() for x in fast(examples)] == [x.tolist() for x in step(examples)]
    (sequences,) = sequences_of(fast)
    assert sequences.all and not sequences.pays
    assert looks == [2, 21]


def test_looking_goes_on_among_ops(monkeypatch):
    monkeypatch.setattr(learning, "_ENOUGH", 24)
    fast, batches = compiled(trees), [batch(number) for number in range(6)]
    assert_same(run(fast, *made(), batches), run(trees, *made(), batches))
    (sequences,) = sequences_of(fast)
    assert sequences.pays and sorted(len(sequence.steps) for sequence in sequences.all)[-1] == 15


def test_sequences_go_with_their_function():
    fast, (model, optimizer) = compiled(trees), made()
    run(fast, model, optimizer, [batch(number) for number in range(4)])
    (sequences,) = sequences_of(fast)
    gone = weakref.ref(sequences.all[0])
    del fast, sequences
    run(trees, model, optimizer, [batch(0)])  # `autobatch.report()` is that of another scope
    gc.collect()
    assert gone() is None


FIRST_STEPS = """
import dynograd as torch
from tests.plans.test_scopes import batch, made, trees

model, optimizer = made()
fast = torch.compile(lambda examples: trees(model, optimizer, examples))
for number in range(3):
    fast(batch(number))
print(sorted(row.ops for row in fast.report().sequences))
"""


def test_sequences_of_a_process_that_has_called_no_op_before():
    """Functions of ops are written at their first call, which is in the scope that is looked at: it goes another way to the op."""
    done = subprocess.run([sys.executable, "-c", FIRST_STEPS], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("[8, 15]\n", "")
