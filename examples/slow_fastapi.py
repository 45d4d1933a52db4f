"""A FastAPI app with a slow endpoint, and one line that turns its requests into jobs.

    pip install coatcheck fastapi
    uvicorn slow_fastapi:app

    curl -i -H 'Authorization: Bearer anna' -d '{"pages": 3}' -H 'Content-Type: application/json' \
        http://127.0.0.1:8000/render
    HTTP/1.1 202 Accepted
    location: /v1/jobs/01...

GET that URL for the job, and .../result for the endpoint's response. If the server restarts in the
middle, the result still arrives.
"""

import asyncio
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from coatcheck import Coatcheck


class Order(BaseModel):
    pages: int
    seconds_a_page: float = 20


app = FastAPI()


def user(found: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    if found.credentials not in {"anna", "bob"}:
        raise HTTPException(401, "who are you?")
    return found.credentials


@app.post("/render")
async def render(order: Order, who: Annotated[str, Depends(user)]) -> dict[str, object]:
    for _ in range(order.pages):
        await asyncio.sleep(order.seconds_a_page)
    return {"for": who, "pages": order.pages}


app = Coatcheck(app, routes=["POST /render"], authorize="fastapi-dependencies")
