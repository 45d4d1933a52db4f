from . import oven
from .pot import boil
from .pans.flat import Pan
