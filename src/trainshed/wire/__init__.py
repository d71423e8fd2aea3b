"""Converts documents of ``ml_v1`` and ``aiplatform_v1`` to the model and back, without I/O.

``detect.parse`` reads a document of either dialect.  A dialect's ``render`` writes what its clients
expect to read.  The messages themselves come from published definitions (``generated/``).
"""
