from cells import neighbours
from walk import distance


def test_inside():
    assert sorted(neighbours([1, 1], 3, 3)) == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_corner_at_the_end():
    assert sorted(neighbours([2, 2], 3, 3)) == [[1, 2], [2, 1]]


def test_corner_at_the_start():
    assert sorted(neighbours([0, 0], 3, 3)) == [[0, 1], [1, 0]]


def test_no_way_around_outside():
    assert distance([0, 0], [0, 2], [[0, 1]], 1, 3) is None
