package pick;

class Pick {
    void go() { none(); }
    void go(int a) { one(); }
    void go(int a, int b) { two(); }
    void none() {}
    void one() {}
    void two() {}
}

class User {
    void use(Pick pick) { pick.go(1); }
}
