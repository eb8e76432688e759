"""Both kernels at once, and how long a fuzzer runs."""

import pytest
from hypothesis import HealthCheck, settings

from tests.kernels import Kernel, load

SLOW_DATA = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "short", max_examples=300, deadline=None, suppress_health_check=SLOW_DATA, derandomize=True
)
settings.register_profile(
    "long", max_examples=5_000, deadline=None, suppress_health_check=SLOW_DATA
)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("soak", False) else "short")


@pytest.fixture(scope="session")
def both() -> tuple[Kernel, Kernel]:
    """The plain kernel and the compiled one."""
    return load("pure"), load("fast")
