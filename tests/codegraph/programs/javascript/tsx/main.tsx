import { Card } from './card';

export function App() {
  const close = () => done();
  return (
    <Card onClose={close}>
      <Local />
      <div>{title()}</div>
    </Card>
  );
}

const Local = () => <span />;
function title() {}
function done() {}
