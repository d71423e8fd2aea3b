"""A server learns once of each supervisor that ends."""

import os
import subprocess
import threading

from trainshed.engines.local.end_watcher import EndWatcher
from trainshed.model.attempt import AttemptKey


def test_an_end_is_heard_of_once_also_if_a_forked_child_keeps_its_descriptor():
    heard = []
    came = threading.Semaphore(0)

    def hear(keys):
        heard.extend(keys)
        came.release()

    watcher = EndWatcher()
    watcher.listen(hear)
    duplicates = []
    try:
        for number in (1, 2):
            with subprocess.Popen(["/bin/sleep", "600"]) as child:
                watcher.watch(AttemptKey(number, 1), child.pid)
                (descriptor,) = watcher._keys
                duplicates.append(os.dup(descriptor))
                child.kill()
                assert came.acquire(timeout=60)
    finally:
        watcher.close()
        for descriptor in duplicates:
            os.close(descriptor)
    assert heard == [AttemptKey(1, 1), AttemptKey(2, 1)]
