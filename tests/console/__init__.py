"""Tests of the console; a package, so that a fixture can end with the last of them."""
