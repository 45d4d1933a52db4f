package com.acme.util;

public class Tools {
    public static void cut() { saw(); }
    private static void saw() {}
}
