"""python py2.py URL auto|legacy|2026-07-28: mcp 2.3, either era; two agents' whole life."""

import asyncio
import base64
import json
import sys
import time

from mcp import Client

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
EVENTS_MAX = 20


class Agent:
    def __init__(self, client):
        self.client = client
        self.next_wait = 0.0

    async def ok(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result.content)
        self.content = result.content
        return result.structured_content

    async def refused(self, tool, **arguments):
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, (tool, result.structured_content)
        return json.loads(result.content[0].text)["error"]

    def enter(self, joined):
        self.id = joined["participant"]["id"]
        self.handle = joined["participantHandle"]
        self.cursor = joined["cursor"]

    async def do(self, tool, **arguments):
        return await self.ok(tool, participantHandle=self.handle, **arguments)

    async def wait(self):
        """One wait, not earlier than the server has asked for."""
        await asyncio.sleep(max(0.0, self.next_wait - time.monotonic()))
        answer = await self.do("wait_for_events", cursor=self.cursor, timeoutSeconds=0)
        self.next_wait = time.monotonic() + answer["retryAfterMs"] / 1000
        self.cursor = answer["cursor"]
        return answer["events"]

    async def next(self):
        """The next event; there must be exactly one."""
        for _ in range(EVENTS_MAX):
            events = await self.wait()
            if events:
                assert len(events) == 1, events
                return events[0]
        raise AssertionError("no event came")


async def play(ana, bo):
    tools = (await ana.client.list_tools()).tools
    assert len(tools) == 20, len(tools)
    assert all(tool.output_schema for tool in tools)

    created = await ana.ok("create_room", name="Ana")
    ana.enter(created)
    room = created["invite"]["roomId"]
    bo.enter(await bo.ok("join_room", roomId=room, name="Bo", capabilities=["text.review"]))

    await ana.do("send_text", text="hello Bo", targetParticipantIds=[bo.id])
    event = await bo.next()
    assert (event["text"], event["addressed"]) == ("hello Bo", True), event
    await bo.do("send_text", text="hello Ana")
    event = await ana.next()
    assert (event["text"], event["addressed"]) == ("hello Ana", False), event

    task = {"requestId": "plan-0001"}
    await ana.do("send_collab_request", targetParticipantId=bo.id, summary="Draft", **task)
    event = await bo.next()
    assert (event["collab"]["kind"], event["scopeId"]) == ("request", "task:plan-0001"), event
    await bo.do("send_collab_response", decision="accepted", **task)
    assert (await ana.next())["collab"]["kind"] == "accepted"
    done = await bo.do("send_collab_result", status="completed", summary="Drafted", **task)
    assert (await ana.next())["collab"]["kind"] == "completed"
    again = await bo.do("send_collab_result", status="completed", summary="Drafted", **task)
    assert (again["sequence"], again["duplicate"]) == (done["sequence"], True), again

    table = "name,votes\nälter,3\n"
    data = base64.b64encode(table.encode()).decode()
    await ana.do("send_attachment", fileName="table.csv", mimeType="text/csv", dataBase64=data)
    attachment = (await bo.next())["attachment"]["id"]
    assert (await bo.do("read_attachment", attachmentId=attachment))["text"] == table
    await bo.do("send_attachment", fileName="dot.png", mimeType="image/png", dataBase64=PNG)
    attachment = (await ana.next())["attachment"]["id"]
    await ana.do("read_attachment", attachmentId=attachment)
    image = next(block for block in ana.content if block.type == "image")
    assert (image.mime_type, image.data) == ("image/png", PNG)

    assert await ana.wait() == []
    context = await bo.do("read_room_context", limit=50)
    assert [event["sequence"] for event in context["events"]] == [1, 2, 3, 4, 5, 6, 7], context

    assert (await bo.do("leave_room"))["ok"] is True
    assert await bo.refused("leave_room", participantHandle=bo.handle) == "already_left"
    late = await bo.refused("send_text", participantHandle=bo.handle, text="too late")
    assert late == "invalid_participant_handle", late
    info = await ana.ok("room_info", roomId=room)
    assert [p["name"] for p in info["participants"]] == ["Ana"], info
    assert (await ana.do("leave_room"))["ok"] is True


async def main(url, mode="auto"):
    async with Client(url, mode=mode) as first, Client(url, mode=mode) as second:
        await play(Agent(first), Agent(second))
        print(f"whole scenario, protocol {first.session.protocol_version}")


asyncio.run(main(*sys.argv[1:3]))
