package com.acme;

import com.acme.util.Tools;

public class Main {
    public static void main(String[] args) {
        Tools.cut();
        Helper.help();
        System.out.println("x");
    }
}
