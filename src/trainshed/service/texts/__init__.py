"""Texts of jobs: checked, repaired, submitted, and rendered from stored jobs."""
