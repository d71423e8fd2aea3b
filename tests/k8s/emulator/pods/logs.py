"""What containers have written, as ``GET pods/NAME/log`` gives it."""

import time
from collections import deque

from k8s.emulator.controllers.objects import POD_KIND, key_of, status_of, uid_of

POLL_S = 0.05
PIECE_BYTES = 64 * 1024


class PodLogs:
    """Reads the file of a container; ``find_path(pod, container)`` is that file, or None.

    Of a request's query it knows ``tailLines``, ``limitBytes`` and ``follow``.
    """

    def __init__(self, cache, find_path):
        self._cache, self._find_path = cache, find_path

    def __call__(self, pod, container, query):
        path = self._find_path(pod, container)
        if path is None:
            return
        tail, limit = query.get("tailLines"), query.get("limitBytes")
        left = int(limit) if limit else None
        with path.open("rb") as file:
            if tail:
                text = b"".join(deque(file, int(tail)))
                yield text if left is None else text[:left]
            for piece in self._read_on(file, pod, container, follows=query.get("follow") == "true"):
                cut = piece if left is None else piece[:left]
                left = None if left is None else left - len(cut)
                yield cut
                if left == 0:
                    return

    def _read_on(self, file, pod, container, *, follows):
        while True:
            has_ended = not follows or self._has_ended(pod, container)
            while piece := file.read(PIECE_BYTES):
                yield piece
            if has_ended:
                return
            time.sleep(POLL_S)

    def _has_ended(self, pod, container):
        """Whether a container writes no more; a pod that has gone counts so."""
        current = self._cache.get(POD_KIND, key_of(pod))
        if current is None or uid_of(current) != uid_of(pod):
            return True
        rows = status_of(current).get("containerStatuses") or ()
        return any(row["name"] == container and "terminated" in row["state"] for row in rows)
