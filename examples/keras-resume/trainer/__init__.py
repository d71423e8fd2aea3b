"""A training package: Keras that resumes exactly where it was."""
