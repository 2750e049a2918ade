from prices import PRICES


def preconditions(items, percent):
    assert isinstance(items, list) and 0 <= percent <= 100
    assert all(name in PRICES and count >= 0 for name, count in items)


def postconditions(items, percent, output):
    full = 0
    for name, count in items:
        full += PRICES[name] * count
    assert isinstance(output, int)
    assert output * 100 <= full * (100 - percent) < (output + 1) * 100


def install(hooks):
    hooks.wrap("cart", "total", preconditions, postconditions)
