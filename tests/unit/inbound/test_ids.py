"""Ids of rows are sorted by their making."""

from relay.store.ids import new_id


def test_ids_of_one_millisecond_are_in_order_and_differ():
    ids = [new_id(1_790_000_000.0) for _ in range(5000)]
    assert ids == sorted(set(ids))


def test_a_later_time_is_a_later_id_and_an_earlier_time_an_earlier_one():
    middle, later, earlier = new_id(2_000.0), new_id(2_000.001), new_id(1_999.999)
    assert earlier < middle < later
    assert {len(key) for key in (earlier, middle, later)} == {32}
