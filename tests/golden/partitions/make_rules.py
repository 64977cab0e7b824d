"""Writes the golden numbers of the other references' partitions: `python make_rules.py`, with Python 3.11 and numpy 2.2.6.

The procedures are those of FedML, FedProx, FedLab, NIID-Bench and ProFed, written anew on numpy's global generator and Python's
`random`, which the Rust code has to imitate index for index. `rules.jsonl` has a line a setting: the sizes, the first five indices
of client 0 and the sha256 of all lists (a client after the other: count, indices, as u32 little endian; with a split, those of the
training and then those of the test set). `python.jsonl` holds draws of Python's generator. Labels: `mnist.labels`, as in make.py.
"""

import hashlib
import json
import random
import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def labels_of(name):
    packed = np.fromfile(HERE / f"{name}.labels", dtype=np.uint8)
    return np.stack([packed & 15, packed >> 4], axis=1).reshape(-1).astype(np.int64)


def dirichlet(labels, classes, clients, alpha, mask=True, least=10, own=None):
    """FedML's and NIID-Bench's loop; with `own` lists of each class, which stay shuffled as ProFed leaves them."""
    smallest = 0
    while smallest < least:
        parts = [[] for _ in range(clients)]
        for c in range(classes):
            idx = np.flatnonzero(labels == c) if own is None else own[c]
            np.random.shuffle(idx)
            p = np.random.dirichlet(np.repeat(alpha, clients))
            if mask:
                p = np.array([x * (len(part) < len(labels) / clients) for x, part in zip(p, parts)])
            p = p / p.sum()
            cuts = (np.cumsum(p) * len(idx)).astype(int)[:-1]
            for part, piece in zip(parts, np.split(np.asarray(idx), cuts)):
                part.extend(piece.tolist())
        smallest = min(len(part) for part in parts)
    for part in parts:
        np.random.shuffle(part)
    return parts


def homogeneous(labels, clients):
    return [part.tolist() for part in np.array_split(np.random.permutation(len(labels)), clients)]


def quantity(labels, clients, beta):
    order, smallest = np.random.permutation(len(labels)), 0
    while smallest < 10:
        p = np.random.dirichlet(np.repeat(beta, clients))
        p = p / p.sum()
        smallest = np.min(p * len(order))
    return [part.tolist() for part in np.split(order, (np.cumsum(p) * len(order)).astype(int)[:-1])]


def label_count(labels, classes, clients, each):
    holders = []
    for i in range(clients):
        own = [i % classes]
        while each < classes and len(own) < each:
            c = random.randint(0, classes - 1)
            if c not in own:
                own.append(c)
        holders.append(own if each < classes else list(range(classes)))
    parts = [[] for _ in range(clients)]
    for c in range(classes):
        idx = np.flatnonzero(labels == c)
        np.random.shuffle(idx)
        of = [i for i in range(clients) if c in holders[i]]
        for i, piece in zip(of, np.array_split(idx, len(of)) if of else []):
            parts[i].extend(piece.tolist())
    return parts


def power_law(labels, classes, clients, sigma):
    own = [np.flatnonzero(labels == c).tolist() for c in range(classes)]
    at, parts, rows = [0] * classes, [[] for _ in range(clients)], clients // classes
    for u in range(clients):
        for j in range(2):
            c = (u + j) % classes
            parts[u] += own[c][at[c] : at[c] + 5]
            at[c] += 5
    props = np.random.lognormal(0, sigma, (classes, rows, 2))
    props = np.array([[[len(v) - 10 * rows]] for v in own]) * props / np.sum(props, (1, 2), keepdims=True)
    for u in range(clients):
        for j in range(2):
            c = (u + j) % classes
            count = int(props[c, u // classes, j])
            if at[c] + count < len(own[c]):
                parts[u] += own[c][at[c] : at[c] + count]
                at[c] += count
    return parts


def mixture(labels, classes, clients, alpha, sizes, spread, corrected):
    n = len(labels)
    if sizes == "equal":
        counts = np.full(clients, n // clients)
    elif sizes == "lognormal":
        counts = np.random.lognormal(mean=np.log(n // clients), sigma=spread, size=clients)
        counts = (counts / np.sum(counts) * n).astype(int)
        excess = np.sum(counts) - n
        for i in range(clients):
            if excess != 0 and counts[i] > excess:
                counts[i] -= excess
                break
    else:
        smallest = 0
        while smallest < 10:
            p = np.random.dirichlet([spread] * clients)
            p = p / p.sum()
            smallest = np.min(p * n)
        counts = (p * n).astype(int)
    order = np.random.permutation(n)
    permuted = labels[order]
    prior = np.cumsum(np.random.dirichlet(alpha=[alpha] * classes, size=clients), axis=1)
    own = [np.where(permuted == c)[0] for c in range(classes)]
    left = [len(v) for v in own]
    parts = [np.zeros(k, dtype=np.int64) for k in counts]
    while np.sum(counts) != 0:
        i = np.random.randint(clients)
        if counts[i] <= 0:
            continue
        counts[i] -= 1
        while True:
            c = np.argmax(np.random.uniform() <= prior[i])
            if left[c] <= 0:
                continue
            left[c] -= 1
            place = own[c][left[c]]
            parts[i][counts[i]] = order[place] if corrected else place
            break
    return [part.tolist() for part in parts]


def profed(labels, classes, clients, regions, skew, seed, ratio=0.75):
    order = np.random.permutation(len(labels))
    cut = int(len(labels) * ratio)
    sides = []
    for part in (order[:cut], order[cut:]):
        own = [[int(s) for s in part if labels[s] == c] for c in range(classes)]
        if skew == "dirichlet":
            np.random.seed(seed)
            sides.append(dirichlet(labels[part], classes, regions, 0.5, own=own))
            continue
        if skew == "iid":
            share = np.full((regions, classes), 1 / classes)
        else:
            share = np.zeros((regions, classes))
            for r, chunk in enumerate(np.array_split(np.arange(classes), regions)):
                share[r, chunk] = 1 / len(chunk)
        budget = len(part) // regions
        want = np.floor(share * budget).astype(int)
        sides.append([[s for c in range(classes) for s in random.sample(own[c], min(want[r, c], len(own[c])))] for r in range(regions)])
    np.random.seed(seed)
    out = []
    for r in range(regions):
        devices = clients // regions + (r < clients % regions)
        pieces = []
        for side in sides:
            np.random.shuffle(side[r])
            pieces.append([piece.tolist() for piece in np.array_split(side[r], devices)])
        out += list(zip(*pieces))
    return out


def settings():
    for seed in [0, 10]:
        yield "dirichlet", dict(variant="fedml", seed=seed, clients=20, alpha=0.5)
        yield "iid", dict(variant="fedml", seed=seed, clients=30)
    yield "dirichlet", dict(variant="fedml", seed=3, clients=50, alpha=1.0, balance=False)
    yield "dirichlet", dict(variant="fedml", seed=10, clients=10, alpha=0.5, pool="train")
    for seed, clients, each in [(0, 10, 1), (0, 10, 2), (7, 25, 3), (1, 20, 10)]:
        yield "label-count", dict(variant="niid-bench", seed=seed, clients=clients, classes_per_client=each)
    for seed, clients, beta in [(0, 10, 0.5), (5, 40, 2.0)]:
        yield "quantity", dict(variant="niid-bench", seed=seed, clients=clients, beta=beta)
    for seed, clients, sigma in [(0, 1000, 2.0), (4, 100, 1.0)]:
        yield "power-law", dict(variant="fedml", seed=seed, clients=clients, sigma=sigma)
    yield "mixture", dict(variant="fedlab", seed=0, clients=20, alpha=1.0, sizes="equal")
    yield "mixture", dict(variant="fedlab", seed=1, clients=20, alpha=1.0, sizes="equal", corrected=True)
    yield "mixture", dict(variant="fedlab", seed=2, clients=10, alpha=5.0, sizes="lognormal", size_sigma=0.3)
    yield "mixture", dict(variant="fedlab", seed=3, clients=10, alpha=5.0, sizes="dirichlet", size_alpha=2.0)
    for skew in ["iid", "hard", "dirichlet"]:
        yield "regions", dict(variant="profed", seed=2, clients=50, regions=3, skew=skew)
        yield "regions", dict(variant="profed", seed=7, clients=9, regions=9, skew=skew)


def make(kind, labels, p):
    np.random.seed(p["seed"])
    random.seed(p["seed"])
    if p.get("pool") == "train":
        labels = labels[:60000]
    if kind == "dirichlet":
        return dirichlet(labels, 10, p["clients"], p["alpha"], p.get("balance", True))
    if kind == "iid":
        return homogeneous(labels, p["clients"])
    if kind == "label-count":
        return label_count(labels, 10, p["clients"], p["classes_per_client"])
    if kind == "quantity":
        return quantity(labels, p["clients"], p["beta"])
    if kind == "power-law":
        return power_law(labels, 10, p["clients"], p["sigma"])
    if kind == "mixture":
        spread = p.get("size_sigma", p.get("size_alpha"))
        return mixture(labels, 10, p["clients"], p["alpha"], p["sizes"], spread, p.get("corrected", False))
    return profed(labels, 10, p["clients"], p["regions"], p["skew"], p["seed"])


def main():
    labels = labels_of("mnist")
    with open(HERE / "rules.jsonl", "w") as out:
        for kind, params in settings():
            parts = make(kind, labels, params)
            split = kind == "regions"
            digest = hashlib.sha256()
            for part in parts:
                for side in part if split else [part]:
                    digest.update(struct.pack("<I", len(side)))
                    digest.update(np.array(side, dtype="<u4").tobytes())
            sizes = [sum(len(side) for side in part) if split else len(part) for part in parts]
            first = [int(i) for i in (parts[0][0] if split else parts[0])[:5]]
            line = dict(kind=kind, params=params, split=split, sizes=sizes, first=first, sha256=digest.hexdigest())
            out.write(json.dumps(line) + "\n")
    with open(HERE / "python.jsonl", "w") as out:
        for seed in [0, 1, 12345, 4294967295, 4294967296, 2**63 + 5]:
            random.seed(seed)
            line = dict(seed=seed, below=[random.randrange(n) for n in [1, 2, 3, 10, 16, 17, 1000, 70000]])
            items = list(range(100, 1100))
            line.update(small=random.sample(items[:20], 7), sparse=random.sample(items, 6), dense=random.sample(items, 900))
            out.write(json.dumps(line) + "\n")


main()
