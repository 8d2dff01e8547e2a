"""How many bytes a row of each table takes, its share of every index included, in an SQLite database of the relay.

    python tests/bench/row_bytes.py FILE

``payload``: what cells hold; ``pages``: what the file spends. In small tables the second says more about half-empty
pages than about rows; `relay.simulate.outcome.BYTES_A_ROW` takes the first, a quarter more for pages that are not full.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys

from relay.store.schema import metadata


def main() -> int:
    parser = argparse.ArgumentParser(description="Bytes a row of each table, with its share of every index.")
    parser.add_argument("file", help="an SQLite database of the relay")
    args = parser.parse_args()
    with sqlite3.connect(f"file:{args.file}?mode=ro", uri=True) as db:
        print(f"{'table':20} {'rows':>9} {'payload a row':>14} {'pages a row':>12}")
        there = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        for name in sorted(there.intersection(metadata.tables)):
            rows = db.execute(f'select count(*) from "{name}"').fetchone()[0]
            if rows:
                parts = "select name from sqlite_master where tbl_name = ?"
                payload, pages = db.execute(
                    f"select sum(payload), sum(pgsize) from dbstat where name in ({parts})", (name,)
                ).fetchone()
                print(f"{name:20} {rows:9,} {payload / rows:14,.0f} {pages / rows:12,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
