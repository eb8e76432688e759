"""The compiled kernel, where there is a compiler; the rest of the package is in pyproject.toml."""

import os
from glob import glob

from setuptools import Extension, setup

MODULES = ("entries", "frames", "headers", "records", "replies")

# Only for tests: a fault in the compiled kernel then ends the process and says where it was.
SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
]


def extensions() -> list[Extension]:
    """One extension a module; a failed build leaves the plain Python kernel in charge."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    checked = os.environ.get("COMETMQ_SANITIZE") == "1"
    made: list[Extension] = cythonize(
        [
            Extension(
                f"cometmq.kernel.fast.{module}",
                [f"src/cometmq/kernel/fast/{module}.pyx"],
                depends=glob("src/cometmq/kernel/fast/*.pxd"),
                libraries=["z"] if module == "records" else [],
                extra_compile_args=SANITIZE if checked else [],
                extra_link_args=SANITIZE[:1] if checked else [],
            )
            for module in MODULES
        ],
        include_path=["src"],
        force=checked,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
        },
    )
    for each in made:  # cythonize makes new ones of them, and forgets this
        each.optional = not checked
    return made


setup(ext_modules=extensions())
