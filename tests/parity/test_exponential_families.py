"""Which distributions are exponential families, their natural parameters and log normalizers, beside PyTorch's."""

import inspect

import pytest
import torch

import dynograd
from tests.distributions.test_families import FAMILIES


def families(library):
    classes = vars(library.distributions).items()
    family = library.distributions.ExponentialFamily
    return {name for name, value in classes if inspect.isclass(value) and issubclass(value, family)}


def test_they_are_the_same_ones():
    assert families(dynograd) == families(torch)


@pytest.mark.parametrize("row", FAMILIES, ids=[row[0] for row in FAMILIES])
def test_natural_parameters_and_log_normalizer(row):
    name, p, q, has_entropy = row
    sides = []
    for library in (dynograd, torch):
        make, own = getattr(library.distributions, name), library.distributions
        first, second = [
            make(*[library.as_tensor(x, dtype=library.float64) for x in arguments]) for arguments in (p, q)
        ]
        parameters = first._natural_params
        values = [*parameters, first._log_normalizer(*parameters), own.kl_divergence(first, second)]
        if name != "Wishart":  # PyTorch's rule of families does not take two kinds of parameters
            rule = own.kl._exponential_families if library is dynograd else own.kl._kl_expfamily_expfamily
            values.append(rule(first, second))
        if has_entropy:
            values += [own.ExponentialFamily.entropy(first), first.entropy(), first._mean_carrier_measure]
        sides.append([float(x) if isinstance(x, (int, float)) else x.detach().numpy() for x in values])
    for ours, theirs in zip(*sides):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)
