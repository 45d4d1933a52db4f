<?php
namespace Acme;

class Base {
    public function shared() {}
}
