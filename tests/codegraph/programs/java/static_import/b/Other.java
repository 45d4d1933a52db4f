package b;

public class Other {
    public void run() {}
}
