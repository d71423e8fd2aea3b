"""Use cases: what the command line asks for, in terms of the core, an engine and storage."""
