"""Values of the wrong type are refused with the value that the caller most likely meant."""

import pytest

from trainshed.wire import detect


def ml(**fields):
    return {"trainingInput": fields}


def ml_parameter(**fields):
    return ml(hyperparameters={"params": [{"parameterName": "a", **fields}]})


def pool(**fields):
    return {"workerPoolSpecs": [{"replicaCount": 1, "containerSpec": {"imageUri": "i", **fields}}]}


AT = "workerPoolSpecs[0].containerSpec"
HYPER = "trainingInput.hyperparameters"

#: A document, the field that is named, and what is accepted.
CASES = [
    (ml(runtimeVersion=2.1), "trainingInput.runtimeVersion", '"2.1", or "2.10", which YAML reads'),
    (ml(pythonVersion=3.1), "trainingInput.pythonVersion", '"3.1", or "3.10", which YAML reads'),
    (ml(runtimeVersion=2.11), "trainingInput.runtimeVersion", 'a number needs quotes: "2.11"'),
    (ml(pythonVersion=3), "trainingInput.pythonVersion", 'a number needs quotes: "3"'),
    *(
        (
            ml(scheduling={"maxRunningTime": wrong}),
            "trainingInput.scheduling.maxRunningTime",
            f'seconds with the letter s: "{meant}"',
        )
        for wrong, meant in [
            (3600, "3600s"),
            (5400, "5400s"),  # YAML 1.1 reads 1:30:00 as this
            ("2h", "7200s"),
            ("1h30m", "5400s"),
            ("3600", "3600s"),
            ("90 s", "90s"),
        ]
    ),
    (ml(scheduling={"maxRunningTime": "soon"}), "trainingInput.scheduling.maxRunningTime", "3600s"),
    (ml(args="--epochs 3"), "trainingInput.args", '["--epochs", "3"]'),
    (ml(args="--a=1 --b=2"), "trainingInput.args", '["--a=1", "--b=2"]'),
    (ml(args="--name 'a b'"), "trainingInput.args", '["--name", "a b"]'),
    (pool(command=["python -m a.b"]), f"{AT}.command[0]", '["python", "-m", "a.b"]'),
    (pool(command=["/bin/bash -c ls"]), f"{AT}.command[0]", '["/bin/bash", "-c", "ls"]'),
    (pool(command=["cd /a && ls"]), f"{AT}.command[0]", '["bash", "-c", "cd /a && ls"]'),
    (pool(command="cd /a && ls"), f"{AT}.command", '["bash", "-c", "cd /a && ls"]'),
    (pool(command=["ls | wc"]), f"{AT}.command[0]", '["bash", "-c", "ls | wc"]'),
    (pool(env={"A": "b"}), f"{AT}.env", '[{name: A, value: "b"}]'),
    (pool(env={"A": 1, "B": 2}), f"{AT}.env", '[{name: A, value: "1"}]'),
    (pool(env=["A=b=c"]), f"{AT}.env[0]", '{name: A, value: "b=c"}'),
    (ml(scaleTier=1), "trainingInput.scaleTier", "BASIC, STANDARD_1"),
    ({"workerPoolSpecs": {"chief": {"replicaCount": 1}}}, "workerPoolSpecs", "a dash before each"),
    (
        {"workerPoolSpecs": [{"machineSpec": "n1-standard-4"}]},
        "workerPoolSpecs[0].machineSpec",
        "{machineType: n1-standard-4}",
    ),
    ({"workerPoolSpecs": [{"containerSpec": "i"}]}, AT, "{imageUri: i}"),
    (
        {"workerPoolSpecs": [], "baseOutputDirectory": "gs://b/o"},
        "baseOutputDirectory",
        "{outputUriPrefix: gs://b/o}",
    ),
    (
        ml(masterConfig={"acceleratorConfig": "count=1,type=NVIDIA_TESLA_T4"}),
        "trainingInput.masterConfig.acceleratorConfig",
        "{count: 1, type: NVIDIA_TESLA_T4}",
    ),
    ({"trainingInput": {}, "labels": "team=ml"}, "labels", "{team: ml}"),
    (
        {"trialJobSpec": {}, "studySpec": {"parameters": [{"categoricalValueSpec": ["a"]}]}},
        "studySpec.parameters[0].categoricalValueSpec",
        '{values: ["a"]}',
    ),
    (ml_parameter(type="FLOAT"), f"{HYPER}.params[0].type", "DOUBLE"),
    (ml_parameter(discreteValues="16, 32"), f"{HYPER}.params[0].discreteValues", "[16, 32]"),
    (ml_parameter(categoricalValues="a,b"), f"{HYPER}.params[0].categoricalValues", '["a", "b"]'),
    (
        ml(hyperparameters={"params": {"lr": {"type": "DOUBLE"}}}),
        f"{HYPER}.params",
        "[{parameterName: lr, ...}]",
    ),
    (
        {"trialJobSpec": {}, "studySpec": {"metrics": {"acc": "maximize"}}},
        "studySpec.metrics",
        '[{metricId: acc, goal: "MAXIMIZE"}]',
    ),
]


@pytest.mark.parametrize(("document", "field", "accepted"), CASES)
def test_a_refusal_has_the_value_that_was_meant(document, field, accepted):
    violation = next(v for v in detect.parse(document).violations if v.field == field)
    assert accepted in violation.accepted


@pytest.mark.parametrize(
    "document",
    [
        pool(command=["/opt/my tools/train"]),
        pool(command=["bash", "-c", "python a.py"]),
        pool(args=["--name=my job"]),
        pool(args="--name=my job"),
        pool(env={"name": "A", "value": "b"}),
        ml_parameter(type="CATEGORICAL", categoricalValues="alone"),
    ],
)
def test_what_is_unusual_and_right_is_read(document):
    assert [v for v in detect.parse(document).violations if v.rule == "wrong-type"] == []


def test_the_name_of_a_value_is_suggested():
    violations = detect.parse(ml_parameter(type="float")).violations
    assert any(v.message.endswith("did you mean DOUBLE?") for v in violations)


def test_a_flag_among_arguments_is_noted():
    parsed = detect.parse(ml(args=["--on", True, "--off", False]))
    assert [note.field for note in parsed.notes] == [
        "trainingInput.args[1]",
        "trainingInput.args[3]",
    ]
    assert parsed.notes[0].message == (
        "read as the string 'true'; YAML reads y, yes, on and true without quotes so"
    )


def test_a_value_that_json_does_not_have_is_shown_as_well():
    """YAML has binary values."""
    parameter = {"parameterId": "x", "categoricalValueSpec": [b"hello"]}
    document = {"displayName": "d", "studySpec": {"parameters": [parameter]}, "trialJobSpec": {}}
    fields = [str(violation.field) for violation in detect.parse(document).violations]
    assert "studySpec.parameters[0].categoricalValueSpec" in fields
