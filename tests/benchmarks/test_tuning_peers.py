"""Peers of the benchmark of searches: the pipe, the recording, and the problems they searched."""

import math
from dataclasses import replace

import pytest
from benchmarks.tuning.peers import OURS, PEERS, RANDOM, is_able
from benchmarks.tuning.pipes import PROGRAMS, PipeError, PipePeer, Program, study_document
from benchmarks.tuning.problems import CLASSES, KEPT_BACK, ON_REQUEST, problem
from benchmarks.tuning.programs.own_search import spec_of
from benchmarks.tuning.programs.serving import Outcome, study_from
from benchmarks.tuning.record import missing, record
from benchmarks.tuning.recorded import FOLDER, append_run, read_folder, read_runs
from benchmarks.tuning.runs import Cell, Run, run_search

from trainshed.tuning.space import space_of

CELL = Cell(problem="conditional", parallel=2, trials=5, seed=1)
MISSING = Program(module="no_search", environment="")


@pytest.mark.parametrize("name", ["mixed", "conditional", "branin-disk", "digits-kernels"])
def test_a_study_is_the_same_behind_the_pipe(name):
    study = problem(name, 0).study
    document = study_from(study_document(study, noisy=True))
    own = space_of(spec_of(document))
    assert document.is_noisy
    assert spec_of(document).metrics == study.metrics
    assert {d.name for d in own.dimensions} == {d.name for d in space_of(study).dimensions}


def test_a_parameter_under_two_values_of_its_parent_is_one_behind_the_pipe():
    document = study_from(study_document(problem("digits-kernels", 0).study, noisy=False))
    (gamma,) = (p for p in document.parameters if p.name == "gamma")
    assert gamma.parent_values == ("rbf", "poly")
    assert document.active(dict.fromkeys(["c", "gamma", "degree", "shift"], 2.0) | {
        "kernel": "rbf", "shrinking": "no",
    }) == {"c": 2.0, "kernel": "rbf", "gamma": 2.0, "shrinking": "no"}  # fmt: skip


def test_an_excess_is_above_zero_where_a_limit_is_broken():
    least = Outcome(name="r2", is_minimised=False, threshold=0.5)
    assert least.excess(0.4) == pytest.approx(0.1)
    assert replace(least, is_minimised=True).excess(0.4) == pytest.approx(-0.1)


@pytest.mark.parametrize("name", [OURS, RANDOM])
def test_a_search_behind_a_pipe_is_the_search_of_this_process(name):
    piped, own = run_search(name, CELL, through_pipe=True), run_search(name, CELL)
    assert piped.best == own.best
    assert piped.memory_mb > 10


def test_a_program_that_ends_is_an_error_that_names_its_peer(monkeypatch):
    monkeypatch.setitem(PROGRAMS, "ax", MISSING)
    search = PipePeer("ax", problem("branin", 0).study, 0, noisy=False)
    try:
        with pytest.raises(PipeError, match="ax"):
            search.ask()
    finally:
        search.close()


def searched(*best, version="1", peer="ax"):
    cell = Cell(problem="branin", parallel=1, trials=len(best), seed=0)
    return Run(peer=peer, version=version, cell=cell, best=best, cpu_s=1.25, memory_mb=300.0)


def test_a_recorded_search_is_read_as_it_was(tmp_path):
    runs = [searched(math.inf, 2.0, 2.0, 1.5), searched(3.0, 3.0, version="2")]
    for run in (*runs, runs[1]):
        append_run(tmp_path / "ax.jsonl", run)
    assert [*read_runs(tmp_path / "ax.jsonl")] == [*runs, runs[1]]
    assert len((tmp_path / "ax.jsonl").read_text().splitlines()) == 5  # two of them headers
    assert [*read_runs(tmp_path / "none.jsonl")] == []


def test_a_recording_runs_what_is_missing_and_names_what_is_not_installed(tmp_path, monkeypatch):
    cells = [replace(CELL, seed=seed, trials=2) for seed in (4, 0)]
    todo = missing([RANDOM], cells, tmp_path)
    assert [cell.seed for _, cell in todo] == [0, 4]
    assert [*record(todo[:1], 1, tmp_path)] == []
    assert missing([RANDOM], cells, tmp_path) == todo[1:]
    assert "1 searches" in next(record(todo[1:], -1, tmp_path))
    monkeypatch.setitem(PROGRAMS, RANDOM, Program(module="", environment="none"))
    (note,) = record(todo, 1, tmp_path)
    assert "not installed" in note
    assert "make tuning-peers" in note


def test_the_repositorys_recording_is_of_known_problems_and_small():
    runs = read_folder()
    names = {name for names in CLASSES.values() for name in names}
    assert {run.peer for run in runs} <= set(PEERS)
    assert {run.cell.problem for run in runs} <= names
    assert sum(path.stat().st_size for path in FOLDER.glob("*.jsonl")) < 1_000_000
    keys = [(run.peer, run.cell) for run in runs]
    assert len(keys) == len(set(keys))


def test_the_classes_have_the_problems_that_decide():
    usual = [name for word, names in CLASSES.items() if word not in ON_REQUEST
             for name in names]  # fmt: skip
    assert len(usual) == len(set(usual)) == 26
    limits = [name for name in usual if problem(name, 0).has_limits]
    assert len(limits) == 3
    assert sum(problem(name, 0).reference is not None for name in usual) == 3
    assert not any(is_able("smac", problem(name, 0)) for name in limits)


def test_the_problems_that_were_kept_back_are_of_all_kinds_and_in_no_other_class():
    chosen = {name for word, names in CLASSES.items() if word != KEPT_BACK for name in names}
    problems = {name: problem(name, 0) for name in CLASSES[KEPT_BACK]}
    assert not problems.keys() & chosen
    assert sum(target.has_limits for target in problems.values()) == 3
    assert sum(target.reference is not None for target in problems.values()) == 3
    assert sum(target.noise > 0 for target in problems.values()) == 2


@pytest.mark.parametrize(
    ("name", "point", "score"),
    [
        ("eggholder", None, -959.6407),
        ("goldstein-noisy", (0.0, -1.0), math.log(3)),
        ("welded-beam", (0.20572964, 3.47048867, 9.03662391, 0.20572964), 1.724852),
        ("spring", (0.05168907, 0.35671785, 11.28895933), 0.0126652),
    ],
)
def test_the_optimum_of_a_problem_that_was_kept_back_is_its_floor(name, point, score):
    target = problem(name, 0)
    corners = [(x, y) for x in (512.0, -512.0) for y in (404.2319, -404.2319)]
    names = [spec.parameter_id for spec in target.study.parameters]
    values = [
        target.measure(dict(zip(names, numbers, strict=True)))
        for numbers in ([point] if point else corners)
    ]
    best = min(values)
    assert best[0] == pytest.approx(score, rel=1e-4) == target.floor
    for value, metric in zip(best, target.study.metrics, strict=True):
        if metric.safety is not None:
            assert value <= metric.safety.threshold + 1e-3 * abs(metric.safety.threshold) + 1e-6
