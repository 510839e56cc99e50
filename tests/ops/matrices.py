"""Matrices for rows, and complex functions seen from their parts."""

import numpy

import dynograd

DOUBLES = ("float32", "float64")
NUMBERS = ("float32", "float64", "complex64", "complex128")
COARSE = {name: (2e-3, 1e-3) if name.endswith("32") or name == "complex64" else (1e-7, 1e-9) for name in NUMBERS}


def regular(rng, shape):
    """Matrices far from singular, singular values apart."""
    created = rng.normal(size=shape)
    if len(shape) > 1 and min(shape[-2:]):
        u, s, vh = numpy.linalg.svd(created, False)
        created = (u * (1 + numpy.arange(s.shape[-1])[::-1])) @ vh
    return created


def pairs(array):
    array = numpy.asarray(array)
    return numpy.stack([array.real, array.imag], -1) if numpy.iscomplexobj(array) else array


def in_parts(function):
    """A function of two real matrices that are the parts of a complex one, and gives parts."""

    def call(x, y, *rest, **options):
        results = function(dynograd.complex(x, y), *rest, **options)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(dynograd.view_as_real(result) if result.dtype.is_complex else result for result in results)

    return call


def of_parts(reference):
    """The same for a function of NumPy arrays."""

    def call(x, y, *rest, **options):
        result = reference(x + 1j * y, *rest, **options)
        return tuple(pairs(element) for element in (result if isinstance(result, tuple) else (result,)))

    return call


def adjoint(x):
    return numpy.conj(numpy.swapaxes(x, -1, -2))
