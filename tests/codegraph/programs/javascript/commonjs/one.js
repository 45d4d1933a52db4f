module.exports = function one() {
  exports.never;
};
