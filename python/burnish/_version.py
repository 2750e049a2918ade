from importlib import metadata

try:
    __version__ = metadata.version("burnish")
except metadata.PackageNotFoundError:  # used from a source tree
    __version__ = "0+source"
