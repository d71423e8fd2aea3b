"""Python environments for packages of jobs: made once for a content, and found again."""
