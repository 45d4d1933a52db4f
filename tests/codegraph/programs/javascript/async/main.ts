class Client {
  async fetch(): Promise<Client> {
    return this;
  }
  close() {}
}

async function run() {
  const c = await new Client().fetch();
  c.close();
}

run().then(() => finish());

function finish() {}
