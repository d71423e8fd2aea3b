"""The GPUs of this machine: lists them, finds their holders and assigns them."""
