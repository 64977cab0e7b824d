"""Writes `ag_news.json` from AG News' test.csv: `python make.py PATH/test.csv`, with Python 3.11.

The tokenizer and the vocabulary are those of torchtext ("basic_english", special words first, 32,000 in all), written anew on `re`.
"""

import collections
import csv
import json
import re
import sys
from pathlib import Path

RULES = [(r"\'", " '  "), (r"\"", ""), (r"\.", " . "), (r"<br \/>", " "), (r",", " , "), (r"\(", " ( "), (r"\)", " ) ")]
RULES += [(r"\!", " ! "), (r"\?", " ? "), (r"\;", " "), (r"\:", " "), (r"\s+", " ")]


def tokens(text):
    text = text.lower()
    for pattern, by in RULES:
        text = re.sub(pattern, by, text)
    return text.split()


rows = [tokens(" ".join(row[1:])) for row in csv.reader(open(sys.argv[1], encoding="utf8"))]
counts = collections.Counter(word for row in rows for word in row)
special = ["<pad>", "cls", "<unk>", "<eos>"]
for word in special:
    counts.pop(word, None)
words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))][: 32000 - len(special)]
number = {word: i for i, word in enumerate(special + words)}
ids = lambda row: ([2] + [number.get(word, 2) for word in row] + [0] * 200)[:200]
out = {"vocabulary": len(number), "rows": {str(i): ids(rows[i]) for i in [0, 1, 2, 77, 1234, 7599]}}
(Path(__file__).parent / "ag_news.json").write_text(json.dumps(out))
