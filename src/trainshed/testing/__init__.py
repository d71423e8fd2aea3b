"""What a third party inherits: contract kits and a fake engine."""
