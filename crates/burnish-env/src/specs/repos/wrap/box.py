"""A frame around a text."""

from lines import wrap


def box(text, width):
    lines = wrap(text.split(), width)
    edge = "+" + "-" * width + "+"
    return "\n".join([edge] + ["|%s|" % line.ljust(width) for line in lines] + [edge])
