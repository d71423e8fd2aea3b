"""How the trainer becomes a package: python setup.py sdist makes dist/digits-1.0.tar.gz."""

from setuptools import setup

setup(name="digits", version="1.0", packages=["trainer"])
