"""A tuning job until its end: redrawn in place on a terminal, its changes line by line elsewhere.

``watch`` leads here for jobs that are studies.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from trainshed.cli.connecting import ServerPlace
from trainshed.cli.submitted import report_leaving
from trainshed.cli.terminal import note, out, wants_colour
from trainshed.cli.tuning_watch_view import TuningView, best_arguments, best_table, changes
from trainshed.cli.watch_view import Screen
from trainshed.client.collections import FINAL_STATES, state_of
from trainshed.client.faults import Json
from trainshed.client.following import Followed, NativeTrials, native_trials
from trainshed.workbench.study_view import StudyView, view_of, with_native

#: How often the study is asked for; one whose document is large is asked for less often, so that
#: watching takes no more than this share of the time.
ASK_S: Final = 1.0
SHARE_MAX: Final = 0.2

#: Where the documents of the dialects have their trials.
_ML_TRIALS: Final = "trainingOutput"


def follow(args: argparse.Namespace, place: ServerPlace, path: str) -> int:
    """Watch the study at a path of its dialect; gives 0 if it succeeds, and 1 otherwise."""
    followed = Followed(place.server, path, note)
    trials = native_trials(place.server, args.job, place.project)
    try:
        if args.format == "json":
            state = _json(followed)
        elif sys.stdout.isatty():
            state = _live(followed, trials)
        else:
            state = _plain(followed, trials)
    except KeyboardInterrupt:
        return report_leaving(args, "study", path.removeprefix("/v1/"))
    return 0 if state == "SUCCEEDED" else 1


def _studies(followed: Followed, trials: NativeTrials) -> Iterator[StudyView]:
    """The study with all that is known of its trials, again and again, until it has ended."""
    for document in _documents(followed):
        yield with_native(view_of(document), trials.ask())


def _documents(followed: Followed) -> Iterator[Json]:
    while True:
        began = time.monotonic()
        document = followed.job()
        yield document
        if state_of(document) in FINAL_STATES:
            return
        took_s = time.monotonic() - began
        followed.pause(max(ASK_S, took_s / SHARE_MAX))


def _live(followed: Followed, trials: NativeTrials) -> str:
    view = TuningView(colour=wants_colour("auto", sys.stdout))
    followed.note = view.say
    with Screen(sys.stdout) as screen:
        for study in _studies(followed, trials):
            size = shutil.get_terminal_size()
            screen.draw(view.lines(study, size, datetime.now(tz=UTC)))
    for line in best_arguments(study):
        out(line)
    return study.state


def _plain(followed: Followed, trials: NativeTrials) -> str:
    before: StudyView | None = None
    for study in _studies(followed, trials):
        for line in changes(before, study):
            out(line)
        before = study
    out("\n".join(("", *best_table(study), *best_arguments(study), f"state: {study.state}")))
    return study.state


def _json(followed: Followed) -> str:
    shown: dict[str, Any] = {}
    state = ""
    for document in _documents(followed):
        for key, value in _parts(document):
            if shown.get(key) != value:
                shown[key] = value
                out(json.dumps({key.partition(" ")[0]: value}, ensure_ascii=False))
        state = state_of(document)
    return state


def _parts(document: Json) -> Iterator[tuple[str, Json]]:
    output = document.get(_ML_TRIALS, document)
    rest = {key: value for key, value in output.items() if key != "trials"}
    yield "job", {**document, _ML_TRIALS: rest} if _ML_TRIALS in document else rest
    for place, trial in enumerate(output.get("trials", ())):
        yield f"trial {trial.get('id') or trial.get('trialId') or place}", trial
