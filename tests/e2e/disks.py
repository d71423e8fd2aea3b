"""File systems that a test fills up, makes read-only or takes away; only root may."""

import contextlib
import os
import shutil
import subprocess

import pytest

_STEP = 1 << 20


@contextlib.contextmanager
def small_disk(place, mib):
    """A file system of its own of so many MiB."""
    place.mkdir()
    if os.geteuid() != 0 or not _mount(
        "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "tmpfs", place
    ):
        pytest.skip("only root may mount: run the tests as root")
    try:
        yield place
    finally:
        subprocess.run([_program("umount"), "--lazy", place], check=True)


@contextlib.contextmanager
def full(ballast):
    """Take what is left of a file system, to the last byte."""
    with ballast.open("wb", buffering=0) as file:
        step = _STEP
        while step:
            try:
                file.write(b"x" * step)
            except OSError:
                step //= 2
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def read_only(place):
    """Nothing below can be opened for writing; what is open already is not affected."""
    if os.geteuid() != 0 or not _mount("--bind", place, place):
        pytest.skip("only root may mount: run the tests as root")
    try:
        assert _mount("-o", "remount,bind,ro", place)
        yield
    finally:
        subprocess.run([_program("umount"), "--lazy", place], check=True)


@contextlib.contextmanager
def away(place):
    """It is empty, as before its file system was mounted; what is open already is not affected."""
    if os.geteuid() != 0 or not _mount("-t", "tmpfs", "tmpfs", place):
        pytest.skip("only root may mount: run the tests as root")
    try:
        yield
    finally:
        subprocess.run([_program("umount"), "--lazy", place], check=True)


def _mount(*words):
    argv = [_program("mount"), *words]
    return not subprocess.run(argv, check=False, capture_output=True).returncode


def _program(name):
    return shutil.which(name) or f"/bin/{name}"
