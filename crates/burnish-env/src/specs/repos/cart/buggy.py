"""What a cart costs."""

from prices import price


def total(items, percent):
    """The cost in cents of items, a list of [name, count], with percent (0 to 100) off, rounded down."""
    full = sum(price(name) for name, count in items)
    return full * (100 - percent) // 100


def receipt(items, percent=0):
    lines = ["%d %s" % (count, name) for name, count in items]
    return "\n".join(lines + ["total %d" % total(items, percent)])
