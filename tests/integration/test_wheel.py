"""A wheel, installed where nothing else is: the command works, and types come with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, LineProcess, free_port


def run(*words, **more):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=300, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An empty environment with the wheel and what it needs; the folder of its programs."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        run("cp", "-r", ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source)
    [wheel] = folder.glob("cometmq-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "cometmq/py.typed" in names
    assert not [name for name in names if name.endswith((".c", ".pyx"))]
    run(sys.executable, "-m", "venv", folder / "env")
    run(folder / "env" / "bin" / "python", "-m", "pip", "install", "-q", wheel)
    return folder / "env" / "bin"


def test_a_node_from_a_wheel_takes_and_gives_a_message(installed, tmp_path):
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    namesrv, broker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    words = ["up", "--data", "data", "--namesrv", namesrv, "--broker", broker]
    with LineProcess([installed / "cometmq", *words], cwd=tmp_path, env={"PYTHONPATH": ""}) as node:
        node.line(lambda line: line.startswith("ready"))
        cometmq = [installed / "cometmq"]
        run(*cometmq, "send", "-n", namesrv, "orders", "hello", cwd=tmp_path, env=env)
        out = run(*cometmq, "receive", "-n", namesrv, "orders", "--count", 1, cwd=tmp_path, env=env)
        assert out == "hello\n"
        assert node.stop() == 0


def test_what_is_installed_needs_nothing_but_the_first_group(installed):
    listed = run(installed / "python", "-m", "pip", "list", "--format", "freeze")
    names = {line.partition("==")[0].partition(" @")[0] for line in listed.splitlines()}
    assert names <= {"cometmq", "msgspec", "uvloop", "pip", "setuptools", "wheel"}
    folder = run(
        installed / "python", "-c", "import cometmq; print(cometmq.__file__)", cwd="/"
    ).strip()
    assert Path(folder).is_relative_to(installed.parent)
