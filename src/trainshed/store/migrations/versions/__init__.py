"""One file a change of the tables, in order; a released file is never edited."""
