package b;

public class Maths {
    public static int square(int x) { return x; }
}
