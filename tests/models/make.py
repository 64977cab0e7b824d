"""Makes reference.json: what PyTorch computes for small versions of the models, from weights that follow a formula.

    python tests/models/make.py

All numbers are computed in double precision. For each case there are the names and shapes of the state, the logits in training and
evaluation mode, the loss, for each parameter's gradient its norm and two products with the formula, and the logits after one step of
SGD; and how far PyTorch's own single precision is from that. The models are written here from the descriptions of the reference implementations, with their module names; dropout is off.
"""

import copy
import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def formula(stream, count):
    """`count` numbers in [-1, 1) that any program can compute exactly."""
    at = torch.arange(count, dtype=torch.int64)
    mixed = (at * 2654435761 + (stream + 1) * 97003 * 65537) % 4294967296
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 4294967296
    mixed = mixed ^ (mixed >> 13)
    return mixed.to(torch.float64) / 2147483648.0 - 1.0


def values(stream, name, shape):
    """The value of a tensor: small for weights, near the identity for normalisations, rounded to single precision."""
    count = math.prod(shape)
    raw = formula(stream, count)
    if name.endswith("running_var"):
        out = 1.0 + 0.5 * raw
    elif name.endswith("running_mean"):
        out = 0.2 * raw
    elif len(shape) == 1 and name.endswith(".weight"):
        out = 1.0 + 0.25 * raw
    elif len(shape) == 1:
        out = 0.1 * raw
    else:
        fan = math.prod(shape[1:])
        out = raw * math.sqrt(3.0 / fan)
    return out.to(torch.float32).to(torch.float64).reshape(shape)


class Residual(nn.Module):
    def __init__(self, inputs, width, stride, norm, bottleneck, names):
        super().__init__()
        out = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = norm(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = norm(width)
            self.conv3 = nn.Conv2d(width, out, 1, bias=False)
            self.bn3 = norm(out)
            self.order = [("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3")]
        else:
            first, second = names
            self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
            self.add_module(first, norm(width))
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.add_module(second, norm(width))
            self.order = [("conv1", first), ("conv2", second)]
        self.downsample = None
        if stride != 1 or inputs != out:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False), norm(out))

    def forward(self, x):
        y = x
        for number, (conv, norm) in enumerate(self.order):
            y = self.get_submodule(norm)(self.get_submodule(conv)(y))
            if number + 1 < len(self.order):
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class SharedGroupNorm(nn.Module):
    """One weight and one bias for each group of `size` channels."""

    def __init__(self, channels, size):
        super().__init__()
        self.size, self.groups = size, channels // size
        self.weight, self.bias = nn.Parameter(torch.ones(self.groups)), nn.Parameter(torch.zeros(self.groups))

    def forward(self, x):
        spread = lambda p: p.repeat_interleave(self.size)
        return F.group_norm(x, self.groups, spread(self.weight), spread(self.bias))


class ResNet(nn.Module):
    def __init__(self, channels, classes, depth=18, width=None, group=None):
        super().__init__()
        blocks = {10: [1] * 4, 18: [2] * 4, 34: [3, 4, 6, 3], 56: [6] * 3}[depth]
        small = depth == 56
        norm = nn.BatchNorm2d if group is None else lambda count: SharedGroupNorm(count, group)
        self.conv1 = nn.Conv2d(channels, width, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False)
        self.bn1 = norm(width)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        self.stages = []
        inputs = width
        for stage, count in enumerate(blocks):
            layers = []
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                names = ("bn2", "bn3") if depth == 10 else ("bn1", "bn2")
                layers.append(Residual(inputs, width << stage, stride, norm, small, names))
                inputs = (width << stage) * (4 if small else 1)
            name = f"layer_{stage}" if depth == 10 else f"layer{stage + 1}"
            self.add_module(name, nn.Sequential(*layers))
            self.stages.append(name)
        self.fc = nn.Linear(inputs, classes)

    def base(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))


class Chain(nn.Module):
    """A model whose base is a sequence of named modules."""

    def __init__(self, modules, fc):
        super().__init__()
        self.order = []
        for name, module in modules:
            parent = self
            *path, last = name.split(".")
            for part in path:
                if not hasattr(parent, part):
                    parent.add_module(part, nn.Module())
                parent = getattr(parent, part)
            parent.add_module(last, module)
            self.order.append(name)
        self.fc = fc

    def base(self, x):
        for name in self.order:
            x = self.get_submodule(name)(x)
        return x


def named(prefix, modules):
    return [(f"{prefix}.{index}", module) for index, module in enumerate(modules)]


def harcnn(channels, classes, widths, kernel, hidden, dim):
    modules = []
    inputs = channels
    for index, width in enumerate(widths):
        block = [nn.Conv2d(inputs, width, (1, kernel)), nn.ReLU(), nn.MaxPool2d((1, 2), stride=2)]
        modules += named(f"conv{index + 1}", block)
        inputs = width
    modules.append(("flatten", nn.Flatten()))
    sizes = [dim, *hidden]
    head = []
    for a, b in zip(sizes, sizes[1:]):
        head += [nn.Linear(a, b), nn.ReLU()]
    return Chain(modules, nn.Sequential(*head, nn.Linear(sizes[-1], classes)))


def lenet(channels, classes, widths, hidden, dim):
    a, b = widths
    block = [nn.Conv2d(channels, a, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(a, b, 5), nn.Identity(), nn.MaxPool2d(2), nn.ReLU()]
    modules = named("conv_params", block) + [("flatten", nn.Flatten())]
    return Chain(modules + [("bottleneck", nn.Linear(dim, hidden)), ("bn", nn.BatchNorm1d(hidden))], nn.Linear(hidden, classes))


def cifarnet(channels, classes, widths, hidden, dim):
    a, b = widths
    pool = lambda: nn.MaxPool2d(2, 2)
    modules = [("conv1", nn.Conv2d(channels, a, 5)), ("r1", nn.ReLU()), ("p1", pool())]
    modules += [("conv2", nn.Conv2d(a, b, 5)), ("r2", nn.ReLU()), ("p2", pool()), ("flatten", nn.Flatten())]
    modules += [("fc1", nn.Linear(dim, hidden[0])), ("r3", nn.ReLU()), ("fc2", nn.Linear(hidden[0], hidden[1])), ("r4", nn.ReLU())]
    return Chain(modules, nn.Linear(hidden[1], classes))


def digit5cnn(channels, classes, widths, hidden, dim):
    a, b, c = widths
    pool = lambda: nn.MaxPool2d(3, 2, 1)
    encoder = [("conv1", nn.Conv2d(channels, a, 5, 1, 2)), ("bn1", nn.BatchNorm2d(a)), ("relu1", nn.ReLU()), ("maxpool1", pool())]
    encoder += [("conv2", nn.Conv2d(a, b, 5, 1, 2)), ("bn2", nn.BatchNorm2d(b)), ("relu2", nn.ReLU()), ("maxpool2", pool())]
    encoder += [("conv3", nn.Conv2d(b, c, 5, 1, 2)), ("bn3", nn.BatchNorm2d(c)), ("relu3", nn.ReLU()), ("flatten", nn.Flatten())]
    linear = [("fc1", nn.Linear(dim, hidden[0])), ("bn4", nn.BatchNorm1d(hidden[0])), ("relu4", nn.ReLU())]
    linear += [("fc2", nn.Linear(hidden[0], hidden[1])), ("bn5", nn.BatchNorm1d(hidden[1])), ("relu5", nn.ReLU())]
    modules = [(f"encoder.{name}", module) for name, module in encoder] + [(f"linear.{name}", module) for name, module in linear]
    return Chain(modules, nn.Linear(hidden[1], classes))


def amazonmlp(channels, classes, hidden):
    modules, inputs = [], channels
    for units in hidden:
        modules += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return Chain([("flatten", nn.Flatten()), *named("encoder", modules)], nn.Linear(inputs, classes))


def mlp(channels, classes, hidden, activation):
    modules, inputs = [("flatten", nn.Flatten())], channels
    for index, units in enumerate(hidden):
        modules += [(f"fc{index + 1}", nn.Linear(inputs, units)), (f"a{index + 1}", activation())]
        inputs = units
    return Chain(modules, nn.Linear(inputs, classes))


def alexnet(channels, classes, widths, hidden):
    a, b, c, d, e = widths
    pool = lambda: nn.MaxPool2d(3, 2)
    features = [nn.Conv2d(channels, a, 11, 4, 2), nn.ReLU(), pool(), nn.Conv2d(a, b, 5, padding=2), nn.ReLU(), pool()]
    features += [nn.Conv2d(b, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, d, 3, padding=1), nn.ReLU()]
    features += [nn.Conv2d(d, e, 3, padding=1), nn.ReLU(), pool()]
    classifier = [nn.Identity(), nn.Linear(36 * e, hidden), nn.ReLU(), nn.Identity(), nn.Linear(hidden, hidden), nn.ReLU()]
    modules = named("features", features) + [("avgpool", nn.AdaptiveAvgPool2d((6, 6))), ("flatten", nn.Flatten())]
    return Chain(modules + named("classifier", classifier), nn.Linear(hidden, classes))


class Inverted(nn.Module):
    def __init__(self, inputs, out, stride, expansion):
        super().__init__()
        wide = inputs * expansion
        layers = [unit(inputs, wide, 1, 1, 1)] if expansion != 1 else []
        layers += [unit(wide, wide, 3, stride, wide), nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == out

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


def unit(inputs, out, kernel, stride, groups):
    conv = nn.Conv2d(inputs, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU6())


def mobilenet(channels, classes, width):
    def rounded(count):
        near = max(8, int(count + 4) // 8 * 8)
        return near + 8 if near < 0.9 * count else near

    inputs = rounded(32 * width)
    features = [unit(channels, inputs, 3, 2, 1)]
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, count, blocks, first in stages:
        out = rounded(count * width)
        for block in range(blocks):
            features.append(Inverted(inputs, out, first if block == 0 else 1, expansion))
            inputs = out
    last = rounded(1280 * max(1.0, width))
    features.append(unit(inputs, last, 1, 1, 1))
    modules = named("features", features) + [("mean", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
    return Chain(modules, nn.Linear(last, classes))


class Unit(nn.Module):
    def __init__(self, inputs, out, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, out, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    def __init__(self, inputs, a, b, c, e, f, g):
        super().__init__()
        self.branch1 = Unit(inputs, a, 1)
        self.branch2 = nn.Sequential(Unit(inputs, b, 1), Unit(b, c, 3))
        self.branch3 = nn.Sequential(Unit(inputs, e, 1), Unit(e, f, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), Unit(inputs, g, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


def googlenet(channels, classes, divide):
    part = lambda count: -(-count // divide)
    pool = lambda size: nn.MaxPool2d(size, 2, ceil_mode=True)
    modules = [("conv1", Unit(channels, part(64), 7, 2)), ("maxpool1", pool(3))]
    modules += [("conv2", Unit(part(64), part(64), 1)), ("conv3", Unit(part(64), part(192), 3)), ("maxpool2", pool(3))]
    table = {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }
    inputs = part(192)
    for name, counts in table.items():
        a, b, c, e, f, g = map(part, counts)
        modules.append((f"inception{name}", Inception(inputs, a, b, c, e, f, g)))
        inputs = a + c + f + g
        if name in ("3b", "4e"):
            modules.append((f"pool{name}", pool(3 if name == "3b" else 2)))
    modules += [("mean", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
    return Chain(modules, nn.Linear(inputs, classes))


class FastText(nn.Module):
    def __init__(self, words, classes, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden, 0)
        self.fc1 = nn.Linear(hidden, hidden)
        self.fc = nn.Linear(hidden, classes)

    def base(self, x):
        return self.fc1(self.embedding(x).mean(1))


class TextCNN(nn.Module):
    def __init__(self, words, classes, hidden, channels, kernels, length):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden, 0)
        self.names = []
        for index, kernel in enumerate(kernels):
            block = nn.Sequential(nn.Conv1d(hidden, channels, kernel), nn.ReLU(), nn.MaxPool1d(length - kernel + 1))
            self.add_module(f"conv{index + 1}", block)
            self.names.append(f"conv{index + 1}")
        self.fc = nn.Linear(channels * len(kernels), classes)

    def base(self, x):
        x = self.embedding(x).permute(0, 2, 1)
        return torch.cat([self.get_submodule(name)(x).squeeze(2) for name in self.names], 1)


class Tokens(nn.Module):
    def __init__(self, width, places):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.zeros(1, places, width))

    def forward(self, x):
        x = x.flatten(2).permute(0, 2, 1)
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.pos_embedding


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, feed):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, feed), nn.GELU(), nn.Identity(), nn.Linear(feed, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class First(nn.Module):
    def forward(self, x):
        return x[:, 0]


def vit(channels, classes, side, patch, width, heads, depth, feed):
    places = (side[0] // patch) * (side[1] // patch) + 1
    modules = [("conv_proj", nn.Conv2d(channels, width, patch, patch)), ("tokens", Tokens(width, places))]
    modules += [(f"encoder.layers.encoder_layer_{index}", EncoderLayer(width, heads, feed)) for index in range(depth)]
    modules += [("encoder.ln", nn.LayerNorm(width, eps=1e-6)), ("first", First())]
    return Chain(modules, nn.Linear(width, classes))


def cases():
    """Name of the case, kind, parameters in a pipeline, shape (channels, height, width), classes, words or None, the model."""
    res = lambda **kw: dict(kind="resnet", **kw)
    yield "resnet18", res(width=4), (3, 48, 48), 5, None, ResNet(3, 5, 18, 4)
    yield "resnet34", res(depth=34, width=4), (1, 64, 64), 5, None, ResNet(1, 5, 34, 4)
    yield "resnet10", res(depth=10, width=6), (3, 40, 33), 5, None, ResNet(3, 5, 10, 6)
    yield "resnet56", res(depth=56, width=4), (3, 20, 20), 5, None, ResNet(3, 5, 56, 4)
    group = res(width=8, norm="group", group_channels=4)
    yield "resnet18-group", group, (3, 40, 40), 5, None, ResNet(3, 5, 18, 8, 4)
    har = dict(kind="harcnn", widths=[4, 6], kernel=9, hidden=[16, 12])
    yield "harcnn", har, (6, 1, 64), 4, None, harcnn(6, 4, [4, 6], 9, [16, 12], 6 * 10)
    yield "harcnn-rows", har, (9, 3, 40), 4, None, harcnn(9, 4, [4, 6], 9, [16, 12], 6 * 1 * 4)
    yield "lenet", dict(kind="lenet", widths=[4, 6], hidden=10, dropout=0), (1, 28, 28), 5, None, lenet(1, 5, [4, 6], 10, 96)
    yield "cifarnet", dict(kind="cifarnet"), (3, 32, 32), 5, None, cifarnet(3, 5, [6, 10], [120, 84], 250)
    digits = dict(kind="digit5cnn", widths=[4, 4, 6], hidden=[20, 12], dropout=0)
    yield "digit5cnn", digits, (3, 32, 32), 5, None, digit5cnn(3, 5, [4, 4, 6], [20, 12], 384)
    yield "amazonmlp", dict(kind="amazonmlp", hidden=[20, 10, 8]), (50, 1, 1), 2, None, amazonmlp(50, 2, [20, 10, 8])
    for name, activation in [("sigmoid", nn.Sigmoid), ("tanh", nn.Tanh), ("gelu", nn.GELU), ("silu", nn.SiLU), ("leaky_relu", nn.LeakyReLU)]:
        yield f"mlp-{name}", dict(kind="mlp", hidden=[12, 9], activation=name), (20, 1, 1), 3, None, mlp(20, 3, [12, 9], activation)
    alex = dict(kind="alexnet", widths=[4, 6, 8, 6, 4], hidden=16, dropout=0)
    yield "alexnet", alex, (3, 80, 72), 5, None, alexnet(3, 5, [4, 6, 8, 6, 4], 16)
    yield "mobilenet", dict(kind="mobilenet", width=0.125, dropout=0), (3, 96, 96), 5, None, mobilenet(3, 5, 0.125)
    yield "googlenet", dict(kind="googlenet", divide=16, dropout=0), (3, 98, 91), 5, None, googlenet(3, 5, 16)
    small = dict(kind="vit", patch=4, width=12, heads=3, depth=2, feed=20)
    yield "vit", small, (3, 16, 12), 5, None, vit(3, 5, (16, 12), 4, 12, 3, 2, 20)
    yield "fasttext", dict(kind="fasttext", hidden=8), (1, 1, 12), 4, 30, FastText(30, 4, 8)
    text = dict(kind="textcnn", hidden=8, channels=5, kernels=[3, 4, 5], dropout=0)
    yield "textcnn", text, (1, 1, 12), 4, 30, TextCNN(30, 4, 8, 5, [3, 4, 5], 12)


ROWS = 6
RATE = 0.01


def fill(words, model):
    """Sets the state by the formula."""
    numbered = [(key, value) for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")]
    for stream, (key, value) in enumerate(numbered):
        made = values(stream, key, tuple(value.shape))
        if words is not None and key.endswith("embedding.weight") and model.get_submodule(key[: -len(".weight")]).padding_idx is not None:
            made[0] = 0.0
        value.copy_(made)


def batch(shape, words):
    channels, height, width = shape
    raw = formula(1000, ROWS * channels * height * width).to(torch.float32).to(torch.float64)
    if words is not None:
        # Some texts end with the word that fills them up.
        x = ((raw + 1.0) / 2.0 * words).floor().to(torch.int64).reshape(ROWS, width)
        for row in range(ROWS):
            x[row, width - row :] = 0
        return x
    return raw.reshape(ROWS, -1) if height == 1 and width == 1 else raw.reshape(ROWS, channels, height, width)


def step(model, x, classes):
    """Runs both modes and one step: forward numbers, gradients, and what is there after the step."""
    y = torch.arange(ROWS) * 7 % classes
    model.eval()
    evaluated = model.fc(model.base(x)).detach()
    model.train()
    features = model.base(x)
    logits = model.fc(features)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    gradients = []
    for stream, (key, parameter) in enumerate(model.named_parameters()):
        flat = parameter.grad.flatten().to(torch.float64)
        products = [torch.dot(flat, formula(2000 + stream + 500 * i, flat.numel())).item() for i in range(2)]
        gradients.append([key, list(parameter.shape), flat.norm().item(), *products])
    buffers = [[key, value.norm().item()] for key, value in model.state_dict().items() if "running_" in key]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad
    return {
        "evaluated": evaluated.flatten().tolist(),
        "features": [features.shape[1], features.norm().item()],
        "logits": logits.detach().flatten().tolist(),
        "loss": loss.item(),
        "gradients": gradients,
        "buffers": buffers,
        "stepped": model.fc(model.base(x)).detach().flatten().tolist(),
    }


def apart(found, wanted):
    """The greatest difference, relative to the greatest value but at least 1."""
    scale = max([1.0] + [abs(value) for value in wanted])
    return max(abs(a - b) for a, b in zip(found, wanted)) / scale


def measure(name, params, shape, classes, words, model):
    fill(words, model)
    single = copy.deepcopy(model).to(torch.float32)
    x = batch(shape, words)
    state = [[key, list(value.shape)] for key, value in model.state_dict().items()]
    out = step(model, x, classes)
    other = step(single, x if words is not None else x.to(torch.float32), classes)
    forward = max(apart(other[key], out[key]) for key in ("evaluated", "logits"))
    back = max(apart(a[2:], b[2:]) for a, b in zip(other["gradients"], out["gradients"]))
    head = {"name": name, "params": params, "shape": shape, "classes": classes, "words": words, "state": state}
    return {**head, **out, "single": [forward, back, apart(other["stepped"], out["stepped"])]}


def main():
    out = {"rows": ROWS, "rate": RATE, "torch": torch.__version__, "cases": [measure(*case) for case in cases()]}
    path = pathlib.Path(__file__).with_name("reference.json")
    text = json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"')
    path.write_text(text + "\n")
    for case in out["cases"]:
        print(case["name"], " ".join(f"{value:.1e}" for value in case["single"]))
    print(f"{len(out['cases'])} cases, {len(text)} bytes")


if __name__ == "__main__":
    main()
