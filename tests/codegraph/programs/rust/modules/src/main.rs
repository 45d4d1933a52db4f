mod util;
use crate::util::helper;
use std::fs;

struct Server;

impl Server {
    fn new() -> Self { Server }
    fn run(&self) { self.step(); helper(); util::other(); fs::read("x"); }
    fn step(&self) {}
}

fn main() { let s = Server::new(); local(); }
fn local() {}
