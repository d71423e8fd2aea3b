"""The word in commands for the interpreter of the job's environment.

Wardens need this word alone, not the launch plans that contain it.
"""

from typing import Final

#: The first word of a command that stands for the interpreter of the job's environment.
PYTHON_WORD: Final = "python"
