from box import box
from lines import wrap


def test_one_line():
    assert wrap(["a", "bc"], 9) == ["a bc"]


def test_nothing():
    assert wrap([], 5) == []


def test_the_space_counts():
    assert wrap(["abc", "def"], 6) == ["abc", "def"]


def test_box_is_straight():
    assert len({len(line) for line in box("ab cd ef", 4).split("\n")}) == 1
