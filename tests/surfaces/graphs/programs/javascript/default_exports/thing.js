export default class {
  go() {}
}
