import PushCore
package import PushIO

/// A Redis Cluster of scripted nodes on a test's loop: each owns a part of the slots, and answers MOVED for the others.
package final class ScriptedRedisCluster {
  package let nodes: [ScriptedRedisNode]
  /// Indexes of nodes that do not answer CLUSTER SLOTS or any later command.
  package var withoutTable: Set<Int> = []
  /// Nodes that answer nothing.
  package var silent: Set<Int> = []
  /// No key is served.
  package var isDown = false

  package init(loop: EventLoop, count: Int = 3) throws {
    nodes = try (0..<count).map { _ in try ScriptedRedisNode(loop: loop) }
    for index in nodes.indices {
      nodes[index].answer = { [unowned self] command in answer(command, of: index) }
    }
  }

  /// `redis-cluster://` with all nodes.
  package var url: String { "redis-cluster://" + nodes.map { "127.0.0.1:\($0.port)" }.joined(separator: ",") }

  package func owner(of slot: Int) -> Int { slot * nodes.count / RedisSlot.count }

  /// Answers waiting commands that have an answer now.
  package func release() { for node in nodes { node.release() } }

  package func close() { for node in nodes { node.close() } }

  private func answer(_ command: [String], of index: Int) -> String? {
    if silent.contains(index) { return nil }
    switch command.first {
    case "CLUSTER": return withoutTable.contains(index) ? nil : table
    case "EVALSHA" where ScriptedRedisNode.isProbe(command): return answer(to: command[3], of: index, "+OK\r\n")
    case "EVALSHA", "EVAL": return answer(to: command[3], of: index, "*1\r\n:0\r\n")
    case "APPEND": return answer(to: command[1], of: index, ":1000\r\n")
    default: return ScriptedRedisNode.greeted(command)
    }
  }

  private func answer(to key: String, of index: Int, _ text: String) -> String {
    if isDown { return "-CLUSTERDOWN The cluster is down\r\n" }
    let slot = RedisSlot.of(key.utf8.span)
    let owner = owner(of: slot)
    return owner == index ? text : "-MOVED \(slot) 127.0.0.1:\(nodes[owner].port)\r\n"
  }

  private var table: String {
    var text = "*\(nodes.count)\r\n"
    for index in nodes.indices {
      let slots = (0..<RedisSlot.count).filter { owner(of: $0) == index }
      text += "*3\r\n:\(slots[0])\r\n:\(slots[slots.count - 1])\r\n"
      text += "*2\r\n$9\r\n127.0.0.1\r\n:\(nodes[index].port)\r\n"
    }
    return text
  }
}
