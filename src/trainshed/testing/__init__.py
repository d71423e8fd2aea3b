"""For tests outside of this repository: contract kits, a fake engine, and a pytest plugin."""
