"""A language model that writes: 64 tokens, one after the other, each the likeliest, with keys and values of all before it at hand.

A step is a text; each token is read, as a program does that stops at one.
"""

from __future__ import annotations

import functools

import numpy

from benchmarks.workload import Workload, compiled, fill, fingerprint, row

VOCABULARY, WIDTH, HEADS, LAYERS, PROMPT, TOKENS = 500, 128, 4, 3, 8, 64
LONGEST = PROMPT + TOKENS


class Growing:
    """Keys and values of a layer, one longer after each token."""

    def __init__(self, torch):
        self.cat, self.content = torch.cat, None

    def update(self, keys, values, positions):
        if self.content is not None:
            keys, values = self.cat([self.content[0], keys], 2), self.cat([self.content[1], values], 2)
        self.content = keys, values
        return keys, values


class Static:
    """Keys and values of a layer in memory for the longest text."""

    def __init__(self, torch):
        self.keys, self.values = (torch.zeros(1, HEADS, LONGEST, WIDTH // HEADS) for _ in range(2))

    def update(self, keys, values, positions):
        self.keys.index_copy_(2, positions, keys)
        self.values.index_copy_(2, positions, values)
        return self.keys, self.values


def decoder(torch):
    """Pre-norm blocks; `forward` gives the scores of the next token."""
    nn, attend = torch.nn, torch.nn.functional.scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.read, self.write = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x, positions, cache, mask):
            count = x.shape[1]
            parts = self.read(self.before(x)).chunk(3, -1)
            q, k, v = (part.view(1, count, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
            k, v = cache.update(k, v, positions)
            y = attend(q, k, v, attn_mask=mask, is_causal=mask is None and count > 1)
            x = x + self.write(y.transpose(1, 2).reshape(1, count, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.between(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.score = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens, positions, caches, mask=None):
            x = self.words(tokens) + self.places(positions)
            for block, cache in zip(self.blocks, caches):
                x = block(x, positions, cache, mask)
            return self.score(x[:, -1])

    return Model()


def decoding(torch, kind):
    """The text of 64 tokens, and the scores of the last."""
    model = decoder(torch).eval()
    fill(torch, model)
    answer = compiled(model, alone=True)
    prompt, places = torch.arange(PROMPT).reshape(1, PROMPT), torch.arange(LONGEST)
    before = (places[None] <= places[:, None])[None, None]  # what each position sees in memory for the longest text

    def write():
        caches = [kind(torch) for _ in range(LAYERS)]
        tokens, positions, text = prompt, places[:PROMPT], []
        with torch.no_grad():
            for place in range(PROMPT, LONGEST + 1):
                mask = before[:, :, place - len(positions) : place] if kind is Static else None
                scores = answer(tokens, positions, caches, mask)
                tokens, positions = scores.argmax(-1, keepdim=True), places[place : place + 1]
                text.append(tokens.item())
        return text, scores

    def checksum():
        text, scores = write()
        return fingerprint(numpy.array(text), scores)

    return Workload(write, checksum)


row("decode.cat")(functools.partial(decoding, kind=Growing))
row("decode.static")(functools.partial(decoding, kind=Static))
