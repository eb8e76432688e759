"""Runs the benchmark and writes bench/results/<date>.json: `python -m bench.run`.

Machines are noisy, so only what was measured in one run is compared: in each of the rounds every
server is loaded in turn, and a ratio is taken within its round.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import measure, subjects
from bench.measure import Reading
from bench.subjects import Server
from tests.processes import ROOT

Rounds = list[dict[str, Reading]]
Subject = Callable[[Path], contextlib.AbstractContextManager[Server]]

# Our node starts anew each round, so that what it wrote can be removed. The mark removes that
# itself and stays; so does the original, which needs more than a minute to get warm.
FRESH: dict[str, Subject] = {
    "node-fast": lambda folder: subjects.node(folder, "fast"),
    "node-pure": lambda folder: subjects.node(folder, "pure"),
}
LASTING: dict[str, Subject] = {"mark": subjects.mark, "original": subjects.original}
MOST_WARM_UPS = {"mark": 15, "original": 60}

# What the compiled kernel must reach: (figure, server, compared with, at most or at least, bound).
DEMANDS = [
    ("cpu_us", "node-fast", "mark", "at most", 2.0),
    ("rate", "node-fast", "original", "at least", 4.0),
]


def main() -> int:
    options = _options()
    # Ended from outside, it still ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.data) as name:
        folder = Path(name)
        result: dict[str, Any] = {"machine": _machine(folder), "body": 1024, "in_flight": 256}
        rounds, one = _rounds(folder, options)
        result["rounds"] = [{name: r.fields() for name, r in each.items()} for each in rounds]
        result["one_in_flight"] = {name: reading.fields() for name, reading in one.items()}
        result["figures"] = _figures(folder, options.only)
    result["ratios"] = _ratios(rounds)
    _show(rounds, result)
    written = _write(result)
    print(f"\nwritten to {written.relative_to(ROOT)}")
    return _judge(result["ratios"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each load that counts")
    parser.add_argument("--data", type=Path, help="a folder on the disk to be measured")
    known = [*FRESH, *LASTING]
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="SERVER")
    return parser.parse_args()


def _rounds(folder: Path, options: argparse.Namespace) -> tuple[Rounds, dict[str, Reading]]:
    rounds: Rounds = []
    one: dict[str, Reading] = {}
    with contextlib.ExitStack() as lasting:
        running: dict[str, Server] = {}
        for name in [name for name in LASTING if name in options.only]:
            running[name] = lasting.enter_context(LASTING[name](folder))
            _say(f"{name}: warming")
            count = measure.warm(running[name], steady_for=3, most=MOST_WARM_UPS[name])
            _say(f"{name}: warmed by {count} loads")
        for number in range(1, options.rounds + 1):
            readings: dict[str, Reading] = {}
            for name in options.only:
                with contextlib.ExitStack() as fresh:
                    server = running.get(name) or fresh.enter_context(FRESH[name](folder))
                    # What others left in the page cache is not written on this one's time.
                    os.sync()
                    measure.warm(server, most=8)
                    os.sync()
                    readings[name] = measure.load(server, seconds=options.seconds)
                    if number == options.rounds:
                        one[name] = measure.load(server, connections=1, window=1)
                reading = readings[name]
                _say(f"round {number}: {name} {reading.rate:,.0f}/s {reading.cpu_us:.2f} us")
            rounds.append(readings)
    return rounds, one


def _figures(folder: Path, only: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    record = 1240  # what a message of 1 KiB takes in the log
    figures["disk: fdatasync a second, one record each"] = measure.disk_syncs(folder, record)
    figures["disk: fdatasync a second, 256 records each"] = measure.disk_syncs(folder, 256 * record)
    if "original" in only:
        with subjects.original(folder) as server:
            pids = [server.process.pid, *(other.pid for other in server.others)]
            figures["original: idle memory of broker and name server, MiB"] = measure.resident_mib(
                pids
            )
    for name in [name for name in only if name.startswith("node-")]:
        kernel = name.removeprefix("node-")
        with subjects.node(folder, kernel, "SYNC_FLUSH") as server:
            figures[f"{name}: idle memory of the whole node, MiB"] = measure.resident_mib(
                [server.process.pid]
            )
            measure.warm(server, most=8)
            figures[f"{name}: SYNC_FLUSH, 256 in flight"] = measure.load(server).fields()
            single = measure.load(server, connections=1, window=1)
            figures[f"{name}: SYNC_FLUSH, one in flight"] = single.fields()
        figures[f"{name}: start to first answer, s"] = _starts(folder, kernel)
    if any(name.startswith("node-") for name in only):
        figures["import cometmq, ms"] = measure.import_ms()
    return figures


def _starts(folder: Path, kernel: str, times: int = 3) -> float:
    taken = []
    for number in range(times):
        data = folder / f"start-{kernel}-{number}"
        began = time.monotonic()
        process, _, port = subjects.start_node(folder, data, kernel)
        with process:
            taken.append(measure.first_answer_s(port, began))
    return round(statistics.median(taken), 3)


def _ratios(rounds: Rounds) -> dict[str, Any]:
    """Of each figure that something is demanded of, the ratio in each round and its median."""
    ratios: dict[str, Any] = {}
    for figure, name, other, kind, bound in DEMANDS:
        if name not in rounds[0] or other not in rounds[0]:
            continue
        each = [getattr(r[name], figure) / getattr(r[other], figure) for r in rounds]
        median = statistics.median(each)
        ratios[f"{figure} of {name} to {other}"] = {
            "rounds": [round(ratio, 2) for ratio in each],
            "median": round(median, 2),
            "demanded": f"{kind} {bound:g}",
            "met": median <= bound if kind == "at most" else median >= bound,
        }
    return ratios


def _show(rounds: Rounds, result: dict[str, Any]) -> None:
    row = "{:<12} {:>12} {:>12} {:>12} {:>10} {:>10} {:>8}"
    print()
    print(row.format("server", "messages/s", "lowest", "CPU us/msg", "p50 us", "p99 us", "refused"))
    for name in rounds[0]:
        readings = [each[name] for each in rounds]
        rates = [reading.rate for reading in readings]
        middle = {
            figure: statistics.median(getattr(reading, figure) for reading in readings)
            for figure in ("cpu_us", "p50_us", "p99_us")
        }
        refused = sum(reading.refused for reading in readings)
        numbers = [f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}"]
        numbers += [f"{middle['cpu_us']:.2f}", f"{middle['p50_us']:.0f}", f"{middle['p99_us']:.0f}"]
        print(row.format(name, *numbers, refused))
    print("\none in flight:")
    for name, reading in result["one_in_flight"].items():
        print(f"  {name:<12} p50 {reading['p50_us']:.0f} us, p99 {reading['p99_us']:.0f} us")
    print("\nfigures:")
    for name, value in result["figures"].items():
        print(f"  {name}: {value}")
    print("\nratios, taken within each round:")
    for name, ratio in result["ratios"].items():
        verdict = "met" if ratio["met"] else "NOT MET"
        print(f"  {name}: {ratio['median']} (demanded: {ratio['demanded']}; {verdict})")


def _judge(ratios: dict[str, Any]) -> int:
    return 0 if all(ratio["met"] for ratio in ratios.values()) else 1


def _machine(folder: Path) -> dict[str, Any]:
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    disk = subprocess.run(
        ["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True
    ).stdout.strip()
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "processor": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "file_system": disk,
        "commit": commit,
    }


def _write(result: dict[str, Any]) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    file = ROOT / "bench" / "results" / f"{now:%Y-%m-%d-%H%M}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"when": now.isoformat(timespec="seconds"), **result}, indent=1))
    return file


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
