"""Making it true: looks at what should be and what is, and does the next step."""
