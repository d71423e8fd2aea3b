"""The shipped contract kit, on both databases."""

from trainshed.testing.store_contract import StoreContract


class TestStore(StoreContract):
    pass
