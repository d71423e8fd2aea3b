"""BigQuery is not there: it fails at once, with a sentence, and never reads nothing."""

import time

from google.cloud import bigquery

from trainers.flags import parsed


def main():
    parsed()
    started = time.monotonic()
    try:
        rows = list(bigquery.Client().query("SELECT 1").result(timeout=20))
        raise AssertionError(f"answered: {rows}")
    except Exception as error:
        seconds = time.monotonic() - started
        assert seconds < 5, seconds
        print("refused:", str(error)[:300])


if __name__ == "__main__":
    main()
