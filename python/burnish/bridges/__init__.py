"""Environments of other packages, for burnish's environment `command`."""
