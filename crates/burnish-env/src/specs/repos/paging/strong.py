def preconditions(length, size):
    assert length >= 0 and size >= 1


def postconditions(length, size, output):
    assert output * size >= length
    assert (output - 1) * size < length


def install(hooks):
    hooks.wrap("pages", "count", preconditions, postconditions)
