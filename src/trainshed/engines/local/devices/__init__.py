"""The GPUs of this machine: which there are, who has them, who gets them."""
