"""fsspec: a URI is opened, whatever its scheme is."""

import json

import fsspec

from trainers.flags import parsed


def main():
    args = parsed()
    with fsspec.open(f"{args.data}/iris.csv", "rt") as file:
        rows = file.read().splitlines()
    with fsspec.open(f"{args.output}/metrics.json", "w") as file:
        json.dump({"rows": len(rows)}, file)
    with fsspec.open(f"{args.output}/metrics.json") as file:
        assert json.load(file) == {"rows": 151}
    with fsspec.open(f"simplecache::{args.data}/iris.csv", "rt") as file:
        assert file.read().splitlines() == rows
    with fsspec.open(f"{args.output}/rows.csv.gz", "wt", compression="infer") as file:
        file.write("\n".join(rows))
    with fsspec.open(f"{args.output}/rows.csv.gz", "rt", compression="infer") as file:
        assert file.read().splitlines() == rows
    files = fsspec.open_files(f"{args.data}/*.csv", "rt")
    assert len(files) == 1

    fs, path = fsspec.core.url_to_fs(args.output)
    assert sorted(fs.find(path)) == [f"{path}/metrics.json", f"{path}/rows.csv.gz"]
    store = fsspec.get_mapper(f"{args.output}/chunks")
    store["0.0"] = b"zero"
    assert (store["0.0"], list(store)) == (b"zero", ["0.0"])


if __name__ == "__main__":
    main()
