"""gcsfs: files of a bucket, with the credentials of the machine."""

import os

import gcsfs

from trainers.flags import parsed


def main():
    args = parsed()
    fs = gcsfs.GCSFileSystem(project=os.environ["GOOGLE_CLOUD_PROJECT"])
    with fs.open(f"{args.data}/iris.csv") as file:
        assert file.readline().startswith(b"sepal_length")
    assert fs.glob(f"{args.data}/*.csv") == [f"{args.data[5:]}/iris.csv"]

    with fs.open(f"{args.output}/model/weights.bin", "wb") as file:
        for _ in range(12):
            file.write(os.urandom(1 << 20))
    assert fs.info(f"{args.output}/model/weights.bin")["size"] == 12 << 20
    with fs.open(f"{args.output}/log.txt", "w") as file:
        file.write("epoch 1\nepoch 2\n")
    assert fs.cat(f"{args.output}/log.txt", start=8, end=13) == b"epoch"
    with open("local.txt", "w") as file:
        file.write("local")
    fs.put("local.txt", f"{args.output}/put.txt")
    fs.get(f"{args.output}/put.txt", "got.txt")
    with open("got.txt") as file:
        assert file.read() == "local"
    fs.mv(f"{args.output}/put.txt", f"{args.output}/moved.txt")
    fs.invalidate_cache()
    folder = args.output[5:]
    names = [f"{folder}/{name}" for name in ("log.txt", "model", "moved.txt")]
    assert sorted(fs.ls(args.output)) == names
    assert [files for _, _, files in fs.walk(f"{args.output}/model")] == [["weights.bin"]]
    fs.rm(f"{args.output}/moved.txt")
    assert not fs.exists(f"{args.output}/moved.txt")
    try:
        fs.cat(f"{args.output}/absent")
        raise AssertionError("read what is not there")
    except FileNotFoundError:
        pass


if __name__ == "__main__":
    main()
