"""Readers of common data sets' files, as Datasets of samples of any length. Files of yours come first; nothing is fetched unless asked.

>>> import io
>>> from dynograd.data import datasets
>>> datasets.Table(io.StringIO("1\\tfine\\n0\\tdull\\n"), types=(int, str))[0]
(1, 'fine')
"""

from dynograd.data.datasets.conll import CoNLL, CoNLLU
from dynograd.data.datasets.images import MNIST, IdxImages, read_idx
from dynograd.data.datasets.reading import Lines
from dynograd.data.datasets.sources import SOURCES, cache_folder, download, find
from dynograd.data.datasets.text import CharacterText, Table
from dynograd.data.datasets.trees import Tree, Trees

__all__ = [
    "CharacterText",
    "CoNLL",
    "CoNLLU",
    "IdxImages",
    "Lines",
    "MNIST",
    "SOURCES",
    "Table",
    "Tree",
    "Trees",
    "cache_folder",
    "download",
    "find",
    "read_idx",
]
