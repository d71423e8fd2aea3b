"""The names of Google's hosts that this service answers for.

``trainshed run`` redirects them to a server, so its clients send Google's names in the Host header.
Only Google controls the DNS records of these names, so no other web page can use them.
"""

import re
from typing import Final

_SUFFIX: Final = r"\.googleapis\.com"
#: A region precedes the name (``us-central1-aiplatform``) or follows it (``.REGION.rep``).
_REGIONAL: Final = r"(?:[a-z0-9-]+-)?(?:aiplatform|ml)(?:\.[a-z0-9-]+\.rep)?"
#: The virtual host of a bucket begins with the bucket's name.
_STORAGE: Final = r"(?:[a-z0-9._-]+\.)?storage"
#: SDKs call ``iamcredentials`` and ``cloudresourcemanager``, which the server refuses at once.
_OTHERS: Final = "www|oauth2|logging|iamcredentials|cloudresourcemanager"
_SERVED: Final = re.compile(f"(?:{_REGIONAL}|{_STORAGE}|{_OTHERS}){_SUFFIX}")


def is_served_google_name(host: str) -> bool:
    """Return whether a server answers for a lower-case host name of Google's."""
    return _SERVED.fullmatch(host) is not None
