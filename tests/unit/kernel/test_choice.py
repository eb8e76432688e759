"""Which kernel is in use: the compiled one where all of it was built, else the plain."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

import cometmq.kernel
from tests.kernels import load


def name_with(choice: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter's kernel under that COMETMQ_KERNEL."""
    return subprocess.run(
        [sys.executable, "-c", "import cometmq.kernel as k; print(k.NAME, k.records.__name__)"],
        env={**os.environ, "COMETMQ_KERNEL": choice, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_kernel_in_use_is_the_one_it_names() -> None:
    assert cometmq.kernel.records is load(cometmq.kernel.NAME).records


def test_the_plain_kernel_can_be_asked_for() -> None:
    assert name_with("pure").stdout == "pure cometmq.kernel.pure.records\n"


def test_the_compiled_kernel_can_be_asked_for() -> None:
    load("fast")
    assert name_with("fast").stdout == "fast cometmq.kernel.fast.records\n"


def test_a_kernel_that_does_not_exist_is_refused_by_its_name() -> None:
    assert "'pure' or 'fast', not 'slow'" in name_with("slow").stderr


def test_a_kernel_whose_parts_do_not_go_together_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load("fast")
    real = cometmq.kernel.import_module

    def refused(name: str) -> ModuleType:
        if name.endswith("fast.records"):
            raise TypeError("cometmq.kernel.fast.entries.Tail size changed")
        return real(name)

    monkeypatch.setattr(cometmq.kernel, "import_module", refused)
    with pytest.raises(ImportError, match="does not fit together"):
        cometmq.kernel._load("fast")
    assert cometmq.kernel._choose() == "pure"
    monkeypatch.undo()
    assert cometmq.kernel._choose() == "fast"
