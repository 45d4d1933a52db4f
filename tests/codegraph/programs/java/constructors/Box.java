package box;

class Base {
    Base(int size) { check(size); }
    void check(int size) {}
}

class Box extends Base {
    Box() { this(1); }
    Box(int size) { super(size); }
    static Box make() { return new Box(); }
}

class Use {
    void go() { Box.make().check(2); }
}
