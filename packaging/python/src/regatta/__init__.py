"""Reads the directory of a run of Regatta into pandas.

The tables and their columns are those of ``regatta export``, which makes them: see ``Run.dictionary``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["Run", "program", "read"]


def program() -> Path:
    """Path of the program ``regatta`` of this installation, or else of ``PATH``.

    Raises ``FileNotFoundError`` if there is none.
    """
    installed = Path(sysconfig.get_path("scripts"), "regatta")
    found = str(installed) if installed.is_file() else shutil.which("regatta")
    if found is None:
        raise FileNotFoundError(f"no program `regatta` at `{installed}` or in PATH; install the wheel of Regatta again")
    return Path(found)


class Run:
    """Tables of one run. Each attribute is one, such as ``run.trial``, ``run.metric`` or ``run.sample``."""

    def __init__(self, tables: dict[str, pd.DataFrame], dictionary: dict[str, Any]) -> None:
        self.tables = tables
        """Every table by its name."""
        self.dictionary = dictionary
        """Type, unit and meaning of every column, and the definitions of metrics and series (``dictionary.json``)."""

    def __getattr__(self, name: str) -> pd.DataFrame:
        tables: dict[str, pd.DataFrame] = self.__dict__.get("tables", {})
        if name not in tables:
            raise AttributeError(f"a run has no table `{name}`; it has {', '.join(tables)}")
        return tables[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def trials(self) -> pd.DataFrame:
        """One row for each measured trial: its columns of ``trial``, and one column for each sweep and each metric.

        A sweep's column has its key, such as ``condition.loss``, and the value in the unit of ``parameter``, or as text. A
        metric that was not measured is NaN, as is a sweep that does not apply. Attempts that were repeated are left out.
        """
        counts = (self.trial.outcome == "measured") & self.trial.is_last_attempt
        trials = self.trial[counts].copy()
        for (part, key), values in self.parameter.groupby(["part", "key"], sort=False):
            named = values.set_index("name")
            trials[f"{part}.{key}"] = trials[part].map(named.value if named.value.notna().all() else named.text)
        metrics = self.metric.pivot(index="trial", columns="name", values="value")
        return trials.join(metrics, on="trial")


def read(directory: str | os.PathLike[str]) -> Run:
    """Reads all tables of the run in a directory. The run may be under way.

    Raises ``RuntimeError`` with the program's message if the directory has no run or its file is damaged, and
    ``FileNotFoundError`` if there is no program ``regatta``.
    """
    with tempfile.TemporaryDirectory(prefix="regatta-") as exported:
        command = [str(program()), "export", "--out", exported, "--", os.fspath(directory)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        dictionary = json.loads(Path(exported, "dictionary.json").read_text(encoding="utf-8"))
        names = [table["name"] for table in dictionary["tables"]]
        return Run({name: pd.read_parquet(Path(exported, f"{name}.parquet")) for name in names}, dictionary)
