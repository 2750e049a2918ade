from busy import hours
from spans import merge


def test_apart():
    assert merge([[5, 6], [1, 2]]) == [[1, 2], [5, 6]]


def test_touching():
    assert merge([[1, 2], [3, 4]]) == [[1, 4]]


def test_one_inside_another():
    assert merge([[1, 9], [2, 3]]) == [[1, 9]]


def test_hours_of_a_long_meeting():
    assert hours([[9, 17], [10, 11], [12, 12]]) == 9
