"""When somebody is busy, from the hours of meetings."""

from spans import merge


def hours(meetings):
    return sum(last - first + 1 for first, last in merge(meetings))
