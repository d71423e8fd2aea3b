"""Service accounts with keys of their own, for tests of access."""

import json
from functools import cache

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

EMAIL = "ci@demo.iam.gserviceaccount.com"
CLOUD = "https://www.googleapis.com/auth/cloud-platform"


@cache
def make_key(kid, bits):  # noqa: ARG001 - each id has a key of its own
    """Return the key of an id: making one takes longer than most tests."""
    return rsa.generate_private_key(public_exponent=65_537, key_size=bits)


class Account:
    """A service account as its owner has it: the private key never leaves."""

    def __init__(self, email=EMAIL, kid="kid-1", bits=2048):
        self.email = email
        self.kid = kid
        self.key = make_key(kid, bits)

    @property
    def public_pem(self):
        public = self.key.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def private_pem(self):
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def key_file(self, uri="http://127.0.0.1:1/token"):
        return {
            "type": "service_account",
            "project_id": "demo",
            "private_key_id": self.kid,
            "private_key": self.private_pem,
            "client_email": self.email,
            "token_uri": uri,
        }

    def registration(self, **more):
        return {"email": self.email, "publicKey": self.public_pem, "keyId": self.kid, **more}

    def sign(self, now, *, without=(), **claims):
        body = {
            "iss": self.email,
            "sub": self.email,
            "iat": now,
            "exp": now + 3600,
            "scope": CLOUD,
            **claims,
        }
        body = {name: value for name, value in body.items() if name not in without}
        headers = {"kid": self.kid, "typ": "JWT"}
        return jwt.api_jws.encode(json.dumps(body).encode(), self.key, "RS256", headers)


def write_key_file(path, account, **more):
    path.write_text(json.dumps(account.key_file(**more)))
    return path
