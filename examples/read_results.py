"""Reads results from Python, with nothing but the standard library.

    pflpipe run pipelines/quickstart.yaml
    python3 examples/read_results.py pipelines/quickstart.yaml

`pflpipe table --format csv` gives one line a cell; pandas and polars read it as it is. `--output json` of any command gives
everything else.
"""

import csv
import io
import subprocess
import sys


def table(pipeline: str) -> list[dict[str, str]]:
    """The cells of the pipeline's tables, one dictionary each."""
    command = ["pflpipe", "table", pipeline, "--format", "csv"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


if __name__ == "__main__":
    for cell in table(sys.argv[1]):
        print(cell)
