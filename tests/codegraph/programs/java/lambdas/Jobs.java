package jobs;

import java.util.function.Supplier;

class Jobs {
    void run() {
        Runnable task = () -> work();
        task.run();
        each(this::work);
        Jobs made = make(() -> new Jobs());
    }

    void each(Runnable action) { action.run(); }
    Jobs make(Supplier<Jobs> supplier) { return supplier.get(); }
    void work() {}
}
