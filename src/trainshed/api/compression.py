"""Whether a client accepts compressed answers."""


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client accepts gzip, by its header ``Accept-Encoding``."""
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip() in {"gzip", "*"}:
            weight = parameters.partition("q=")[2].strip()
            return not weight or weight.strip("0.") != ""
    return False
