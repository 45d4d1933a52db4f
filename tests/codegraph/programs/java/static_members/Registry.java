package reg;

class Registry {
    static final Registry INSTANCE = new Registry();
    static int count() { return INSTANCE.size(); }
    int size() { return 0; }
}

class Client {
    int ask() { return Registry.INSTANCE.size() + Registry.count(); }
}
