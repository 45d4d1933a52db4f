package shapes;

interface Shape {
    double area();
    default double twice() { return area(); }
}

class Circle implements Shape {
    public double area() { return 1; }
}

class Use {
    void known() {
        Shape shape = new Circle();
        shape.area();
        shape.twice();
    }

    void declared(Shape shape) { shape.area(); }
}
