"""The seam is complete: what it records is what the system saw, thread by thread and in order."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pytest

from tests.processes import ROOT

PROGRAM = Path(__file__).parent / "recorded_node.py"

# What each call on the seam is for the system. A folder is opened and closed for its listing and
# its sync; a folder that is not there cannot be opened.
SEEN_AS = {
    "open": "openat",
    "pread": "pread64",
    "pread_now": "preadv2",
    "pwrite": "pwrite64",
    "next_data": "lseek",
    "allocate": "fallocate",
    "truncate": "ftruncate",
    "sync": "fdatasync",
    "close": "close",
    "size": "stat",
    "list": "openat( fstat( getdents64)+ close)?",
    "make_folder": "mkdir",
    "rename": "rename",
    "remove": "unlink",
    "sync_folder": "openat fsync close",
    "lock": "openat fcntl",
}
SAME = {"renameat": "rename", "renameat2": "rename", "unlinkat": "unlink", "mkdirat": "mkdir"}

Call = tuple[str, str]
"""Name and path; of a rename both paths."""


def traced(log: str, root: str) -> Iterator[tuple[int, str, str]]:
    """(thread, name, path) of the calls on paths below the root, as strace has them."""
    for line in log.splitlines():
        found = re.match(r"(\d+) +(\w+)\((.*)", line)
        if found is None:
            continue  # the second half of a call, or no call at all
        thread, name, rest = int(found[1]), SAME.get(found[2], found[2]), found[3]
        paths = re.findall(rf'["<]{re.escape(root)}/?([^">]*)[">]', rest)
        if name == "newfstatat":
            name = "fstat" if '""' in rest else "stat"
        if paths and (name, paths[0]) not in (("mkdir", ""), ("stat", "")):  # the root itself
            yield thread, name, " -> ".join(paths if name == "rename" else paths[:1])


def by_thread(calls: Iterable[tuple[int, str, str]]) -> dict[int, list[Call]]:
    found: dict[int, list[Call]] = defaultdict(list)
    for thread, name, path in calls:
        found[thread].append((name, path))
    return dict(found)


def check(recorded: list[Call], seen: list[Call]) -> None:
    """One thread's record against what the system saw of it."""
    at = 0
    for name, path in recorded:
        nearest = next(groupby(seen[at:], key=itemgetter(1)), ("", ()))
        here = " ".join(each for each, _ in nearest[1]) if nearest[0] == path else ""
        matched = re.match(rf"{SEEN_AS[name]}\b", here)
        assert matched, f"{name} of {path!r} is recorded, and the system saw {seen[at : at + 3]}"
        at += len(matched[0].split())
    assert seen[at:] == [], "the system saw more than was recorded"


def test_the_calls_of_a_node_are_those_of_its_seam(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log, record, root = tmp_path / "strace.log", tmp_path / "record.json", tmp_path / "data"
    command = ["strace", "-f", "-y", "-s", "0", "-e", "trace=%file,%desc", "-o", str(log)]
    command += [sys.executable, str(PROGRAM), str(root), str(record)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if not record.exists() and "ptrace" in done.stderr:
        pytest.skip(f"tracing is not allowed here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr[-2000:]
    recorded = by_thread(tuple(call) for call in json.loads(record.read_text()))
    seen = by_thread(traced(log.read_text(), str(root)))
    assert recorded.keys() == seen.keys()
    for thread, calls in recorded.items():
        check(calls, seen[thread])
    assert {name for calls in recorded.values() for name, _ in calls} >= {
        *("open", "pread", "pread_now", "pwrite", "next_data", "allocate", "truncate", "sync"),
        *("close", "size", "list", "make_folder", "rename", "remove", "sync_folder", "lock"),
    }
