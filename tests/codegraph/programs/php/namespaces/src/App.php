<?php
namespace Acme;

use Acme\Util\Tools;
use Vendor\Thing;

class App extends Base {
    public function __construct() { $this->start(); }
    public function start() { self::make(); Tools::cut(); helper(); Thing::go(); parent::shared(); }
    public static function make() { return new App(); }
}

function helper() {}
