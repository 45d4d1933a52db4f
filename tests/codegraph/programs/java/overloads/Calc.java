package calc;

class Calc {
    int add(int a) { return add(a, 1); }
    int add(int a, int b) { return add(a, b, 0); }
    int add(int a, int... rest) { return 0; }
    void one() {}
    void one(String name) { one(); }

    static void use(Calc calc) {
        calc.one("x");
    }
}
