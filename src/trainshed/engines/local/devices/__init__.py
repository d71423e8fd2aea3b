"""The GPUs of this machine: their list, their holders and their assignment."""
