"""The two flags of every trainer."""

import argparse


def parsed():
    """Where the data lies, and where results go; both are gs:// URIs without a slash at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--job-dir")
    return parser.parse_args()


def split(uri):
    """The bucket's name, and the name in it."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return bucket, name
