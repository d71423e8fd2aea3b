"""The one place that knows everything and wires it."""
