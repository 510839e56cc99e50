"""`python -m packages speed`: five programs over packages, timed with dynograd and with PyTorch in turn, in an environment that has both.

Each library has a process of its own (only one can be `torch` in one), which prepares a program and runs it twice whenever it is told to: the second
run is timed, for during the first the other library's threads may still turn in their waiting loops, and the caches hold its data. The two are told
alternately. Same source, same sizes, random weights.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def bert() -> Callable[[], Any]:
    """BERT (6 layers of 384), fine-tuned on 16 sentences of 8 to 64 words, padded to the longest: one step of AdamW."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    config = tf.BertConfig(
        vocab_size=5000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536
    )
    model = tf.BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lengths = torch.linspace(8, 64, 16).long()
    mask = (torch.arange(64) < lengths[:, None]).long()
    ids = torch.randint(5, 5000, (16, 64)) * mask

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=mask, labels=torch.arange(16) % 2).loss.backward()
        optimizer.step()

    return step


def gpt2() -> Callable[[], Any]:
    """GPT-2 (6 layers of 384) writes 64 tokens behind a prompt of 16, greedily, with a cache."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    config = tf.GPT2Config(
        vocab_size=5000, n_embd=384, n_layer=6, n_head=6, n_positions=256, bos_token_id=1, eos_token_id=None
    )
    model = tf.GPT2LMHeadModel(config).eval()
    ids = torch.randint(5, 5000, (1, 16))
    options: dict[str, Any] = dict(
        attention_mask=torch.ones_like(ids), max_new_tokens=64, do_sample=False, pad_token_id=0
    )

    def write() -> None:
        with torch.no_grad():
            model.generate(ids, **options)

    return write


def gat() -> Callable[[], Any]:
    """PyTorch Geometric: two layers of GAT (8 heads of 8) on a graph of 2,708 nodes and 10,556 edges with 1,433 features: one step of Adam."""
    import torch
    import torch_geometric.nn as gnn

    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = gnn.GATConv(1433, 8, heads=8), gnn.GATConv(64, 7)

        def forward(self, x: Any, edges: Any) -> Any:
            return self.second(torch.nn.functional.elu(self.first(x, edges)), edges)

    x, edges, y = torch.rand(2708, 1433), torch.randint(2708, (2, 10556)), torch.randint(7, (2708,))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edges), y).backward()
        optimizer.step()

    return step


def unet() -> Callable[[], Any]:
    """diffusers: a UNet of 32, 64 and 128 channels on four images of 32 x 32: one step of AdamW on the noise."""
    import diffusers
    import torch

    torch.manual_seed(0)
    model = diffusers.UNet2DModel(
        sample_size=32, layers_per_block=1, block_out_channels=(32, 64, 128), norm_num_groups=8,
        down_block_types=("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, noise, times = torch.randn(4, 3, 32, 32), torch.randn(4, 3, 32, 32), torch.randint(1000, (4,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x, times).sample, noise).backward()
        optimizer.step()

    return step


def resnet50() -> Callable[[], Any]:
    """timm: ResNet-50 classifies four images of 224 x 224."""
    import timm
    import torch

    torch.manual_seed(0)
    model, images = timm.create_model("resnet50").eval(), torch.randn(4, 3, 224, 224)

    def classify() -> None:
        with torch.no_grad():
            model(images)

    return classify


PROGRAMS = {"bert": bert, "gpt2": gpt2, "gat": gat, "unet": unet, "resnet50": resnet50}


def work(name: str, library: str) -> None:
    """The process of one library: a line in, the seconds of the second of two runs out."""
    import torch

    if ("dynograd" in torch.__version__) != (library == "dynograd"):
        sys.exit(
            f"speed: torch is {torch.__version__} here, but {library} is to be timed; use an environment that has PyTorch"
        )
    if library == "torch":
        from packages.values import without_extension

        without_extension(torch)
    run = PROGRAMS[name]()
    run(), run()
    print("@ready", flush=True)
    for _ in sys.stdin:
        run()
        begin = time.perf_counter()
        run()
        print(f"@{time.perf_counter() - begin}", flush=True)


class _Worker:
    def __init__(self, name: str, library: str) -> None:
        door = ["-m", "dynograd"] if library == "dynograd" else []
        command = [sys.executable, "-W", "ignore", *door, "-m", "packages.speed", name, library]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=HERE.parent,
        )
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                return line[1:]
        raise RuntimeError(f"{self.process.args}: it has ended")

    def seconds(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.answer())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def main(names: list[str], rounds: int = 15) -> None:
    """Prints a row for each program: the medians of both, and the median of the ratios of neighbouring runs."""
    print("| program | dynograd | PyTorch | dynograd / PyTorch |\n| --- | ---: | ---: | ---: |")
    for name in names or PROGRAMS:
        workers = [_Worker(name, library) for library in ("dynograd", "torch")]
        times = [[worker.seconds() for worker in workers] for _ in range(rounds)]
        for worker in workers:
            worker.end()
        ours, theirs = (statistics.median(column) for column in zip(*times))
        ratio = statistics.median([first / second for first, second in times])
        print(f"| {PROGRAMS[name].__doc__} | {ours * 1e3:.1f} ms | {theirs * 1e3:.1f} ms | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
