"""A training package: plain PyTorch that resumes exactly where it was."""
