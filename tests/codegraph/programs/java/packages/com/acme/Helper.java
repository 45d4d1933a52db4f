package com.acme;

class Helper {
    static void help() {}
}
