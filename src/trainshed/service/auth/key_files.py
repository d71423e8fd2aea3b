"""Makes key files of service accounts in Google's form, and reads the public key of others.

Imports nothing of the store, because a command makes a key while its server starts.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

Json = dict[str, Any]

#: Shorter RSA keys can be broken.
BITS_MIN: Final = 2048
#: A domain that Google does not use and that cannot be registered (RFC 6761).
_DOMAIN: Final = "trainshed.invalid"


def make(account: str, project: str, token_uri: str) -> Json:
    """Make a key file with a new private key.

    ``account`` is NAME@PLACE.  Google does not know the key and refuses what it signs.
    """
    key = generate_private_key(public_exponent=65_537, key_size=BITS_MIN)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return {
        "type": "service_account",
        "project_id": project,
        "private_key_id": secrets.token_hex(20),
        "private_key": pem,
        "client_email": f"{account}.{_DOMAIN}",
        "token_uri": token_uri,
    }


def from_key_file(content: Any) -> Json:
    """Return the fields of a service account's key file to register, without its private key.

    Raises ValueError for any other document.
    """
    if not isinstance(content, Mapping) or content.get("type") != "service_account":
        raise ValueError('it is not a key file of a service account ("type": "service_account")')
    try:
        private = load_pem_private_key(str(content["private_key"]).encode(), password=None)
        email = content["client_email"]
    except KeyError as error:
        raise ValueError(f"it has no {error}") from None
    except (ValueError, TypeError):
        raise ValueError("its private_key cannot be read") from None
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    key = {"email": email, "publicKey": pem.decode()}
    key_id = content.get("private_key_id")
    return {**key, "keyId": key_id} if key_id else key
