"""gcloud storage: what replaced gsutil in newer samples."""

import os
import subprocess

from trainers.flags import parsed


def gcloud(*words):
    command = ["gcloud", "storage", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    args = parsed()
    gcloud("cp", f"{args.data}/iris.csv", "iris.csv")
    assert os.path.getsize("iris.csv") > 1000
    os.makedirs("export/assets")
    for name in ("saved_model.pb", "assets/vocab.txt"):
        with open(f"export/{name}", "w") as file:
            file.write(name)
    gcloud("cp", "--recursive", "export", f"{args.output}/")
    assert gcloud("cat", f"{args.output}/export/assets/vocab.txt") == "assets/vocab.txt"
    listed = gcloud("ls", "--recursive", f"{args.output}/export").split()
    assert f"{args.output}/export/saved_model.pb" in listed, listed
    gcloud("mv", f"{args.output}/export/saved_model.pb", f"{args.output}/moved.pb")
    gcloud("rsync", "--recursive", f"{args.output}/export", "synced")
    assert os.listdir("synced/assets") == ["vocab.txt"]
    gcloud("rm", "--recursive", f"{args.output}/export/**")
    absent = subprocess.run(["gcloud", "storage", "cat", f"{args.data}/absent"], check=False)
    assert absent.returncode == 1


if __name__ == "__main__":
    main()
