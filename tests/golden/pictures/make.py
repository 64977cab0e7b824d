"""Writes `scaled.jsonl`: made-up pictures scaled by Pillow's bilinear filter. `python make.py`, with numpy 2.2.6 and Pillow 11.3 (13 takes the other axis first for some sizes)."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

with open(Path(__file__).parent / "scaled.jsonl", "w") as out:
    for width, height, to_width, to_height in [(9, 7, 4, 3), (5, 4, 11, 9), (40, 3, 8, 3), (6, 30, 6, 8), (17, 23, 16, 16)]:
        i = np.arange(width * height * 3, dtype=np.int64)
        pixels = ((i * i * 31 + i * 7) >> 3).astype(np.uint8).reshape(height, width, 3)
        scaled = Image.fromarray(pixels).resize((to_width, to_height), Image.BILINEAR)
        line = dict(width=width, height=height, to_width=to_width, to_height=to_height, bytes=np.asarray(scaled).reshape(-1).tolist())
        out.write(json.dumps(line) + "\n")
