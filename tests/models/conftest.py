import pytest


@pytest.fixture
def slept(monkeypatch):
    """The seconds that were waited for an endpoint, none of which pass."""
    from limelight.models import endpoint

    results = []
    monkeypatch.setattr(endpoint, "_sleep", results.append)
    return results
