"""Converts documents of ``ml_v1`` and ``aiplatform_v1`` to the model and back, without I/O.

``detect.parse`` parses a document of either dialect.  ``render`` of a dialect makes the documents
that its clients read.  The messages come from published definitions (``generated/``).
"""
