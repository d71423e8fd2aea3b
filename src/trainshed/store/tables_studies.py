"""The tables of studies: their trials, and what these have reported.

A trial refers to its study and not to its job: the job may be forgotten before the study is.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from trainshed.store.tables import METADATA, NUMBER

TRIALS: Final = Table(
    "trials",
    METADATA,
    Column("uid", NUMBER, ForeignKey("jobs.uid"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("job_uid", BigInteger, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("final", Text),
    Column("reason", Text),
    Column("stopped_early", Integer, nullable=False),
    Column("start_ns", BigInteger),
    Column("end_ns", BigInteger),
    Column("mark_attempt", Integer, nullable=False),  # up to where reports are stored
    Column("mark", BigInteger, nullable=False),
    Index("trials_by_job", "job_uid", unique=True),
)

#: A row for what one step brought of one trial.  Its reports are one JSON text: a column of floats
#: keeps NaN in one database and not in the other, and rows of single values are slow to read.
REPORTS: Final = Table(
    "reports",
    METADATA,
    Column("seq", NUMBER, primary_key=True),
    Column("uid", BigInteger, ForeignKey("jobs.uid"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Index("reports_of_study", "uid", "number", "seq"),
)
