"""Files in folders that strangers write to."""
