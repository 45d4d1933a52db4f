from land.city.street import walk
import land.city.street as street

walk()
street.turn()
