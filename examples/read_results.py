"""Reads results from Python: with pandas where it is there, else with nothing but the standard library.

    pflpipe run pipelines/quickstart.yaml
    python3 examples/read_results.py pipelines/quickstart.yaml

`pflpipe table --format long` gives one line a sample, `--format series` one line an evaluation, `--format csv` one line a cell. `--output json` of
any command gives everything else.
"""

import csv
import io
import statistics
import subprocess
import sys


def export(pipeline: str, form: str) -> io.StringIO:
    """What `pflpipe table` writes in this format."""
    command = ["pflpipe", "table", pipeline, "--format", form]
    return io.StringIO(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def with_pandas(pipeline: str) -> None:
    import pandas

    samples = pandas.read_csv(export(pipeline, "long"))
    print(samples.pivot_table(index="row", columns="column", values="measured", aggfunc=["mean", "std", "count"]))
    curves = pandas.read_csv(export(pipeline, "series"))
    print(curves.groupby(["row", "round"])["measured"].mean().unstack("row").tail())


def without(pipeline: str) -> None:
    cells: dict[tuple[str, str], list[float]] = {}
    for line in csv.DictReader(export(pipeline, "long")):
        if line["state"] == "value":
            cells.setdefault((line["row"], line["column"]), []).append(float(line["measured"]))
    for (row, column), values in cells.items():
        spread = statistics.stdev(values) if len(values) > 1 else float("nan")
        print(f"{row:>12} {column:>6} {statistics.mean(values):.4f} +- {spread:.4f} ({len(values)})")


if __name__ == "__main__":
    try:
        with_pandas(sys.argv[1])
    except ModuleNotFoundError:
        without(sys.argv[1])
