"""tools/site/check.py says what is wrong with a built site."""

import pytest

from tools.site import check

GOOD = """<!doctype html><html lang="en"><head><title>A</title><link href="a.css"></head><body>
<h1>A</h1><h2 id="part">B</h2><h3>C</h3><h2>D</h2><img src="a.svg" alt="a line"><a href="b.html#part">b</a>
<a href="#part">here</a><a href="https://example.org/x">out</a></body></html>"""


def site_of(folder, page):
    (folder / "a.html").write_text(page)
    (folder / "b.html").write_text(
        GOOD.replace("b.html", "a.html") if page is GOOD else GOOD.replace("b.html#part", "b.html")
    )
    for name in ("a.css", "a.svg"):
        (folder / name).write_text("")
    return folder


def test_nothing_to_say(tmp_path, capsys):
    assert check.main([str(site_of(tmp_path, GOOD))]) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('lang="en"', "", "a.html: <html> has no lang"),
        ("<title>A</title>", "", "a.html: no title"),
        ('alt="a line"', 'alt=" "', "a.html: the picture a.svg has no alt text"),
        ("<h1>A</h1>", "", "a.html: 0 headings h1, not one"),
        ("<h2>D</h2>", "<h1>D</h1>", "a.html: 2 headings h1, not one"),
        ('<h2 id="part">B</h2>', '<p id="part">B</p>', "a.html: a heading h3 follows an h1"),
        ("b.html#part", "c.html", "a.html: the link c.html leads nowhere"),
        ("b.html#part", "b.html#whole", "a.html: the link b.html#whole names no place of that page"),
        ('"#part"', '"#whole"', "a.html: the link #whole names no place of that page"),
        ('"a.svg"', '"missing.svg"', "a.html: the link missing.svg leads nowhere"),
        ('"a.css"', '"https://example.org/a.css"', "a.html: https://example.org/a.css comes from the network"),
    ],
)
def test_problems(tmp_path, capsys, old, new, problem):
    page = GOOD.replace(old, new)
    assert page != GOOD
    assert check.main([str(site_of(tmp_path, page))]) == 1
    assert problem in capsys.readouterr().err.splitlines()


def test_size(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "LARGEST", 100)
    assert any("MiB, more than" in line for line in check.problems(site_of(tmp_path, GOOD)))


def test_an_empty_folder_is_no_site(tmp_path):
    assert list(check.problems(tmp_path)) == [f"{tmp_path}: no page"]
