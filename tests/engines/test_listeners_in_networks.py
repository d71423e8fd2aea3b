"""The gateway's sockets in an attempt's network: made there, kept there, handed to a server."""

import select
import threading
from contextlib import contextmanager, suppress

import pytest

from engines.attempts import KEY, OTHER, ended, engine_at, order, texts
from engines.networks import MODES, launch_in_network
from engines.support import FOREVER, wait_until
from trainshed.model.launch_plan import Owner
from trainshed.model.network import NetworkLayout

#: Addresses of the loopback in a job; ports below 1024 need no right there.
LISTENERS = (("127.0.0.1", 39017), ("127.0.0.2", 443), ("127.0.0.2", 80))
#: Tries to take the addresses, then greets the gateway at each and prints what it answers.
GREETS = """
import errno, socket
for place in {listeners}:
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            thief.bind(place)
            thief.listen()
            print("taken", place)
        except OSError as error:
            assert error.errno == errno.EADDRINUSE, error
    with socket.create_connection(place, timeout=60) as gateway:
        gateway.sendall({word!r}.encode())
        print(gateway.recv(99).decode())
"""
WAIT_S_MAX = 60
PAUSE_S = 0.05


def greets(word):
    return GREETS.format(listeners=LISTENERS, word=word)


def await_listeners(engine, key=KEY):
    """What an attempt hands over, once it does."""
    for _ in range(int(WAIT_S_MAX / PAUSE_S)):
        listeners = engine.ask_listeners(key)
        if listeners is not None:
            return listeners
        threading.Event().wait(PAUSE_S)
    raise AssertionError


@contextmanager
def answering(listeners, name):
    """A server that answers what it hears with its name."""
    is_over = threading.Event()

    def answer():
        while not is_over.is_set():
            for listener in select.select(listeners.sockets, [], [], PAUSE_S)[0]:
                with suppress(BlockingIOError):
                    client, _ = listener.accept()
                    with client:
                        client.setblocking(True)
                        client.sendall(f"{name} hears ".encode() + client.recv(99))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(WAIT_S_MAX)
        for sock in (*listeners.sockets, listeners.lifeline):
            sock.close()


@pytest.mark.parametrize("layout", NetworkLayout)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_answers_each_job_where_it_looks_for_the_gateway(mode, layout, root, mark):
    projects = {KEY: "alpha", OTHER: "beta"}
    engines = {}
    for number, (key, project) in enumerate(projects.items()):
        engines[key] = launch_in_network(
            root,
            mark,
            *(greets(f"{project} {index}") for index in range(2)),
            mode=mode,
            layout=layout,
            key=key,
            owner=Owner(project=project, number=number),
            listeners=LISTENERS,
        )
    for key, project in projects.items():
        with answering(await_listeners(engines[key], key), project):
            assert ended(engines[key], key).outcome.exit_code == 0, texts(root, key=key)
        for index, name in enumerate(("master-replica-0", "worker-replica-0")):
            assert texts(root, name, key) == [f"{project} hears {project} {index}"] * 3


def test_sockets_that_no_server_has_any_more_are_given_to_the_next_one(root, mark):
    first = launch_in_network(root, mark, greets("job"), listeners=LISTENERS)
    listeners = await_listeners(first)
    for sock in (*listeners.sockets, listeners.lifeline):
        sock.close()  # as when its process is killed; what connects now waits
    with answering(await_listeners(engine_at(root)), "the next"):
        assert ended(first).outcome.exit_code == 0, texts(root)
    assert texts(root) == ["the next hears job"] * 3


@pytest.mark.parametrize("mode", MODES)
def test_neither_a_program_nor_a_child_of_the_server_inherits_the_sockets(mode, root, mark):
    code = "import os; print(*sorted(os.listdir('/proc/self/fd')), flush=True)"
    engine = launch_in_network(
        root,
        mark,
        f"{code}; import time; time.sleep(600)",
        code,
        mode=mode,
        layout=NetworkLayout.REPLICA,
        listeners=LISTENERS,
    )
    listeners = await_listeners(engine)
    assert not any(sock.get_inheritable() for sock in (*listeners.sockets, listeners.lifeline))
    for sock in (*listeners.sockets, listeners.lifeline):
        sock.close()
    for name in ("master-replica-0", "worker-replica-0"):
        wait_until(lambda name=name: texts(root, name), "it has listed what it has open")
        assert texts(root, name)[0].split() == ["0", "1", "2", "3"], "the last is the listing"
    engine.stop(KEY, order(0.0))
    ended(engine)


def test_a_server_learns_that_the_network_of_an_attempt_has_ended(root, mark):
    engine = launch_in_network(root, mark, FOREVER, listeners=LISTENERS)
    listeners = await_listeners(engine)
    assert len(listeners.sockets) == len(LISTENERS)
    engine.stop(KEY, order(0.0))
    listeners.lifeline.settimeout(WAIT_S_MAX)
    assert listeners.lifeline.recv(1) == b""
    for sock in (*listeners.sockets, listeners.lifeline):
        sock.close()
    ended(engine)
    assert engine.ask_listeners(KEY) is None


def test_an_engine_tells_of_attempts_that_begin_with_addresses_of_the_gateway(root, mark):
    heard = []
    engine = launch_in_network(root, mark, "pass")
    engine.on_network(heard.append)
    launch_in_network(root, mark, "pass", listeners=LISTENERS, engine=engine, key=OTHER)
    for key in (KEY, OTHER):
        ended(engine, key)
    assert heard == [OTHER]
