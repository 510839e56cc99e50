"""A writer of Shakespeare-like scenes that answers character by character, to many readers at once.

    python examples/serve_writer.py                trains examples/char_lm.py where it has not been trained, and serves http://127.0.0.1:8000
    python examples/serve_writer.py --steps 100    trained a little
    curl -N http://127.0.0.1:8000/write -d '{"prompt": "ROMEO:", "characters": 300}'

`write` is a plain loop for one text. The service runs it in a pool (`dynograd.batched(..., running=True)`): at each turn the next characters of
all texts under way are computed together, whenever they began; a reader who goes away ends his.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dynograd as torch
import dynograd.nn.functional as F
from dynograd.serving import Service
from dynograd.utils import programs
from examples import char_lm

CHECKPOINT = Path(__file__).resolve().parent / "out" / "char_lm.safetensors"
MOST = 2000  # characters of an answer
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A writer</title>
<style>body{font:18px sans-serif;max-width:42em;margin:3em auto}input{font:inherit;padding:.4em}pre{white-space:pre-wrap}</style>
<h1>A scene that begins with</h1>
<form><input name="prompt" value="ROMEO:" aria-label="the beginning"> <button>Write</button></form><pre></pre>
<script>
const text = document.querySelector("pre");
let stop = new AbortController();
document.querySelector("form").addEventListener("submit", async event => {
  event.preventDefault();
  stop.abort();
  stop = new AbortController();
  const prompt = document.querySelector("input").value;
  text.textContent = prompt;
  const body = JSON.stringify({prompt, characters: 600});
  const reply = await fetch("write", {method: "POST", body, signal: stop.signal});
  if (!reply.ok) { text.textContent = (await reply.json()).error; return; }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", part; !(part = await reader.read()).done; ) {
    const events = (rest + part.value).split("\\n\\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) text.textContent += JSON.parse(event.slice(6));
  }
});
</script></html>
"""


def restore(checkpoint=CHECKPOINT):
    """(model, alphabet) out of a file that char_lm wrote."""
    with programs.checkpoint_of("char_lm.py", checkpoint):
        saved = torch.load(checkpoint)
        model = char_lm.CharacterModel(len(saved["alphabet"]), hidden=saved["hidden"])
        model.load_state_dict(saved["model"])
    return model.eval(), saved["alphabet"]


def service_with(model, alphabet, temperature=0.8):
    """The service of a trained character model."""

    def decode(body):
        prompt, characters = body["prompt"], body.get("characters", 300)
        strangers = sorted(set(prompt) - set(alphabet))
        if strangers or not prompt:
            raise ValueError(f"expected a prompt of characters that the text has, got {prompt!r} with {strangers}")
        if not isinstance(characters, int) or not 0 < characters <= MOST:
            raise ValueError(f"expected 1 to {MOST} characters, got {characters!r}")
        return {"prompt": prompt, "characters": characters}

    def write(body):
        ids = torch.tensor([[alphabet.index(character) for character in body["prompt"]]])
        state = None
        for _ in range(body["characters"]):
            scores, state = model(ids, state)
            ids = torch.multinomial(F.softmax(scores[:, -1] / temperature, dim=-1), 1)
            yield alphabet[ids.item()]

    service = Service()
    service.add("write", write, decode=decode, max_length=500)
    service.page("/", PAGE)
    return service


def main(checkpoint=CHECKPOINT, steps=300, seed=0, temperature=0.8, host="127.0.0.1", port=8000):
    """Trains where there is no checkpoint yet, and serves until Ctrl-C."""
    if not Path(checkpoint).exists():
        char_lm.main(checkpoint=checkpoint, steps=steps, seed=seed)
    service = service_with(*restore(checkpoint), temperature)
    import uvicorn

    uvicorn.run(service.app(), host=host, port=port)


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--checkpoint", type=programs.file_to_write, default=CHECKPOINT, help="weights (%(default)s)")
    add("--steps", type=programs.whole_number(1), default=300, help="of the training (%(default)s)")
    add("--seed", type=programs.seed, default=0, help="of the training (%(default)s)")
    add(
        "--temperature", type=programs.number(above=0), default=0.8, help="below 1 bolder, above 1 wilder (%(default)s)"
    )
    add("--port", type=programs.whole_number(0), default=8000, help="0: any free one (%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
