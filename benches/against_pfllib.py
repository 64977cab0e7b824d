"""Seconds a round of PFLlib and of pflpipe, in turns, on the same split of Fashion-MNIST: 20 clients, Dirichlet 0.1, PFLlib's CNN, batch 10.

    python benches/against_pfllib.py PFLLIB [--program target/release/pflpipe] [--data DIR] [--images 7000] [--rounds 2] [--turns 1]
                                     [--train-loss running] [ALGORITHM ...]

PFLLIB is a checkout of PFLlib (commit d832e76), whose `system/main.py` is run as it is; needs torch, torchvision, h5py, ujson, cvxpy, calmsize, matplotlib and
scikit-learn. The split is made by pflpipe, exported in PFLlib's format, and read by both. Algorithms are named as pflpipe does; all 40 are
measured when none is named. With `--train-loss full`, the default here, pflpipe measures the training loss as PFLlib does, with a pass over all training sets;
`running` is what pflpipe does by default. PFLlib's time of a round is what it prints (of FedPHP the time between two headings), without the first round;
pflpipe's is that of the whole stage over its rounds, of which it does four times as many, since loading and the evaluation before the first
round are in it. Both have all cores. Printed are medians of the turns, and the ratio.
"""
import argparse
import csv
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Where PFLlib's name of an algorithm is not the title that pflpipe gives it.
NAMES = {"perfedavg": "PerAvg", "fedrod": "FedROD"}

PIPELINE = """
name: against-pfllib
sweep: {{grid: {{algorithm: [{algorithms}]}}}}
stages:
  data: {{dataset: {{name: fashion-mnist}}}}
  split: {{partition: {{data: data, kind: dirichlet, alpha: 0.1, clients: 20, hold_out: {hold_out}}}}}
  net: {{model: {{kind: cnn, data: data}}}}
  run: {{train: {{algorithm: "{{{{ algorithm }}}}", partition: split, model: net, rounds: {rounds}, train_loss: {train_loss}, seed: {seed}}}}}
tables:
  seconds: {{rows: algorithm, value: run.seconds_per_round.last}}
"""


def pipeline(folder, options, algorithms, seed):
    path = os.path.join(folder, "against-pfllib.yaml")
    with open(path, "w") as file:
        file.write(PIPELINE.format(algorithms=", ".join(algorithms), hold_out=1 - options.images / 70000, rounds=4 * options.rounds,
                                   train_loss=options.train_loss, seed=seed))
    return path


def pflpipe(folder, options, *words):
    command = [os.path.abspath(options.program), *words, "--cache", os.path.join(folder, "cache")]
    if options.data:
        command += ["--data", options.data]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def our_seconds(folder, options, algorithm, turn):
    path = pipeline(folder, options, [algorithm], turn)
    pflpipe(folder, options, "run", path, "-q")
    rows = list(csv.DictReader(io.StringIO(pflpipe(folder, options, "table", path, "--format", "long"))))
    return float(rows[0]["measured"])


def times(lines):
    """The seconds of each round, from lines with the time at which they were printed. MOON, APPLE, FedPAC, FedCP and some others print
    them behind dashes without a word, FedPHP not at all: there a round lasts from its heading to the next one."""
    printed = [re.fullmatch(r"-{25,}(?: time cost -+)? ([0-9.]+(?:e[+-]?[0-9]+)?)", line) for _, line in lines]
    if any(printed):
        return [float(found[1]) for found in printed if found]
    heads = [now for now, line in lines if "Round number:" in line or line.startswith("Best accuracy")]
    return [end - start for start, end in zip(heads, heads[1:])]


def their_seconds(folder, options, name):
    command = [sys.executable, "-u", "main.py", "-data", "FashionMNIST", "-m", "CNN", "-algo", name, "-gr", str(options.rounds),
               "-nc", "20", "-ncl", "10", "-dev", "cpu", "-go", "bench"]
    with tempfile.TemporaryFile("w+") as errors:
        running = subprocess.Popen(command, cwd=os.path.join(folder, "system"), stdout=subprocess.PIPE, stderr=errors, text=True)
        seconds = times([(time.time(), line.strip()) for line in running.stdout])
        running.wait()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if len(seconds) < 2:
        return None, (said or ["it printed no times"])[-1]
    return statistics.median(seconds[1:]), None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pfllib")
    parser.add_argument("algorithms", nargs="*")
    parser.add_argument("--program", default="target/release/pflpipe")
    parser.add_argument("--data")
    parser.add_argument("--images", type=int, default=7000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--train-loss", default="full", choices=["full", "running", "off"])
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(options.pfllib, "system"), os.path.join(folder, "system"))
        listed = json.loads(subprocess.run([options.program, "algorithms", "--output", "json"], capture_output=True, check=True).stdout)
        titles = {algorithm["name"]: algorithm["title"] for algorithm in listed}
        algorithms = options.algorithms or list(titles)
        path = pipeline(folder, options, algorithms[:1], 0)
        pflpipe(folder, options, "partition", "export", path, "split", "--format", "pfllib", "-o", os.path.join(folder, "dataset/FashionMNIST"))
        for algorithm in algorithms:
            ours, others = [], []
            for turn in range(options.turns):
                seconds, why = their_seconds(folder, options, NAMES.get(algorithm, titles[algorithm]))
                if seconds is None:
                    print(f"{algorithm:10} PFLlib failed: {why}", flush=True)
                    break
                others.append(seconds)
                ours.append(our_seconds(folder, options, algorithm, turn))
            if ours:
                a, b = statistics.median(others), statistics.median(ours)
                print(f"{algorithm:10} PFLlib {a:8.2f} s a round, pflpipe {b:7.3f} s: {a / b:5.1f} times", flush=True)


main()
