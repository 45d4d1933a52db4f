"""A Django app with a slow view, and one line that turns its requests into jobs.

    pip install coatcheck django uvicorn
    python slow_django.py migrate
    python slow_django.py createsuperuser
    uvicorn slow_django:app

The view requires a signed-in user (`login_required`). `signed_in` checks the same before a job is
submitted: an anonymous request gets 401, never 202.
"""

import asyncio
import json
import sys

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from coatcheck import Coatcheck
from coatcheck.middleware.django_user import signed_in

settings.configure(
    SECRET_KEY="an example: make your own",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}},
)
django.setup()

from django.contrib.auth.decorators import login_required  # noqa: E402 - needs django.setup()


@csrf_exempt
@login_required
async def render(request: HttpRequest) -> JsonResponse:
    order = json.loads(request.body)
    for _ in range(order["pages"]):
        await asyncio.sleep(order.get("seconds_a_page", 20))
    user = await request.auser()
    return JsonResponse({"for": user.username, "pages": order["pages"]})


urlpatterns = [path("render", render)]
app = Coatcheck(get_asgi_application(), routes=["POST /render"], authorize=signed_in)

if __name__ == "__main__":
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
