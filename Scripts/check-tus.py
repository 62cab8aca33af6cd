"""Uploads to a server through the client `tuspy`, unchanged.

The first run begins an upload that the second one continues, after a restart of the server. Prints
a line for each thing that holds, and fails with the first that does not.
"""

import io
import json
import struct
import sys
import urllib.request

from tusclient import client
from tusclient.exceptions import TusCommunicationError, TusUploadFailed

ADDRESS, PART, STATE = sys.argv[1:]


def send(path, body=None, token=None, method=None, raw=False):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data, headers, method=method)
    answer = urllib.request.urlopen(request, timeout=30).read()
    return answer if raw else json.loads(answer)


def check(name, holds, what=None):
    if not holds:
        sys.exit(f"Failed: {name}. Got {what!r}.")
    print(f"ok: {name}")


def box(kind, content):
    return struct.pack(">I4s", 8 + len(content), kind) + content


def film(size, seed):
    """A video without tracks."""
    data = bytes((index * seed) % 251 for index in range(size))
    start = box(b"ftyp", b"isom\0\0\0\0isommp42")
    return start + box(b"moov", box(b"mvhd", bytes(100))) + box(b"mdat", data)


device = {"deviceId": "a-device-of-the-check-of-tus", "deviceSecret": "A" * 43}
token = send("/v1/accounts/guest", device)["session"]["accessToken"]
tus = client.TusClient(ADDRESS + "/v1/uploads", {"Authorization": f"Bearer {token}"})
long_file = film(5_000_000, 7)


def stores(uploader, file):
    """Whether the server has the film, disregarding its descriptions."""
    state = send(uploader.url.removeprefix(ADDRESS), token=token)
    stored = send(f"/v1/blobs/{state['file']['id']}", token=token, raw=True)
    return len(stored) == len(file) and stored[-2_000_000:] == file[-2_000_000:]


if PART == "begin":
    small = film(3_000_000, 3)
    whole = tus.uploader(file_stream=io.BytesIO(small), metadata={"filename": "film.mp4"})
    whole.upload()
    check("a file in one request is stored", stores(whole, small))

    parts = tus.uploader(
        file_stream=io.BytesIO(film(3_000_000, 5)), chunk_size=700_001, upload_checksum=True
    )
    parts.upload()
    check("a file in parts with checksums is stored", stores(parts, film(3_000_000, 5)))

    refused = tus.uploader(file_stream=io.BytesIO(b"text" * 1_000))
    try:
        refused.upload()
        check("a text is refused", False)
    except TusUploadFailed as error:
        check("a text is refused", error.status_code == 415, error.status_code)

    nobody = client.TusClient(ADDRESS + "/v1/uploads").uploader(file_stream=io.BytesIO(small))
    try:
        nobody.upload()
        check("an upload needs a token", False)
    except TusCommunicationError as error:
        check("an upload needs a token", error.status_code == 401, error.status_code)

    cut = tus.uploader(file_stream=io.BytesIO(long_file), chunk_size=1_500_000)
    cut.upload(stop_at=3_000_000)
    with open(STATE, "w") as state:
        json.dump({"path": cut.url.removeprefix(ADDRESS)}, state)
else:
    with open(STATE) as state:
        url = ADDRESS + json.load(state)["path"]
    rest = tus.uploader(file_stream=io.BytesIO(long_file), url=url)
    check("a restart keeps the bytes", rest.offset == 3_000_000, rest.offset)
    rest.upload()
    check("the upload continues after the restart", stores(rest, long_file))
