"""`cometmq up`: a whole node, which proves that it works and says how to use it."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cometmq.broker import BrokerSettings
from cometmq.kernel import NAME as KERNEL
from cometmq.nameserver import NameServerSettings
from cometmq.net import Address
from cometmq.node import Node, NodeSettings
from cometmq.runtime import BadSetting, settings
from cometmq.store import LocalDisk, StoreError, StoreRefused, StoreSettings
from cometmq.store.files import write_file

SMALL_LOG = 64 << 20
"""Log files of a node that was started without a configuration: 1 GiB each is much for a laptop."""

REGISTERED_S = 5.0
"""Clients of a node that has started must find it."""

DATA = "storePathRootDir"
LOG = "storePathCommitLog"
KNOWN = {DATA, LOG, *settings.keys(BrokerSettings, StoreSettings)}


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command's words."""
    parser = commands.add_parser("up", help="run a node: name server, broker and store")
    parser.add_argument("--data", metavar="DIR", help="where to store (default: ./cometmq-data)")
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT",
        help="where our name server listens (default: 127.0.0.1:9876)",
    )
    parser.add_argument(
        "--broker", metavar="HOST:PORT", help="where our broker listens (default: 127.0.0.1:10911)"
    )
    parser.add_argument("-c", dest="file", metavar="FILE", help="a broker's key=value file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one key; may be repeated"
    )
    parser.set_defaults(work=up)


async def up(given: argparse.Namespace) -> int:
    """Starts, proves, says so, and runs until it is told to stop."""
    logging.basicConfig(
        level=os.environ.get("COMETMQ_LOG", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    plan = Plan(given)
    if plan.idle is not None:
        print(plan.idle, file=sys.stderr)
    try:
        disk = LocalDisk(plan.data)
        async with Node(plan.node, disk=disk) as node:
            if plan.own_sizes:
                write_file(disk, "broker.conf", plan.properties(node))
            if node.name_server is not None:  # one of our own is there, and has us in a moment
                await node.broker.registered(REGISTERED_S)
            await node.prove()
            # What lives now lives on; the collector need not walk over it again (design).
            gc.collect()
            gc.freeze()
            _say(node, plan)
            await stop.wait()
    except (StoreError, StoreRefused) as error:
        raise BadSetting(f"the data directory {plan.data} cannot be used: {error}") from error
    return 0


class Plan:
    """What was asked for, from the file and the words of the command."""

    def __init__(self, given: argparse.Namespace) -> None:
        values = _read_file(given.file) if given.file else {}
        for pair in given.set:
            key, equals, value = pair.partition("=")
            if not equals:
                raise BadSetting(f"--set {pair}: expected KEY=VALUE")
            values[key.strip()] = value.strip()
        self.own_sizes = not given.file
        if self.own_sizes:
            values.setdefault("mappedFileSizeCommitLog", str(SMALL_LOG))
        self.data = self._data(given, values)
        self.idle = settings.without_effect(values, KNOWN)
        broker = settings.read(BrokerSettings, values)
        store = settings.read(StoreSettings, values)
        if given.broker:
            where = _address("--broker", given.broker)
            broker = replace(broker, bind_address=where.host, listen_port=where.port)
        name_server = None
        if given.namesrv or not broker.namesrv_addr:
            where = _address("--namesrv", given.namesrv or "127.0.0.1:9876")
            allowed = broker.admin_allowed_addresses
            name_server = NameServerSettings(
                where.host, where.port, admin_allowed_addresses=allowed
            )
        self.node = NodeSettings(name_server, broker, store)

    def _data(self, given: argparse.Namespace, values: Mapping[str, str]) -> Path:
        named = given.data or values.get(DATA, None if given.file else "cometmq-data")
        if named is None:
            raise BadSetting(
                f"{given.file} sets no {DATA}: set it there, or give --data DIR; there is no "
                "default beside a file, so that nothing is stored where nobody looks for it"
            )
        root, log = Path(named), values.get(LOG)
        if log and Path(log).absolute() != (root / "commitlog").absolute():
            raise BadSetting(
                f"{LOG}={log}: the log lies in {root / 'commitlog'}; another place is not built yet"
            )
        return root.absolute()

    def properties(self, node: Node) -> bytes:
        """What an original has to be told to open this store."""
        broker, store = node.broker.settings, self.node.store
        pairs = {
            "brokerClusterName": broker.broker_cluster_name,
            "brokerName": broker.broker_name,
            "brokerId": str(broker.broker_id),
            "brokerIP1": broker.registered,
            "listenPort": str(node.broker.address.port),
            "namesrvAddr": node.namesrv,
            DATA: str(self.data),
            LOG: str(self.data / "commitlog"),
            "mappedFileSizeCommitLog": str(store.mapped_file_size_commit_log),
            "mappedFileSizeConsumeQueue": str(store.mapped_file_size_consume_queue),
            "flushDiskType": store.flush_disk_type.name,
        }
        return "".join(f"{key}={value}\n" for key, value in pairs.items()).encode()


def _read_file(name: str) -> dict[str, str]:
    try:
        return settings.parse_properties(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadSetting(f"-c {name}: the file cannot be read: {why}") from error


def _address(option: str, text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise BadSetting(f"{option} {text}: {error}") from None


def _say(node: Node, plan: Plan) -> None:
    broker, namesrv = node.broker.settings, node.namesrv
    told = Address(broker.registered, node.broker.address.port)
    flush = plan.node.store.flush_disk_type.name
    print(
        f"ready: name server {namesrv}, broker {broker.broker_name} at {told}, data in "
        f"{plan.data}, {flush}, kernel {KERNEL}; one message was sent and received\n"
        f"  cometmq send -n {namesrv} orders 'hello'\n"
        f"  cometmq receive -n {namesrv} orders\n"
        f'  Python: async with Producer("{namesrv}", group="shop") as producer: ...\n'
        f'  Java:   producer.setNamesrvAddr("{namesrv}")\n'
        "  Ctrl-C stops it; what was acknowledged stays.",
        flush=True,
    )
