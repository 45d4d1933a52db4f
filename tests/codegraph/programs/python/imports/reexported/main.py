import kitchen
from kitchen import boil, oven

kitchen.boil()
boil()
oven.heat()
kitchen.Pan().fry()
