"""The extension is built already: all that setuptools must know is that the wheel is for one interpreter and machine."""

from setuptools import setup
from setuptools.dist import Distribution


class Built(Distribution):
    def has_ext_modules(self):
        return True


setup(distclass=Built)
