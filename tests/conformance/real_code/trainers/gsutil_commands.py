"""gsutil: the commands that samples start from Python and from shell scripts."""

import os
import subprocess
import sys

from trainers.flags import parsed


def gsutil(*words):
    return subprocess.check_output(["gsutil", *words], stderr=sys.stdout, text=True)


def main():
    args = parsed()
    os.makedirs("export/assets")
    for name, text in (("saved_model.pb", "graph"), ("assets/vocab.txt", "a\nb\n")):
        with open(f"export/{name}", "w") as file:
            file.write(text)
    gsutil("-m", "cp", "-r", "export", f"{args.output}/")
    listed = gsutil("ls", "-r", f"{args.output}/export").split()
    assert f"{args.output}/export/assets/vocab.txt" in listed, listed
    assert gsutil("cat", f"{args.output}/export/saved_model.pb") == "graph"
    gsutil("rsync", "-r", f"{args.output}/export", f"{args.output}/synced")
    gsutil("-q", "mv", f"{args.output}/synced/saved_model.pb", f"{args.output}/moved.pb")
    gsutil("-m", "cp", f"{args.output}/export/**", ".")
    with open("vocab.txt") as file:
        assert file.read() == "a\nb\n"
    assert "Content-Length:         5" in gsutil("stat", f"{args.output}/moved.pb")
    gsutil("-m", "rm", "-r", f"{args.output}/synced")
    assert subprocess.call(["gsutil", "-q", "stat", f"{args.output}/synced/x"]) == 1
    assert subprocess.call(["gsutil", "cp", f"{args.data}/absent", "."]) == 1


if __name__ == "__main__":
    main()
