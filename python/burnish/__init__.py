"""burnish: post-training of language models with reinforcement learning.

The package stands beside the program `burnish`, which does the work:

- `burnish.verifier`: a reward function in Python judges the answers of a run;
- `burnish.environment`: a class in Python is the environment of a run (not imported here: it stands alone);
- `burnish.Run`: what a run has left behind, its metrics and its episodes.
"""

from . import verifier
from ._version import __version__
from .run import BurnishError, Episode, Run

__all__ = ["BurnishError", "Episode", "Run", "__version__", "verifier"]
