"""The fixture through which each test of the kernel runs on both."""

import pytest

from tests.kernels import Kernel, load


@pytest.fixture(params=["pure", "fast"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """One kernel, then the other."""
    return load(request.param)
