"""Makes fixtures: runs PFLlib itself, with every random choice replaced by the rules of fixtures/README.md, and writes what it did.

    python make.py PFLLIB BASE OUT [key=value ...] [-- ALGORITHM ...]

PFLLIB is a checkout of PFLlib (commit d832e76), BASE a folder of fixtures from which settings, starts and names of attributes are taken
(`fixtures/full`), OUT the folder to write. Without algorithms all 40 are run. Each key is a setting of PFLlib (`local_epochs=3`,
`learning_rate_decay=true`, `tau=0.6`) or one of: seed (of new samples and cohorts; absent: those of BASE), model (tiny_cnn, tiny_cnn_bn,
tiny_mlp), hidden, side, classes, clients, iterations, input_scale, least (training samples of a client), jitter (by how much the start is
off, relatively; with jitter_seed).

Needs torch, scikit-learn, safetensors, h5py, ujson and cvxpy. With nothing changed it writes BASE's fixtures again: bit for bit on the torch
of BASE, but for FedCP's and GPFL's own modules, whose start it draws. With the environment's FLOAT64=1 everything is computed in `float64`,
which shows how much of a fixture is rounding; with jitter=1e-7 besides, how far the reference is from itself where nearly equal numbers
decide about a maximum. `PFLPIPE_CONFORMANCE=OUT cargo test --release --test conformance` replays the result.
"""
import contextlib
import copy
import importlib
import io
import json
import os
import random
import re
import struct
import sys
import traceback
import types

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data
from safetensors.numpy import save_file

torch.set_num_threads(1)
FLOAT = np.float64 if os.environ.get("FLOAT64") == "1" else np.float32
torch.set_default_dtype(torch.float64 if FLOAT is np.float64 else torch.float32)

# Module and class of each algorithm's server, and how PFLlib's main.py prepares the model: whole, split into base and head, or base only.
SERVERS = {
    "APFL": ("serverapfl", "APFL", "whole"), "APPLE": ("serverapple", "APPLE", "whole"), "Ditto": ("serverditto", "Ditto", "whole"),
    "FD": ("serverfd", "FD", "whole"), "FML": ("serverfml", "FML", "whole"), "FedALA": ("serverala", "FedALA", "whole"),
    "FedAMP": ("serveramp", "FedAMP", "whole"), "FedAS": ("serveras", "FedAS", "split"), "FedAvg": ("serveravg", "FedAvg", "split"),
    "FedBABU": ("serverbabu", "FedBABU", "split"), "FedBN": ("serverbn", "FedBN", "whole"), "FedCAC": ("servercac", "FedCAC", "whole"),
    "FedCP": ("servercp", "FedCP", "split"), "FedCross": ("servercross", "FedCross", "whole"), "FedDBE": ("serverdbe", "FedDBE", "split"),
    "FedDyn": ("serverdyn", "FedDyn", "whole"), "FedFomo": ("serverfomo", "FedFomo", "whole"), "FedGC": ("servergc", "FedGC", "split"),
    "FedGH": ("servergh", "FedGH", "split"), "FedGen": ("servergen", "FedGen", "split"), "FedKD": ("serverkd", "FedKD", "split"),
    "FedLC": ("serverlc", "FedLC", "split"), "FedMTL": ("servermtl", "FedMTL", "whole"), "FedNTD": ("serverntd", "FedNTD", "whole"),
    "FedPAC": ("serverpac", "FedPAC", "split"), "FedPCL": ("serverpcl", "FedPCL", "base"), "FedPHP": ("serverphp", "FedPHP", "split"),
    "FedPer": ("serverper", "FedPer", "split"), "FedProto": ("serverproto", "FedProto", "split"), "FedProx": ("serverprox", "FedProx", "whole"),
    "FedROD": ("serverrod", "FedROD", "split"), "FedRep": ("serverrep", "FedRep", "split"), "GPFL": ("servergpfl", "GPFL", "split"),
    "LG-FedAvg": ("serverlg", "LG_FedAvg", "split"), "Local": ("serverlocal", "Local", "whole"), "MOON": ("servermoon", "MOON", "split"),
    "PFL-DA": ("serverda", "PFL_DA", "split"), "PerAvg": ("serverperavg", "PerAvg", "whole"), "SCAFFOLD": ("serverscaffold", "SCAFFOLD", "whole"),
    "pFedMe": ("serverpFedMe", "pFedMe", "whole"),
}


class Tiny(nn.Module):
    """The fixtures' small networks."""

    def __init__(self, kind, hidden, side, classes):
        super().__init__()
        self.kind, inputs = kind, side * side
        if kind.startswith("tiny_cnn"):
            norm = kind.endswith("_bn")
            block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3), *([nn.BatchNorm2d(o)] if norm else []), nn.ReLU(inplace=True), nn.MaxPool2d(2))
            self.conv1, self.conv2 = block(1, 4), block(4, 8)
            inputs = 8 * (((side - 2) // 2 - 2) // 2) ** 2
        self.fc1 = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(inplace=True))
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        if self.kind.startswith("tiny_cnn"):
            x = self.conv2(self.conv1(x))
        return self.fc(self.fc1(torch.flatten(x, 1)))


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        blob = file.read()
    meta = header.pop("__metadata__", {})
    kinds = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
    part = lambda v: np.frombuffer(blob[slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"])
    return {name: part(v) for name, v in header.items()}, meta


def dump(value, name, out):
    """Every number of an attribute, under the names of the README."""
    if isinstance(value, nn.Module):
        for key, tensor in [*value.named_parameters(), *value.named_buffers()]:
            if not key.endswith("num_batches_tracked"):
                out[f"{name}.{key}"] = tensor.detach().numpy().copy()
    elif isinstance(value, torch.Tensor):
        out[name] = value.detach().numpy().copy()
    elif isinstance(value, (np.ndarray, np.floating)):
        out[name] = np.array(value)
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            dump(item, f"{name}[{key}]", out)


def samples(seed, clients, classes, side, least):
    """Images that share a pattern with their class; labels are skewed; the first client has every class."""
    rng = np.random.default_rng(seed)
    patterns, raw = rng.integers(0, 256, (classes, 1, side, side)), {}
    for client in range(clients):
        shares = rng.dirichlet(np.ones(classes) * 0.6)
        for part, n in (("train", int(rng.integers(least, least + 28))), ("test", int(rng.integers(11, 25)))):
            if client == 0 and part == "train":
                y = np.concatenate([np.arange(classes), rng.choice(classes, max(0, n - classes), p=shares)])[: max(n, classes)]
                rng.shuffle(y)
            else:
                y = rng.choice(classes, n, p=shares)
            x = np.clip(0.55 * patterns[y] + 0.45 * rng.integers(0, 256, (len(y), 1, side, side)), 0, 255)
            raw[client, part] = (x.astype(np.uint8), y.astype(np.int32))
    return raw


def patch(data):
    """PFLlib's random choices and its files are replaced, before its modules are loaded."""
    loader = torch.utils.data.DataLoader

    class InOrder(loader):
        def __init__(self, dataset, batch_size=1, drop_last=False, shuffle=False, **options):
            super().__init__(dataset, batch_size, drop_last=drop_last, shuffle=False, **options)

    torch.utils.data.DataLoader = InOrder
    F.gumbel_softmax = lambda logits, tau=1, hard=False, eps=1e-10, dim=-1: torch.softmax(logits / tau, dim)
    random.sample = lambda population, k: list(population)[:k]
    random.randint = lambda a, b: 0
    sys.modules["utils.dlg"] = types.ModuleType("utils.dlg")
    sys.modules["utils.dlg"].DLG = None
    files = importlib.import_module("utils.data_utils")
    files.read_client_data = lambda dataset, client, is_train=True, few_shot=0: list(zip(*data[client, is_train]))


def run(name, base, out_folder, change):
    tensors, meta = read(f"{base}/{name}.safetensors")
    known = json.loads(meta["pfl"])
    names = [*tensors, *known["alias"]]
    stored = lambda key: tensors[known["alias"].get(key, key)]
    attributes = {"server": set(), "client": set()}
    for key in names:
        owner, rest = key.split(".", 2)[1:] if key.count(".") > 1 else ("model", "")
        if owner != "model":
            attributes["server" if owner == "server" else "client"].add(re.split(r"[.\[]", rest)[0])
    attributes["client"] -= {"pm_train", "pm_test"}
    own = {key: change.pop(key, known[key]) for key in ("model", "hidden", "side", "classes", "clients", "iterations", "input_scale")}
    seed, least = change.pop("seed", None), change.pop("least", 20)
    jitter, jitter_seed = change.pop("jitter", 0.0), change.pop("jitter_seed", 0)
    if unknown := set(change) - set(known["all_settings"]):
        raise SystemExit(f"no such settings: {unknown}")
    args = {**known["all_settings"], **change}
    args.update(num_clients=own["clients"], num_classes=own["classes"], global_rounds=own["iterations"] - 1, feature_dim=own["hidden"])

    if seed is None:
        file, _ = read(f"{base}/{known['data']}")
        parts = [(client, part) for client in range(own["clients"]) for part in ("train", "test")]
        raw, data_file = {(c, p): (file[f"client{c}.{p}.x"], file[f"client{c}.{p}.y"]) for c, p in parts}, known["data"]
    else:
        raw = samples(seed, own["clients"], own["classes"], own["side"], least)
        data_file = f"data-s{seed}-c{own['clients']}-k{own['classes']}-d{own['side']}.safetensors"
    image = lambda x: torch.from_numpy((x.astype(np.float32) / np.float32(255) * np.float32(own["input_scale"])).astype(FLOAT))
    patch({(c, part == "train"): (image(x), torch.from_numpy(y.astype(np.int64))) for (c, part), (x, y) in raw.items()})

    # The start is the same in both precisions.
    torch.manual_seed(seed or 0)
    torch.set_default_dtype(torch.float32)
    net = Tiny(own["model"], own["hidden"], own["side"], own["classes"])
    torch.set_default_dtype(torch.float64 if FLOAT is np.float64 else torch.float32)
    net = net.to(torch.get_default_dtype())
    if seed is None and all(own[key] == known[key] for key in ("model", "hidden", "side", "classes")):
        with torch.no_grad():
            for key, tensor in net.named_parameters():
                tensor.copy_(torch.from_numpy(stored(f"init.model.{key}").astype(FLOAT)))
    chance = torch.Generator().manual_seed(jitter_seed)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.mul_(1 + jitter * torch.randn(tensor.shape, generator=chance, dtype=tensor.dtype))
    out = {f"init.model.{key}": tensor.detach().numpy().copy() for key, tensor in net.named_parameters()}
    module, server_class, form = SERVERS[name]
    args = types.SimpleNamespace(**args)
    args.algorithm, args.dataset, args.device, args.model = name, "fixture", "cpu", copy.deepcopy(net)
    if form != "whole":
        args.head, args.model.fc = copy.deepcopy(args.model.fc), nn.Identity()
    if form == "split":
        args.model = importlib.import_module("flcore.trainmodel.models").BaseHeadSplit(args.model, args.head)

    same = seed is None and own["iterations"] == known["iterations"] and args.join_ratio == known["all_settings"]["join_ratio"]
    rng, least_join = np.random.default_rng((seed or 0) + 77), int(own["clients"] * args.join_ratio)
    size = lambda: int(rng.integers(least_join, own["clients"] + 1)) if args.random_join_ratio else least_join
    drawn = [sorted(rng.choice(own["clients"], size(), replace=False).tolist()) for _ in range(own["iterations"])]
    selection = known["selection"] if same else drawn

    base_server = importlib.import_module("flcore.servers.serverbase").Server
    servers = importlib.import_module(f"flcore.servers.{module}")
    now, metrics, send = {"round": -1, "calls": 0}, [], []

    def snapshot(tag):
        for owner, party in [("server", server), *((f"client{c.id}", c) for c in server.clients)]:
            for attribute in attributes["server" if owner == "server" else "client"]:
                if hasattr(party, attribute):
                    dump(getattr(party, attribute), f"{tag}.{owner}.{attribute}", out)

    def select(self):
        now["calls"] += 1
        # Local draws twice a round.
        if name != "Local" or now["calls"] % 2 == 1:
            now["round"] += 1
            if now["round"] == 1:
                snapshot("after1")
        self.current_num_join_clients = len(selection[now["round"]])
        return [self.clients[i] for i in selection[now["round"]]]

    base_server.select_clients = select
    for owner in (base_server, getattr(servers, server_class)):
        for quiet in ("save_results", "save_global_model"):
            setattr(owner, quiet, lambda self, *a: None)
    if name == "FedGen":
        draw, rand, forward = np.random.choice, torch.rand, servers.Generative.forward
        labels = lambda pool, count: np.array([pool[k % len(pool)] for k in range(count)])
        np.random.choice = lambda pool, count=None, **o: labels(pool, count) if count == args.batch_size and not o else draw(pool, count, **o)

        def fixed(shape, device=None):
            place = np.arange(shape[0])[:, None] * shape[1] + np.arange(shape[1])[None, :] + 1
            return torch.from_numpy(np.modf(0.6180339887498949 * place)[0].astype(FLOAT))

        def generate(self, wanted):
            torch.rand = fixed
            try:
                return forward(self, wanted)
            finally:
                torch.rand = rand

        servers.Generative.forward = generate
    with contextlib.redirect_stdout(io.StringIO()):
        server = getattr(servers, server_class)(args, 0)
    if name == "FedKD" and seed is None:
        for client in server.clients:
            with torch.no_grad():
                client.W_h.weight.copy_(torch.from_numpy(stored(f"init.client{client.id}.W_h.weight").astype(FLOAT)))
    snapshot("init")

    client_class = type(server.clients[0])

    def record(method, train, **more):
        measure = getattr(client_class, method)

        def measured(self, *a, **k):
            result = measure(self, *a, **k)
            number = lambda n: float(n) if n < 1 else int(n)
            entry = {"round": now["round"], "client": self.id, **more}
            if train:
                entry.update(train_loss_sum=float(result[-2]), train_n=number(result[-1]))
            else:
                entry.update(correct=float(result[0]), n=number(result[1]), **({"auc": float(result[2])} if len(result) > 2 else {}))
            metrics.append(entry)
            return result

        setattr(client_class, method, measured)

    record("test_metrics", False)
    record("train_metrics", True)
    if name in ("Ditto", "pFedMe"):
        record("test_metrics_personalized", False, kind="personalized")
    if name == "FedFomo":
        receive = client_class.receive_models

        def received(self, ids, models):
            send.append({"round": now["round"], "client": self.id, "ids": [int(i) for i in ids]})
            return receive(self, ids, models)

        client_class.receive_models = received
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            server.train()
    except AttributeError as error:
        # FedAS calls a method that is not there after its last round. Before that, it cannot work with a client without a whole batch.
        if (name, error.name) != ("FedAS", "avg_generalization_metrics"):
            raise
    snapshot(f"after{own['iterations']}")

    kept, alias, seen = {}, {}, {}
    for key, value in out.items():
        value = np.ascontiguousarray(value)
        value = value.astype(np.float32) if value.dtype not in (np.float32, np.float64, np.int32, np.int64, np.uint8) else value
        first = seen.setdefault((value.dtype.str, value.shape, value.tobytes()), key)
        if first == key:
            kept[key] = value
        else:
            alias[key] = first
    settings = vars(args)
    plain = {key: settings[key] for key in known["all_settings"]}
    header = {
        **known, **own, "seed": seed or known["seed"], "selection": selection, "data": data_file,
        "train_samples": [len(raw[c, "train"][1]) for c in range(own["clients"])],
        "hyper": {key: plain[key] for key in known["hyper"]}, "settings": {key: plain[key] for key in known["settings"] if key in plain},
        "all_settings": plain, "metrics": metrics, "send": send, "alias": alias, "snapshots": ["init", "after1", f"after{own['iterations']}"],
        "reference": f"PFLlib d832e76, torch {torch.__version__}",
    }
    save_file(kept, f"{out_folder}/{name}.safetensors", metadata={"pfl": json.dumps(header)})
    file = {f"client{c}.{part}.{what}": v for (c, part), both in raw.items() for what, v in zip("xy", both)}
    save_file({key: np.ascontiguousarray(v) for key, v in file.items()}, f"{out_folder}/{data_file}")
    print("ok", name, f"{len(kept)} tensors, {len(metrics)} measurements", flush=True)


def main():
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    pfllib, base, out_folder = sys.argv[1:4]
    sys.path.insert(0, os.path.join(pfllib, "system"))
    change = {}
    for pair in sys.argv[4:end]:
        key, value = pair.split("=", 1)
        try:
            change[key] = json.loads(value)
        except json.JSONDecodeError:
            change[key] = value
    os.makedirs(out_folder, exist_ok=True)
    for name in sys.argv[end + 1 :] or sorted(SERVERS):
        # Each in a process of its own: all of them patch and are patched.
        if os.fork() == 0:
            try:
                run(name, base, out_folder, dict(change))
            except BaseException:
                traceback.print_exc(limit=-2)
                print("FAILED", name, flush=True)
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
