"""Long lists, page by page."""


def count(length, size):
    """How many pages of size items a list of some length has; an empty list has none."""
    return length // size
