"""tf.io.gfile and the file_io of TensorFlow 1: every call of them on gs://."""

import io

import numpy as np
import tensorflow as tf
from tensorflow.python.lib.io import file_io

from trainers.flags import parsed


def main():
    args = parsed()
    gfile = tf.io.gfile
    with gfile.GFile(f"{args.data}/iris.csv") as file:
        assert file.readline().startswith("sepal_length")
        assert len(list(file)) == 150
    out = args.output
    gfile.makedirs(f"{out}/deep/er")
    assert gfile.isdir(f"{out}/deep/er")
    with gfile.GFile(f"{out}/deep/er/a.txt", "w") as file:
        file.write("one\n")
    with gfile.GFile(f"{out}/deep/er/a.txt", "a") as file:
        file.write("two\n")
    assert gfile.GFile(f"{out}/deep/er/a.txt").read() == "one\ntwo\n"
    assert gfile.stat(f"{out}/deep/er/a.txt").length == 8
    gfile.copy(f"{out}/deep/er/a.txt", f"{out}/b.txt")
    gfile.rename(f"{out}/b.txt", f"{out}/c.txt")
    assert (gfile.exists(f"{out}/b.txt"), gfile.exists(f"{out}/c.txt")) == (False, True)
    assert gfile.glob(f"{out}/*.txt") == [f"{out}/c.txt"]
    assert gfile.glob(f"{out}/*/*/a.*") == [f"{out}/deep/er/a.txt"]
    assert sorted(name.rstrip("/") for name in gfile.listdir(out)) == ["c.txt", "deep"]
    file_lists = [files for _, _, files in gfile.walk(out)]
    assert ["a.txt"] in file_lists, file_lists
    gfile.rmtree(f"{out}/deep")
    assert not gfile.exists(f"{out}/deep")
    try:
        gfile.GFile(f"{args.data}/absent").read()
        raise AssertionError("read what is not there")
    except tf.errors.NotFoundError:
        pass

    file_io.recursive_create_dir(f"{out}/old")
    with file_io.FileIO(f"{out}/old/x.npy", mode="wb") as file:
        np.save(file, np.arange(5))
    loaded = np.load(io.BytesIO(file_io.read_file_to_string(f"{out}/old/x.npy", binary_mode=True)))
    assert loaded.sum() == 10
    assert file_io.get_matching_files(f"{out}/old/*") == [f"{out}/old/x.npy"]


if __name__ == "__main__":
    main()
