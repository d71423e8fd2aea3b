"""Where replicas run: each engine takes a launch plan and makes it true; none knows another."""
