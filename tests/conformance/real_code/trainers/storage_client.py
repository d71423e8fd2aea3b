"""google-cloud-storage: the calls that samples make before and after training."""

import os
import tempfile

from google.api_core.exceptions import NotFound, PreconditionFailed
from google.cloud import storage

from trainers.flags import parsed, split


def main():
    args = parsed()
    client = storage.Client()
    assert client.project == os.environ["GOOGLE_CLOUD_PROJECT"]
    bucket_name, folder = split(args.output)
    bucket = client.bucket(bucket_name)

    source = storage.Blob.from_string(f"{args.data}/iris.csv", client=client)
    local = os.path.join(tempfile.mkdtemp(), "iris.csv")
    source.download_to_filename(local)
    with open(local) as file:
        assert file.readline().startswith("sepal_length")

    bucket.blob(f"{folder}/model/model.bst").upload_from_filename(local)
    note = bucket.blob(f"{folder}/note.json")
    note.upload_from_string('{"accuracy": 0.9}', content_type="application/json")
    note.reload()
    assert (note.content_type, note.size) == ("application/json", 17)
    assert note.download_as_text() == '{"accuracy": 0.9}'
    assert note.download_as_bytes(start=2, end=9) == b"accuracy"
    with bucket.blob(f"{folder}/lines.txt").open("w") as file:
        file.writelines(f"{n}\n" for n in range(1000))
    with bucket.blob(f"{folder}/lines.txt").open("r") as file:
        assert sum(map(int, file)) == 499500
    large = os.urandom(9 << 20)
    bucket.blob(f"{folder}/large").upload_from_string(large)
    assert bucket.blob(f"{folder}/large").download_as_bytes() == large

    names = [blob.name for blob in client.list_blobs(bucket_name, prefix=f"{folder}/")]
    expected = ("large", "lines.txt", "model/model.bst", "note.json")
    assert names == [f"{folder}/{name}" for name in expected]
    pages = client.list_blobs(bucket_name, prefix=f"{folder}/", delimiter="/")
    list(pages)
    assert pages.prefixes == {f"{folder}/model/"}

    copy = bucket.copy_blob(note, bucket, f"{folder}/copy.json")
    assert bucket.rename_blob(copy, f"{folder}/renamed.json").exists()
    assert not copy.exists()
    bucket.delete_blob(f"{folder}/renamed.json")
    with client.batch():
        for name in ("large", "lines.txt"):
            bucket.delete_blob(f"{folder}/{name}")
    assert not bucket.blob(f"{folder}/large").exists()
    try:
        note.upload_from_string("{}", if_generation_match=0)
        raise AssertionError("an object was overwritten")
    except PreconditionFailed:
        pass
    try:
        bucket.blob(f"{folder}/absent").download_as_bytes()
        raise AssertionError("read what is not there")
    except NotFound:
        pass


if __name__ == "__main__":
    main()
