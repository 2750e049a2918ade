"""Cells of a grid, as [row, column]."""


def neighbours(cell, rows, columns):
    """The cells of the grid above, below, left and right of a cell of it."""
    row, column = cell
    around = [[row - 1, column], [row + 1, column], [row, column - 1], [row, column + 1]]
    return [[r, c] for r, c in around if 0 <= r < rows and 0 <= c < columns]
