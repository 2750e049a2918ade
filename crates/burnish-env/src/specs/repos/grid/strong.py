def preconditions(cell, rows, columns):
    row, column = cell
    assert 0 <= row < rows and 0 <= column < columns


def postconditions(cell, rows, columns, output):
    row, column = cell
    for r, c in output:
        assert 0 <= r < rows and 0 <= c < columns
        assert abs(r - row) + abs(c - column) == 1
    wanted = (row > 0) + (row < rows - 1) + (column > 0) + (column < columns - 1)
    assert len(output) == wanted == len({(r, c) for r, c in output})


def install(hooks):
    hooks.wrap("cells", "neighbours", preconditions, postconditions)
