"""Adds jobs from eight threads and tells each answer, until its test kills it."""

import itertools
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from builders import new_job

from trainshed.store.opening import open_store

THREADS = 8


def main(url):
    store = open_store(url)

    def add(first):
        for number in itertools.count(first, THREADS):
            record, _ = store.add_job(new_job(job_id=f"j{number}"))
            line = f"{record.job.job_id} {record.uid}\n"
            os.write(1, line.encode())  # one write: never torn

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(add, range(THREADS)))


if __name__ == "__main__":
    main(sys.argv[1])
