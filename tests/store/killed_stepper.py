"""Takes a study further and tells each step that was answered; its test kills it in the middle."""

import os
import sys

from trainshed.store.opening import open_store
from trainshed.testing.study_builders import add_study, advance, new_trials, reported


def main(url, count, at_once):
    store = open_store(url)
    uid = add_study(store).uid
    for number in range(count):
        first = number * at_once + 1
        numbers = range(first, first + at_once)
        reports = tuple(reported(n, 0.5, 0.75, mark=2) for n in numbers)
        advance(store, uid, new_trials=new_trials(*numbers), reports=reports)
        os.write(1, f"{uid} {numbers[-1]}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
