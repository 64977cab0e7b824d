"""Writes `reference.jsonl`: what PyTorch computes with the models of texts, from weights and texts by formula. `python make.py`, torch 2.15.

The networks are written anew on torch's own layers, as PFLlib and FedML build theirs, with dropout off and logits in place of
log-softmax. Parameter p (in the order of sorted names) has the values 0.4 sin(0.7 k + 1.3 p) for k = 0, 1, ..., a normalisation's
weight 1 more, a row of padding 0. Word t of text r is (5 r + 3 t + r t) mod (V - 1) + 1, and the last words of each second text are 0.

Each line is a model: its parameters here, the loss (mean cross-entropy), all logits, of each parameter's gradient its sum, the sum of its
squares and some values, and all logits after a step of SGD with the rate 0.1.
"""

import json
import math
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
V, L, R, C, H = 13, 7, 4, 3, 8


def texts():
    x = torch.tensor([[(5 * r + 3 * t + r * t) % (V - 1) + 1 for t in range(L)] for r in range(R)])
    x[1::2, L - 2 :] = 0
    return x, torch.tensor([r % C for r in range(R)])


class FastText(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, H, 0)
        self.fc1, self.fc = nn.Linear(H, H), nn.Linear(H, C)

    def forward(self, x):
        return self.fc(self.fc1(self.embedding(x).mean(1)))


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, H, 0)
        for i, k in enumerate([3, 4, 5]):
            setattr(self, f"conv{i + 1}", nn.Sequential(nn.Conv1d(H, 6, k), nn.ReLU(), nn.MaxPool1d(L - k + 1)))
        self.fc = nn.Linear(18, C)

    def forward(self, x):
        e = self.embedding(x).permute(0, 2, 1)
        return self.fc(torch.cat([conv(e).squeeze(2) for conv in [self.conv1, self.conv2, self.conv3]], 1))


class LSTM(nn.Module):
    def __init__(self, both=False, layers=2):
        super().__init__()
        self.both = both
        self.embedding = nn.Embedding(V, H, None if both else 0)
        self.lstm = nn.LSTM(H, H, layers, batch_first=True, bidirectional=both)
        if both:
            self.fc1 = nn.Linear(2 * H, H)
        self.fc = nn.Linear(H, C)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x))
        last = out[:, -1]
        return self.fc(self.fc1(last) if self.both else torch.relu(last))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(H, 2, 12, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.embedding = nn.Embedding(V, H)
        self.fc = nn.Linear(H, C)
        position = torch.arange(L).unsqueeze(1)
        angle = position * torch.exp(torch.arange(0, H, 2, dtype=torch.float64) * (-math.log(10000.0) / H))
        self.table = torch.zeros(L, H, dtype=torch.float64)
        self.table[:, 0::2], self.table[:, 1::2] = torch.sin(angle), torch.cos(angle)

    def forward(self, x):
        return self.fc(self.encoder(self.embedding(x) * math.sqrt(H) + self.table)[:, 0])


class RNN(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = words
        name = "word_embeddings" if words else "embeddings"
        setattr(self, name, nn.Embedding(V, 5, 0))
        self.lstm = nn.LSTM(5, H, 1 if words else 2, batch_first=True)
        if words:
            self.fc1, self.fc2 = nn.Linear(H, 5), nn.Linear(5, C)
        else:
            self.fc = nn.Linear(H, C)

    def forward(self, x):
        out, _ = self.lstm((self.word_embeddings if self.words else self.embeddings)(x))
        last = (x != 0).sum(1) - 1
        state = out[torch.arange(len(x)), last]
        return self.fc2(self.fc1(state)) if self.words else self.fc(state)


def fill(model):
    for p, (name, value) in enumerate(sorted(model.named_parameters())):
        k = torch.arange(value.numel(), dtype=torch.float64)
        values = 0.4 * torch.sin(0.7 * k + 1.3 * p) + (1 if ".norm" in name and name.endswith("weight") else 0)
        with torch.no_grad():
            value.copy_(values.reshape(value.shape))
            owner = model.get_submodule(name.rsplit(".", 1)[0])
            if isinstance(owner, nn.Embedding) and owner.padding_idx is not None:
                value[owner.padding_idx] = 0


def line(kind, params, model):
    model = model.double()
    if hasattr(model, "table"):
        model.table = model.table.double()
    fill(model)
    x, y = texts()
    loss = nn.functional.cross_entropy(model(x), y)
    logits = model(x)
    loss.backward()
    gradients = {}
    for name, value in sorted(model.named_parameters()):
        g = value.grad.flatten()
        picked = g[:: max(len(g) // 7, 1)]
        gradients[name] = dict(shape=list(value.shape), sum=g.sum().item(), squares=(g * g).sum().item(), some=picked.tolist())
    with torch.no_grad():
        for value in model.parameters():
            value -= 0.1 * value.grad
    after = model(x)
    return dict(kind=kind, params=params, loss=loss.item(), logits=logits.tolist(), gradients=gradients, after=after.tolist())


if __name__ == "__main__":
    lines = [
        line("fasttext", dict(hidden=H, words=V, padding=0), FastText()),
        line("textcnn", dict(hidden=H, channels=6, dropout=0, words=V, padding=0), TextCNN()),
        line("lstm", dict(hidden=H, dropout=0, words=V, padding=0), LSTM()),
        line("bilstm", dict(hidden=H, words=V), LSTM(True, 1)),
        line("bilstm", dict(hidden=H, layers=2, words=V), LSTM(True, 2)),
        line("transformer", dict(hidden=H, heads=2, feed=12, dropout=0, words=V), Transformer()),
        line("rnn", dict(embedding=5, hidden=H, words=V, padding=0), RNN(False)),
        line("rnn-stackoverflow", dict(embedding=5, hidden=H, words=V, padding=0), RNN(True)),
    ]
    (HERE / "reference.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
