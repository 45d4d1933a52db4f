package flow;

class Broken extends RuntimeException {
    Broken(String why) { super(why); }
    void report() {}
}

enum Level {
    LOW, HIGH;
    void show() {}
}

class Flow {
    void run() {
        try {
            throw new Broken("x");
        } catch (Broken problem) {
            problem.report();
        }
        Level.HIGH.show();
        for (Level level : Level.values()) {
            level.show();
        }
    }
}
