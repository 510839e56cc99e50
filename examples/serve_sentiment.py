"""A web page that says whether a sentence speaks for a film, how sure it is, and which words decided.

    python examples/serve_sentiment.py               trains examples/sentiment.py where it has not been trained, and serves http://127.0.0.1:8000
    python examples/serve_sentiment.py --steps 100   trained a little
    curl http://127.0.0.1:8000/sentiment -d '{"text": "a gorgeous, witty film"}'

Sentences that come within two milliseconds are answered as one ragged batch. The score of a sentence is a sum over 192 features, each the
greatest that any word has; so it is also a sum over words, each with the features in which it was the greatest.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dynograd as torch
from dynograd.serving import Batcher, Service
from dynograd.utils import programs
from examples import sentiment

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>For or against?</title>
<style>body{font:18px sans-serif;max-width:42em;margin:3em auto}input{font:inherit;width:100%;padding:.4em}
#words span{padding:.1em .2em;border-radius:.2em;display:inline-block}</style>
<h1>For or against the film?</h1>
<form><input name="text" aria-label="a sentence" autofocus></form>
<p id="probability"></p><p id="words"></p><p>Green words speak for the film, red ones against it.</p>
<script>
const input = document.querySelector("input"), show = document.querySelector("#words");
let asked = 0;
async function ask() {
  const number = ++asked;
  if (!input.value.trim()) return;
  const reply = await fetch("sentiment", {method: "POST", body: JSON.stringify({text: input.value})});
  const answer = await reply.json();
  if (number != asked) return;  // an answer to what stood there before
  document.querySelector("#probability").textContent =
    reply.ok ? (100 * answer.probability).toFixed(1) + " % positive" : answer.error;
  show.replaceChildren(...(answer.words || []).flatMap(([word, share]) => {
    const span = document.createElement("span");
    span.textContent = word;
    span.title = share.toFixed(2);
    span.style.background = `rgba(${share > 0 ? "0,160,0" : "220,0,0"},${Math.min(1, Math.abs(share))})`;
    return [span, " "];
  }));
}
input.addEventListener("input", ask);
document.querySelector("form").addEventListener("submit", event => { event.preventDefault(); ask(); });
input.value = new URLSearchParams(location.search).get("text") || "a gorgeous, witty film";
ask();
</script></html>
"""


def words_of(text):
    return re.findall(r"[\w'&-]+|[^\w\s]", text.lower())


def shares(model, numbers):
    """For each sentence, what each of its words adds to the score; with the bias of the output they make up the score.

    Args:
        numbers: ragged (B, j, 8).
    """
    states, _ = model.gru(model.words(numbers[..., 0]) + model.pieces(numbers[..., 1:]))
    weight = model.output.weight[0]
    answers = []
    for of_sentence in states.unbind():
        strongest, places = of_sentence.max(0)
        answers.append(torch.zeros(len(of_sentence)).index_add(0, places, strongest * weight))
    return answers


def service_with(model, vocabulary):
    """The service of a trained classifier."""
    bias = model.output.bias.item()

    def decode(body):
        words = words_of(body["text"])
        if not words:
            raise ValueError("expected a text with at least one word")
        return vocabulary.encode(words)

    def encode(shares_of_words, body):
        score = shares_of_words.sum() + bias
        words = [list(pair) for pair in zip(words_of(body["text"]), shares_of_words.tolist())]
        return {"probability": score.sigmoid().item(), "words": words}

    service = Service()
    service.add("sentiment", Batcher(lambda rows: shares(model, rows)), decode=decode, encode=encode, max_length=400)
    service.page("/", PAGE)
    return service


def main(checkpoint=sentiment.CHECKPOINT, steps=None, seed=0, host="127.0.0.1", port=8000):
    """Trains where there is no checkpoint yet, and serves until Ctrl-C."""
    if not Path(checkpoint).exists():
        sentiment.main(checkpoint=checkpoint, steps=steps, seed=seed)
    service = service_with(*sentiment.restore(checkpoint))
    import uvicorn

    uvicorn.run(service.app(), host=host, port=port)


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--checkpoint", type=programs.file_to_write, default=sentiment.CHECKPOINT, help="weights (%(default)s)")
    add("--steps", type=programs.whole_number(1), help="stop training after so many steps")
    add("--seed", type=programs.seed, default=0, help="of the training (%(default)s)")
    add("--port", type=programs.whole_number(0), default=8000, help="0: any free one (%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
