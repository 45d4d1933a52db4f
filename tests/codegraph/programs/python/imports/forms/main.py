import tools
import tools as t
from tools import cut
from tools import saw as s

tools.cut()
t.saw()
cut()
s()
