"""For tests in other repositories: contract kits, a fake engine, and a pytest plugin."""
