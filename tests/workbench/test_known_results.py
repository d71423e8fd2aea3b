"""Files of known results and of first points, in every form that is read."""

import json
import sys
from dataclasses import replace

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from trainshed.model.faults import UsageFault
from trainshed.model.study import Goal
from trainshed.model.study_start import PointRow, ResultRow, UnnamedValue
from trainshed.model.trials import text_of
from trainshed.workbench.known_results.sources import read_points, read_results
from trainshed.workbench.study_report.files import trials_csv
from trainshed.workbench.study_view import read_view
from workbench.study_documents import many, ml, ml_trial, vertex


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, name, content):
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def rows_of(folder, name, content):
    return without_sources(write(folder, name, content))


def without_sources(name):
    return [replace(row, source="") for row in read_results([name]).rows]


def fault(*names, read=read_results):
    with pytest.raises(UsageFault) as caught:
        read(names)
    return str(caught.value)


def test_a_plain_table_has_cells_that_the_study_sorts(folder):
    assert rows_of(folder, "r.csv", "\ufefflr,acc,note\n0.1,0.5,\n\n0.2,0.75,good\n") == [
        ResultRow(name="line 2 of r.csv", cells={"lr": "0.1", "acc": "0.5"}),
        ResultRow(name="line 4 of r.csv", cells={"lr": "0.2", "acc": "0.75", "note": "good"}),
    ]


def test_a_report_is_read_as_it_is_written(folder):
    view = read_view(vertex(many(6)))
    rows = rows_of(folder, "study-77.csv", trials_csv(view))
    assert len(rows) == len(view.trials)
    for row, trial in zip(rows, view.trials, strict=True):
        assert row.parameters == {name: text_of(value) for name, value in trial.values}
        metrics = dict(trial.final.metrics) if trial.final else {}
        assert {name: float(text) for name, text in row.metrics.items()} == metrics
        state = trial.state.value
        assert row.fault == ("" if state == "SUCCEEDED" else f"its state is {state}")


def test_exports_of_optuna_and_mlflow_are_tables_with_prefixes(folder):
    optuna = "number,value,params_lr,user_attrs_x,state\n0,0.5,0.1,7,COMPLETE\n1,,0.2,7,PRUNED\n"
    unnamed = (UnnamedValue(value=0.5),)
    assert rows_of(folder, "o.csv", optuna) == [
        ResultRow(name="line 2 of o.csv", parameters={"lr": "0.1"}, unnamed=unnamed),
        ResultRow(name="line 3 of o.csv", parameters={"lr": "0.2"}, fault="its state is PRUNED"),
    ]
    several = "params_lr,values_1,values_0,values_acc\n0.1,2,1,3\n"
    unnamed = (UnnamedValue(value=1.0), UnnamedValue(value=2.0))
    assert rows_of(folder, "s.csv", several) == [
        ResultRow(
            name="line 2 of s.csv", parameters={"lr": "0.1"}, metrics={"acc": "3"}, unnamed=unnamed
        )
    ]
    mlflow = "run_id,status,params.lr,metrics.acc\na,FINISHED,0.1,0.5\nb,FAILED,0.1,\n"
    assert rows_of(folder, "m.csv", mlflow) == [
        ResultRow(name="line 2 of m.csv", parameters={"lr": "0.1"}, metrics={"acc": "0.5"}),
        ResultRow(name="line 3 of m.csv", parameters={"lr": "0.1"}, fault="its state is FAILED"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1 of r.csv must have the names of the columns, got nothing"),
        ("lr,lr\n1,2\n", "line 1 of r.csv has the column lr twice"),
        ("lr;acc\n0,1;2\n", "line 1 of r.csv must have commas between the columns, got lr;acc"),
        ("lr\tacc\n1\t2\n", "line 1 of r.csv must have commas between the columns, got lr\tacc"),
        ("lr\n1,2\n", "line 2 of r.csv has 2 cells, and line 1 has 1"),
        ('lr\n"1\n', "r.csv is not CSV: line 2: unexpected end of data"),
        ("params_lr,value\n1,high\n", "line 2 of r.csv: the value must be a number, got high"),
        ("lr,acc\n", "r.csv has no results"),
    ],
)
def test_a_table_at_fault_is_named_with_its_line(folder, content, message):
    assert fault(write(folder, "r.csv", content)) == message


def test_json_has_results_or_flat_objects(folder):
    content = [
        {"parameters": {"lr": 0.1, "bias": True, "x": None}, "metrics": {"acc": 0.5}},
        {"lr": 0.2, "acc": 1},
    ]
    assert rows_of(folder, "r.json", content) == [
        ResultRow(
            name="item 1 of r.json", parameters={"lr": 0.1, "bias": True}, metrics={"acc": 0.5}
        ),
        ResultRow(name="item 2 of r.json", cells={"lr": 0.2, "acc": 1}),
    ]


def test_documents_of_both_apis_have_trials(folder):
    of_ml = ml([ml_trial(1, value=0.5, step=3, lr=0.1)], state="SUCCEEDED")
    [row] = rows_of(folder, "ml.json", of_ml)
    assert (row.name, row.fault) == ("trial 1 of ml.json", "")
    assert {name: float(value) for name, value in row.parameters.items()} == {"lr": 0.1}
    assert list(row.metrics.values()) == [0.5]
    view = read_view(vertex(many(6)))
    rows = rows_of(folder, "vertex.json", vertex(many(6)))
    assert [dict(row.parameters) for row in rows] == [dict(t.values) for t in view.trials]
    assert "is a tuning job without trials" in fault(write(folder, "none.json", vertex([])))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", 'r.json must have a list of objects such as {"parameters"'),
        ("{}", "r.json must have a list of objects"),
        ("[", "r.json is not JSON: "),
        ('[{"parameters": 3}]', "item 1 of r.json: parameters must be an object, got 3"),
        ('[{"lr": [1]}]', "item 1 of r.json: lr must be a number or a text, got [1]"),
    ],
)
def test_json_at_fault_is_named(folder, content, message):
    assert fault(write(folder, "r.json", content)).startswith(message)


def mlflow_run(folder, name, status=3, start=1, stage="active", **metrics):
    """A run in the layout of MLflow's file store."""
    run = f"mlruns/7/{name}"
    meta = f"run_id: {name}\nrun_name: {name}-title\nstatus: {status}\nstart_time: {start}\n"
    write(folder, f"{run}/meta.yaml", f"{meta}lifecycle_stage: {stage}\nend_time: null\n")
    write(folder, f"{run}/params/lr", "0.1\n")
    write(folder, f"{run}/params/opt/name", "adam")
    for metric, lines in metrics.items():
        write(folder, f"{run}/metrics/val/{metric}", lines)


def test_an_experiment_of_mlflow_is_read_from_its_files(folder):
    write(folder, "mlruns/7/meta.yaml", "experiment_id: 7\nname: digits\n")
    write(folder, "mlruns/models/readme", "")
    mlflow_run(folder, "b", start=200, acc="1700 0.5 1\n1702 0.75 3\n1701 0.6 2\n")
    mlflow_run(folder, "a", start=1000, status=4)
    mlflow_run(folder, "gone", stage="deleted")
    parameters = {"lr": "0.1", "opt/name": "adam"}
    expected = [
        ResultRow(name="run b-title", parameters=parameters, metrics={"val/acc": 0.75}),
        ResultRow(name="run a-title", parameters=parameters, fault="its state is FAILED"),
    ]
    assert without_sources("mlruns/7") == expected
    assert without_sources("mlruns") == expected, "there is one experiment"
    assert read_results(["mlruns/7"]).sources == ["MLflow experiment digits of mlruns/7"]
    write(folder, "mlruns/8/meta.yaml", "experiment_id: 8\nname: other\n")
    assert fault("mlruns") == "mlruns has 2 experiments; name one of mlruns/7, mlruns/8"
    assert fault("mlruns/8") == "mlruns/8 has no results"
    mlflow_run(folder, "b", acc="nothing here\n")
    assert "must have lines of a time, a value and a step" in fault("mlruns/7")
    assert "must be a folder of MLflow" in fault("mlruns/models")


def optimize(storage, name="digits", **more):
    study = optuna.create_study(study_name=name, storage=storage, **more)
    space = {
        "lr": optuna.distributions.FloatDistribution(0.0, 1.0),
        "opt": optuna.distributions.CategoricalDistribution(["adam", None]),
    }
    objectives = len(study.directions)
    for lr, state in ((0.1, "COMPLETE"), (0.2, "PRUNED"), (0.3, "COMPLETE")):
        values = [lr * 10] * objectives if state == "COMPLETE" else None
        study.add_trial(
            optuna.trial.create_trial(
                params={"lr": lr, "opt": None},
                distributions=space,
                values=values,
                state=optuna.trial.TrialState[state],
            )
        )
    return study


def test_a_storage_of_optuna_is_read_by_optuna(folder):
    optimize("sqlite:///x.db", direction="minimize")
    unnamed = (UnnamedValue(value=1.0, goal=Goal.MINIMIZE),)
    expected = ResultRow(
        name="trial 0 of digits", parameters={"lr": 0.1, "opt": "None"}, unnamed=unnamed
    )
    for name in ("sqlite:///x.db#digits", "sqlite:///x.db", "x.db", "x.db#digits"):
        rows = without_sources(name)
        assert rows[0] == expected
        place = name.partition("#")[0]
        assert read_results([name]).sources == [f"Optuna study digits of {place}"]
        assert [row.fault for row in rows] == ["", "its state is PRUNED", ""]
    named = optimize("sqlite:///x.db", "both", directions=["minimize", "maximize"])
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        named.set_metric_names(["loss", "acc"])
    [first, _, _] = read_results(["x.db#both"]).rows
    assert (first.metrics, first.unnamed) == ({"loss": 1.0, "acc": 1.0}, ())
    assert fault("sqlite:///x.db") == (
        "sqlite:///x.db has 2 studies; name one of them: sqlite:///x.db#both, sqlite:///x.db#digits"
    )
    assert fault("x.db#nobody") == "x.db has no study nobody (accepted: both, digits)"
    assert fault("sqlite:///none.db") == "there is no file none.db"
    assert not (folder / "none.db").exists()
    (folder / "odd.db").write_bytes(b"SQLite format 3\0 and no more")
    assert fault("odd.db").startswith("cannot read the Optuna storage odd.db: ")


def test_a_journal_of_optuna_is_read(folder):
    optimize(JournalStorage(JournalFileBackend(str(folder / "journal.log"))))
    before = (folder / "journal.log").read_bytes()
    assert [row.name for row in read_results(["journal.log#digits"]).rows] == [
        f"trial {number} of digits" for number in range(3)
    ]
    assert (folder / "journal.log").read_bytes() == before


def test_without_optuna_its_storages_say_what_to_install(folder, monkeypatch):
    (folder / "x.db").write_bytes(b"SQLite format 3\0")
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "reading x.db needs optuna on this machine; install it with: pip install" in fault(
        "x.db"
    )


def test_names_of_no_file_are_studies_and_sources_add_up(folder):
    write(folder, "r.csv", "lr,acc\n0.1,0.5\n")
    results = read_results(["older", "r.csv", "projects/p/jobs/census_1"])
    assert results.studies == ["older", "projects/p/jobs/census_1"]
    assert (len(results.rows), results.sources) == (1, ["r.csv"])
    assert [row.source for row in results.rows] == ["r.csv"]
    assert fault("none.csv") == "there is no file none.csv"


def test_other_addresses_say_what_to_do_and_show_no_password():
    assert "copy the file to this machine with gcloud storage cp" in fault("gs://bucket/r.csv")
    assert "export the runs of an MLflow server as CSV" in fault("https://mlflow/api")
    for name in ("https://ada:secret@mlflow/api", "odd+db://ada:secret@host/db#study"):
        assert "secret" not in fault(name)
        assert "ada" not in fault(name)


def test_points_are_words_or_files(folder):
    write(folder, "p.csv", "lr,opt\n0.1,adam\n")
    write(folder, "report.csv", "trial,parameters.lr,metrics.acc\n1,0.2,0.5\n")
    write(folder, "p.json", [{"lr": 0.3}, {"parameters": {"lr": 0.4}}])
    assert read_points(["lr=0.5,opt = sgd", "p.csv", "report.csv", "p.json"]) == [
        PointRow(name="lr=0.5,opt = sgd", parameters={"lr": "0.5", "opt": "sgd"}),
        PointRow(
            name="line 2 of p.csv",
            parameters={"lr": "0.1", "opt": "adam"},
            source="line 2 of p.csv",
        ),
        PointRow(
            name="line 2 of report.csv", parameters={"lr": "0.2"}, source="line 2 of report.csv"
        ),
        PointRow(name="item 1 of p.json", parameters={"lr": 0.3}, source="item 1 of p.json"),
        PointRow(name="item 2 of p.json", parameters={"lr": 0.4}, source="item 2 of p.json"),
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nothing", "--enqueue must be NAME=VALUE,... or a file that exists, got nothing"),
        ("lr=1,2", "--enqueue must be NAME=VALUE,... with each name once"),
        ("lr=1,lr=2", "--enqueue must be NAME=VALUE,... with each name once"),
        ("=1", "--enqueue must be NAME=VALUE,... with each name once"),
        ("x=" + "1" * 5000 + ",", "--enqueue must be NAME=VALUE,... with each name once"),
    ],
)
def test_a_point_at_fault_is_named(word, message):
    assert fault(word, read=read_points).startswith(message)
