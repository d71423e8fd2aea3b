"""An observation is reused only while a change of the folder would be visible."""

from pathlib import Path

from trainshed.engines.last_observation import CLOCK_STEP_S, LastObservation, read_folder_state
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.model.attempt import AttemptKey, Observation, Phase

FILES = (1, 1000, -1)
ANSWER = ("PENDING",)
WAITING = Observation(key=AttemptKey(1, 1), phase=Phase.WAITING)


def observed(last, files, answer, now_s):
    """Return whether the engine had to observe again."""
    if last.reuse(files, answer, now_s) is not None:
        return False
    last.observation = WAITING
    return True


def test_it_is_reused_once_the_folder_has_been_the_same_for_a_step_of_the_clock():
    last = LastObservation()
    times = (0.0, 0.5, CLOCK_STEP_S, CLOCK_STEP_S + 0.1, 100.0)
    assert [observed(last, FILES, ANSWER, now_s) for now_s in times] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_change_in_the_step_of_the_last_observation_is_read():
    """A claim came within milliseconds, the folder had the same time, and its job was cancelled."""
    last = LastObservation()
    assert observed(last, FILES, ANSWER, 0.0)
    assert observed(last, FILES, ANSWER, 0.001)


def test_another_answer_or_folder_is_observed_at_once():
    last = LastObservation()
    for now_s in (0.0, CLOCK_STEP_S):
        assert observed(last, FILES, ANSWER, now_s)
    assert observed(last, FILES, ("RUNNING",), 10.0)
    assert not observed(last, FILES, ("RUNNING",), 10.1)
    assert observed(last, (1, 2000, -1), ("RUNNING",), 20.0)
    assert observed(last, (1, 2000, -1), ("RUNNING",), 20.1)


def test_what_depends_on_time_or_cannot_be_read_is_never_reused(tmp_path):
    last = LastObservation()
    assert all(observed(last, None, ANSWER, now_s) for now_s in (0.0, 10.0, 20.0))
    assert read_folder_state(AttemptFolder(str(tmp_path / "gone"))) is None


def test_a_grown_file_of_records_is_another_state(tmp_path):
    folder = AttemptFolder(str(tmp_path))
    states = [read_folder_state(folder)]
    for text in ("", "a record\n"):
        with Path(folder.records).open("a", encoding="ascii") as file:
            file.write(text)
        states.append(read_folder_state(folder))
    assert len(set(states)) == 3
