#!/usr/bin/env python3
"""A step of SGD of every model family beside PyTorch's, at batch 10 on one thread, in turns on the same machine.

    pip install torch
    cargo bench --no-run --bench step
    python benches/models_against_pytorch.py [--seconds 0.4] [--turns 5] [--only NAME ...]

The models have the sizes of their papers, on inputs of their usual data sets, without dropout. `share` is each program's share of the
speed of PyTorch's matrix product on one thread (1024 x 1024, single precision), by the multiplications and additions that PyTorch
counts for its own step. A model that PyTorch runs at 45 % of that peak or more is aimed at three quarters of the peak; the others at
twice PyTorch's speed. `goal` is the share of the aim that is reached.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402  (after the number of threads is set)
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from against_pytorch import Engine, peak  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    torch.set_default_dtype(torch.float32)
    return loaded


ours = module("models", "tests/models/make.py")
texts = module("texts", "tests/golden/text_models/make.py")


class Whole(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model.fc(self.model.base(x))


def text(words, classes, hidden, length, make):
    """A model whose sizes are constants of its module."""
    texts.V, texts.C, texts.H, texts.L = words, classes, hidden, length
    return make()


class Transformer(nn.Module):
    """As the tests have it, with free numbers of heads and units."""

    def __init__(self, words, classes, hidden, length, heads, feed, layers):
        super().__init__()
        layer = nn.TransformerEncoderLayer(hidden, heads, feed, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.embedding, self.fc = nn.Embedding(words, hidden), nn.Linear(hidden, classes)
        self.register_buffer("table", torch.rand(length, hidden))

    def forward(self, x):
        return self.fc(self.encoder(self.embedding(x) * self.embedding.embedding_dim**0.5 + self.table)[:, 0])


class Rnn(nn.Module):
    def __init__(self, words, classes, embedding, hidden, layers, between):
        super().__init__()
        self.embedding = nn.Embedding(words, embedding, 0)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.fc = nn.Sequential(nn.Linear(hidden, embedding), nn.Linear(embedding, classes)) if between else nn.Linear(hidden, classes)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x))
        return self.fc(out[torch.arange(len(x)), (x != 0).sum(1) - 1])


def cases():
    """Name, family, parameters, shape, classes, words, and PyTorch's model."""
    image, tiny = (3, 32, 32), (3, 64, 64)
    whole = lambda model: Whole(model)
    logistic = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    yield "logistic", "logistic", {}, (1, 28, 28), 10, None, logistic
    amazon = [1000, 500, 100]
    yield "amazonmlp", "amazonmlp", dict(hidden=amazon), (5000, 1, 1), 2, None, whole(ours.amazonmlp(5000, 2, amazon))
    har = ours.harcnn(9, 6, [32, 64], 9, [1024, 512], 64 * 26)
    yield "harcnn", "harcnn", {}, (9, 1, 128), 6, None, whole(har)
    lenet = ours.lenet(1, 10, [20, 50], 256, 50 * 16)
    yield "lenet", "lenet", dict(dropout=0), (1, 28, 28), 10, None, whole(lenet)
    yield "cifarnet", "cifarnet", {}, image, 10, None, whole(ours.cifarnet(3, 10, [6, 10], [120, 84], 250))
    digits = ours.digit5cnn(3, 10, [64, 64, 128], [3072, 2048], 128 * 64)
    yield "digit5cnn", "digit5cnn", dict(dropout=0), image, 10, None, whole(digits)
    for depth, width in [(10, 64), (18, 64), (34, 64), (56, 16)]:
        params = dict(depth=depth, width=width)
        yield f"resnet{depth}", "resnet", params, image, 10, None, whole(ours.ResNet(3, 10, depth, width))
    yield "resnet18-64", "resnet", dict(depth=18, width=64), tiny, 200, None, whole(ours.ResNet(3, 200, 18, 64))
    group = dict(depth=18, width=64, norm="group", group_channels=32)
    yield "resnet18-gn", "resnet", group, image, 10, None, whole(ours.ResNet(3, 10, 18, 64, 32))
    yield "mobilenet", "mobilenet", dict(dropout=0), tiny, 200, None, whole(ours.mobilenet(3, 200, 1.0))
    alex = ours.alexnet(3, 200, [64, 192, 384, 256, 256], 4096)
    yield "alexnet", "alexnet", dict(dropout=0), tiny, 200, None, whole(alex)
    yield "googlenet", "googlenet", dict(dropout=0), tiny, 200, None, whole(ours.googlenet(3, 200, 1))
    yield "vit", "vit", {}, image, 10, None, whole(ours.vit(3, 10, (32, 32), 4, 64, 4, 4, 128))
    news = dict(words=98_635, padding=0)
    long = (1, 1, 200)
    yield "fasttext", "fasttext", dict(hidden=32, **news), long, 4, 98_635, whole(ours.FastText(98_635, 4, 32))
    cnn = ours.TextCNN(98_635, 4, 32, 100, [3, 4, 5], 200)
    yield "textcnn", "textcnn", dict(hidden=32, dropout=0, **news), long, 4, 98_635, whole(cnn)
    lstm = text(98_635, 4, 32, 200, texts.LSTM)
    yield "lstm", "lstm", dict(hidden=32, dropout=0, **news), long, 4, 98_635, lstm
    both = text(98_635, 4, 32, 200, lambda: texts.LSTM(True, 1))
    yield "bilstm", "bilstm", dict(hidden=32, words=98_635), long, 4, 98_635, both
    former = dict(hidden=32, heads=8, feed=2048, layers=2, dropout=0, words=98_635)
    yield "transformer", "transformer", former, long, 4, 98_635, Transformer(98_635, 4, 32, 200, 8, 2048, 2)
    yield "rnn", "rnn", dict(words=90, padding=0), (1, 1, 80), 90, 90, Rnn(90, 90, 8, 256, 2, False)
    overflow = dict(words=10_004, padding=0)
    yield "rnn-words", "rnn-stackoverflow", overflow, (1, 1, 20), 10_004, 10_004, Rnn(10_004, 10_004, 96, 670, 1, True)


class Peer:
    def __init__(self, model, shape, classes, words, batch):
        self.model = model.float().train()
        self.x = torch.rand(batch, *shape) if words is None else torch.randint(1, words, (batch, shape[2]))
        self.y = torch.arange(batch) % classes
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.005)

    def step(self):
        self.sgd.zero_grad()
        nn.functional.cross_entropy(self.model(self.x), self.y).backward()
        self.sgd.step()

    def flop(self):
        # Recurrent layers are counted by hand, since the counter does not know them.
        with FlopCounterMode(display=False) as counter:
            self.step()
        count = counter.get_total_flops()
        for module in self.model.modules():
            if isinstance(module, nn.LSTM):
                steps = self.x.shape[0] * self.x.shape[1] * (2 if module.bidirectional else 1)
                weights = sum(w.numel() for name, w in module.named_parameters() if "weight" in name and "reverse" not in name)
                count += 3 * 2 * steps * weights
        return count

    def measure(self, seconds):
        self.step()
        steps, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds or steps < 2:
            self.step()
            steps += 1
        return (time.perf_counter() - begun) * 1e3 / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement")
    parser.add_argument("--turns", type=int, default=5, help="of which the median is taken")
    parser.add_argument("--batch", type=int, default=10, help="samples of a step")
    parser.add_argument("--only", nargs="*", help="models to measure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    engine = Engine()
    print(f"{engine.cpu}, PyTorch {torch.__version__}, batch {options.batch}, one thread")
    print("model          pflpipe   PyTorch  ratio   MFLOP  peak  share  PyTorch's  goal")
    for name, kind, params, shape, classes, words, model in cases():
        if options.only and name not in options.only:
            continue
        line = json.dumps(dict(kind=kind, params=params, shape=shape, classes=classes), separators=(",", ":"))
        peer = Peer(model, shape, classes, words, options.batch)
        flop = peer.flop()
        mine, theirs, ratios, peaks = [], [], [], []
        for _ in range(options.turns):
            theirs.append(peer.measure(options.seconds))
            mine.append(engine.measure("step", line, options.batch, 1, options.seconds))
            ratios.append(theirs[-1] / mine[-1])
            peaks.append(peak(options.seconds / 4))
        ms, other, top, ratio = map(statistics.median, (mine, theirs, peaks, ratios))
        share, its = (flop / time / 1e6 / top for time in (ms, other))
        goal = share / 0.75 if its >= 0.45 else ratio / 2
        print(f"{name:12} {ms:9.3f} {other:9.3f}  {ratio:5.2f}  {flop / 1e6:6.0f}  {top:4.0f}  {share:5.0%}  {its:9.0%}  {goal:4.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
