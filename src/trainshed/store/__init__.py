"""Stores jobs, their events, and which server works on them (SQLite or PostgreSQL)."""
