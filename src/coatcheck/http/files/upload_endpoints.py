"""The part of the table of calls that takes files in before their job."""

from __future__ import annotations

from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    Endpoint,
    EndpointBody,
    EndpointResponse,
    KindRule,
    Parameter,
    as_json,
    ref,
)
from coatcheck.http.files import uploads
from coatcheck.http.json_schema import TEXT

_UPLOAD = as_json(ref("Upload"))
_BYTES = {"type": "string", "format": "binary"}

UPLOADS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/v1/uploads",
        uploads.upload,
        "upload",
        "Upload a file that a job will need",
        "uploads",
        {
            200: EndpointResponse(
                "The same file under the same key before.", _UPLOAD, ("Location",)
            ),
            201: EndpointResponse("It is durable, and waits for its job.", _UPLOAD, ("Location",)),
        },
        error_statuses=(408, 409, 413, 415, 422, 429),
        parameters=(
            IDEMPOTENCY_KEY,
            Parameter("name", "The file's name; a form tells its own.", TEXT),
        ),
        body=EndpointBody(
            "The file as it is, of any type, or a form with nothing but the file in it.",
            {
                ANY: _BYTES,
                uploads.FORM: {
                    "type": "object",
                    "properties": {"file": _BYTES},
                    "required": ["file"],
                    "additionalProperties": False,
                },
            },
            required=False,
        ),
        description=(
            'Submit the job with `{"upload": "<id>"}` where its kind takes a file. The first job '
            "that names it takes it over; it is removed if none does before `expires_at`."
        ),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "GET",
        "/v1/uploads/{upload_id}",
        uploads.get_upload,
        "getUpload",
        "Look at a file that no job has taken over",
        "uploads",
        {200: EndpointResponse("What is known of it.", _UPLOAD)},
        error_statuses=(404,),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "DELETE",
        "/v1/uploads/{upload_id}",
        uploads.delete_upload,
        "deleteUpload",
        "Give a file up that no job has taken over",
        "uploads",
        {204: EndpointResponse("It is gone.", {})},
        error_statuses=(404,),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "POST",
        "/v1/signed-uploads",
        uploads.sign_upload,
        "signUpload",
        "Get an address of the blob store to write a file to",
        "uploads",
        {
            201: EndpointResponse(
                "PUT the bytes there, then complete it.", as_json(ref("SignedUpload"))
            )
        },
        error_statuses=(408, 409, 413, 415, 422, 429),
        body=EndpointBody("What will be written.", as_json(ref("SignedRequest"))),
        kind=KindRule.DECLARED,
    ),
    Endpoint(
        "POST",
        "/v1/uploads/{upload_id}/complete",
        uploads.complete_upload,
        "completeUpload",
        "Say that a file was written to its signed address",
        "uploads",
        {200: EndpointResponse("It was read and hashed, and waits for its job.", _UPLOAD)},
        error_statuses=(404, 409, 422),
        description=(
            "409 while nothing was written there. Where it is of another size or SHA-256 than was "
            "said it is removed (422), and can be written again."
        ),
        kind=KindRule.DECLARED,
    ),
)
