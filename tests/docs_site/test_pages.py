"""tools/site: every page is listed, links become links of the site, blocks that run show their outputs, tables become plots."""

import re
import tomllib
from pathlib import Path

import pytest

from tools.site import first_picture, pages, plots, run_pages
from tools.site.sources import SourcePages

ROOT = Path(__file__).parents[2]


def test_every_page_of_docs_is_listed_once():
    listed = [page for section in pages.listed(ROOT).values() for page in section]
    written = {place.removesuffix(".md") for place in pages.page_places(ROOT).values() if not place.startswith("more/")}
    assert sorted(listed) == sorted({*listed}), "a page is listed twice"
    assert {*listed} == (written - {"index"}) | {"api/index"}, "see SECTIONS in tools/site/pages.py"


def test_every_page_is_prepared(tmp_path):
    pages.prepare(ROOT, tmp_path, SourcePages(ROOT))
    index = (tmp_path / "index.md").read_text()
    assert index.count("```{toctree}") == len(pages.SECTIONS) and "\ngetting-started\n" in index
    assert (tmp_path / "more" / "ops.md").read_text().startswith("---\norphan: true\n---\n")
    assert (
        "![" in (tmp_path / "benchmarks.md").read_text()
        and "<!-- figure" not in (tmp_path / "benchmarks.md").read_text()
    )


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("docs/ragged.md", "[a](data.md#memory)", "[a](data.md#memory)"),
        ("README.md", "[a](docs/data.md)", "[a](../data.md)"),
        ("docs/tutorials/trees.md", "[a `b`](../ragged.md)", "[a `b`](../ragged.md)"),
        ("docs/ragged.md", "[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("docs/ragged.md", "[a](../LICENSE)", '<a href="source/LICENSE.html">a</a>'),
        ("docs/tutorials/trees.md", "[a](../../LICENSE)", '<a href="../source/LICENSE.html">a</a>'),
        ("docs/ragged.md", "[a](https://example.org) [b](#here)", "[a](https://example.org) [b](#here)"),
        ("docs/ragged.md", "```\n[a](no.md)\n```", "```\n[a](no.md)\n```"),
        ("docs/ragged.md", "````md\n```\n[a](no.md)\n```\n````\n", "````md\n```\n[a](no.md)\n```\n````\n"),
    ],
)
def test_links(file, text, expected):
    places = pages.page_places(ROOT) | {"README.md": "more/readme.md"}
    assert pages.with_links(text, file, places, ROOT, SourcePages(ROOT)) == expected


def test_a_link_to_nothing_is_an_error():
    with pytest.raises(
        pages.PageError, match=r"docs/ragged\.md links to nothing\.py, but there is no file docs/nothing\.py\."
    ):
        pages.with_links("[a](nothing.py)", "docs/ragged.md", pages.page_places(ROOT), ROOT, SourcePages(ROOT))


def test_pages_of_source_have_an_anchor_for_each_line(tmp_path):
    (tmp_path / "a.py").write_text('x = "<b>"  # two\n\n"""one\ntwo"""\n')
    sources = SourcePages(tmp_path)
    assert sources.address("a.py", 3) == "source/a.py.html#L3"
    sources.write(tmp_path / "site")
    page = (tmp_path / "site" / "source" / "a.py.html").read_text()
    assert [f"<b id=L{line}>" in page for line in range(1, 6)] == [True] * 4 + [False]
    assert "<i class=s>&lt;b&gt;</i>" in page.replace('"', "") and "<i class=c># two</i>" in page


# ---------------------------------------------------------------- blocks that run


PAGE = """# Title

```python
x = 2
print("two" if x == 2 else "other")
```

<!-- not run: it fails -->
```python
raise RuntimeError
```

```python
from pathlib import Path

Path("a.svg").write_text("<svg/>")
```
<!-- figure a.svg: an empty picture -->

```
>>> x + 1
3
```

```sh
rm -rf /
```
"""


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ran(text):
    blocks = run_pages.blocks_of(text)
    run_pages.run_blocks(blocks, "page.md")
    return run_pages.with_results(text, blocks, "page.md")


def test_outputs_and_pictures_stand_below_their_blocks(in_a_folder):
    text, problems = ran(PAGE)
    assert problems == []
    assert '== 2 else "other")\n```\n\n:::{container} output\n````text\ntwo\n````\n:::\n' in text
    assert "\n![an empty picture](a.svg)\n" in text and "<!-- figure" not in text


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("<!-- figure a.svg: an empty picture -->", "", "a.svg needs a line `<!-- figure a.svg: what it shows -->`"),
        ("a.svg: an", "b.svg: an", "no block writes b.svg, which a line describes"),
    ],
)
def test_pictures_and_their_descriptions_belong_together(in_a_folder, old, new, problem):
    assert any(problem in line for line in ran(PAGE.replace(old, new))[1])


def test_a_wrong_answer_ends_the_build(in_a_folder):
    with pytest.raises(SystemExit, match="Expected:\n    4\nGot:\n    3"):
        ran(PAGE.replace("\n3\n", "\n4\n"))


def test_long_outputs_are_cut():
    lines = run_pages._as_output("\n".join(map(str, range(1000)))).split("\n")
    assert len(lines) < run_pages.LONGEST_OUTPUT + 6 and "..." in lines and "999" in lines


# ---------------------------------------------------------------- measured tables


def test_the_picture_of_the_first_page_is_drawn_from_the_tables():
    written = {name: (first_picture.FOLDER / name).read_text() for name in first_picture.pictures()}
    assert first_picture.pictures() == written, "python -m tools.site.first_picture"


@pytest.mark.parametrize("heading", [heading for heading, _ in plots.PLOTS.values()])
def test_plots_have_rows(heading):
    rows = list(plots.rows_below((ROOT / "docs" / "benchmarks.md").read_text(), heading))
    assert len(rows) > 10 and all(0.1 < row.ratio < 100 for row in rows)
    assert all(len(row.name) < 45 for row in rows), [row.name for row in rows]


def test_rows_of_a_table():
    text = "# A\n\n| row | x | torch / dynograd (min–max) |\n| --- | --- | --- |\n| `a.b`: long | 1 ms | 2.5 (2–3) |\n| c | | 7, 8 |\n\n# B\n"
    assert list(plots.rows_below(text, "A")) == [plots.Row("a.b", 2.5)]
    with pytest.raises(ValueError, match="has no table with a column torch / dynograd below 'B'"):
        list(plots.rows_below(text, "B"))
    with pytest.raises(ValueError, match="has no heading 'C'"):
        list(plots.rows_below(text, "C"))


def test_times_at_several_batch_sizes():
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    times = plots.times_below(text, plots.BATCHES)
    assert list(times) == ["dynograd", "torch", "dynograd.compile", "torch.compile"]
    for line in times.values():
        assert len(line) > 4 and list(line) == sorted(line) and all(1e-5 < seconds < 1 for seconds in line.values())


# ---------------------------------------------------------------- README and citation


def test_the_readme_is_for_a_first_visit():
    text = (ROOT / "README.md").read_text()
    assert text[: text.index("## Read on")].count("\n") <= 100
    pictures = re.findall(r"!\[(?:.+?)\]\((.+?)\)", text, re.DOTALL)
    assert pictures == [f"docs/{name}" for name in first_picture.pictures()]
    assert "make demo" in text and "make test" in text


def test_the_citation_says_what_the_project_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r'^([\w-]+):(?: "?(.*?)"?)?$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    citation = dict(rows)
    assert {"cff-version", "message", "title", "authors", "type", "date-released"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert f"version = {{{project['version']}}}" in (ROOT / "docs" / "citing.md").read_text()
