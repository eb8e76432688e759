"""Many seeds in processes of their own: `python -m tests.simulation.runs 3 4 5` runs three here."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cometmq import kernel
from tests.processes import ROOT
from tests.simulation.world import Result, run_seed

LONGEST_S = 3600


def many(default: int, *, soak: bool, soaked: int) -> list[int]:
    """The seeds of a test: COMETMQ_SEED=n runs that one, COMETMQ_SEEDS=n so many."""
    if one := os.environ.get("COMETMQ_SEED"):
        return [int(one)]
    return list(range(int(os.environ.get("COMETMQ_SEEDS", soaked if soak else default))))


def in_processes(
    seeds: Sequence[int], *, kernel: str = "", hash_seed: str = "", processes: int = 0
) -> list[Result]:
    """Runs the seeds, spread over the processors, and returns their results by seed."""
    count = min(processes or os.cpu_count() or 1, len(seeds))
    shares = [seeds[first::count] for first in range(count)]
    with ThreadPoolExecutor(count) as pool:
        found = pool.map(lambda share: _in_process(share, kernel, hash_seed), shares)
        return sorted((one for results in found for one in results), key=lambda one: one.seed)


def _in_process(seeds: Sequence[int], kernel: str, hash_seed: str) -> list[Result]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    env |= {"COMETMQ_KERNEL": kernel} if kernel else {}
    env |= {"PYTHONHASHSEED": hash_seed} if hash_seed else {}
    command = [sys.executable, "-m", "tests.simulation.runs", *map(str, seeds)]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [_read(line) for line in done.stdout.splitlines()]


def _read(line: str) -> Result:
    fields = json.loads(line)
    for name in ("points", "counts"):
        fields[name] = Counter(fields[name])
    return Result(**fields)


def other_kernel() -> str:
    """The kernel that these tests do not run on by themselves."""
    return "pure" if kernel.NAME == "fast" else "fast"


def main() -> None:
    """Runs the seeds of the command line, one result a line; of a single one with what it logs."""
    seeds = [int(seed) for seed in sys.argv[1:]]
    for seed in seeds:
        result = run_seed(seed, quiet=len(seeds) > 1)
        sys.stdout.write(json.dumps(vars(result)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
