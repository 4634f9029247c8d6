/// A private Redis Cluster: three masters on free loopback ports.
import Synchronization

package final class RedisCluster: Sendable {
  package let masters: [RedisServer]
  private let replicas = Mutex<[RedisServer]>([])

  /// `redis-cluster://` with the first two nodes.
  package var url: String {
    "redis-cluster://127.0.0.1:\(masters[0].port),127.0.0.1:\(masters[1].port)"
  }

  /// Starts it, and returns once every node knows the owner of each slot.
  package init() throws(TestFailure) {
    var servers: [RedisServer] = []
    var addresses: [String] = []
    for _ in 0..<3 {
      let (server, bus) = try RedisCluster.node()
      servers.append(server)
      addresses.append("127.0.0.1:\(server.port)@\(bus)")
    }
    masters = servers
    try RedisCluster.manage(["create"] + addresses)
    try waitUntilAgreed()
  }

  private static func node() throws(TestFailure) -> (server: RedisServer, bus: UInt16) {
    let bus = try LoopbackPort.free()
    let server = try RedisServer(configuration: [
      "cluster-enabled yes", "cluster-port \(bus)", "cluster-node-timeout 1000", "repl-diskless-sync-delay 0",
      "cluster-replica-validity-factor 0",
    ])
    return (server, bus)
  }

  /// Adds a replica of a master, and returns once it follows.
  package func addReplica(of master: RedisServer) throws(TestFailure) {
    let (server, bus) = try RedisCluster.node()
    replicas.withLock { $0.append(server) }
    try server.cli(["CLUSTER", "MEET", "127.0.0.1", String(master.port), String(try busPort(of: master))])
    let id = try master.cli(["CLUSTER", "MYID"]).trimmed
    try poll("the replica knows its master") { (try? server.cli(["CLUSTER", "REPLICATE", id]))?.trimmed == "OK" }
    try poll("the replica follows") {
      (try? server.cli(["INFO", "replication"]))?.contains("master_link_status:up") == true
    }
    // The replica asks only masters that it knows for votes, and learns of no more once its own is gone.
    for other in masters {
      try poll("the replica knows all masters") {
        (try? server.cli(["CLUSTER", "NODES"]))?.contains(":\(other.port)@") == true
      }
    }
    // Masters vote for a replica that they know.
    for other in masters {
      try poll("all know the replica") {
        (try? other.cli(["CLUSTER", "NODES"]))?.split(separator: "\n").contains {
          $0.contains(":\(server.port)@\(bus)") && $0.contains("slave")
        } == true
      }
    }
  }

  /// Starts to move slots, as an operator would.
  package func reshard(_ count: Int, from: RedisServer, to: RedisServer) throws(TestFailure) -> ChildProcess {
    guard let program = ChildProcess.find("redis-cli") else { throw TestFailure("redis-cli is not installed") }
    return try ChildProcess([
      program, "--cluster", "reshard", "127.0.0.1:\(from.port)", "--cluster-from",
      try from.cli(["CLUSTER", "MYID"]).trimmed,
      "--cluster-to", try to.cli(["CLUSTER", "MYID"]).trimmed, "--cluster-slots", String(count), "--cluster-yes",
    ])
  }

  package func stop() {
    for server in masters + replicas.withLock({ $0 }) { server.kill() }
  }

  private func busPort(of server: RedisServer) throws(TestFailure) -> UInt16 {
    // <id> <ip>:<port>@<bus port>,… myself,…
    let line = try server.cli(["CLUSTER", "NODES"]).split(separator: "\n").first { $0.contains("myself") }
    let bus = line?.split(separator: "@").dropFirst().first?.prefix { $0.isNumber }
    guard let bus, let port = UInt16(bus) else { throw TestFailure("no cluster port of \(server.port)") }
    return port
  }

  private func waitUntilAgreed() throws(TestFailure) {
    for server in masters {
      try poll("cluster_state:ok at \(server.port)") {
        (try? server.cli(["CLUSTER", "INFO"]))?.contains("cluster_state:ok") == true
      }
    }
  }

  private func poll(_ what: String, _ condition: () -> Bool) throws(TestFailure) {
    guard
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50, { condition() ? true : nil }) == true
    else { throw TestFailure("after 20 s still not: \(what)") }
  }

  private static func manage(_ arguments: [String]) throws(TestFailure) {
    guard let program = ChildProcess.find("redis-cli") else { throw TestFailure("redis-cli is not installed") }
    let result = try ChildProcess.run([program, "--cluster"] + arguments + ["--cluster-yes"])
    guard result.status == 0 else { throw TestFailure("redis-cli --cluster: \(result.output)\(result.errors)") }
  }
}

extension String {
  fileprivate var trimmed: String { String(trimmingPrefix(while: \.isWhitespace).prefix { !$0.isNewline }) }
}
