"""One step of an optimizer for all parameters of a table: see `step_table`. Formulas are PyTorch's.

Each returns -1, or the number of a gradient that does not fit its parameter (dtype, shape, order, memory that is written too); then
nothing has been done. `gradients` is a list with an array or None for each parameter; parameters without are left alone.
"""

from __future__ import annotations

import numpy as np

from dynograd.kernels.small.object_fields import FIELDS

__all__ = [
    "adadelta_table_step",
    "adagrad_table_step",
    "adam_table_step",
    "adamax_table_step",
    "asgd_table_step",
    "nadam_table_step",
    "radam_table_step",
    "rmsprop_table_step",
    "rprop_table_step",
    "sgd_table_step",
]

# An element costs as much as so many additions: roots and divisions count for two or three.
_WORK = {
    "plain": 3, "momentum": 3, "adam": 6, "amsgrad": 6, "nadam": 6, "asgd": 3, "radam": 6, "adamax": 5, "adagrad": 5,
    "adadelta": 9, "rmsprop": 5, "rprop": 6,
}  # fmt: skip


def sgd_table_step(table, gradients, *numbers):
    """See `sgd_step`. The buffers of rows that are new take the whole gradient."""
    set_sgd(table, *numbers)
    bad = table.compiled.begin(id(gradients), FIELDS, table.dtype, table.rows, table.ranges, table.steps, table.options)
    if bad < 0:
        _run(table, "momentum" if table.width else "plain")
    return bad


def set_sgd(table, lr, momentum, dampening, weight_decay, nesterov, maximize):
    """The options of the next steps."""
    values = lr, momentum, dampening, weight_decay, nesterov, maximize
    if values != table.values:
        ahead, straight = (momentum, 1.0) if nesterov else (1.0, 0.0)
        table.options[:6] = _sign(maximize), weight_decay, lr, momentum, ahead, straight
        table.rates[:, 0] = 1.0 - dampening if table.new is None else np.where(table.new, 1.0, 1.0 - dampening)
        table.values = values if table.new is None else None


def adam_table_step(table, gradients, *numbers):
    """See `adam_step`. The steps are counted in compiled code, which has the rates too: there may be few elements to a row."""
    set_adam(table, *numbers)
    bad = table.compiled.begin_adam(
        id(gradients), FIELDS, table.dtype, table.rows, table.ranges, table.rates, table.numbers
    )
    if bad < 0:
        _run(table, "amsgrad" if table.width == 3 else "adam")
    return bad


def set_adam(table, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    """The options of the next steps."""
    values = lr, beta1, beta2, eps, weight_decay, decoupled, maximize
    if values != table.values:
        shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
        table.options[:7] = _sign(maximize), shrink, decay, 1 - beta1, beta2, 1 - beta2, eps
        table.numbers[:] = lr, beta1, beta2
        table.values = values


def nadam_table_step(table, gradients, lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled, maximize):
    """The table counts the products of the momenta so far."""
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    options = _sign(maximize), shrink, decay, 1 - beta1, beta2, 1 - beta2

    def rates(steps):
        now, ahead = (beta1 * (1 - 0.5 * 0.96 ** (count * momentum_decay)) for count in (steps, steps + 1))
        (products,), stepped = table.counters, table.stepped()
        products[stepped] *= now[stepped].astype(products.dtype)  # in its dtype, as PyTorch
        product = products.astype(np.float64)
        scale = np.sqrt(1 - beta2**steps)
        table.rates[:, 0] = lr * scale * (1 - now) / (1 - product)
        table.rates[:, 1] = lr * scale * ahead / (1 - product * ahead)
        table.rates[:, 2] = eps * scale

    return _step("nadam", table, gradients, options, rates)


def asgd_table_step(table, gradients, lr, lambd, alpha, t0, weight_decay, maximize):
    """The table counts eta and mu, which this step uses and sets for the next one."""

    def rates(steps):
        (eta, mu), stepped = table.counters, table.stepped()
        table.rates[:, 0], table.rates[:, 1], table.rates[:, 2] = eta, 1 - lambd * eta.astype(np.float64), mu
        eta[stepped] = (lr / (1 + lambd * lr * steps) ** alpha)[stepped]
        mu[stepped] = (1 / np.maximum(1, steps - t0))[stepped]

    return _step("asgd", table, gradients, (_sign(maximize), weight_decay), rates)


def radam_table_step(table, gradients, lr, beta1, beta2, eps, weight_decay, decoupled, maximize):
    shrink, decay = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    options = _sign(maximize), shrink, decay, 1 - beta1, beta2, 1 - beta2, eps
    longest = 2 / (1 - beta2) - 1

    def rates(steps):
        left = beta2**steps
        length = longest - 2 * steps * left / (1 - left)
        adapted = length > 5
        long_enough = np.where(adapted, length, 6)
        rectified = (long_enough - 4) * (long_enough - 2) * longest / ((longest - 4) * (longest - 2) * long_enough)
        table.rates[:, 0] = lr / (1 - beta1**steps) * np.where(adapted, np.sqrt(rectified * (1 - left)), 1)
        table.rates[:, 1] = adapted

    return _step("radam", table, gradients, options, rates)


def adamax_table_step(table, gradients, lr, beta1, beta2, eps, weight_decay, maximize):
    def rates(steps):
        table.rates[:, 0] = lr / (1 - beta1**steps)

    return _step("adamax", table, gradients, (_sign(maximize), weight_decay, 1 - beta1, beta2, eps), rates)


def adagrad_table_step(table, gradients, lr, lr_decay, eps, weight_decay, maximize):
    def rates(steps):
        table.rates[:, 0] = lr / (1 + (steps - 1) * lr_decay)

    return _step("adagrad", table, gradients, (_sign(maximize), weight_decay, eps), rates)


def adadelta_table_step(table, gradients, lr, rho, eps, weight_decay, maximize):
    return _step("adadelta", table, gradients, (_sign(maximize), weight_decay, rho, 1 - rho, eps, lr))


def rmsprop_table_step(table, gradients, lr, alpha, eps, momentum, centered, weight_decay, maximize):
    options = _sign(maximize), weight_decay, alpha, 1 - alpha, eps, momentum, lr, centered
    return _step("rmsprop", table, gradients, options)


def rprop_table_step(table, gradients, shrink, grow, least, most, maximize):
    return _step("rprop", table, gradients, (_sign(maximize), shrink, grow, least, most))


def _step(name, table, gradients, options, rates=None):
    """Reads the gradients, lets `rates` fill the rows' rates from their numbers of steps, and runs the pass."""
    if options != table.values:
        table.options[: len(options)] = options
        table.values = options
    bad = table.compiled.begin(id(gradients), FIELDS, table.dtype, table.rows, table.ranges, table.steps, table.options)
    if bad < 0:
        if rates is not None:
            rates(table.steps)
        _run(table, name)
    return bad


def _run(table, name):
    table.compiled.BLOCKS[name](table.rows, table.rates, table.options, count=table.blocks, work=work_of(table, name))
    table.new = None  # a row without gradient is not new either: its state is 0


def work_of(table, name):
    """What a pass over all rows costs, in additions."""
    return _WORK[name] * table.work


def _sign(maximize):
    return -1.0 if maximize else 1.0
