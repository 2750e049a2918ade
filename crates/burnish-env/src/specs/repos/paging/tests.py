from pages import count
from reader import everything, page


def test_full_pages():
    assert count(6, 3) == 2 and everything([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]


def test_nothing_has_no_page():
    assert count(0, 5) == 0


def test_the_last_page_may_be_short():
    assert count(7, 3) == 3


def test_nothing_is_lost():
    assert everything([1, 2, 3], 2) == [[1, 2], [3]]


def test_no_page_after_the_last():
    try:
        page([1, 2], 1, 2)
    except IndexError:
        return
    raise AssertionError("a page too many")
