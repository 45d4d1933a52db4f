package nest;

class Outer {
    private Inner inner = new Inner();

    void run() { inner.go(); }
    void helper() {}

    class Inner {
        void go() { helper(); }
    }

    static class Builder {
        Builder size(int n) { return this; }
        Outer build() { return new Outer(); }
    }
}

class Use {
    void use() { new Outer.Builder().size(3).build().run(); }
}
