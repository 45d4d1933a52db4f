export class Db {
  query() {}
}
