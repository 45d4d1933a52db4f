exports.first = function () {
  exports.second();
};
module.exports.second = () => third();

function third() {}
