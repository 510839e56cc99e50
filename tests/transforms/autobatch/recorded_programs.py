"""Random programs over vectors, sets and matrices of several sizes, as functions of a seed: straight lines, with some of the steps of
`test_autobatch_programs` among them."""

import numpy

import dynograd
from dynograd.nn import functional as F
from tests.transforms.autobatch import test_autobatch_programs as programs

SIZES = (1, 2, 3, 5, 8)
UNARY = (
    lambda a: a.tanh(),
    lambda a: a.sigmoid() * 0.5,
    lambda a: a.exp() / (1 + a.exp()),
    lambda a: a.softmax(-1),
    lambda a: a.softmax(0),
    lambda a: a.log_softmax(-1) * 0.1,
    lambda a: a.mean(0),
    lambda a: a.sum(-1) * 0.2,
    lambda a: a.amax(-1),
    lambda a: a.std(0, correction=0),
    lambda a: a.cumsum(0) * 0.3,
    lambda a: a.unsqueeze(0),
    lambda a: a.unsqueeze(-1),
    lambda a: a.t() if a.ndim == 2 else a,
    lambda a: a.reshape(-1),
    lambda a: F.layer_norm(a, (a.shape[-1],)),
    lambda a: a[1:],
    lambda a: a[0],
    lambda a: a.clone().mul_(0.5),
    lambda a: a.detach(),
)
BINARY = (
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: (a - b).relu(),
    lambda a, b: dynograd.where(a > b, a, b * 0.5),
    lambda a, b: a @ b,
    lambda a, b: dynograd.stack([a, b]),
    lambda a, b: dynograd.stack([b, a, b], -1),
    lambda a, b: dynograd.cat([a, b]),
    lambda a, b: dynograd.cat([a, a, b], -1),
    lambda a, b: a.addcmul(b, b, value=0.5),
)


def line_of(rng, leaves):
    """Steps of one example: (which function, which of the values so far); only those that its shapes allow."""
    pool, steps = list(leaves), []
    for _ in range(int(rng.integers(3, 12))):
        functions = BINARY if rng.random() < 0.6 else UNARY
        step = functions, int(rng.integers(len(functions))), rng.integers(len(pool), size=2).tolist()
        try:
            created = apply(step, pool)
        except (RuntimeError, ValueError, IndexError):
            continue
        if 0 < created.numel() <= 64 and created.ndim <= 3:
            steps.append(step)
            pool.append(created)
    return steps


def apply(step, pool):
    functions, which, (element, other) = step
    function = functions[which]
    return function(pool[element], pool[other]) if functions is BINARY else function(pool[element])


def leaves_of(rng):
    """Some that need gradients, and some that do not."""
    shapes = [(size,) for size in rng.choice(SIZES, 3)] + [tuple(rng.choice(SIZES, 2).tolist())]
    created = [dynograd.tensor(rng.normal(size=shape), dtype=dynograd.float32) for shape in shapes]
    for element in created[::2]:
        element.requires_grad = True
    return created


def straight_lines(seed):
    """Values and gradients of a few examples in one scope: some share their steps, some their leaves."""
    rng = numpy.random.default_rng(seed)
    shared = leaves_of(rng)
    examples = []
    for _ in range(int(rng.integers(2, 6))):
        leaves = [*shared[: int(rng.integers(1, 3))], *leaves_of(rng)]
        lines = line_of(rng, leaves)
        examples += [(leaves, lines)] * int(rng.integers(1, 3))
    with dynograd.autobatch(always=True):
        values = []
        for leaves, steps in examples:
            pool = list(leaves)
            for step in steps:
                pool.append(apply(step, pool))
            values += pool[len(leaves) :]
        losses = [value.sum() for value in values if value.requires_grad]
        total = sum(losses) if losses else None
    if total is not None:
        total.backward()
    everyone = {id(leaf): leaf for leaves, _ in examples for leaf in leaves}.values()
    return [value.detach().numpy() for value in values] + [
        element.grad.numpy() for element in everyone if element.grad is not None
    ]


def steps_of_models(seed):
    """Values and gradients of a program of `test_autobatch_programs`."""
    rng = numpy.random.default_rng(seed)
    names = sorted(programs.STEPS)
    examples = []
    for _ in range(int(rng.integers(1, 6))):
        numbers = rng.integers(51, size=(int(rng.integers(1, 15)), 2)).tolist()
        examples.append(
            (int(rng.integers(1, 4)), [(str(rng.choice(names)), element, other) for element, other in numbers])
        )
    values, gradients, buffer = programs.run(examples, dynograd.float32, "autobatch")
    return [numpy.array(values), *gradients, buffer]


def result_of(seed):
    """The bytes of what the program of this seed gives."""
    results = straight_lines(seed) if seed % 2 else steps_of_models(seed)
    return [(result.shape, result.tobytes()) for result in results]
