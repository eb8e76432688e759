"""Seven planted defects, each one function replaced: the simulation finds every one of them."""

from collections.abc import Callable
from typing import Any

import pytest

from cometmq.store import StoreError
from cometmq.store.log import Log
from tests.simulation.world import run_seed

FINDINGS = ("Broken", "StoreRefused")
"""What a checker found, or the store at its start; anything else is a failure of the test."""

sync_failed = Log.sync_failed


def try_again(log: Log, error: StoreError) -> None:
    """A sync that failed is begun again, and Linux says that all is well."""
    log.syncing_since = None
    if "ordered" in str(error):
        log.sync()
    else:
        sync_failed(log, error)


DEFECTS: dict[str, tuple[str, Any]] = {
    "a missing sync": (
        "cometmq.store.log.sync_log_file",
        lambda file: None,
    ),
    "a missing folder sync": (
        "cometmq.store.files.keep_names",
        lambda disk, *folders: None,
    ),
    "a reply before the sync": (
        "cometmq.store.store.Store.promised",
        property(lambda store: store.written),
    ),
    "a wrong truncation": (
        "cometmq.store.recovery.truncation_point",
        lambda stopped, synced: synced,
    ),
    "entries trusted that were never written": (
        "cometmq.store.recovery.written_again_from",
        lambda position: max(position.mark.end, position.synced),
    ),
    "a failed sync retried into success": (
        "cometmq.store.log.Log.sync_failed",
        try_again,
    ),
    "synced taken at the sync's end": (
        "cometmq.store.log.Log.covered",
        lambda log, begun: log.written.mark,
    ),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found(
    defect: str,
    monkeypatch: pytest.MonkeyPatch,
    say: Callable[[str], None],
    record_property: Callable[[str, object], None],
    soak: bool,
) -> None:
    name, replacement = DEFECTS[defect]
    monkeypatch.setattr(name, replacement)
    found = []
    seeds = range(300)
    for seed in seeds:
        result = run_seed(seed)
        if result.failure:
            assert result.failure.startswith(FINDINGS), result
            found.append(seed)
            if len(found) == 1:
                say(f"{defect}: seed {seed}: {result.failure[:120]}")
            if not soak:
                break
    assert found, f"{defect} was not found in {len(seeds)} seeds"
    record_property("first_seed", found[0])
    if soak:
        say(f"{defect}: {len(found)} of {len(seeds)} seeds")
