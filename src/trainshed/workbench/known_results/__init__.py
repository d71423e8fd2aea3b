"""Reads results that another search measured, and points to try first, from files.

``sources`` finds out what the user named.  Each form of file has a module; none of them needs the
program that wrote the file, except that Optuna reads its own storages.
"""
