import pytest

from trainshed.model.faults import UsageFault
from trainshed.service.jobs import submit_flags as read


def test_words_separate_with_commas_or_with_a_delimiter_of_ones_own():
    assert read.words("a,b, c") == ["a", "b", "c"]
    assert read.words("^:^a,1:b") == ["a,1", "b"]
    assert read.words("a;b", ";") == ["a", "b"]
    assert read.words("") == []


def test_pairs_keep_what_follows_the_first_equals_sign():
    assert read.pairs("--labels", "a=1,b=x=y") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize("text", ["a", "=1", "a=1,a=2", "a=1,,b=2"])
def test_a_malformed_pair_names_its_flag(text):
    with pytest.raises(UsageFault, match="--labels"):
        read.pairs("--labels", text)


def test_an_accelerator_has_a_count_and_a_type_in_gclouds_spelling():
    accelerator = read.accelerator("--master-accelerator", "count=4,type=nvidia-tesla-t4")
    assert accelerator == {"count": 4, "type": "NVIDIA_TESLA_T4"}


@pytest.mark.parametrize(
    "text", ["count=4", "type=nvidia-tesla-t4", "4", "count=x,type=t", "count=1,type=t,size=2"]
)
def test_half_an_accelerator_is_refused(text):
    with pytest.raises(UsageFault, match="--worker-accelerator"):
        read.accelerator("--worker-accelerator", text)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("yes", True)])
def test_booleans_are_read_in_gclouds_spellings(text, value):
    assert read.boolean("--flag", text) is value


def test_what_is_no_boolean_or_number_names_its_flag():
    with pytest.raises(UsageFault, match="--flag must be true or false, got 'maybe'"):
        read.boolean("--flag", "maybe")
    with pytest.raises(UsageFault, match=r"--worker-count must be a whole number, got '2\.5'"):
        read.whole("--worker-count", "2.5")


def test_a_flag_in_a_file_reads_as_it_would_on_a_command_line():
    assert read.text_of({"count": 1, "type": "nvidia-tesla-t4"}) == "count=1,type=nvidia-tesla-t4"
    assert read.text_of(["a", "b"]) == "a,b"
    assert read.text_of(True) == "true"
    assert read.text_of(3) == "3"
