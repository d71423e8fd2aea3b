"""Google's own Python clients, unchanged, with STORAGE_EMULATOR_HOST (with and without a token)."""

import pytest

from api.storage_process import GOOGLE_PYTHON, storage_process

pytestmark = pytest.mark.skipif(not GOOGLE_PYTHON.exists(), reason="make test installs the clients")

PREFIXES = [pytest.param("", marks=pytest.mark.full), "/as/one-submitter"]


@pytest.fixture
def server(tmp_path):
    with storage_process(tmp_path) as process:
        yield process


CLOUD_STORAGE = """
import io, os
from google.api_core import exceptions
from google.cloud import storage

client = storage.Client(project="one")
bucket = client.create_bucket("bkt")
assert [each.name for each in client.list_buckets()] == ["bkt"]
assert client.get_bucket("bkt").name == "bkt"
assert client.lookup_bucket("none") is None

name = "dir/aiplatform-2026-11-20-23:53:10.914 \u00fc.txt"
small = bucket.blob(name)
small.metadata = {"k": "v"}
small.upload_from_string("hello", content_type="text/plain")
found = bucket.get_blob(name)
assert (found.metadata, found.content_type, found.size) == ({"k": "v"}, "text/plain", 5)
assert found.download_as_bytes() == b"hello"  # by its media link
assert bucket.blob(name).download_as_bytes(start=1, end=3) == b"ell"
assert found.exists() and not bucket.blob("none").exists()

content = os.urandom(9 * 2**20 + 17)
large = bucket.blob("large")
large.upload_from_file(io.BytesIO(content), size=len(content), checksum="crc32c")
assert large.download_as_bytes() == content
pieces = bucket.blob("pieces", chunk_size=2**20)
pieces.upload_from_file(io.BytesIO(content[: 3 * 2**20 + 3]))
assert bucket.blob("pieces", chunk_size=2**20).download_as_bytes() == content[: 3 * 2**20 + 3]
with bucket.blob("lines").open("w") as file:
    file.write("line\\n" * 3)
assert bucket.blob("lines").open("r").read() == "line\\n" * 3
bucket.blob("empty").upload_from_string("")
assert bucket.blob("empty").download_as_bytes() == b""

names = ["dir/" + name[4:], "empty", "large", "lines", "pieces"]
assert [each.name for each in client.list_blobs("bkt", page_size=2)] == names
listed = client.list_blobs("bkt", delimiter="/")
assert ([each.name for each in listed], listed.prefixes) == (names[1:], {"dir/"})
assert [each.name for each in client.list_blobs("bkt", prefix="l")] == ["large", "lines"]

renamed = bucket.rename_blob(small, "renamed")
copied = bucket.copy_blob(renamed, bucket, "copied")
token, done, total = bucket.blob("rewritten").rewrite(copied)
assert (token, done, total) == (None, 5, 5)
moved = bucket.move_blob(bucket.blob("rewritten"), "moved")
assert not bucket.blob("rewritten").exists()
bucket.blob("both").compose([moved, renamed])
assert bucket.blob("both").download_as_bytes() == b"hellohello"

moved.metadata, moved.cache_control = {"a": "b"}, "no-store"
moved.patch()
moved.reload()
assert moved.metadata == {"k": "v", "a": "b"}  # a patch adds
assert (moved.cache_control, moved.metageneration) == ("no-store", 2)
try:
    bucket.blob("moved").upload_from_string("x", if_generation_match=0)
    raise SystemExit("written over")
except exceptions.PreconditionFailed:
    pass
bucket.blob("moved").upload_from_string("x", if_generation_match=moved.generation)
try:
    client.bucket("none").blob("x").upload_from_string("x")
    raise SystemExit("stored in no bucket")
except exceptions.NotFound as error:
    assert "trainshed buckets create none" in error.message, error.message
bucket.delete(force=True)
assert list(client.list_buckets()) == []
"""


@pytest.mark.parametrize("prefix", PREFIXES)
def test_google_cloud_storage_works_unchanged(server, prefix):
    server.google(CLOUD_STORAGE, prefix)


GCSFS = """
import os, pathlib
import gcsfs

fs = gcsfs.GCSFileSystem(token="anon", project="one", use_listings_cache=False)
fs.mkdir("bkt")
assert fs.ls("") == ["bkt/"]
fs.pipe_file("bkt/a/b.txt", b"hello")
with fs.open("bkt/a/c.txt", "wb") as file:
    file.write(b"x" * 100)
assert fs.open("bkt/a/c.txt", "rb").read() == b"x" * 100
content = os.urandom(9 * 2**20 + 5)
with fs.open("bkt/large", "wb", block_size=2**22) as file:
    for at in range(0, len(content), 2**20):
        file.write(content[at : at + 2**20])
assert fs.cat_file("bkt/large") == content
assert fs.cat_file("bkt/large", start=5, end=10) == content[5:10]
with fs.open("bkt/exact", "wb", block_size=2**18) as file:  # ends with an empty piece
    file.write(b"z" * 2**19)
assert fs.info("bkt/exact")["size"] == 2**19
with fs.open("bkt/checked", "wb", block_size=2**18, consistency="md5") as file:
    file.write(content[: 2**19 + 1])

assert fs.ls("bkt") == ["bkt/a", "bkt/checked", "bkt/exact", "bkt/large"]
assert fs.glob("bkt/*/*.txt") == ["bkt/a/b.txt", "bkt/a/c.txt"]
assert fs.find("bkt/a") == ["bkt/a/b.txt", "bkt/a/c.txt"]
assert fs.isdir("bkt/a") and not fs.isfile("bkt/a") and fs.isfile("bkt/a/b.txt")
assert not any(fs.exists(path) for path in ("bkt/none", "bkt/a//b", "none/x"))
fs.cp("bkt/a/b.txt", "bkt/copied")
fs.mv("bkt/copied", "bkt/moved")
assert fs.cat("bkt/moved") == b"hello" and not fs.exists("bkt/copied")
fs.merge("bkt/merged", ["bkt/a/b.txt", "bkt/a/c.txt"])
assert fs.info("bkt/merged")["size"] == 105
fs.setxattrs("bkt/moved", content_type="text/x", k="v")
assert fs.getxattr("bkt/moved", "k") == "v"
try:
    fs.pipe_file("bkt/moved", b"again", mode="create")
    raise SystemExit("written over")
except FileExistsError:
    pass
dropped = fs.open("bkt/dropped", "wb", block_size=2**18, autocommit=False)
dropped.write(b"1" * 2**19)
dropped.flush()
dropped.discard()
assert not fs.exists("bkt/dropped")

here = pathlib.Path(os.environ["HERE"])
(here / "put/below").mkdir(parents=True)
(here / "put/large").write_bytes(content)
(here / "put/below/small").write_text("two")
fs.put(str(here / "put"), "bkt/put", recursive=True)
fs.get("bkt/put", str(here / "back"), recursive=True)
assert (here / "back/large").read_bytes() == content
assert (here / "back/below/small").read_text() == "two"
fs.touch("bkt/touched")
fs.rm("bkt/put", recursive=True)
assert not fs.exists("bkt/put")
fs.rm("bkt", recursive=True)
assert fs.ls("") == []
"""


def test_gcsfs_works_unchanged(server, tmp_path_factory):
    server.google(GCSFS, PREFIXES[1], HERE=str(tmp_path_factory.mktemp("files")))


def test_what_a_job_wrote_is_there_for_every_client(server):
    server.make("out", token="one-submitter")
    folder = server.data_dir / "buckets/out/model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(3 << 20))
    server.google(
        "import gcsfs\n"
        "from google.cloud import storage\n"
        "bucket = storage.Client().bucket('out')\n"
        "assert [each.name for each in bucket.list_blobs()] == ['model/weights.bin']\n"
        "assert bucket.get_blob('model/weights.bin').crc32c\n"
        "assert bucket.blob('model/weights.bin').download_as_bytes() == bytes(3 << 20)\n"
        "fs = gcsfs.GCSFileSystem(token='anon')\n"
        "assert fs.cat('out/model/weights.bin') == bytes(3 << 20)\n",
        "/as/one-viewer",
    )
