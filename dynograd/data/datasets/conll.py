"""Annotated sentences: a token a line, an empty line between sentences (CoNLL), and the ten columns of Universal Dependencies (CoNLL-U)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.data.dataset import Dataset
from dynograd.data.datasets.reading import LARGEST, Lines, bad_line

__all__ = ["CoNLL", "CoNLLU"]

_MOST_TOKENS = 1_000_000  # in a sentence


class CoNLL(Dataset):
    r"""Sentences with a column of tokens and columns of labels: sample i is a dict of lists, one for each column.

    Args:
        file: path, compressed by gzip or not, or an open text file.
        columns: the names of the columns, None for one to leave out; each line must have so many.
        separator: what stands between columns; any white space by default.
        comments: begins lines to pass over, such as "#"; None, the default, takes every line as a token.
        at_most: bytes that the file may have after decompression.
    Raises:
        ValueError: no column with a name.
        DataFileError: a line with another number of columns; names file, line, expected and got.
        FileNotFoundError: there is no such file.

    >>> import io
    >>> data = CoNLL(io.StringIO("Ada B-PER\nwrote O\n\nWhy O\n"))
    >>> data[0]
    {'token': ['Ada', 'wrote'], 'tag': ['B-PER', 'O']}
    >>> len(data), data.labels("tag")
    (2, ['B-PER', 'O'])
    """

    def __init__(
        self,
        file: Any,
        columns: Sequence[str | None] = ("token", "tag"),
        *,
        separator: str | None = None,
        comments: str | None = None,
        at_most: int = LARGEST,
    ) -> None:
        if not any(columns):
            raise ValueError(f"CoNLL: expected the name of at least one column, got {list(columns)}.")
        self.columns = tuple(columns)
        self.sentences: list[dict[str, list[str]]] = []
        for rows in _blocks(file, comments, at_most):
            fields = [self._fields(file, line, text, separator) for line, text in rows]
            if fields and fields[0][0] == "-DOCSTART-":
                fields = fields[1:]
            if fields:
                self.sentences.append(
                    {name: list(column) for name, column in zip(self.columns, zip(*fields)) if name is not None}
                )

    def _fields(self, file: Any, line: int, text: str, separator: str | None) -> list[str]:
        fields = text.split(separator)
        if len(fields) != len(self.columns):
            raise bad_line(
                file,
                line,
                f"{len(self.columns)} columns {self.columns}",
                f"{len(fields)}: {text!r}",
                "Name the columns with columns=.",
            )
        return fields

    def __getitem__(self, index: Any) -> dict[str, list[str]]:
        return self.sentences[index]

    def __len__(self) -> int:
        return len(self.sentences)

    def labels(self, column: str) -> list[str]:
        r"""The different values of a column, sorted.

        Args:
            column: its name.
        Returns:
            a list of str.

        >>> import io
        >>> CoNLL(io.StringIO("Ada B-PER\nwrote O\n")).labels("tag")
        ['B-PER', 'O']
        """
        return sorted({value for sentence in self.sentences for value in sentence[column]})


_UD = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ID = re.compile(r"([0-9]{1,7})([-.]([0-9]{1,7}))?")


class CoNLLU(Dataset):
    """Sentences of Universal Dependencies: sample i is a dict of lists over the words, with the columns "form", "lemma", "upos", "xpos",
    "feats", "head" (integers: the number of the word above, 0 for the root), "deprel", "deps", "misc".

    Lines of surface tokens that span words ("3-4") and of words that are not there ("5.1") are no words; they stand in `others[i]`.
    `comments[i]` has the comment lines of sentence i.

    Args:
        file: path, compressed by gzip or not, or an open text file.
        at_most: bytes that the file may have after decompression.
    Raises:
        DataFileError: a line without 10 columns, a number out of turn, a head that is no word; names file, line, expected and got.

    >>> import io
    >>> words = ["1 she she PRON _ _ 2 nsubj _ _", "2 sleeps sleep VERB _ _ 0 root _ _"]
    >>> data = CoNLLU(io.StringIO("\\n".join(words).replace(" ", "\\t")))
    >>> data[0]["form"], data[0]["head"]
    (['she', 'sleeps'], [2, 0])
    """

    def __init__(self, file: Any, *, at_most: int = LARGEST) -> None:
        self.sentences: list[dict[str, list]] = []
        self.comments: list[list[str]] = []
        self.others: list[list[list[str]]] = []
        for rows in _blocks(file, None, at_most):
            comments = [text for _, text in rows if text.startswith("#")]
            words, others = _words(file, [(line, text) for line, text in rows if not text.startswith("#")])
            if words:
                sentence: dict[str, list] = {
                    name: list(column) for name, column in zip(_UD, zip(*words)) if name != "id"
                }
                self.sentences.append(sentence)
                self.comments.append(comments)
                self.others.append(others)

    def __getitem__(self, index: Any) -> dict[str, list]:
        return self.sentences[index]

    def __len__(self) -> int:
        return len(self.sentences)

    labels = CoNLL.labels


def _words(file: Any, rows: list[tuple[int, str]]) -> tuple[list[list], list[list[str]]]:
    """(rows of words, rows of what is no word); heads are integers."""
    words: list[list] = []
    others = []
    for line, text in rows:
        fields: list = text.split("\t")
        if len(fields) != len(_UD):
            raise bad_line(file, line, "10 columns with tabs between them", f"{len(fields)}: {text!r}")
        numbering = _ID.fullmatch(fields[0])
        if numbering is None:
            raise bad_line(file, line, "a number such as 3, 3-4 or 3.1 in the first column", repr(fields[0]))
        if numbering[2] is not None:
            others.append(fields)
            continue
        if int(numbering[1]) != len(words) + 1:
            raise bad_line(
                file, line, f"the word {len(words) + 1}", f"the word {numbering[1]}", "Words are numbered from 1."
            )
        if not re.fullmatch("[0-9]{1,7}", fields[6]) and fields[6] != "_":
            raise bad_line(file, line, "a number or _ as head", repr(fields[6]))
        fields[6] = -1 if fields[6] == "_" else int(fields[6])
        words.append(fields)
    for (line, _), fields in zip([row for row in rows if _ID.match(row[1])[2] is None], words):  # type: ignore[index]
        if fields[6] > len(words):
            raise bad_line(file, line, f"a head from 0 to {len(words)}", str(fields[6]))
    return words, others


def _blocks(file: Any, comments: str | None, at_most: int) -> Iterator[list[tuple[int, str]]]:
    """(line number, text) of the lines between empty ones."""
    lines = Lines(file, at_most)
    block: list[tuple[int, str]] = []
    for text in lines:
        if not text.strip():
            if block:
                yield block
            block = []
        elif comments is None or not text.startswith(comments):
            block.append((lines.number, text))
            if len(block) > _MOST_TOKENS:
                raise bad_line(
                    file,
                    lines.number,
                    f"at most {_MOST_TOKENS} lines in a sentence",
                    "more",
                    "Put empty lines between sentences.",
                )
    if block:
        yield block
