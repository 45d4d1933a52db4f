package app;

public class App {
    private final Db db;
    private Cache cache = new Cache();

    public App(Db db) { this.db = db; }

    void run(Logger logger) {
        db.query();
        cache.get();
        logger.write();
        this.db.close();
    }
}

class Db {
    void query() {}
    void close() {}
}

class Cache {
    void get() {}
}

class Logger {
    void write() {}
}
