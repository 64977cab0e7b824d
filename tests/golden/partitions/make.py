"""Writes the golden numbers of the partitions: `python make.py`, with numpy 2.2.6 and scikit-learn 1.9.1.

The procedures are those of PFLlib's data set scripts, written anew on numpy's global generator and scikit-learn's
`train_test_split`, which are the two things the Rust code has to imitate bit for bit. `mnist.labels`, `fashion.labels`
and `cifar10.labels` hold the 70,000 or 60,000 labels (train, then test), two a byte, the first in the low half.

Each line of `partitions.jsonl` is one setting: sizes before the split, the first five training indices of client 0, the number
of attempts, and the sha256 of everything (a client after the other: training count, indices, test count, indices, as u32
little endian). `numpy.jsonl` holds single draws as the bits of f64, to find a fault early.
"""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent


def labels_of(name):
    packed = np.fromfile(HERE / f"{name}.labels", dtype=np.uint8)
    return np.stack([packed & 15, packed >> 4], axis=1).reshape(-1).astype(np.int64)


def by_quota(labels, classes, clients, per_client, balance, least):
    """Pathological: consecutive slices of each class for the first clients that still want classes."""
    quota = [per_client] * clients
    parts = [[] for _ in range(clients)]
    for c in range(classes):
        own = np.flatnonzero(labels == c)
        chosen = [i for i in range(clients) if quota[i] > 0]
        if not chosen:
            break
        chosen = chosen[: int(np.ceil((clients / classes) * per_client))]
        share = len(own) / len(chosen)
        if balance:
            counts = [int(share)] * (len(chosen) - 1)
        else:
            counts = np.random.randint(max(share / 10, least / classes), share, len(chosen) - 1).tolist()
        counts.append(len(own) - sum(counts))
        start = 0
        for i, count in zip(chosen, counts):
            parts[i].extend(own[start : start + count].tolist())
            start += count
            quota[i] -= 1
    return parts, 1


def by_dirichlet(labels, classes, clients, alpha, least):
    attempts, smallest = 0, 0
    while smallest < least:
        attempts += 1
        parts = [[] for _ in range(clients)]
        for c in range(classes):
            own = np.flatnonzero(labels == c)
            np.random.shuffle(own)
            p = np.random.dirichlet(np.repeat(alpha, clients))
            p = np.array([x * (len(part) < len(labels) / clients) for x, part in zip(p, parts)])
            p = p / p.sum()
            cuts = (np.cumsum(p) * len(own)).astype(int)[:-1]
            for part, piece in zip(parts, np.split(own, cuts)):
                part.extend(piece.tolist())
            smallest = min(len(part) for part in parts)
    return parts, attempts


def by_extended_dirichlet(labels, classes, clients, alpha, per_client):
    wanted = max(per_client * clients // classes // 2, 1)
    holders = [[]]
    while min(len(h) for h in holders) < wanted:
        holders = [[] for _ in range(classes)]
        for i in range(clients):
            for c in np.random.choice(range(classes), per_client, replace=False):
                holders[c].append(i)
    attempts, smallest = 0, 0
    while smallest < 10:
        attempts += 1
        parts = [[] for _ in range(clients)]
        for c in range(classes):
            own = np.flatnonzero(labels == c)
            np.random.shuffle(own)
            p = np.random.dirichlet(np.repeat(alpha, clients))
            p = np.array([x * (len(part) < len(labels) / clients and i in holders[c]) for i, (x, part) in enumerate(zip(p, parts))])
            p = p / p.sum()
            cuts = (np.cumsum(p) * len(own)).astype(int)[:-1]
            if cuts[-1] != len(own):
                cuts[holders[c][-1] :] = len(own)
            for part, piece in zip(parts, np.split(own, cuts)):
                part.extend(piece.tolist())
            smallest = min(len(part) for part in parts)
    for part in parts:
        np.random.shuffle(part)
    return parts, attempts


def partition(labels, classes, kind, seed, clients, alpha=0.1, classes_per_client=2, balance=False, ratio=0.75):
    np.random.seed(seed)
    least = int(min(10 / (1 - ratio), len(labels) / clients / 2))
    if kind == "iid":
        parts, attempts = by_quota(labels, classes, clients, classes, balance, least)
    elif kind == "pathological":
        parts, attempts = by_quota(labels, classes, clients, classes_per_client, balance, least)
    elif kind == "dirichlet":
        parts, attempts = by_dirichlet(labels, classes, clients, alpha, least)
    else:
        parts, attempts = by_extended_dirichlet(labels, classes, clients, alpha, classes_per_client)
    split = [train_test_split(part, train_size=ratio, shuffle=True) for part in parts]
    return [len(part) for part in parts], split, attempts


def settings():
    for name in ["mnist", "fashion"]:
        for seed in [0, 1, 2]:
            yield name, dict(kind="dirichlet", seed=seed, clients=20, alpha=0.1)
        for kind in ["iid", "pathological"]:
            for balance in [False, True]:
                yield name, dict(kind=kind, seed=1, clients=20, balance=balance)
        yield name, dict(kind="extended-dirichlet", seed=1, clients=20, alpha=100, classes_per_client=2)
    m = "mnist"
    yield m, dict(kind="dirichlet", seed=1, clients=10, alpha=0.5)
    yield m, dict(kind="dirichlet", seed=1, clients=20, alpha=1.0)
    yield m, dict(kind="dirichlet", seed=3, clients=20, alpha=5.0)
    yield m, dict(kind="dirichlet", seed=4294967295, clients=20, alpha=100.0)
    yield m, dict(kind="dirichlet", seed=1, clients=50, alpha=0.1)
    yield m, dict(kind="dirichlet", seed=1, clients=100, alpha=0.1)
    yield m, dict(kind="dirichlet", seed=1, clients=300, alpha=1.0)
    yield m, dict(kind="dirichlet", seed=1, clients=20, alpha=0.1, ratio=0.8)
    yield m, dict(kind="pathological", seed=1, clients=7, classes_per_client=3)
    yield m, dict(kind="pathological", seed=5, clients=100, classes_per_client=2)
    yield m, dict(kind="pathological", seed=1, clients=50, classes_per_client=5, balance=True)
    yield m, dict(kind="iid", seed=2, clients=100)
    yield m, dict(kind="extended-dirichlet", seed=1, clients=20, alpha=0.1, classes_per_client=2)
    yield m, dict(kind="extended-dirichlet", seed=2, clients=50, alpha=1.0, classes_per_client=3)
    yield m, dict(kind="extended-dirichlet", seed=3, clients=200, alpha=10.0, classes_per_client=4)
    for seed in range(20):
        yield m, dict(kind="extended-dirichlet", seed=seed, clients=10, alpha=0.5, classes_per_client=2)
    for clients in [20, 100]:
        yield "cifar10", dict(kind="dirichlet", seed=1, clients=clients, alpha=0.1)
        yield "cifar10", dict(kind="extended-dirichlet", seed=1, clients=clients, alpha=100, classes_per_client=2)
        for balance in [False, True]:
            yield "cifar10", dict(kind="pathological", seed=1, clients=clients, balance=balance)
            yield "cifar10", dict(kind="iid", seed=1, clients=clients, balance=balance)


def main():
    with open(HERE / "partitions.jsonl", "w") as out:
        for name, params in settings():
            sizes, split, attempts = partition(labels_of(name), 10, **params)
            digest = hashlib.sha256()
            for pair in split:
                for side in pair:
                    digest.update(struct.pack("<I", len(side)))
                    digest.update(np.array(side, dtype="<u4").tobytes())
            line = dict(labels=name, **params, sizes=sizes, first=[int(i) for i in split[0][0][:5]], attempts=attempts)
            out.write(json.dumps(dict(line, sha256=digest.hexdigest())) + "\n")
    bits = lambda values: [struct.pack(">d", v).hex() for v in np.atleast_1d(values).tolist()]
    with open(HERE / "numpy.jsonl", "w") as out:
        for seed in [0, 1, 20000, 4294967295]:
            np.random.seed(seed)
            line = dict(seed=seed, double=bits(np.random.random_sample(5)), gauss=bits(np.random.normal(size=5)))
            for alpha in [0.01, 0.1, 0.5, 1.0, 1.5, 100.0]:
                line[f"gamma {alpha}"] = bits(np.random.gamma(alpha, size=20))
            line["permutation"] = np.random.permutation(20).tolist()
            line["randint"] = np.random.randint(3.9, 17.2, 20).tolist()
            out.write(json.dumps(line) + "\n")


main()
