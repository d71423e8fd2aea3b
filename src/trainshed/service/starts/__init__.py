"""Turns a stored job into a launch plan: interpreter, image, reducers, buckets, gateway."""
