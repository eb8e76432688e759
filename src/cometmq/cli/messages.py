"""`cometmq send` and `cometmq receive`: one message from the shell, and messages to the shell."""

import argparse

from cometmq.client import Consumer, Producer
from cometmq.message import Message

GROUP = "cometmq-receive"


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the commands' words."""
    one = commands.add_parser("send", help="send a message")
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("text", metavar="TEXT")
    one.set_defaults(work=send)
    other = commands.add_parser("receive", help="show the messages of a topic, and wait for more")
    other.add_argument("topic", metavar="TOPIC")
    other.add_argument("--count", type=int, metavar="N", help="end after N messages")
    other.set_defaults(work=receive)
    for parser in (one, other):
        parser.add_argument(
            "-n",
            "--namesrv",
            default="127.0.0.1:9876",
            metavar="HOST:PORT",
            help="name server (default: 127.0.0.1:9876)",
        )


async def send(given: argparse.Namespace) -> int:
    """Sends one message and says where it is."""
    async with Producer(given.namesrv, group="cometmq-send") as producer:
        receipt = await producer.send(Message(given.topic, given.text.encode()))
    print(f"{receipt.message_id} {receipt.broker}/{receipt.queue_id}@{receipt.queue_offset}")
    return 0


async def receive(given: argparse.Namespace) -> int:
    """Prints messages, one a line, from the first one the group has not seen."""
    left = given.count
    wanted = {given.topic: "*"}
    async with Consumer(given.namesrv, group=GROUP, subscribe=wanted, start="earliest") as consumer:
        while left is None or left > 0:
            message = await anext(consumer)
            print(message.body.decode("utf-8", "replace"), flush=True)
            await message.ack()
            left = left and left - 1
    return 0
