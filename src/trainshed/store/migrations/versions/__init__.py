"""One file per change of the tables, in order; the effect of a released file never changes."""
