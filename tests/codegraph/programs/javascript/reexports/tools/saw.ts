export class Saw {
  use(): void {}
}
