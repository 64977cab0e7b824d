#!/usr/bin/env python3
"""A step of pflpipe's engine beside PyTorch's, in turns on the same machine.

    pip install torch
    cargo bench --no-run --bench step
    python benches/against_pytorch.py [--seconds 0.4] [--turns 7]

For each network, batch size and number of threads, the two programs are measured alternately, and the medians and their ratio are
printed. Beside them stands the speed of PyTorch's matrix product (1024 x 1024, single precision) as the peak that this machine
reaches, and the share of it that each network's arithmetic amounts to: more than all of it where the way back touches only what
max-pool and ReLU let through, as in the CNNs without normalisation. Two threads are two clients with a model each: for PyTorch
two processes of one thread, which is the better of its ways (threads inside an operation help it less).
"""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402  (after the number of threads is set)
from torch import nn  # noqa: E402

NETWORKS = ["cnn28", "cnn32", "cnn28-bn", "mlp"]


def network(name):
    if name == "mlp":
        return (1, 28, 28), 10, nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    channels, side, classes = (3, 32, 100) if name == "cnn32" else (1, 28, 10)
    norm = (lambda n: [nn.BatchNorm2d(n)]) if name == "cnn28-bn" else (lambda n: [])
    flat = 64 * (((side - 4) // 2 - 4) // 2) ** 2
    layers = [nn.Conv2d(channels, 32, 5), *norm(32), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 5), *norm(64), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(flat, 512), nn.ReLU(inplace=True), nn.Linear(512, classes)]
    return (channels, side, side), classes, nn.Sequential(*layers)


def flop(name, batch, training):
    """Multiplications and additions of the convolutions and dense layers; the input's gradient is not needed."""
    if name == "mlp":
        layers = [(784 * 100, False), (100 * 10, True)]
    else:
        channels, side, classes = (3, 32, 100) if name == "cnn32" else (1, 28, 10)
        one, two = side - 4, (side - 4) // 2 - 4
        layers = [(one * one * 32 * 25 * channels, False), (two * two * 64 * 25 * 32, True)]
        layers += [(64 * (two // 2) ** 2 * 512, True), (512 * classes, True)]
    passes = lambda inner: 1 if not training else 3 if inner else 2
    return 2 * batch * sum(size * passes(inner) for size, inner in layers)


class Peer:
    """PyTorch on one thread."""

    def __init__(self, name, batch):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        shape, classes, self.net = network(name)
        self.x = torch.rand(batch, *shape)
        self.y = torch.arange(batch) % classes
        self.loss = nn.CrossEntropyLoss()
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.005)

    def step(self):
        self.sgd.zero_grad()
        self.loss(self.net(self.x), self.y).backward()
        self.sgd.step()

    def forward(self):
        with torch.no_grad():
            self.net(self.x)

    def measure(self, what, seconds):
        self.net.train(what == "step")
        work = self.step if what == "step" else self.forward
        for _ in range(3):
            work()
        steps, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            work()
            steps += 1
        return (time.perf_counter() - begun) * 1e3 / steps


def worker(pipe):
    peers = {}
    while True:
        try:
            what, name, batch, seconds = pipe.recv()
        except EOFError:
            return
        if (name, batch) not in peers:
            peers = {(name, batch): Peer(name, batch)}
        pipe.send(peers[name, batch].measure(what, seconds))


class PyTorch:
    def __init__(self, processes):
        self.pipes = []
        for _ in range(processes):
            here, there = multiprocessing.Pipe()
            multiprocessing.Process(target=worker, args=(there,), daemon=True).start()
            self.pipes.append(here)

    def measure(self, what, name, batch, threads, seconds):
        pipes = self.pipes[:threads]
        for pipe in pipes:
            pipe.send((what, name, batch, seconds))
        return 1 / sum(1 / pipe.recv() for pipe in pipes)


class Engine:
    """The benchmark of the engine, which measures what it is told line by line."""

    def __init__(self):
        built = ["cargo", "bench", "--no-run", "--bench", "step", "--message-format", "json"]
        lines = subprocess.run(built, check=True, capture_output=True, text=True).stdout.splitlines()
        built = [message for line in lines if (message := json.loads(line)).get("target", {}).get("name") == "step"]
        program = built[-1]["executable"]
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cpu = self.process.stdout.readline().strip()

    def measure(self, what, name, batch, threads, seconds):
        self.process.stdin.write(f"{what} {name} {batch} {threads} {seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def peak(seconds):
    """GFLOP/s of PyTorch's matrix product on one thread."""
    torch.set_num_threads(1)
    n = 1024
    a, b, out = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
    torch.mm(a, b, out=out)
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < seconds or len(times) < 5:
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        times.append(time.perf_counter() - start)
    return 2 * n**3 / statistics.median(times) / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement")
    parser.add_argument("--turns", type=int, default=7, help="of which the median is taken")
    options = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    engine, peer = Engine(), PyTorch(2)
    print(f"{engine.cpu}, PyTorch {torch.__version__}, {os.cpu_count()} cores")
    print("network   batch threads what     pflpipe  PyTorch  ratio  GFLOP/s  peak  share")
    cases = [("step", name, 10, threads) for name in NETWORKS for threads in (1, 2)]
    cases += [("step", "cnn28", batch, 1) for batch in (1, 32, 64, 256)]
    cases += [("forward", name, 256, 1) for name in NETWORKS]
    for what, name, batch, threads in cases:
        ours, theirs, ratios, peaks = [], [], [], []
        for _ in range(options.turns):
            theirs.append(peer.measure(what, name, batch, threads, options.seconds))
            ours.append(engine.measure(what, name, batch, threads, options.seconds))
            ratios.append(theirs[-1] / ours[-1])
            peaks.append(peak(options.seconds / 4) * threads)
        mine, top = statistics.median(ours), statistics.median(peaks)
        speed = flop(name, batch, what == "step") / mine / 1e6
        print(
            f"{name:9} {batch:5} {threads:7} {what:8} {mine:7.3f}  {statistics.median(theirs):7.3f}  {statistics.median(ratios):5.2f}"
            f"  {speed:7.1f} {top:5.0f}  {speed / top:5.0%}"
        )
        sys.stdout.flush()
    images = engine.measure("forward", "cnn28", 256, 2, 4 * options.seconds) * 70_000 / 256 / 1e3
    ideal = flop("cnn28", 70_000, False) / (2 * peak(options.seconds)) / 1e9
    print(f"evaluating 70,000 images (cnn28) on 2 threads: {images:.2f} s; its arithmetic at the peak: {ideal:.2f} s; {images / ideal:.2f} times")


if __name__ == "__main__":
    main()
