"""pandas: frames are read from and written to gs:// by their names."""

import pandas as pd

from trainers.flags import parsed


def main():
    args = parsed()
    frame = pd.read_csv(f"{args.data}/iris.csv")
    assert frame.shape == (150, 5)
    means = frame.groupby("species").mean()
    means.to_csv(f"{args.output}/means.csv")
    frame.to_parquet(f"{args.output}/frame.parquet")
    frame.to_json(f"{args.output}/frame.jsonl", orient="records", lines=True)
    frame.to_pickle(f"{args.output}/frame.pkl")

    assert pd.read_parquet(f"{args.output}/frame.parquet").equals(frame)
    assert len(pd.read_json(f"{args.output}/frame.jsonl", lines=True)) == 150
    assert pd.read_pickle(f"{args.output}/frame.pkl").equals(frame)
    assert pd.read_csv(f"{args.output}/means.csv", index_col="species").shape == means.shape
    assert sum(len(part) for part in pd.read_csv(f"{args.data}/iris.csv", chunksize=40)) == 150
    try:
        pd.read_csv(f"{args.data}/absent.csv")
        raise AssertionError("read what is not there")
    except FileNotFoundError:
        pass


if __name__ == "__main__":
    main()
