"""Writers of an SQLite file take turns: in order, those who answer somebody first, and nobody waits for the dead."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from sqlalchemy import text

from relay.store.db import open_engine, reading

HOLD = """
import sys, time
from relay.store.db import open_engine
with open_engine(sys.argv[1]).begin():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'relay.sqlite3'}"
    with open_engine(url).begin() as conn:
        conn.execute(text("create table served (id integer primary key, who text)"))
    return url


def write(engine, who):
    with engine.begin() as conn:
        conn.execute(text("insert into served (who) values (:who)"), {"who": who})


def opened(url, **how):
    """An engine whose connection is made, so that a thread that uses it starts with its turn."""
    engine = open_engine(url, **how)
    with reading(engine):
        return engine


def served(url):
    with reading(open_engine(url)) as conn:
        return conn.execute(text("select who from served order by id")).scalars().all()


def test_who_answers_somebody_waits_for_one_other_at_most(url):
    holder, web = opened(url), opened(url, answering=True)
    workers = [opened(url) for _ in range(6)]
    threads = []
    with holder.begin():
        for n in range(6):
            threads.append(threading.Thread(target=write, args=(workers[n], f"worker {n}")))
            threads[-1].start()
        time.sleep(1.0)  # they all wait now: one at the lock, the rest at the gate
        threads.append(threading.Thread(target=write, args=(web, "web")))
        threads[-1].start()
        time.sleep(1.0)
    for thread in threads:
        thread.join()
    order = served(url)
    assert sorted(order) == ["web", *(f"worker {n}" for n in range(6))]
    assert order.index("web") <= 1


def test_a_killed_writer_s_turn_is_over(url):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    waiting = threading.Thread(target=write, args=(opened(url), "next"))
    waiting.start()
    time.sleep(0.2)
    assert served(url) == []
    holder.kill()
    holder.communicate()
    waiting.join(20)
    assert served(url) == ["next"]


def test_a_transaction_that_fails_gives_its_turn_back(url):
    engine = open_engine(url)
    with pytest.raises(ZeroDivisionError), engine.begin():
        _ = 1 / 0
    write(opened(url), "next")
    assert served(url) == ["next"]


def test_a_write_inside_a_write_is_refused_instead_of_waiting_for_itself(url):
    outer, inner = open_engine(url), open_engine(url)
    with outer.begin(), pytest.raises(RuntimeError, match="inside another of the same thread"), inner.begin():
        pass
    write(opened(url), "next")
    assert served(url) == ["next"]


def test_reading_waits_for_nobody(url):
    write(opened(url), "first")
    with open_engine(url).begin():
        assert served(url) == ["first"]
