"""AccaSim 1.1.3 (MIT, `pip install accasim`) on a trace of ours, first come first served, where it is installed.

Its last release (June 2021) imports `Mapping` from `collections`, where Python 3.10 and later have it no more. That one
name is put back before it is imported; nothing else of it is changed, and none of it is copied here. Of the parts that
are used none needs more; those that plot and fit (matplotlib, scipy) are not imported.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import importlib.util
import json
import logging
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lxgpu.simulate.jobs import Job, Lab, Workload

NAME = "AccaSim 1.1.3"


def installed() -> bool:
    """Whether it can be asked."""
    return importlib.util.find_spec("accasim") is not None


def fifo(workload: Workload, lab: Lab) -> tuple[float, float]:
    """Seconds of CPU and the mean wait (s) of its FirstInFirstOut with FirstFit.

    Reading the trace counts, as it reads while it runs; writing results is switched off.
    """
    parts = _imported()
    with tempfile.TemporaryDirectory() as folder:
        trace, machines = Path(folder) / "trace.swf", Path(folder) / "machines.json"
        trace.write_text("".join(_line(number, job) for number, job in enumerate(workload.jobs, 1)))
        groups = {"server": {"core": lab.gpus_per_server}}
        machines.write_text(json.dumps({"groups": groups, "resources": {"server": lab.servers}}))
        simulator = parts["simulator"].Simulator(
            str(trace),
            str(machines),
            parts["scheduler"].FirstInFirstOut(parts["allocator"].FirstFit()),
            tweak_function=_on_one_server(parts["reader"], lab),
            scheduling_output=False,
            statistics_output=False,
            show_statistics=False,
            RESULTS_FOLDER_PATH=folder,
            LOG_LEVEL="ERROR",
        )
        began = time.process_time()
        simulator.start_simulation()
        spent = time.process_time() - began
        waits = simulator.mapper.wtimes
        return spent, sum(waits) / len(waits)


def _imported() -> Mapping[str, Any]:
    """Its modules, with the name that they miss."""
    if not hasattr(collections, "Mapping"):
        setattr(collections, "Mapping", collections.abc.Mapping)  # noqa: B010 -- types know that it is not there
    logging.raiseExceptions = False  # its log goes nowhere
    names = {"simulator": "base", "scheduler": "base", "allocator": "base", "reader": "utils"}
    return {name: importlib.import_module(f"accasim.{part}.{name}_class") for name, part in names.items()}


def _on_one_server(reader: Any, lab: Lab) -> Any:  # noqa: ANN401 -- it has no types
    """What makes a request of a line: all cards on one server where they fit on one, as ours has it.

    By itself it takes each processor of an SWF file for a request of its own, anywhere.
    """

    class OneServer(reader.Tweaker):  # type: ignore[misc]
        def tweak_function(self, row: dict[str, Any]) -> dict[str, Any]:
            gpus, most = row["total_processors"], lab.gpus_per_server
            servers = max(1, -(-gpus // most))
            each = min(gpus, most)
            return {
                **row,
                "requested_nodes": servers,
                "requested_resources": {"core": each},
                "core": servers * each,
                "queue": row["queue_number"],
            }

    return OneServer()


def _line(number: int, job: Job) -> str:
    """A job in the Standard Workload Format: 18 numbers, -1 where nothing is known."""
    known = {0: number, 1: round(job.submit_s), 3: round(job.duration_s), 7: job.gpus, 8: round(job.duration_s), 10: 1}
    return " ".join(str(known.get(place, -1)) for place in range(18)) + "\n"
