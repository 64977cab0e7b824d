"""Makes reference.json beside it: epsilons of Opacus and dp-accounting on a grid.

    pip install opacus dp-accounting && python tests/privacy/make_reference.py

Both at the orders of src/privacy/rdp.rs. dp-accounting leaves out orders at which its series needs more than 1000 terms, so that its
epsilon is larger there, and has a bound of its own for very small ones. `noises` are the noise multipliers at which Opacus' epsilon is
the target.
"""

import json
import logging
import math
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import importlib.util

import dp_accounting
from dp_accounting.rdp import rdp_privacy_accountant


def opacus_analysis():
    """Opacus' analysis module alone: the package around it wants torch and more."""
    for folder in sys.path:
        path = pathlib.Path(folder) / "opacus/accountants/analysis/rdp.py"
        if path.exists():
            spec = importlib.util.spec_from_file_location("opacus_rdp", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SystemExit("opacus is not installed")


rdp = opacus_analysis()
ORDERS = [i / 10 for i in range(11, 110)] + list(range(11, 64)) + [128, 256, 512, 1024]


def opacus(rate, noise, steps, delta):
    curve = rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=steps, orders=ORDERS)
    return float(rdp.get_privacy_spent(orders=ORDERS, rdp=curve, delta=delta)[0])


def accounting(rate, noise, steps, delta):
    accountant = rdp_privacy_accountant.RdpAccountant(orders=ORDERS)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, steps))
    return float(accountant.get_epsilon(delta))


def or_none(compute, *setting):
    try:
        value = compute(*setting)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


grid = []
for rate in [0.0005, 0.004, 0.01, 0.05, 0.1, 0.25, 0.5, 0.9, 1.0]:
    for noise in [0.4, 0.7, 1.0, 1.3, 2.0, 5.0, 20.0]:
        for steps in [1, 10, 100, 1000, 20000]:
            for delta in [1e-3, 1e-5, 1e-8]:
                setting = (rate, noise, steps, delta)
                grid.append([*setting, or_none(opacus, *setting), or_none(accounting, *setting)])

noises = []
for rate in [0.01, 0.1, 0.5, 1.0]:
    for steps in [10, 100, 1000]:
        for target in [0.5, 1.0, 4.0, 8.0]:
            low, high = 0.2, 5000.0
            while high - low > 1e-9 * high:
                middle = (low + high) / 2
                low, high = (middle, high) if opacus(rate, middle, steps, 1e-5) > target else (low, middle)
            noises.append([rate, steps, target, 1e-5, high])

import importlib.metadata as metadata

result = {
    "versions": {name: metadata.version(name) for name in ["opacus", "dp-accounting"]},
    "epsilons": {"columns": ["rate", "noise", "steps", "delta", "opacus", "dp-accounting"], "rows": grid},
    "noises": {"columns": ["rate", "steps", "epsilon", "delta", "noise"], "rows": noises},
}
lines = json.dumps(result).replace("], [", "],\n[")
pathlib.Path(__file__).with_name("reference.json").write_text(lines + "\n")
