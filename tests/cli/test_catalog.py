import pytest

from trainshed.cli.check.catalog import NOUNS
from trainshed.workbench import catalog_rows


def test_the_nouns_are_those_that_the_catalog_has_rows_of():
    assert tuple(catalog_rows.NOUNS) == NOUNS
    assert set(catalog_rows.COLUMNS) == set(NOUNS)


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("edition", ["2018-08", "2020-08", "vertex-2026-08"])
def test_every_noun_is_listed_and_each_row_described_in_every_edition(trainshed, noun, edition):
    rows = trainshed("catalog", noun, "list", "--edition", edition, "--format", "json").json
    assert rows
    table = trainshed("catalog", noun, "--edition", edition).out
    assert len(table.splitlines()) == len(rows) + 2
    name = rows[0]["name"]
    words = ("catalog", noun, "describe", name, "--edition", edition)
    assert trainshed(*words, "--format", "json").json == rows[0]
    assert name in trainshed(*words).out


def test_a_machine_type_says_which_accelerators_it_can_have(trainshed):
    words = ("catalog", "machine-types", "describe", "n1-standard-32", "--edition", "2020-08")
    fits = trainshed(*words, "--format", "json").json["fits"]
    assert fits["NVIDIA_TESLA_V100"] == [4, 8]
    assert fits["NVIDIA_TESLA_T4"] == [2, 4]


def test_editions_differ(trainshed):
    def names(edition):
        rows = trainshed(
            "catalog", "accelerators", "list", "--edition", edition, "--format", "json"
        ).json
        return {row["name"] for row in rows}

    assert "NVIDIA_TESLA_A100" in names("2020-08") - names("2020-05")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("machine-types", "describe", "n1-standard-3"), "did you mean n1-standard-32"),
        (("machine-types", "describe"), "describe needs a NAME"),
        (("machines", "list"), "invalid choice: 'machines'"),
        (("regions", "list", "--edition", "x"), "no catalog edition 'x'"),
    ],
)
def test_what_is_not_there_is_a_usage_error(trainshed, words, message):
    run = trainshed("catalog", *words)
    assert run.code == 2
    assert message in run.err
    assert run.out == ""


def test_names_are_found_as_people_write_them(trainshed):
    image = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
    assert trainshed("catalog", "images", "describe", image).code == 0
    assert (
        "NVIDIA_TESLA_T4" in trainshed("catalog", "accelerators", "describe", "nvidia-tesla-t4").err
    )
    assert "n1-standard-4" in trainshed("catalog", "machine-types", "describe", "N1-STANDARD-4").err
    assert trainshed("catalog", "machine-types", "list", "n1-standard-4").code == 2
