"""Serves the web console: its page, its static files, and the sign-in of browsers."""
