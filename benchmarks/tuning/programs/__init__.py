"""Programs that search behind a pipe, each with a Python that has one peer."""
