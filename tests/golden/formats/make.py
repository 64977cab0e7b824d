"""Writes small files in formats that this program only reads: `python make.py`, with numpy 2.2.6 and SciPy 1.17.

MATLAB files as those of Flowers102, Stanford Cars and Digit5 (a few pictures each), and Amazon Review's npz.
"""

from pathlib import Path

import numpy as np
from scipy.io import savemat

HERE = Path(__file__).parent
FLOWERS, CARS, DIGITS = HERE / "flowers", HERE / "cars", HERE / "digit5"
for folder in [FLOWERS, CARS, DIGITS]:
    folder.mkdir(exist_ok=True)

savemat(FLOWERS / "imagelabels.mat", {"labels": np.array([[3, 102, 1, 77]], dtype=np.uint8)}, do_compression=True)
savemat(FLOWERS / "setid.mat", {"trnid": np.array([[2]]), "valid": np.array([[1]]), "tstid": np.array([[3, 4]], dtype=np.uint16)})


def annotations(names, classes):
    kinds = [("bbox_x1", "O"), ("class", "O"), ("fname", "O")]
    out = np.zeros((1, len(names)), dtype=kinds)
    for i, (name, label) in enumerate(zip(names, classes)):
        out[0, i] = (np.array([[10]], dtype=np.uint8), np.array([[label]], dtype=np.uint8), name)
    return {"annotations": out}


savemat(CARS / "cars_train_annos.mat", annotations(["00001.jpg", "00002.jpg"], [14, 196]), do_compression=True)
savemat(CARS / "cars_test_annos_withlabels.mat", annotations(["00001.jpg"], [1]), do_compression=True)

hot = lambda labels: np.eye(10, dtype=np.uint8)[labels]
gray = (np.arange(3 * 32 * 32) % 256).astype(np.uint8).reshape(3, 32, 32)
color = (np.arange(3 * 32 * 32 * 3) % 253).astype(np.uint8).reshape(3, 32, 32, 3)
savemat(DIGITS / "mnist_data.mat", {"train_32": gray, "test_32": gray[:1], "label_train": hot([1, 2, 3]), "label_test": hot([4])})
savemat(DIGITS / "mnistm_with_label.mat", {"train": color, "test": color[:1], "label_train": hot([5, 6, 7]), "label_test": hot([8])})
last = np.moveaxis(color, 0, -1)
for name in ["synth", "svhn"]:
    savemat(DIGITS / f"{name}_train_32x32.mat", {"X": last, "y": np.array([[10], [2], [9]])}, do_compression=True)
    savemat(DIGITS / f"{name}_test_32x32.mat", {"X": last[..., :1], "y": np.array([[10]])})
cells = np.empty((2, 2), dtype=object)
pixels = (np.arange(2 * 784) % 5 / 4).reshape(2, 1, 28, 28)
cells[0, 0], cells[0, 1], cells[1, 0], cells[1, 1] = pixels, np.array([[1], [10]]), pixels[:1], np.array([[7]])
savemat(DIGITS / "usps_28x28.mat", {"dataset": cells})

# Eight reviews, two a domain; the sides of the matrix are exchanged, as in the original.
np.savez_compressed(
    HERE / "amazon.npz",
    xx_data=np.array([1, 2, 3, 4, 5]),
    xx_col=np.array([0, 0, 3, 7, 7]),
    xx_row=np.array([0, 4999, 10, 20, 29000]),
    xx_shape=np.array([30000, 8]),
    yy=np.array([[1], [-1], [1], [-1], [1], [-1], [1], [-1]]),
    offset=np.array([[0], [2], [4], [6], [8]]),
)
np.savez(HERE / "arrays.npz", x_train=np.arange(24, dtype=np.uint8).reshape(2, 3, 4), y_train=np.array([1, 0]), x_test=np.arange(12, dtype=np.uint8).reshape(1, 3, 4), y_test=np.array([[2]]).reshape(1))
np.savez(HERE / "floats.npz", x=np.asfortranarray(np.arange(12, dtype=">f8").reshape(2, 3, 1, 2) / 2), y=np.array([0.0, 1.0]), group=np.array([7, 3]))
