"""Opens files below folders to which other users write."""
