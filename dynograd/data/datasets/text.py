"""Text: tables of separated values, and running characters."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dynograd.data.dataset import Dataset
from dynograd.data.datasets.reading import LARGEST, Lines, bad_line, name_of, read_text
from dynograd.errors import DataFileError
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = ["CharacterText", "Table"]

_LONGEST_FIELD = 1 << 24


class Table(Dataset):
    """Rows of a CSV or TSV file: sample i is the tuple of fields of row i.

    Commas stand between fields that may be quoted and may hold line ends (CSV), tabs between fields that are taken as they are (TSV).

    Args:
        file: path, compressed by gzip or not, or an open text file.
        types: what makes a field into its value, one for each column (`int`, `float`, `str.split`, ...); `str` by default.
        header: whether the first row has the names of the columns.
        names: the names, for a file without them.
        delimiter: "," or "\\t" or another character; by default a tab unless the file's name has `.csv` in it.
        at_most: bytes that the file may have after decompression.
    Raises:
        ValueError: `header` and `names`, a delimiter of several characters, or another number of types than names.
        DataFileError: a row with another number of fields, or a field that its type refuses; names file, line, expected and got.

    >>> import io
    >>> table = Table(io.StringIO("1\\ta fine film\\n0\\tdull\\n"), types=(int, str.split), names=("label", "words"))
    >>> table[0], len(table)
    ((1, ['a', 'fine', 'film']), 2)
    >>> table.column("label")
    [1, 0]
    """

    def __init__(
        self,
        file: Any,
        types: Sequence[Callable[[str], Any]] | None = None,
        *,
        header: bool = False,
        names: Sequence[str] | None = None,
        delimiter: str | None = None,
        at_most: int = LARGEST,
    ) -> None:
        if header and names is not None:
            raise ValueError(f"Table: expected header=True or names, got both (names={list(names)}). Choose one.")
        if delimiter is None:
            delimiter = "," if ".csv" in os.path.basename(name_of(file)) else "\t"
        if len(delimiter) != 1:
            raise ValueError(f"Table: expected one character as delimiter, got {delimiter!r}.")
        self.rows: list[tuple] = []
        self.names: tuple[str, ...] | None = None if names is None else tuple(names)
        width = len(types) if types is not None else None if names is None else len(self.names or ())
        if types is not None and self.names is not None and len(types) != len(self.names):
            raise ValueError(f"Table: expected as many types as names, got {len(types)} and {len(self.names)}.")
        for line, fields in _records(file, delimiter, at_most):
            if width is None:
                width = len(fields)
            if len(fields) != width:
                raise bad_line(file, line, f"{width} fields", f"{len(fields)}: {fields}", "Check delimiter and quotes.")
            if header and self.names is None:
                self.names = tuple(fields)
                continue
            self.rows.append(tuple(fields) if types is None else self._row(file, line, fields, types))

    def _row(self, file: Any, line: int, fields: list[str], types: Sequence[Callable[[str], Any]]) -> tuple:
        values = []
        for place, (field, kind) in enumerate(zip(fields, types)):
            try:
                values.append(kind(field))
            except (ValueError, TypeError, KeyError) as error:
                column = repr(self.names[place]) if self.names else str(place)
                expected = f"{getattr(kind, '__name__', kind)} in column {column}"
                raise bad_line(file, line, expected, f"{field!r} ({error})") from None
        return tuple(values)

    def __getitem__(self, index: Any) -> tuple:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str | int) -> list:
        r"""All values of a column.

        Args:
            name: of the column, or its place.
        Returns:
            a list.
        Raises:
            KeyError: there is no such column.

        >>> import io
        >>> Table(io.StringIO("1\tfine\n0\tdull\n"), types=(int, str)).column(0)
        [1, 0]
        """
        if isinstance(name, str):
            if self.names is None or name not in self.names:
                raise KeyError(f"Table.column: expected one of {list(self.names or ())}, got {name!r}.")
            name = self.names.index(name)
        return [row[name] for row in self.rows]


class CharacterText(Dataset):
    """Pieces of a text as numbers of its characters: sample i is (characters, the same shifted by one), each (length,) int64.

    Args:
        file: path, compressed by gzip or not, or an open text file.
        length: characters in a sample.
        stride: from the beginning of a sample to that of the next; `length` by default.
        characters: the alphabet, for a text that goes with another; by default the characters that occur, sorted.
        at_most: bytes that the file may have after decompression.
    Raises:
        ValueError: a length or stride below 1.
        DataFileError: the text has not one whole sample, or a character that is not in `characters`.

    >>> import io
    >>> text = CharacterText(io.StringIO("abcabd"), length=3)
    >>> text.characters, text[0]
    ('abcd', (tensor([0, 1, 2]), tensor([1, 2, 0])))
    >>> text.decode(text.encode("bad"))
    'bad'
    """

    def __init__(
        self,
        file: Any,
        length: int,
        *,
        stride: int | None = None,
        characters: Iterable[str] | None = None,
        at_most: int = LARGEST,
    ) -> None:
        self.length, self.stride = length, length if stride is None else stride
        if length < 1 or self.stride < 1:
            raise ValueError(f"CharacterText: expected length and stride >= 1, got {length} and {stride}.")
        self.text = read_text(file, at_most)
        self.characters = "".join(sorted(set(self.text)) if characters is None else characters)
        self._numbers = {character: number for number, character in enumerate(self.characters)}
        if len(self.text) <= length:
            raise DataFileError(
                f"{name_of(file)}: expected more than {length} characters for one sample, got {len(self.text)}. Choose a smaller length."
            )
        try:
            self.codes: Any = self.encode(self.text)
        except ValueError as error:
            raise DataFileError(f"{name_of(file)}: {error}") from None

    def encode(self, text: str) -> Tensor:
        """The numbers of the characters.

        Args:
            text: a str.
        Returns:
            (T,), int64.
        Raises:
            ValueError: a character that the alphabet has not.

        >>> import io
        >>> CharacterText(io.StringIO("abcabd"), length=3).encode("bad")
        tensor([1, 0, 3])
        """
        numbers = self._numbers
        try:
            return tensor([numbers[character] for character in text])
        except KeyError as error:
            raise ValueError(
                f"expected characters out of {len(numbers)}, got {error.args[0]!r} at position {text.index(error.args[0])}. Pass characters= with all "
                f"that occur."
            ) from None

    def decode(self, numbers: Any) -> str:
        """The text of a tensor or list of numbers.

        Args:
            numbers (T,): from 0 to the size of the alphabet - 1.
        Returns:
            str.

        >>> import io
        >>> CharacterText(io.StringIO("abcabd"), length=3).decode([1, 0, 3])
        'bad'
        """
        return "".join(
            [self.characters[number] for number in (numbers.tolist() if isinstance(numbers, Tensor) else numbers)]
        )

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"CharacterText: expected an index from {-len(self)} to {len(self) - 1}, got {index}.")
        begin = index % len(self) * self.stride
        return self.codes[begin : begin + self.length], self.codes[begin + 1 : begin + self.length + 1]

    def __len__(self) -> int:
        return (len(self.text) - 1 - self.length) // self.stride + 1


def _records(file: Any, delimiter: str, at_most: int) -> Any:
    """(number of the last line, fields) of each row that is not empty."""
    lines = Lines(file, at_most)
    if delimiter == "\t":
        for text in lines:
            if text:
                yield lines.number, text.split("\t")
        return
    reader = csv.reader((text + "\n" for text in lines), delimiter=delimiter, strict=True)
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        for fields in reader:
            if fields:
                yield lines.number, fields
    except csv.Error as error:
        raise bad_line(file, lines.number, "separated values", str(error), "Check delimiter and quotes.") from None
    finally:
        csv.field_size_limit(before)
