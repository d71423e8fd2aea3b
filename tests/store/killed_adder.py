"""Adds jobs from eight threads and tells each answer; its test kills it in the middle."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from trainshed.store.opening import open_store
from trainshed.testing.store_builders import new_job


def main(url, count):
    store = open_store(url)

    def add(number):
        record, _ = store.add_job(new_job(job_id=f"j{number}"))
        os.write(1, f"{record.job.job_id} {record.uid}\n".encode())  # one write: never torn

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(count)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
