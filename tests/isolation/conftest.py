"""gcloud, from the conformance tests."""

from conformance.conftest import gcloud_at, warm

__all__ = ["gcloud_at", "warm"]
