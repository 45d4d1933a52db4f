from colours import *

red()
mix()
