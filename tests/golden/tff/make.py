"""Writes small files in the layout of TensorFlow Federated's data sets: `python make.py`, with h5py 3.16 (HDF5 2.0) and numpy.

Groups are symbol tables, as h5py writes them unless told otherwise. Pictures of CIFAR-100 are in chunks that are shuffled, deflated and
summed, and do not divide the arrays evenly; the others are contiguous. `latest.h5` is EMNIST's training file by the newest writer, with
links and layout of other versions; `dense.h5` has more links than that writer keeps in a header. `tests/data_tff.rs` reads them.
"""

from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).parent
STRING = h5py.string_dtype()


def emnist(name, clients, **options):
    with h5py.File(HERE / name, "w", **options) as file:
        for client, count in clients.items():
            group = file.create_group(f"examples/{client}")
            pixels = np.arange(count * 784, dtype=np.float32).reshape(count, 28, 28) % 256 / 255
            group["pixels"] = pixels.astype(np.float32)
            group["label"] = (np.arange(count, dtype=np.int32) * 7 + len(client)) % 62


def cifar(name, clients):
    with h5py.File(HERE / name, "w") as file:
        for client, count in clients.items():
            group = file.create_group(f"examples/{client}")
            image = (np.arange(count * 3072) * 5 % 251).astype(np.uint8).reshape(count, 32, 32, 3)
            group.create_dataset("image", data=image, chunks=(min(count, 2), 20, 32, 3), compression="gzip", shuffle=True, fletcher32=True)
            label = (np.arange(count, dtype=np.int64) * 13) % 100
            group.create_dataset("label", data=label, chunks=(min(count, 2),), compression="gzip")
            group["coarse_label"] = label // 5


def texts(name, field, clients):
    with h5py.File(HERE / name, "w") as file:
        for client, lines in clients.items():
            file.create_group(f"examples/{client}").create_dataset(field, data=lines, dtype=STRING)


emnist("fed_emnist_train.h5", {"f0001_41": 3, "f0000_14": 2})
emnist("fed_emnist_test.h5", {"f0001_41": 1, "f0000_14": 1})
emnist("latest.h5", {"f0001_41": 3, "f0000_14": 2}, libver="latest")
emnist("dense.h5", {f"w{i:02}": 1 for i in range(10)}, libver="latest")
emnist("many.h5", {f"w{i:02}": 1 for i in range(12)})
cifar("fed_cifar100_train.h5", {"0": 3, "1": 4})
cifar("fed_cifar100_test.h5", {"0": 1})
texts("shakespeare_train.h5", "snippets", {"THE_PLAY_A": ["To be, or not to be", "~"], "THE_PLAY_B": ["", "Now"]})
texts("shakespeare_test.h5", "snippets", {"THE_PLAY_A": ["that is the question:"]})
texts("stackoverflow_train.h5", "tokens", {"00000001": ["how do i sort a list", "why"], "00000002": ["a list"]})
texts("stackoverflow_test.h5", "tokens", {"00000003": ["how ?"]})
(HERE / "stackoverflow.word_count").write_text("a 90\nlist 80\nhow 70\ni 60\ndo 5\n")
