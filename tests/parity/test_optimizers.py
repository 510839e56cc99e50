"""The optimizers beside SGD and Adam step by step beside PyTorch's: all options, states, errors, gradients through the step."""

import inspect
import itertools

import numpy as np
import pytest
import torch

import dynograd
from tests.parity.optimizer_states import as_numpy, as_tensors, assert_same, row_id

SHAPES = [(3,), (), (5, 4), (50, 60), (7,), (2, 3, 2)]
MATRICES = [(5, 4), (4, 9), (50, 60)]
STEPS = 10
DECAYS = dict(weight_decay=[0, 0.1], maximize=[False, True])


def grid(name, **choices):
    return [(name, dict(zip(choices, values))) for values in itertools.product(*choices.values())]


ROWS = [
    *grid("NAdam", lr=[0.1], decoupled_weight_decay=[False, True], **DECAYS),
    *grid("NAdam", lr=[0.1], betas=[(0.5, 0.8)], eps=[1e-3], momentum_decay=[0, 0.3]),
    *grid("RAdam", lr=[0.1], decoupled_weight_decay=[False, True], **DECAYS),
    *grid("RAdam", lr=[0.1], betas=[(0.5, 0.7)], eps=[1e-3]),
    *grid("Adamax", lr=[0.1], betas=[(0.9, 0.999), (0.5, 0.8)], **DECAYS),
    *grid("Adagrad", lr=[0.1], lr_decay=[0, 0.1], initial_accumulator_value=[0, 0.3], **DECAYS),
    *grid("Adadelta", lr=[1.0], rho=[0.9, 0.5], eps=[1e-6, 1e-2], **DECAYS),
    *grid("RMSprop", lr=[0.1], momentum=[0, 0.9], centered=[False, True], **DECAYS),
    *grid("RMSprop", lr=[0.1], alpha=[0.5], eps=[1e-2]),
    *grid("Rprop", lr=[0.1], maximize=[False, True]),
    *grid("Rprop", lr=[0.1], etas=[(0.3, 2.0)], step_sizes=[(0.02, 0.3)]),
    *grid("ASGD", lr=[0.1], t0=[1e6, 3], lambd=[1e-4, 0.3], **DECAYS),
    *grid("ASGD", lr=[0.1], alpha=[0.5]),
    *grid("Adafactor", lr=[0.1], **DECAYS),
    *grid("Adafactor", lr=[0.5], beta2_decay=[-0.3], eps=[(None, 0.5), (0.1, 1e-3)], d=[1.5]),
    *grid("Muon", lr=[0.1], nesterov=[False, True], adjust_lr_fn=[None, "original", "match_rms_adamw"]),
    *grid("Muon", lr=[0.1], momentum=[0.5], weight_decay=[0], ns_coefficients=[(2.0, -1.5, 0.5)], ns_steps=[3]),
]
FIRST = [next(row for row in ROWS if row[0] == name) for name in dict.fromkeys(name for name, _ in ROWS)]
EVERY = [name for name, _ in FIRST] + ["LBFGS", "SparseAdam"]
# A sum over a bfloat16 tensor's elements has its order in its last bit, and Muon's matrices are bfloat16.
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 3e-2}
COUNTERS = ("step", "mu_product", "eta", "mu")


class Pair:
    """The same parameters, optimizers and gradients on both sides."""

    def __init__(self, row, dtype="float64", complex_ones=False):
        random = np.random.default_rng(0)
        name, options = row
        shapes = MATRICES if name == "Muon" else SHAPES

        def draw(shape):
            x = random.normal(size=(*shape, 2))
            return x.view(np.complex128)[..., 0] if complex_ones else x[..., 0]

        values = [draw(shape) for shape in shapes]
        self.gradients = [[draw(shape) for _ in range(STEPS)] for shape in shapes]
        self.gradients[-1][2] = None
        self.libraries = (dynograd, torch)
        self.parameters = [
            [lib.tensor(value).to(getattr(lib, dtype)).requires_grad_() for value in values] for lib in self.libraries
        ]
        self.make(name, options)

    def make(self, name, options):
        self.optimizers = [
            getattr(lib.optim, name)(parameters, **options) for lib, parameters in zip(self.libraries, self.parameters)
        ]

    def step(self, number):
        for lib, parameters, optimizer in zip(self.libraries, self.parameters, self.optimizers):
            for p, mine in zip(parameters, self.gradients):
                p.grad = None if mine[number] is None else lib.tensor(mine[number]).to(p.dtype)
            optimizer.step()

    def check(self, tolerance):
        for element, other in zip(*self.parameters):
            np.testing.assert_allclose(as_numpy(element), as_numpy(other), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_steps_and_states(row, dtype):
    pair, tolerance = Pair(row, dtype), TOLERANCES[dtype if row[0] != "Muon" else "bfloat16"]
    for number in range(STEPS):
        pair.step(number)
        pair.check(tolerance)
    ours, theirs = (as_numpy(optimizer.state_dict()) for optimizer in pair.optimizers)
    ours["state"], theirs["state"] = dict(sorted(ours["state"].items())), dict(sorted(theirs["state"].items()))
    assert_same(ours, theirs, tolerance)


# Muon with nesterov: without, PyTorch normalizes a bfloat16 momentum buffer in place.
@pytest.mark.parametrize("row", [*FIRST[:-1], ("Muon", dict(lr=0.1))], ids=row_id)
def test_bfloat16(row):
    pair = Pair(row, "bfloat16")
    for number in range(3):
        pair.step(number)
        pair.check(TOLERANCES["bfloat16"])
    for element, other in zip(*[optimizer.state.values() for optimizer in pair.optimizers]):
        assert {name: str(value.dtype).split(".")[-1] for name, value in element.items()} == {
            name: str(value.dtype).split(".")[-1] for name, value in other.items()
        }


@pytest.mark.parametrize("row", [row for row in FIRST if row[0] not in ("Adafactor", "Muon")], ids=row_id)
def test_complex_parameters(row):
    pair = Pair(row, "complex128", complex_ones=True)
    for number in range(STEPS):
        pair.step(number)
        pair.check(1e-12)


@pytest.mark.parametrize("row", FIRST, ids=row_id)
def test_states_go_both_ways(row):
    """Three steps, then each goes on from the other's state."""
    pair = Pair(row, "float32")
    for number in range(3):
        pair.step(number)
    saved = [as_numpy(optimizer.state_dict()) for optimizer in pair.optimizers]
    pair.make(row[0], dict(lr=123.0))
    for optimizer, lib, state in zip(pair.optimizers, pair.libraries, reversed(saved)):
        optimizer.load_state_dict(as_tensors(state, lib))
    for number in range(3, STEPS):
        pair.step(number)
        pair.check(TOLERANCES["bfloat16" if row[0] == "Muon" else "float32"])


@pytest.mark.parametrize("row", FIRST, ids=row_id)
def test_repr_and_groups(row):
    ours, theirs = Pair(row).optimizers
    assert repr(ours) == repr(theirs)
    assert list(ours.param_groups[0]) == list(theirs.param_groups[0])
    assert ours.defaults == theirs.defaults and list(ours.defaults) == list(theirs.defaults)


@pytest.mark.parametrize("name", EVERY)
def test_arguments(name):
    ours, theirs = (inspect.signature(getattr(lib.optim, name)).parameters for lib in (dynograd, torch))
    assert [(our.name, our.default, our.kind) for our in ours.values()] == [
        (their.name, their.default, their.kind) for their in theirs.values()
    ]


def test_every_optimizer_and_schedule_is_there():
    here = {name for name, value in vars(torch.optim).items() if inspect.isclass(value)}
    assert here <= set(dynograd.optim.__all__)
    assert set(torch.optim.lr_scheduler.__all__) <= set(dir(dynograd.optim.lr_scheduler))


@pytest.mark.parametrize(
    "row",
    [
        ("NAdam", dict(weight_decay=0.1)),
        ("RAdam", dict(betas=(0.5, 0.7), weight_decay=0.1)),
        ("Adamax", dict(maximize=True)),
        ("Adagrad", dict(initial_accumulator_value=0.1)),
        ("Adadelta", dict(rho=0.5, eps=1e-2)),
        ("RMSprop", dict(centered=True, momentum=0.9)),
        ("RMSprop", dict(weight_decay=0.1)),
        ("Rprop", {}),
        ("ASGD", dict(weight_decay=0.1)),
    ],
    ids=row_id,
)
def test_gradients_through_the_step(row):
    results = []
    for lib in (dynograd, torch):
        start = lib.tensor([1.0, -2.0, 0.5], dtype=lib.float64, requires_grad=True)
        scale = lib.tensor([0.5, 2.0, -0.4], dtype=lib.float64, requires_grad=True)
        p = start.clone()
        optimizer = getattr(lib.optim, row[0])([p], lr=0.1, differentiable=True, **row[1])
        p.grad = scale + scale * scale
        optimizer.step()
        (p**2).sum().backward()
        results.append([value.detach().numpy() for value in (p, start.grad)])
        results[-1].append(np.zeros(3) if scale.grad is None else scale.grad.numpy())
    for element, other in zip(*results):
        np.testing.assert_allclose(element, other, rtol=1e-6, atol=1e-7)


# --- LBFGS -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        dict(lr=0.5, max_iter=6),
        dict(lr=0.5, max_iter=6, history_size=2),
        dict(max_iter=6, line_search_fn="strong_wolfe"),
        dict(lr=0.3, max_iter=6, history_size=3, line_search_fn="strong_wolfe"),
        dict(lr=10, max_iter=8, max_eval=30, line_search_fn="strong_wolfe"),
    ],
    ids=str,
)
def test_lbfgs(options):
    """Also each going on from the other's state."""
    both = []
    for lib in (dynograd, torch):
        random = np.random.default_rng(0)
        x, y = lib.tensor(random.normal(size=(30, 6))), lib.tensor(random.normal(size=30))
        params = [lib.tensor(random.normal(size=shape), requires_grad=True) for shape in ((6, 4), (4,))]
        both.append((lib, params, lambda a=params[0], b=params[1], x=x, y=y: (((x @ a).tanh() @ b - y) ** 2).mean()))
    optimizers = [lib.optim.LBFGS(params, **options) for lib, params, _ in both]

    def steps(count, tolerance):
        for _ in range(count):
            for optimizer, (_, _, loss) in zip(optimizers, both):

                def closure(optimizer=optimizer, loss=loss):
                    optimizer.zero_grad()
                    value = loss()
                    value.backward()
                    return value

                optimizer.step(closure)
            for element, other in zip(both[0][1], both[1][1]):
                np.testing.assert_allclose(as_numpy(element), as_numpy(other), rtol=tolerance, atol=tolerance)

    steps(2, 1e-9)
    saved = [as_numpy(optimizer.state_dict()) for optimizer in optimizers]
    for state in saved:
        state["state"][0]["t"] = float(state["state"][0]["t"])  # in PyTorch a number or a tensor
    assert_same(*saved, 1e-7)
    optimizers = [lib.optim.LBFGS(params, lr=123) for lib, params, _ in both]
    for optimizer, (lib, _, _), state in zip(optimizers, both, reversed(saved)):
        optimizer.load_state_dict(as_tensors(state, lib))
    steps(1, 1e-6)


# --- errors ------------------------------------------------------------------------------------------------------------------


def leaf(lib, shape=(2, 2), dtype="float32"):
    return lib.ones(shape, dtype=getattr(lib, dtype), requires_grad=True)


def step_once(lib, name, dtype="float32", **options):
    p = leaf(lib, dtype=dtype)
    p.grad = lib.ones_like(p)
    getattr(lib.optim, name)([p], **options).step()


@pytest.mark.parametrize(
    "call",
    [
        *[lambda lib, name=name: getattr(lib.optim, name)([leaf(lib)], lr=-1) for name in EVERY],
        *[lambda lib, name=name: getattr(lib.optim, name)([leaf(lib)], lr=lib.ones(2)) for name in EVERY],
        *[lambda lib, name=name: getattr(lib.optim, name)([]) for name in EVERY],
        lambda lib: lib.optim.NAdam([leaf(lib)], betas=(1.0, 0.9)),
        lambda lib: lib.optim.NAdam([leaf(lib)], momentum_decay=-1),
        lambda lib: lib.optim.RAdam([leaf(lib)], eps=-1),
        lambda lib: lib.optim.Adamax([leaf(lib)], weight_decay=-1),
        lambda lib: lib.optim.Adagrad([leaf(lib)], lr_decay=-1),
        lambda lib: lib.optim.Adagrad([leaf(lib)], initial_accumulator_value=-1),
        lambda lib: lib.optim.Adagrad([leaf(lib)], fused=True, foreach=True),
        lambda lib: lib.optim.Adagrad([leaf(lib)], fused=True, differentiable=True),
        lambda lib: lib.optim.Adadelta([leaf(lib)], rho=2),
        lambda lib: lib.optim.RMSprop([leaf(lib)], momentum=-1),
        lambda lib: lib.optim.RMSprop([leaf(lib)], alpha=-1),
        lambda lib: lib.optim.Rprop([leaf(lib)], etas=(0.5, 0.9)),
        lambda lib: lib.optim.ASGD([leaf(lib)], weight_decay=-1),
        lambda lib: lib.optim.LBFGS([{"params": leaf(lib)}, {"params": leaf(lib)}]),
        lambda lib: lib.optim.LBFGS([leaf(lib)]).step(),
        lambda lib: lib.optim.Adafactor([leaf(lib)], beta2_decay=1),
        lambda lib: lib.optim.Adafactor([leaf(lib)], eps=(-1, 0)),
        lambda lib: lib.optim.Adafactor([leaf(lib)], eps=(None, -1)),
        lambda lib: lib.optim.Adafactor([leaf(lib)], d=0.5),
        lambda lib: lib.optim.Muon([leaf(lib, (3,))]),
        lambda lib: lib.optim.Muon([leaf(lib)], momentum=-1),
        lambda lib: lib.optim.Muon([leaf(lib)], adjust_lr_fn="x"),
        lambda lib: lib.optim.SparseAdam([leaf(lib)], lr=0),
        lambda lib: lib.optim.SparseAdam([leaf(lib)], eps=0),
        lambda lib: lib.optim.SparseAdam([leaf(lib, dtype="complex64")]),
        lambda lib: step_once(lib, "SparseAdam"),
        lambda lib: step_once(lib, "Muon", ns_steps=100),
        lambda lib: step_once(lib, "Muon", ns_coefficients=(1, 2)),
        lambda lib: step_once(lib, "Muon", "complex64"),
        lambda lib: step_once(lib, "Adafactor", "complex64"),
    ],
)
def test_errors_are_of_the_same_type(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(theirs.type):
        call(dynograd)
