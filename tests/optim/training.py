"""Training with given gradients, for the tests of optimizers."""

import numpy as np

import dynograd

STEPS = 5


def values_and_gradients(shapes, steps=STEPS, seed=0):
    random = np.random.default_rng(seed)
    values = [random.normal(size=shape) for shape in shapes]
    return values, [[random.normal(size=shape) for _ in range(steps)] for shape in shapes]


def parameters_of(values, dtype=dynograd.float64):
    return [dynograd.tensor(value).to(dtype).requires_grad_() for value in values]


def train(optimizer, parameters, gradients, steps=range(STEPS)):
    for step in steps:
        for parameter, mine in zip(parameters, gradients):
            mine = mine[step]
            parameter.grad = None if mine is None else dynograd.tensor(mine).to(parameter.dtype)
        optimizer.step()


def numpy_of(tensor):
    return tensor.detach().to(dynograd.float64).numpy()
