"""Python environments for packages of jobs: the same content is installed only once."""
