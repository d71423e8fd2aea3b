"""Use cases that the APIs and the controller call: jobs, logs, access, nodes, upkeep."""
