"""The types that all packages share: values only, standard library only."""
