"""Calibrations that the server learns from its jobs, and the notes that it derives from them."""
