"""Writes `batch`: a batch as CIFAR's Python version has it, with two pictures. `python make_batch.py`, with numpy 2.2.6."""

import pickle
from pathlib import Path

import numpy as np

data = (np.arange(2 * 3072) % 251).astype(np.uint8).reshape(2, 3072)
batch = {b"batch_label": b"training batch 1 of 5", b"labels": [3, 9], b"fine_labels": [5, 99], b"coarse_labels": [1, 19], b"data": data}
for protocol in [2, 5]:
    (Path(__file__).parent / f"batch{protocol}").write_bytes(pickle.dumps(batch, protocol=protocol))
