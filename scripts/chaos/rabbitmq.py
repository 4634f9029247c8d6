"""A private RabbitMQ that can be stopped, killed, paused and alarmed, and comes back on its port with its data."""

import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

import pika

from processes import Failure, free_port, wait_until

_PLACES = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin"]


class RabbitMQ:
    def __init__(self, processes, folder):
        self.processes = processes
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        self.process = None
        self.programs = next((place for place in _PLACES if os.access(f"{place}/rabbitmq-server", os.X_OK)), None)
        mapper = shutil.which("epmd")
        if not self.programs or not mapper:
            raise Failure("rabbitmq-server or epmd is not installed; run make setup")
        self._write_files()
        self.processes.start(
            [mapper, "-port", self.environment["ERL_EPMD_PORT"], "-address", "127.0.0.1"], self.folder / "epmd.log",
            self.environment)
        self.start()

    def _write_files(self):
        for name in ("home", "data", "log", "generated", "plugins"):
            (self.folder / name).mkdir(parents=True)
        cookie = self.folder / "home" / ".erlang.cookie"
        cookie.write_text(f"HERALD{secrets.token_hex(16)}")
        cookie.chmod(0o400)
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "environment.conf").write_text("")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\ndisk_free_limit.absolute = 50MB\n"
            "raft.wal_max_size_bytes = 67108864\nlog.console = true\nlog.console.level = warning\nlog.file = false\n")
        # After a crash, RabbitMQ waits this long before it republishes an expired message whose confirm it lost; the default is 180 s.
        (self.folder / "advanced.config").write_text("[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 10000}]}].\n")
        ours = {name: value for name, value in os.environ.items()
                if not name.startswith(("RABBITMQ_", "ERL_", "HERALD_")) and name != "NOTIFY_SOCKET"}
        self.environment = ours | {
            "HOME": f"{self.folder}/home", "ERL_EPMD_PORT": str(free_port()), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"chaos-{self.port}@localhost", "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/environment.conf",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{self.folder}/advanced.config",
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/data", "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_LOGS": "-", "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/enabled_plugins",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{self.folder}/generated",
            "RABBITMQ_PLUGINS_EXPAND_DIR": f"{self.folder}/plugins", "RABBITMQ_PID_FILE": f"{self.folder}/pid",
        }

    def start(self):
        """Returns the Unix time at which its port opened, once it answers."""
        self.process = self.processes.start(
            [f"{self.programs}/rabbitmq-server"], self.folder / "rabbitmq.log", self.environment)
        wait_until("RabbitMQ's port", 120, self._greets, every=0.02)
        return time.time()

    def _greets(self):
        if self.process.poll() is not None:
            raise Failure(f"RabbitMQ ended; see {self.folder}/rabbitmq.log")
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as probe:
                probe.sendall(b"AMQP\x00\x00\x09\x01")
                # The first frame is connection.start, on channel 0: the listener opens when everything else runs.
                return probe.recv(1) == b"\x01"
        except OSError:
            return False

    def stop(self):
        self.processes.stop(self.process, 60)

    def kill(self):
        self.processes.kill(self.process)

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)

    def control(self, *arguments):
        """rabbitmqctl (a second or two)."""
        result = subprocess.run(
            [f"{self.programs}/rabbitmqctl", "--quiet", *arguments], env=self.environment, capture_output=True,
            text=True, timeout=90, check=False, start_new_session=True)
        if result.returncode != 0:
            raise Failure(f"rabbitmqctl {' '.join(arguments)}: {result.stdout}{result.stderr}")
        return result.stdout

    def parameters(self, heartbeat=20):
        return pika.ConnectionParameters(
            "127.0.0.1", self.port, heartbeat=heartbeat, socket_timeout=5, stack_timeout=10,
            blocked_connection_timeout=None)

    def connect(self):
        return pika.BlockingConnection(self.parameters())

    def lengths(self, queues):
        """Messages that wait in each queue; None if the queue does not exist."""
        found = {}
        connection = self.connect()
        for queue in queues:
            channel = connection.channel()
            try:
                found[queue] = channel.queue_declare(queue, passive=True).method.message_count
                channel.close()
            except pika.exceptions.ChannelClosedByBroker:
                found[queue] = None
        connection.close()
        return found
