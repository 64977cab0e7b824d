#!/usr/bin/env python3
"""Reference values for the attacks: L-BFGS trajectories and second derivatives, made with PyTorch in double precision.

Run in this folder: python make_reference.py > reference.json   (PyTorch 2.15 was used)
"""
import json
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def numbers(count, seed, scale=1.0):
    """Numbers that are the same everywhere: no generator's stream is needed to repeat them."""
    return torch.tensor([scale * math.sin(1.7 * i + 0.31 * i * i + seed) for i in range(count)])


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def valley(x):
    i = torch.arange(1, len(x) + 1)
    return (i * torch.log(torch.cosh(x - 0.3 * i))).sum() + 0.05 * (x.sum()) ** 2


def trajectories():
    out = []
    for name, function, start in [
        ("rosenbrock", rosenbrock, [-1.2, 1.0, 0.8, -0.5]),
        ("valley", valley, [3.0, -2.0, 1.0, 0.5, -1.0]),
    ]:
        for options in [
            {"max_iter": 1},
            {"max_iter": 1, "line_search_fn": "strong_wolfe"},
            {"max_iter": 1, "history_size": 3, "lr": 0.5},
            {"line_search_fn": "strong_wolfe"},
            {"max_iter": 4, "lr": 0.7, "history_size": 2},
        ]:
            x = torch.tensor(start, requires_grad=True)
            optimizer = torch.optim.LBFGS([x], **options)
            evaluations = 0

            def closure():
                nonlocal evaluations
                evaluations += 1
                optimizer.zero_grad()
                value = function(x)
                value.backward()
                return value

            points = []
            for _ in range(20):
                optimizer.step(closure)
                points.append(x.detach().tolist())
                if not all(math.isfinite(v) and abs(v) < 1e6 for v in points[-1]):
                    points.pop()
                    break
            out.append({"function": name, "start": start, "options": options, "points": points, "evaluations": evaluations})
    return out


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(12, 7)
        self.fc2 = nn.Linear(7, 6)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        x = torch.sigmoid(self.fc1(x.flatten(1)))
        return self.fc(torch.sigmoid(self.fc2(x)))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 4, 3)
        self.fc1 = nn.Linear(4 * 2 * 2, 5)
        self.fc = nn.Linear(5, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc(F.relu(self.fc1(x.flatten(1))))


def loss_of(outputs, kind, labels, target):
    if kind == "classes":
        return F.cross_entropy(outputs, labels)
    if kind == "soft":
        return torch.mean(torch.sum(-torch.softmax(target, -1) * F.log_softmax(outputs, -1), 1))
    return F.mse_loss(outputs, target)


def second_derivatives():
    out = []
    for name, network, shape in [("mlp", Mlp(), (1, 3, 4)), ("cnn", Cnn(), (2, 8, 8))]:
        for i, p in enumerate(network.parameters()):
            p.data = numbers(p.numel(), i, 0.6 if name == "cnn" else 0.9).view(p.shape)
        parameters = {k: {"shape": list(v.shape), "values": v.detach().flatten().tolist()} for k, v in network.named_parameters()}
        cases = []
        for kind in ["classes", "soft", "outputs"]:
            for distance in ["squares", "cosine"]:
                for steps in [[[0, 3]], [[0, 2], [2, 3], [0, 2]]]:
                    rate = 0.3
                    x = numbers(3 * math.prod(shape), 5).view(3, *shape).requires_grad_()
                    target = numbers(12, 9).view(3, 4).requires_grad_()
                    labels = torch.tensor([2, 0, 3])
                    names = [k for k, _ in network.named_parameters()]
                    start = [p for p in network.parameters()]
                    now = start
                    for first, last in steps:
                        outputs = torch.func.functional_call(network, dict(zip(names, now)), (x[first:last],))
                        loss = loss_of(outputs, kind, labels[first:last], target[first:last])
                        gradient = torch.autograd.grad(loss, now, create_graph=True)
                        now = [p - rate * g for p, g in zip(now, gradient)]
                    update = [(a - b) / (rate * len(steps)) for a, b in zip(start, now)]
                    # Only the first tensors are sent; the seen update is made up.
                    sent = update[:-2]
                    seen = [numbers(u.numel(), 20 + i, 0.2).view(u.shape) for i, u in enumerate(sent)]
                    if distance == "squares":
                        value = sum(((u - s) ** 2).sum() for u, s in zip(sent, seen))
                    else:
                        product = sum((u * s).sum() for u, s in zip(sent, seen))
                        norms = sum((u**2).sum() for u in sent).sqrt() * sum((s**2).sum() for s in seen).sqrt()
                        value = 1 - product / norms
                    wanted = [x] if kind == "classes" else [x, target]
                    found = torch.autograd.grad(value, wanted)
                    cases.append(
                        {
                            "loss": kind,
                            "distance": distance,
                            "steps": steps,
                            "rate": rate,
                            "value": value.item(),
                            "d_x": found[0].flatten().tolist(),
                            "d_target": found[1].flatten().tolist() if len(found) > 1 else [],
                        }
                    )
        out.append({"network": name, "shape": list(shape), "parameters": parameters, "cases": cases})
    return out


print(json.dumps({"torch": torch.__version__, "lbfgs": trajectories(), "second": second_derivatives()}))
