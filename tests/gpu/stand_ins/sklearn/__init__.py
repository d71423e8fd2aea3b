"""For machines without scikit-learn: as much of it as the examples need."""
