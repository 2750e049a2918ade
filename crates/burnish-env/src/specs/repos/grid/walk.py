"""How far cells are from each other."""

from cells import neighbours


def distance(start, goal, walls, rows, columns):
    """Fewest steps from start to goal past walls; None if there is no way."""
    seen, frontier, steps = [start], [start], 0
    while frontier:
        if goal in frontier:
            return steps
        found = []
        for cell in frontier:
            for other in neighbours(cell, rows, columns):
                if other not in seen and other not in walls:
                    seen.append(other)
                    found.append(other)
        frontier, steps = found, steps + 1
    return None
