"""The readers of an engine's settings: what is wrong is said with what would be accepted."""

from functools import partial

import pytest

from trainshed.engines.setting_readers import SettingReaders
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy

READERS = SettingReaders("a test engine")
MANY = partial(READERS.read_count, minimum=1)
NAMES = partial(READERS.read_texts, read_text=READERS.read_dns_name)
LABELS = partial(READERS.read_table, read_text=READERS.read_dns_label)


def read_row(name, row):
    READERS.check_names(row, ("resource",), name)
    return READERS.read_text(f"{name}.resource", row.get("resource", ""))


ROWS = partial(READERS.read_tables, read_row=read_row)


@pytest.mark.parametrize(
    ("read", "value", "result"),
    [
        (READERS.read_folder, "/shared/", "/shared"),
        (READERS.read_dns_label, "team-a", "team-a"),
        (READERS.read_dns_label, "", ""),
        (READERS.read_dns_label, "a" * 63, "a" * 63),
        (READERS.read_dns_name, "nfs.claim-1", "nfs.claim-1"),
        (READERS.read_quantity, "64Mi", "64Mi"),
        (READERS.read_quantity, "1.5G", "1.5G"),
        (READERS.read_quantity, "500m", "500m"),
        (READERS.read_quantity, "1000000", "1000000"),
        (READERS.read_seconds, 3, 3.0),
        (READERS.read_count, 0, 0),
        (MANY, 1, 1),
        (READERS.read_policy, "best-effort", FleetPolicy.BEST_EFFORT),
        (READERS.read_texts, ["a", ""], ("a", "")),
        (NAMES, ["a.b", "c"], ("a.b", "c")),
        (READERS.read_table, {"a": "B C"}, {"a": "B C"}),
        (
            ROWS,
            {"L4": {"resource": "nvidia.com/gpu"}, "T4": {}},
            {"L4": "nvidia.com/gpu", "T4": ""},
        ),
    ],
)
def test_what_is_accepted(read, value, result):
    assert read("x", value) == result


@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        (READERS.read_text, 3, "x of a test engine must be a text, got 3"),
        (READERS.read_folder, "shared", "an absolute path, got 'shared'"),
        (READERS.read_dns_label, "a.b", "at most 63 lowercase letters, digits and inner dashes"),
        (READERS.read_dns_label, "a" * 64, "at most 63"),
        (READERS.read_dns_label, "-a", "got '-a'"),
        (READERS.read_dns_label, "a\n", "got 'a\\n'"),
        (READERS.read_dns_name, "A", "lowercase letters"),
        (READERS.read_dns_name, "a..b", "got 'a..b'"),
        (READERS.read_dns_name, ".".join(["a" * 63] * 4), "at most 253"),
        (READERS.read_quantity, "64MB", "a quantity such as 64Mi or 500m, got '64MB'"),
        (READERS.read_quantity, "-1", "got '-1'"),
        (READERS.read_quantity, 64, "got 64"),
        (READERS.read_switch, "yes", "true or false"),
        (READERS.read_seconds, True, "a number from 0, got True"),
        (READERS.read_count, -1, "a whole number from 0, got -1"),
        (READERS.read_count, 1.0, "a whole number from 0"),
        (MANY, 0, "a whole number from 1, got 0"),
        (READERS.read_policy, "emulate", "exact or best-effort, got 'emulate'"),
        (READERS.read_policy, ["exact"], "exact or best-effort, got ['exact']"),
        (READERS.read_texts, "a", "a list of texts, got 'a'"),
        (READERS.read_texts, ["a", 1], "x[1] of a test engine must be a text, got 1"),
        (NAMES, ["A"], "x[0] of a test engine must be lowercase letters"),
        (READERS.read_table, [], "a table of texts, got []"),
        (LABELS, {"k": "B"}, "x.k of a test engine must be at most 63"),
        (ROWS, [], "a table of tables, got []"),
        (ROWS, {"L4": "gpu"}, "x.L4 of a test engine must be a table, got 'gpu'"),
        (ROWS, {"L4": {"count": 1}}, "x.L4 of a test engine has no setting 'count'; accepted are:"),
    ],
)
def test_what_is_refused(read, value, words):
    with pytest.raises(UsageFault) as caught:
        read("x", value)
    assert words in str(caught.value)


def test_an_unknown_setting_and_a_missing_one_are_named():
    with pytest.raises(UsageFault, match="a test engine has no setting 'b'; accepted are: a, c"):
        READERS.check_names({"a": 1, "b": 2}, ("a", "c"))
    with pytest.raises(UsageFault, match="a test engine needs `a`: a folder"):
        READERS.require({"a": ""}, "a", "a folder")
