export function Card({ onClose }: { onClose: () => void }) {
  onClose();
  return <div />;
}
