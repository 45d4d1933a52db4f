def deep():
    pass


def other():
    pass


grid = [[other], [other, deep]]
grid[1][1]()
copied = list(grid)
copied[1][1]()
