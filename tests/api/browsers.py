"""A browser without a window, and servers that sign it in."""

import httpx

from api.support import WAIT_S_MAX
from databases import new_database
from trainshed.app.application import build
from trainshed.config import Settings
from trainshed.testing.fake_engine import FakeEngine

#: A name and an origin that the server's settings allow.
HOST, WALL = "train.example", "https://wall.example"
NATIVE = "/trainshed/v1"
SIGN_IN = f"{NATIVE}/signin"
FROM_PAGE = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
DOWNLOAD = f"{NATIVE}/projects/demo/jobs?pageSize=1"


def make_server(folder, **fields):
    """A server's application with the fake engine; the limits are those of its settings."""
    new_database(folder)
    settings = Settings(data_dir=folder, **{"failed_sign_ins_a_minute": 0, **fields})
    return build(settings, engine=FakeEngine([]))


class Browser:
    """A browser that keeps cookies, and whose page sends the header of its sign-in."""

    def __init__(self, port, **headers):
        self.origin = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(
            base_url=self.origin,
            headers=headers,
            timeout=WAIT_S_MAX,
            trust_env=False,
            verify=False,  # noqa: S501 - it speaks HTTP; to read all certificates takes 20 ms
        )
        self.csrf = None

    def sign_in(self, **credential):
        answer = self.http.post(
            SIGN_IN, json=credential, headers={**FROM_PAGE, "Origin": self.origin}
        )
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    def call(self, verb, path, **options):
        headers = {**FROM_PAGE, "X-Trainshed-Csrf": self.csrf or "", **options.pop("headers", {})}
        return self.http.request(verb, f"{NATIVE}{path}", headers=headers, **options)

    @property
    def cookie(self):
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies.jar)


def error_of(answer):
    error = answer.json()["error"]
    assert error["message"].strip()
    return answer.status_code, error["status"]
