"""A training package: Lightning that resumes exactly where it was."""
