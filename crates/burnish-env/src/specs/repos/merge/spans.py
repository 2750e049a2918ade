"""Spans of whole numbers, as [first, last]."""


def merge(spans):
    """The spans that cover the same numbers, in ascending order, none touching another."""
    merged = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged
