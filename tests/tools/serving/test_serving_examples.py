"""The examples that serve: their pages, their answers, and in a browser where there is one."""

import json
import re
import shutil
import socket
import subprocess
import threading
from html.parser import HTMLParser

import pytest

import dynograd as torch
from dynograd.tools.serving.service import Service
from examples import char_lm, sentiment, serve_sentiment, serve_writer

pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")
httpx = pytest.importorskip("httpx2", reason="httpx2, which starlette's client of tests needs, is not installed")
TestClient = pytest.importorskip("starlette.testclient", reason="the extra serve is not installed").TestClient

TEXT = "A gorgeous, witty film; not dull!"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("serving") / "sentiment.safetensors"
    sentiment.main(epochs=1, steps=15, sentences=160, batch_size=16, workers=0, checkpoint=path)
    return path


@pytest.fixture
def service(checkpoint):
    with serve_sentiment.service_with(*sentiment.restore(checkpoint)) as service:
        yield service


def test_probability_and_words(service, checkpoint):
    """The shares of the words and the bias make up the score that the model gives."""
    with TestClient(service.app()) as client:
        answer = client.post("/sentiment", json={"text": TEXT}).json()
        refused = [
            client.post("/sentiment", json=body) for body in ({"text": " "}, {"text": "so " * 401}, {"words": 1}, 3)
        ]
    assert answer["probability"] == pytest.approx(sentiment.predict(TEXT, checkpoint), abs=1e-5)
    assert [word for word, _ in answer["words"]] == serve_sentiment.words_of(TEXT)
    assert len(answer["words"]) == 9 and sum(abs(share) for _, share in answer["words"]) > 0
    model, _ = sentiment.restore(checkpoint)
    score = torch.tensor(sum(share for _, share in answer["words"]) + model.output.bias.item())
    assert score.sigmoid().item() == pytest.approx(answer["probability"], abs=1e-5)
    assert [reply.status_code for reply in refused] == [400] * 4


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


@pytest.mark.parametrize(
    ("example", "field", "asks"), [(serve_sentiment, "text", "sentiment"), (serve_writer, "prompt", "write")]
)
def test_the_page_has_a_field_and_asks_its_own_service(example, field, asks):
    service = Service()
    service.page("/", example.PAGE)
    with TestClient(service.app()) as client:
        text = client.get("/").text
    names = [attributes.get("name") for tag, attributes in Page(text).tags if tag == "input"]
    assert names == [field] and f'fetch("{asks}"' in text and not re.search(r"https?://", text)


def test_in_a_browser(service):
    """Chromium opens the page, which asks for a sentence; what it shows then is the service's answer."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium to open the page in")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(service.app(), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            answer = httpx.post(f"{address}/sentiment", json={"text": "dull film"}, timeout=60).json()
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
            dom = subprocess.run(
                [browser, *options, f"{address}/?text=dull+film"], capture_output=True, text=True, timeout=100
            ).stdout
        finally:
            server.should_exit = True
            thread.join(60)
    assert f"{100 * answer['probability']:.1f} % positive" in dom
    assert re.findall(r"<span title=\"(-?[\d.]+)\"[^>]*>(\w+)</span>", dom) == [
        (f"{share:.2f}", word) for word, share in answer["words"]
    ]


def test_the_writer_streams(tmp_path):
    path = tmp_path / "new" / "char_lm.safetensors"
    char_lm.main(steps=3, batch_size=16, length=16, hidden=16, characters=5, checkpoint=path)
    with serve_writer.service_with(*serve_writer.restore(path)) as service, TestClient(service.app()) as client:
        reply = client.post("/write", json={"prompt": "ROMEO:", "characters": 20})
        written = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")][:-1]
        assert len(written) == 20 and all(len(character) == 1 for character in written)
        whole = client.post("/write", json={"prompt": "A", "characters": 7}, headers={"Accept": "application/json"})
        assert len(whole.json()) == 7
        for body, words in (
            ({"prompt": "Ω"}, "with ['Ω']"),
            ({"prompt": "A", "characters": 0}, "1 to 2000 characters"),
        ):
            refused = client.post("/write", json=body)
            assert refused.status_code == 400 and words in refused.json()["error"]
