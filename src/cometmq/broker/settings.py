"""What an operator can set on a broker, under the original's names."""

from dataclasses import dataclass, replace

from cometmq.runtime import BadSetting, is_loopback, is_own, is_wildcard, numeric, own_address


@dataclass(frozen=True)
class BrokerSettings:
    """Identity, addresses, and what is made by itself."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    broker_ip1: str | None = None
    bind_address: str | None = None
    listen_port: int = 10911
    namesrv_addr: str = ""
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    flush_consumer_offset_interval: int = 5_000
    channel_expired_timeout: int = 120_000
    server_channel_max_idle_time_seconds: int = 120
    admin_allowed_addresses: tuple[str, ...] = ()
    # Ours: the original has these limits as constants, or not at all.
    frame_max_length: int = 16 << 20
    max_connections: int = 10_000
    max_waiting_requests: int = 100_000
    max_bytes_in_flight: int = 256 << 20

    @property
    def bound(self) -> str:
        """The address that is listened on."""
        return self.bind_address or self.broker_ip1 or "127.0.0.1"

    @property
    def registered(self) -> str:
        """The address that clients are told."""
        return self.broker_ip1 or own_address(self.bound)

    def checked(self) -> "BrokerSettings":
        """With addresses for names; BadSetting where clients could not reach what they are told."""
        told = self.broker_ip1 and numeric("brokerIP1", self.broker_ip1)
        bound = self.bind_address and numeric("bindAddress", self.bind_address)
        known = replace(self, broker_ip1=told, bind_address=bound)
        if not told:
            return known
        if not bound and not is_own(told):
            raise BadSetting(
                f"brokerIP1={self.broker_ip1} is no address of this machine: set bindAddress to "
                "the address to listen on, and brokerIP1 stays what clients are told"
            )
        same_family = (":" in told) == (":" in known.bound)
        covered = (is_wildcard(known.bound) and same_family) or known.bound == told
        if not covered and (is_own(told) or is_loopback(known.bound)):
            raise BadSetting(
                f"brokerIP1={self.broker_ip1} is told to clients, but only {self.bound} is "
                "listened on: set bindAddress to the same address, or to 0.0.0.0"
            )
        return known
