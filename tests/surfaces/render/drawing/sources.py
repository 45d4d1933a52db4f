"""Diagrams of every kind, and the labels that must be visible in them."""

from __future__ import annotations

from pathlib import Path

from coatcheck.surfaces.render.drawing import Format

FOLDER = Path(__file__).parent / "sources"

LABELS: dict[str, tuple[str, ...]] = {
    "architecture.mmd": ("Public service", "Database", "Storage", "Server", "Gateway"),
    "block.mmd": ("Front end", "Back end", "Cache", "Disk"),
    "c4.mmd": ("Online banking", "Bank customer", "Has one or more accounts", "Mainframe", "Uses"),
    "class.mmd": ("«abstract»", "Account", "+String accountHolder", "specialises", "many"),
    "er.mmd": ("CUSTOMER", "customerNumber", "assigned once", "LINE_ITEM", "ships to"),
    "flowchart.mmd": ("Order received", "In stock?", "Wait for supplier", "Warehouse", "yes"),
    "gantt.mmd": ("Moving house", "Sort the cellar", "Rent a van", "Hand over the keys"),
    "gitgraph.mmd": ("main", "feature", "first draft", "fix it", "v1.0"),
    "journey.mmd": ("A visit to the opera", "Arriving", "Look for the ticket", "Clerk"),
    "kanban.mmd": ("To do", "Paint the fence", "In progress", "carpenter", "12"),
    "mindmap.mmd": ("Garden", "Runner beans", "Wheelbarrow", "Watering can"),
    "packet.mmd": ("UDP header", "Source port", "Data (variable length)", "31"),
    "pie.mmd": ("Where the time goes", "Waiting for input [42.5]", "38%"),
    "quadrant.mmd": ("Reach and engagement", "High reach", "Re-evaluate", "Conference talk"),
    "radar.mmd": ("Skills", "Reading", "Arithmetic", "Autumn"),
    "requirement.mmd": (
        "durable_jobs",
        "Text: A job that was accepted is never lost",
        "Risk: High",
    ),
    "sankey.mmd": ("Solar 40", "Households 45"),
    "sequence.mmd": ("Customer", "Coat desk", "Hands in a coat", "loop", "[not yet]"),
    "state.mmd": ("Queued", "Running", "handler raised", "Kept for seven"),
    "timeline.mmd": ("A short history of queues", "Paper", "1993", "Pneumatic tubes"),
    "treemap.mmd": ("Kitchen", "Cupboards", "Novels", "Shelves"),
    "xychart.mmd": ("Tickets a month", "Jan", "Tickets", "120"),
    "conversation.d2": (
        "Guest",
        "Coat desk",
        "Here is my coat",
        "The ticket is all that is needed",
    ),
    "network.d2": ("Web client", "API gateway", "Job queue", "submits"),
    "prose.d2": ("A heading", "second item", "return"),
    "table.d2": ("users", "email_address", "timestamp", "FK"),
}


def read(name: str) -> str:
    return (FOLDER / name).read_text()


def format_of(name: str) -> Format:
    return Format.D2 if name.endswith(".d2") else Format.MERMAID
