<?php
namespace Acme\Util;

class Tools {
    public static function cut() {}
}
