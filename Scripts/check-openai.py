"""Talks to a server through the official `openai` package, unchanged.

The server has the default configuration and the stand-in as its upstream. Prints a line for each
thing that holds, and fails with the first that does not.
"""

import json
import sys
import urllib.request

import openai

ADDRESS = sys.argv[1]


def send(path, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data, headers)
    return json.load(urllib.request.urlopen(request, timeout=30))


def guest(number):
    device = {"deviceId": f"a-device-of-the-check-{number}", "deviceSecret": "A" * 43}
    token = send("/v1/accounts/guest", device)["session"]["accessToken"]
    client = openai.OpenAI(base_url=ADDRESS + "/v1", api_key=token, max_retries=0)
    return client, lambda: send("/v1/balance", token=token)


def check(name, holds, what=None):
    if not holds:
        sys.exit(f"Failed: {name}. Got {what!r}.")
    print(f"ok: {name}")


def price(usage):
    """The price of the function `ask`, rounded up, at least 1."""
    written = getattr(usage, "completion_tokens", 0)
    return max(1, -(-(usage.prompt_tokens * 2_000 + written * 8_000) // 1_000_000))


client, balance = guest(1)
question = [{"role": "user", "content": "Is it late?"}]

models = [model.id for model in client.models.list()]
check("the models are listed", models == ["ask", "stand-in"], models)

before = balance()["available"]
answer = client.chat.completions.create(model="ask", messages=question)
text = answer.choices[0].message.content
check("a completion has a text", bool(text), answer)
after = balance()
check("it is charged by its usage", before - after["available"] == price(answer.usage), after)
check("the hold was released", after["held"] == 0, after)

chunks = list(client.chat.completions.create(model="ask", messages=question, stream=True))
streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
check("a streamed completion has the same text", streamed == text, streamed)
check("no chunk reports the usage unless requested", all(not chunk.usage for chunk in chunks))

before = balance()["available"]
chunks = list(
    client.chat.completions.create(
        model="stand-in",
        messages=question,
        stream=True,
        stream_options={"include_usage": True},
    )
)
check("the last chunk reports the usage", chunks[-1].usage and not chunks[-1].choices, chunks[-1])
spent = before - balance()["available"]
check("a stream is charged by its usage", spent == price(chunks[-1].usage), spent)

tools = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
    }
]
asked = [{"role": "user", "content": "Call weather for Rome, please."}]
answer = client.chat.completions.create(model="ask", messages=asked, tools=tools)
calls = answer.choices[0].message.tool_calls
check("tools are passed through", calls and calls[0].function.name == "weather", answer)
chunks = list(client.chat.completions.create(model="ask", messages=asked, tools=tools, stream=True))
named = [
    call.function.name
    for chunk in chunks
    for choice in chunk.choices
    for call in choice.delta.tool_calls or []
    if call.function and call.function.name
]
check("tools are passed through in a stream", named == ["weather"], named)

vectors = client.embeddings.create(model="stand-in", input=["a", "b"]).data
check("embeddings are made", len(vectors) == 2 and vectors[0].embedding, vectors)

key = {"Idempotency-Key": "the-same"}
before = balance()["available"]
first = client.chat.completions.create(model="ask", messages=question, extra_headers=key)
again = client.chat.completions.create(model="ask", messages=question, extra_headers=key)
check("a repetition gets the same answer", first == again, again)
check("a repetition is charged once", before - balance()["available"] == price(first.usage))


def refusal(**changes):
    request = {"model": "ask", "messages": question} | changes
    try:
        client.chat.completions.create(**request)
    except openai.APIStatusError as error:
        return error
    sys.exit(f"Failed: {changes} was not refused.")


error = refusal(model="another")
check("an unknown model is not found", isinstance(error, openai.NotFoundError), error)
check("with OpenAI's code", error.code == "model_not_found", error)
error = refusal(messages=[])
check("no messages are invalid", error.code == "invalid_content", error)
error = refusal(max_tokens=1_000_000)
check("an answer that is too long is refused", error.code == "invalid_content", error)
error = refusal(n=2)
check("two answers at once are refused", error.code == "invalid_content", error)

stranger = openai.OpenAI(base_url=ADDRESS + "/v1", api_key="nobody", max_retries=0)
try:
    stranger.models.list()
    sys.exit("Failed: a request without a valid token was not refused.")
except openai.AuthenticationError as error:
    check("a request without a valid token is refused", error.code == "unauthenticated", error)

poor, poor_balance = guest(2)
while poor_balance()["available"] > 0:
    try:
        poor.chat.completions.create(model="ask", messages=question)
    except openai.APIStatusError as error:
        check("a call that the balance does not cover is refused", error.status_code == 402, error)
        check("with the code", error.code == "insufficient_tokens", error)
        break
