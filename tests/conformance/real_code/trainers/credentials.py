"""google.auth and the metadata server: who this machine says that the job is."""

import os
import urllib.request

import google.auth
import google.auth.transport.requests
import requests

from trainers.flags import parsed, split


def metadata(path):
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/{path}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.headers["Metadata-Flavor"] == "Google"
        return answer.read().decode()


def main():
    args = parsed()
    credentials, project = google.auth.default(
        scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    assert project == metadata("project/project-id") == os.environ["GOOGLE_CLOUD_PROJECT"]
    assert metadata("project/numeric-project-id").isdecimal()
    assert "/zones/" in metadata("instance/zone")
    credentials.refresh(google.auth.transport.requests.Request())
    assert credentials.token
    assert "@" in metadata("instance/service-accounts/default/email")

    bucket, name = split(f"{args.data}/iris.csv")
    session = google.auth.transport.requests.AuthorizedSession(credentials)
    by_name = session.get(f"https://storage.googleapis.com/{bucket}/{name}", timeout=10)
    assert by_name.text.startswith("sepal_length"), by_name.text
    listed = session.get(
        f"https://storage.googleapis.com/storage/v1/b/{bucket}/o", timeout=10
    ).json()
    assert name in [item["name"] for item in listed["items"]]
    about = requests.get(
        "https://oauth2.googleapis.com/tokeninfo",
        params={"access_token": credentials.token},
        timeout=10,
    ).json()
    assert int(about["expires_in"]) <= 3600


if __name__ == "__main__":
    main()
