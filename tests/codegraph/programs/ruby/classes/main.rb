require_relative 'shape'

def setup
  build(1)
end

def build(x)
end

class Circle < Shape
  def initialize(r)
    check(r)
  end

  def draw
    self.outline
    area(1)
    Shape.register
  end

  def check(r)
  end
end

setup()
Circle.new(1)
