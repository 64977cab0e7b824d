"""Writes small folders as PFLlib's scripts do: `python make.py`, with numpy 2.2.6.

`images/` has two clients with pictures of 2 x 3 x 2 (channels, height, width), `texts/` one client with texts of 4 words.
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def save(name, sides, classes):
    clients = len(sides["train"])
    for side, dicts in sides.items():
        folder = HERE / name / side
        folder.mkdir(parents=True, exist_ok=True)
        for i, one in enumerate(dicts):
            with open(folder / f"{i}.npz", "wb") as f:
                np.savez_compressed(f, data=one)
    config = dict(num_clients=clients, num_classes=classes, non_iid=True, balance=False, partition="dir", alpha=0.1, batch_size=10)
    (HERE / name / "config.json").write_text(json.dumps(config))


def pictures(first, labels):
    n = len(labels)
    x = (first + np.arange(n * 12, dtype=np.float32)).reshape(n, 2, 3, 2)
    return {"x": x, "y": np.array(labels)}


save("images", {"train": [pictures(0, [0, 2, 2]), pictures(100, [1])], "test": [pictures(200, [2]), pictures(300, [1, 0])]}, 3)
texts = np.array([([2, 7, 5, 0], 4), ([2, 6, 0, 0], 4)], dtype=object)
save("texts", {"train": [{"x": texts, "y": np.array([1, 0])}], "test": [{"x": texts[:1], "y": np.array([1])}]}, 2)
