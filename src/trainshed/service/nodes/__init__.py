"""The machines of the fleet, their GPUs, and the figures that the server measures."""
