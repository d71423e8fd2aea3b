"""Unmodified gcloud storage and gsutil: what scripts around a training job do with a bucket."""

import shutil

import pytest

from conformance import gcloud as real
from conformance.gcloud import needs_gcloud
from trainshed.workbench.client_settings import ClientTarget, variables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), needs_gcloud]

#: One process: a warm gcloud must not fork.
ALONE = {"CLOUDSDK_STORAGE_PROCESS_COUNT": "1", "CLOUDSDK_STORAGE_THREAD_COUNT": "1"}
FILES = {"one.txt": "1", "a/two.txt": "22", "a/b/three.txt": "333"}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


@pytest.fixture
def uri(own_folder):
    return f"gs://{own_folder.parent.name}/{own_folder.name}"


@pytest.fixture(scope="module")
def warm(server, tmp_path_factory):
    """One for each server: gcloud storage remembers the address of its first."""
    assert server
    warm = real.Warm(tmp_path_factory.mktemp("gcloud-storage"))
    yield warm
    warm.close()


@pytest.fixture
def storage(gcloud):
    return lambda *words: gcloud("storage", *words, **ALONE).ok().stdout


def below(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_folders_are_copied_listed_moved_and_removed(storage, tree, uri, own_folder, tmp_path):
    storage("cp", "-r", tree, f"{uri}/up")
    assert below(own_folder / "up") == FILES
    listed = storage("ls", "-r", f"{uri}/**").split()
    assert sorted(listed) == sorted(f"{uri}/up/{name}" for name in FILES)
    assert storage("du", "-s", f"{uri}/up").split()[0] == "6"
    storage("mv", f"{uri}/up/a", f"{uri}/up/moved")
    storage("mv", f"{uri}/up/one.txt", f"{uri}/up/first.txt")
    moved = {"first.txt": "1", "moved/two.txt": "22", "moved/b/three.txt": "333"}
    assert below(own_folder / "up") == moved
    (tmp_path / "back").mkdir()
    storage("cp", "-r", f"{uri}/up", tmp_path / "back")
    assert below(tmp_path / "back/up") == moved
    storage("cp", "-r", f"{uri}/up", f"{uri}/again")
    storage("rm", "-r", f"{uri}/up", f"{uri}/again")
    assert below(own_folder) == {}


def test_rsync_makes_a_folder_like_another(storage, tree, uri, own_folder, tmp_path):
    storage("rsync", "-r", tree, f"{uri}/sync")
    (tree / "a/two.txt").unlink()
    (tree / "new.txt").write_text("new")
    storage("rsync", "-r", "--delete-unmatched-destination-objects", tree, f"{uri}/sync")
    assert below(own_folder / "sync") == below(tree)
    storage("rsync", "-r", f"{uri}/sync", tmp_path / "here")
    assert below(tmp_path / "here") == below(tree)


def test_there_are_no_managed_folders_and_none_are_made(gcloud, storage, uri):
    bucket = uri.rpartition("/")[0]
    assert storage("managed-folders", "list", bucket) == ""
    refused = gcloud("storage", "managed-folders", "create", f"{bucket}/mine", **ALONE)
    assert refused.code == 1
    assert "has no managed folders" in refused.stderr


@pytest.mark.full
def test_objects_are_printed(real_gcloud, tree, uri):
    real_gcloud("storage", "cp", "-r", tree, f"{uri}/up").ok()
    printed = real_gcloud("storage", "cat", f"{uri}/up/one.txt", f"{uri}/up/a/two.txt").ok()
    assert printed.stdout == "122"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("gsutil") is None, reason="no gsutil: put gcloud's SDK on PATH")
def test_gsutil_works_by_what_env_prints(server, tree, own_folder, tmp_path):
    """gsutil hands its commands to gcloud storage, by the settings file that env names."""
    (tmp_path / "token").write_text(server.token)
    target = ClientTarget(
        url=server.url, grpc=None, bundle=server.address["ca"], project="demo-proj",
        region="us-central1", token_file=tmp_path / "token",
    )  # fmt: skip
    env = {name: value for name, value in variables(target).items() if value}
    uri = f"gs://{own_folder.parent.name}/{own_folder.name}"
    how = {"config_dir": tmp_path / "config", "program": shutil.which("gsutil")}

    def gsutil(*words):
        return real.once(words, env, tmp_path, **how).ok().stdout

    gsutil("-m", "cp", "-r", tree, f"{uri}/up")
    assert below(own_folder / "up") == FILES
    assert gsutil("cat", f"{uri}/up/a/b/three.txt") == "333"
    gsutil("-m", "rsync", "-r", "-d", tree / "a", f"{uri}/up")
    assert below(own_folder / "up") == {"two.txt": "22", "b/three.txt": "333"}
