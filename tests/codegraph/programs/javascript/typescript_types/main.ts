import { Db } from './db';

class Service {
  private log: Logger = new Logger();
  constructor(private readonly db: Db, private cache?: Cache) {}
  load(): void {
    this.db.query();
    this.log.write();
    this.cache!.get();
  }
}

class Logger {
  write() {}
}

class Cache {
  get() {}
}

function handle(service: Service, all: Service[]) {
  service.load();
  (service as Service).load();
  for (const one of all) one.load();
}
