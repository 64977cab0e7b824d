"""Makes reference.json: what SciPy says to the inputs on which tests/stats.rs tries this crate's statistics.

    pip install scipy && python3 tests/stats/make_reference.py > tests/stats/reference.json
"""

import itertools
import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(6)


def exact_wilcoxon(d):
    """Every sign of every rank, counted: SciPy's own exact mode knows no ties."""
    d = np.array([x for x in d if x != 0])
    r = stats.rankdata(np.abs(np.round(d, 12)))
    w = r[d > 0].sum()
    sums = np.array([sum(s) for s in itertools.product(*[(0, x) for x in r])])
    return float(w), float(min(1.0, 2 * min(np.mean(sums <= w + 1e-9), np.mean(sums >= w - 1e-9))))


pairs = []
for n in (2, 3, 5, 6, 8, 12, 40):
    a = np.round(0.9 + 0.03 * rng.standard_normal(n), 6)
    b = np.round(0.88 + 0.03 * rng.standard_normal(n), 6)
    d = a - b
    w = stats.wilcoxon(a, b, method="exact")
    positive = n * (n + 1) / 2 - w.statistic if stats.rankdata(np.abs(d))[d > 0].sum() != w.statistic else w.statistic
    pairs.append({
        "a": a.tolist(), "b": b.tolist(),
        "wilcoxon": [float(positive), float(w.pvalue)],
        "sign": [int((d > 0).sum()), float(stats.binomtest(int((d > 0).sum()), n, 0.5).pvalue)],
        "paired-t": [float(x) for x in stats.ttest_rel(a, b)],
        "welch": [float(x) for x in stats.ttest_ind(a, b, equal_var=False)],
        "dz": float(d.mean() / d.std(ddof=1)),
    })
tied = []
for d in ([0.1, -0.1, 0.2, 0.2, 0.3], [0.0, 0.01, 0.01, -0.02, 0.03, 0.03, 0.03], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]):
    tied.append({"d": d, "wilcoxon": exact_wilcoxon(d)})

def holm(p):
    order = np.argsort(p)
    out, top = np.zeros(len(p)), 0.0
    for i, j in enumerate(order):
        top = max(top, min(1.0, (len(p) - i) * p[j]))
        out[j] = top
    return out.tolist()

ps = [0.01, 0.04, 0.03, 0.005, 0.5]

friedman = []
for n, k, digits in ((8, 5, 6), (3, 3, 6), (10, 20, 6), (6, 4, 1)):
    x = np.round(rng.random((n, k)) + np.linspace(0, 0.5, k), digits)
    s = stats.friedmanchisquare(*x.T)
    ranks = np.array([stats.rankdata(-row) for row in x]).mean(axis=0)
    ff = (n - 1) * s.statistic / (n * (k - 1) - s.statistic)
    q = stats.studentized_range.ppf(0.95, k, np.inf)
    friedman.append({
        "blocks": x.tolist(), "chi2": float(s.statistic), "p": float(s.pvalue), "ranks": ranks.tolist(),
        "f": float(ff), "p_f": float(stats.f.sf(ff, k - 1, (k - 1) * (n - 1))),
        "critical": float(q * np.sqrt(k * (k + 1) / (12 * n))),
        "pair": float(stats.studentized_range.sf(abs(ranks[0] - ranks[-1]) / np.sqrt(k * (k + 1) / (12 * n)), k, np.inf)),
    })

intervals = []
for n in (2, 3, 5, 30):
    x = np.round(rng.random(n), 6)
    low, high = stats.t.interval(0.95, n - 1, loc=x.mean(), scale=x.std(ddof=1) / np.sqrt(n))
    intervals.append({"x": x.tolist(), "median": float(np.median(x)), "sd": float(x.std(ddof=1)), "interval": [float(low), float(high)]})

tost = []
for n, other, margin in ((3, (0.85, 0.002, 3), 0.02), (5, (0.85, 0.01, 3), 0.01), (6, (0.9, None, 1), 0.05)):
    x = np.round(0.855 + 0.004 * rng.standard_normal(n), 6)
    mean, sd, m = other
    if sd is None:
        p = max(stats.ttest_1samp(x, mean - margin, alternative="greater").pvalue, stats.ttest_1samp(x, mean + margin, alternative="less").pvalue)
        both = stats.ttest_1samp(x, mean).pvalue
    else:
        def welch(shift, side):
            return stats.ttest_ind_from_stats(x.mean(), x.std(ddof=1), n, mean + shift, sd, m, equal_var=False, alternative=side).pvalue
        p, both = max(welch(-margin, "greater"), welch(margin, "less")), welch(0, "two-sided")
    tost.append({"x": x.tolist(), "other": other, "margin": margin, "p": float(p), "p_difference": float(both)})

# Crossed random effects 3 x 4 x 2, by the textbook's sums of squares.
a, b, c = rng.standard_normal(3) * 3, rng.standard_normal(4), rng.standard_normal(2) * 2
y = a[:, None, None] + b[None, :, None] + c[None, None, :] + 0.5 * rng.standard_normal((3, 4, 2))
y = np.round(y, 6)
ss = lambda m, n: n * ((m - y.mean()) ** 2).sum()
sa, sb, sc = ss(y.mean(axis=(1, 2)), 8), ss(y.mean(axis=(0, 2)), 6), ss(y.mean(axis=(0, 1)), 12)
rest = (((y - y.mean()) ** 2).sum() - sa - sb - sc) / (23 - 2 - 3 - 1)
variances = [max(0.0, (sa / 2 - rest) / 8), max(0.0, (sb / 3 - rest) / 6), max(0.0, (sc / 1 - rest) / 12), rest]

tails = {
    "t": [[t, df, float(stats.t.sf(t, df))] for t in (-1.0, 0.0, 0.5, 3.0, 20.0) for df in (1, 2, 4.5, 100)],
    "t_quantile": [[p, df, float(stats.t.ppf(p, df))] for p in (0.025, 0.5, 0.9, 0.975, 0.9999) for df in (1, 2, 7.3, 1000)],
    "f": [[f, 3, 12, float(stats.f.sf(f, 3, 12))] for f in (0.0, 0.5, 2.0, 9.0, 60.0)],
    "chi2": [[x, df, float(stats.chi2.sf(x, df))] for x in (0.0, 0.5, 5.0, 40.0) for df in (1, 4, 19)],
    "range": [[q, k, float(stats.studentized_range.sf(q, k, np.inf))] for q in (0.5, 2.0, 3.5, 5.0) for k in (2, 3, 10, 40)],
    "range_quantile": [[p, k, float(stats.studentized_range.ppf(1 - p, k, np.inf))] for p in (0.05, 0.1) for k in (2, 5, 10, 40)],
}

print(json.dumps({
    "scipy": scipy.__version__, "pairs": pairs, "tied": tied, "holm": {"p": ps, "adjusted": holm(ps)}, "friedman": friedman,
    "intervals": intervals, "tost": tost, "components": {"y": y.tolist(), "variances": [float(v) for v in variances]}, "tails": tails,
}, indent=1))
