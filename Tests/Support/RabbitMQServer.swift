/// A private RabbitMQ server on a free loopback port, with its own node name, epmd, Erlang cookie and data folder, so
/// several run side by side, and beside the system's.
import Glibc
import Synchronization

package final class RabbitMQServer: Sendable {
  /// The server for tests that need no private one: started at first use (takes seconds), ended with this process.
  /// Queues of different tests must differ: use a prefix of your own.
  private static let sharedResult = Result { () throws(TestFailure) in
    // Another process may take a port between the check and the start. Then the server starts on other ports.
    do { return try RabbitMQServer() } catch { return try RabbitMQServer() }
  }

  package static func shared() throws(TestFailure) -> RabbitMQServer {
    try sharedResult.get()
  }

  package let port: UInt16
  /// `amqp://guest:guest@127.0.0.1:<port>/`
  package let url: String
  /// The node's name for `rabbitmqctl`.
  package let nodeName: String
  private let programs: String
  private let folder: TemporaryFolder
  private let environment: [String]
  private let portMapper: ChildProcess
  private let process: Mutex<ChildProcess?>

  /// Starts it, and returns once it accepts connections. `configuration`: further lines of rabbitmq.conf.
  package init(configuration: [String] = [], plugins: [String] = []) throws(TestFailure) {
    programs = try Self.findPrograms()
    port = try LoopbackPort.free()
    let distributionPort = try LoopbackPort.free()
    let portMapperPort = try LoopbackPort.free()
    url = "amqp://guest:guest@127.0.0.1:\(port)/"
    folder = try TemporaryFolder("rabbitmq")
    nodeName = "herald-\(getpid())-\(port)@localhost"

    for name in ["home", "data", "log", "generated", "plugins"] { try folder.makeFolder(name) }
    try folder.write("HERALD\(UInt64.random(in: 0 ... .max))", to: "home/.erlang.cookie", permissions: 0o400)
    try folder.write("[\(plugins.joined(separator: ","))].\n", to: "enabled_plugins")
    try folder.write("", to: "environment.conf")
    let lines = [
      "listeners.tcp.1 = 127.0.0.1:\(port)", "disk_free_limit.absolute = 50MB",
      // The write-ahead log of quorum queues keeps this much in memory; the default of 512 MB is for large machines.
      "raft.wal_max_size_bytes = 33554432", "log.console = true", "log.console.level = warning", "log.file = false",
    ]
    try folder.write((lines + configuration).joined(separator: "\n") + "\n", to: "rabbitmq.conf")

    let inherited = ChildProcess.inheritedEnvironment(without: ["RABBITMQ_", "ERL_", "HOME=", "NOTIFY_SOCKET="])
    environment =
      inherited + [
        "HOME=\(folder.path("home"))", "ERL_EPMD_PORT=\(portMapperPort)", "ERL_EPMD_ADDRESS=127.0.0.1",
        "RABBITMQ_NODENAME=\(nodeName)", "RABBITMQ_DIST_PORT=\(distributionPort)",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONF_ENV_FILE=\(folder.path("environment.conf"))",
        "RABBITMQ_CONFIG_FILE=\(folder.path("rabbitmq.conf"))",
        "RABBITMQ_ADVANCED_CONFIG_FILE=\(folder.path("advanced.config"))",
        "RABBITMQ_MNESIA_BASE=\(folder.path("data"))", "RABBITMQ_LOG_BASE=\(folder.path("log"))", "RABBITMQ_LOGS=-",
        "RABBITMQ_ENABLED_PLUGINS_FILE=\(folder.path("enabled_plugins"))",
        "RABBITMQ_GENERATED_CONFIG_DIR=\(folder.path("generated"))",
        "RABBITMQ_PLUGINS_EXPAND_DIR=\(folder.path("plugins"))", "RABBITMQ_PID_FILE=\(folder.path("rabbitmq.pid"))",
      ]

    // We start epmd in the foreground: the daemon that Erlang starts would outlive the tests.
    guard let mapper = ChildProcess.find("epmd") else {
      throw TestFailure("epmd (Erlang) is not installed; run `make setup`")
    }
    portMapper = try ChildProcess(
      [mapper, "-port", String(portMapperPort), "-address", "127.0.0.1"], environment: environment,
      output: folder.path("epmd.log"), errors: folder.path("epmd.log"))
    guard
      ChildProcess.poll(timeoutMilliseconds: 10_000, { LoopbackPort.isOpen(portMapperPort) ? true : nil }) != nil
    else {
      throw TestFailure("epmd on port \(portMapperPort) did not start: \(folder.read("epmd.log"))")
    }
    process = Mutex(nil)
    try start()
  }

  deinit {
    process.withLock { $0 }?.kill()
    portMapper.kill()
  }

  /// The server's process; 0 while it is stopped.
  package var pid: Int32 { process.withLock { $0?.pid ?? 0 } }

  /// The server's log.
  package var log: String { folder.read("server.log") }

  /// Starts it again on the same port, with its data, after `stop` or `kill`.
  package func start() throws(TestFailure) {
    let child = try ChildProcess(
      [programs + "/rabbitmq-server"], environment: environment, output: folder.path("server.log"),
      errors: folder.path("server.log"))
    process.withLock { $0 = child }
    let port = self.port
    let greeting: [UInt8] = Array("AMQP".utf8) + [0, 0, 9, 1]
    let isReady = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) { () -> Bool? in
      if !child.isRunning { return false }
      // The first frame is connection.start, on channel 0: the listener opens when everything else runs.
      return LoopbackPort.ask(port, greeting)?.first == 1 ? true : nil
    }
    guard isReady == true else {
      child.kill()
      throw TestFailure("RabbitMQ on port \(port) did not start; its log: \(log.suffix(4_000))")
    }
  }

  /// Shuts it down; its data stays for `start`.
  package func stop() { take()?.stop(timeoutMilliseconds: 30_000) }

  /// Kills it, like a crash.
  package func kill() { take()?.kill() }

  /// Suspends it: connections stay open, nothing is answered.
  package func pause() { process.withLock { $0 }?.pause() }
  package func resume() { process.withLock { $0 }?.resume() }

  /// Runs `rabbitmqctl` (about a second) and returns what it printed.
  @discardableResult
  package func rabbitmqctl(_ arguments: [String]) throws(TestFailure) -> String {
    let result = try ChildProcess.run(
      [programs + "/rabbitmqctl", "--quiet"] + arguments, environment: environment, timeoutMilliseconds: 60_000)
    guard result.status == 0 else {
      throw TestFailure("rabbitmqctl \(arguments.joined(separator: " ")) failed: \(result.output)\(result.errors)")
    }
    return result.output
  }

  private func take() -> ChildProcess? {
    process.withLock { process in
      defer { process = nil }
      return process
    }
  }

  /// The folder of the server's own scripts. Debian's commands in the search path change the user, so the scripts
  /// behind them come first.
  private static func findPrograms() throws(TestFailure) -> String {
    let program = ChildProcess.find(
      "rabbitmq-server",
      candidates: [
        "/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server",
        "/usr/local/opt/rabbitmq/sbin/rabbitmq-server",
      ])
    guard let program else { throw TestFailure("rabbitmq-server is not installed; run `make setup`") }
    return String(program.dropLast("/rabbitmq-server".count))
  }
}
