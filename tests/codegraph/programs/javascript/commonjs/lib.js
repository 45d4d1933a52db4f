function two() {}
class Three {
  constructor() {}
}
module.exports = { two, Three };
