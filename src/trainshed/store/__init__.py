"""What is remembered: jobs, their story, and who works on them (SQLite or PostgreSQL)."""
