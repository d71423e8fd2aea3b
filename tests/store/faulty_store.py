"""What is asked of a store whose database fails."""

from store.builders import LEASE_S, SERVER, new_job, place
from trainshed.store.records.steps import NewEvent


def writes(store, uid):
    """Every kind of write that a server does."""
    return (
        lambda: store.add_job(new_job()),
        lambda: place(store, uid),
        lambda: store.add_event(uid, NewEvent(kind="NOTE", message="")),
        lambda: store.join(SERVER, LEASE_S),
        lambda: store.set_labels(uid, {"a": "b"}, None),
        lambda: store.add_pipeline(new_job(), "{}", ""),
        lambda: store.see_nodes("local", []),
        lambda: store.confirm([1]),
    )


def check_whole(store, uids):
    """Every job is there once with all that belongs to it, and no part of another is."""
    waiting = [job.uid for job in store.waiting(limit=10**6)]
    assert len(waiting) == len(set(waiting))
    assert set(uids) <= set(waiting)
    for uid in waiting:
        assert store.expanded(uid)
        assert [event.kind for event in store.events(uid)] == ["ACCEPTED"]
