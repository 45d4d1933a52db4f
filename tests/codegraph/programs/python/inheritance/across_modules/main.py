from shapes import Square

Square(2).area()
