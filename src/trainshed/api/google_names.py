"""The names of Google's hosts that this service stands for.

``trainshed run`` leads them to a server, whose clients then name Google in the Host header.  Only
Google can say where these names lead, so that no page of a stranger is reached by them.
"""

import re
from typing import Final

_SUFFIX: Final = r"\.googleapis\.com"
#: A region stands before the name (``us-central1-aiplatform``) or behind it (``REGION.rep``).
_REGIONAL: Final = r"(?:[a-z0-9-]+-)?(?:aiplatform|ml)(?:\.[a-z0-9-]+\.rep)?"
#: Virtual hosts of buckets have the bucket in front.
_STORAGE: Final = r"(?:[a-z0-9._-]+\.)?storage"
#: ``iamcredentials`` and ``cloudresourcemanager`` are asked by SDKs, and refused at once.
_OTHERS: Final = "www|oauth2|logging|iamcredentials|cloudresourcemanager"
_SERVED: Final = re.compile(f"(?:{_REGIONAL}|{_STORAGE}|{_OTHERS}){_SUFFIX}")


def is_served_google_name(host: str) -> bool:
    """Whether a lower-case host name is one of Google's that a Trainshed server answers for."""
    return _SERVED.fullmatch(host) is not None
