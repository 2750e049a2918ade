"""Reads a list page by page."""

from pages import count


def page(items, number, size):
    if not 0 <= number < count(len(items), size):
        raise IndexError("there is no page %d" % number)
    return items[number * size:(number + 1) * size]


def everything(items, size):
    return [page(items, number, size) for number in range(count(len(items), size))]
