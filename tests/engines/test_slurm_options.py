"""The table of a Slurm engine: what is wrong is said with what would be accepted."""

import pytest

from trainshed.engines.slurm import options
from trainshed.engines.slurm.options import list_sbatch_options, wishes_of
from trainshed.model.faults import UsageFault
from trainshed.model.resources import FleetPolicy


def read(**settings):
    return options.read({"spool": "/shared", **settings})


def test_what_is_not_said_has_a_default():
    settings = read()
    assert (settings.spool_of_nodes, settings.python, settings.lost_after_s) == (
        "/shared",
        "python3",
        90.0,
    )
    assert settings.policy is FleetPolicy.EXACT


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"partion": "x"}, "no setting 'partion'; accepted are: spool,"),
        ({"spool": ""}, "needs `spool`"),
        ({"spool": "shared"}, "must be an absolute path, got 'shared'"),
        ({"partition": "-x"}, "a name of Slurm's"),
        ({"partition": 3}, "must be a text, got 3"),
        ({"ssh": "-oProxyCommand=x"}, "HOST or USER@HOST"),
        ({"nice": -1}, "whole number from 0"),
        ({"wishes": ["partition", "uid"]}, "got 'uid'"),
        ({"wishes": "partition"}, "must be a list of partition"),
        ({"policy": "emulate"}, "exact or best-effort"),
        ({"packing": "yes"}, "true or false"),
        ({"hold_s": -1}, "a number from 0"),
        ({"hold_s": 3601}, "a number from 0 to 3600"),
        ({"poll_s": "10"}, "a number from 0"),
        ({"account": {"p": "--x"}}, "a name of Slurm's"),
        ({"gres": "t4"}, "a table of texts"),
        ({"gres": {"NVIDIA_L4": ["a b"]}}, "a name of Slurm's"),
        ({"partitions": {"NVIDIA_L4": "a b"}}, "a name of Slurm's"),
        ({"constraint": "-x"}, "features of nodes"),
        ({"clusters": "a,b"}, "one name"),
        ({"env": ["A-B"]}, "names of variables"),
        ({"env": ["SLURM_JWT"], "ssh": "login"}, "both `env` and `ssh`"),
        ({"token_file": "/t", "ssh": "login"}, "both `token_file` and `ssh`"),
        ({"token_file": "t"}, "an absolute path"),
        ({"waste_max": 1}, "from 0 to below 1"),
        ({"sbatch_options": ["--ntasks=1"]}, "with a NAME of acctg-freq"),
        ({"sbatch_options": ["--exclusive=no"]}, "--exclusive with a value like"),
        ({"sbatch_options": ["--contiguous=1"]}, "--contiguous with no value"),
        ({"sbatch_options": ["licenses=a"]}, "--NAME=VALUE"),
        ({"sbatch_options": ["--licenses=a b"]}, "without spaces and quotes"),
        ({"sbatch_options": ["--licenses=--x"]}, "without spaces and quotes"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(UsageFault) as caught:
        read(**settings)
    assert words in str(caught.value)


def test_words_for_gpus_are_one_or_several():
    settings = read(gres={"NVIDIA_L4": "l4", "NVIDIA_TESLA_T4": ["rtx_4090", "rtx_3090"]})
    assert settings.gres == {"NVIDIA_L4": ("l4",), "NVIDIA_TESLA_T4": ("rtx_4090", "rtx_3090")}


def test_the_account_of_a_project():
    settings = read(account={"vision": "a1", "*": "rest"})
    assert [settings.account_of(project) for project in ("vision", "other")] == ["a1", "rest"]
    assert read(account="all").account_of("x") == "all"
    assert read().account_of("x") == ""


def test_wishes_are_labels_that_the_configuration_allows():
    settings = read(wishes=["partition", "nice"])
    wants = {
        "trainshed-slurm-partition": "gpu",
        "trainshed-engine": "s",
        "trainshed-slurm-nice": "5",
    }
    assert wishes_of(wants, settings) == {"partition": "gpu", "nice": "5"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("qos", "high", "accepted are: trainshed-slurm-partition, trainshed-slurm-nice,"),
        ("partition", "--uid=0", "a name that Slurm knows"),
        ("nice", "-100", "a whole number from 0"),
        ("switches", "many", "a value like"),
        ("contiguous", "no", "no value (yes in a label)"),
    ],
)
def test_other_wishes_are_refused(name, text, words):
    settings = read(wishes=["partition", "nice", "switches", "contiguous"])
    with pytest.raises(UsageFault) as caught:
        wishes_of({f"trainshed-slurm-{name}": text}, settings)
    assert words in str(caught.value)


def test_a_label_wins_over_the_configured_option_of_the_same_name():
    settings = read(
        sbatch_options=["--licenses=matlab:2", "--exclusive=user"],
        wishes=["exclusive", "contiguous", "licenses"],
    )
    assert list_sbatch_options({}, settings) == ("--licenses=matlab:2", "--exclusive=user")
    wishes = wishes_of(
        {"trainshed-slurm-exclusive": "yes", "trainshed-slurm-contiguous": "yes"}, settings
    )
    assert list_sbatch_options(wishes, settings) == (
        "--licenses=matlab:2",
        "--exclusive",
        "--contiguous",
    )
