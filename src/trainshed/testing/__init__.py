"""What a third party inherits: contract kits, a fake engine, and the pytest plugin."""
