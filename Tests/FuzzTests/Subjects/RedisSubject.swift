import PushCore
import PushIO

/// Replies of a server that may be no Redis. The first byte is the size of the pieces in which they arrive (0: all at once).
final class RedisSubject: FuzzSubject {
  private let limits: RedisReader.Limits

  init() {
    var limits = RedisReader.Limits()
    limits.bytesMaximum = 4096
    limits.valuesMaximum = 256
    self.limits = limits
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    guard let first = bytes.first else { return }
    let replies = Array(bytes.dropFirst())
    let whole = try read(replies, pieces: replies.count)
    let pieces = try read(replies, pieces: Int(first))
    try holds(whole.replies == pieces.replies, "replies do not depend on how they arrive")
    try holds(whole.hasFailed == pieces.hasFailed, "nor do errors")
    var cluster = RedisClusterState(seeds: [.network(host: "a", port: 6379)])
    var now = Instant(nanoseconds: 0)
    for reply in whole.replies {
      now = now.adding(milliseconds: 60_000)
      _ = cluster.nodeToAsk(now: now) { $0 == 0 }
      cluster.learned(reply, from: 0, now: now)
      if case .error(let error) = reply {
        try holds(error.message.utf8.count <= 200, "a message is bounded")
        _ = cluster.redirect(error.message, from: 0, now: now)
      }
      if let text = reply.text { _ = cluster.redirect(text, from: 0, now: now) }
    }
    try holds(cluster.nodes.count <= RedisClusterState.nodesMaximum, "nodes are bounded")
    for node in cluster.ownerNumbers { try holds(cluster.nodes[node] != nil, "an owner is known") }
    for slot in [0, RedisSlot.count - 1] {
      try holds(cluster.nodes.indices.contains(cluster.owner(of: slot)), "an owner is a node")
    }
  }

  private func read(
    _ bytes: [UInt8], pieces: Int
  ) throws(FuzzFinding) -> (replies: [RedisReply], hasFailed: Bool) {
    let reader = RedisReader(limits: limits)
    var inbound = ByteQueue()
    var replies: [RedisReply] = []
    var position = 0
    do throws(RedisReaderError) {
      while true {
        while try reader.nextReply(from: &inbound) {
          var index = 0
          replies.append(copy(reader, &index))
          if index != reader.valueCount { break }
        }
        if position == bytes.count { return (replies, false) }
        let count = min(max(1, pieces), bytes.count - position)
        inbound.append(bytes.span.extracting(position..<position + count))
        position += count
      }
    } catch {
      try holds(!error.detail.isEmpty, "an error says what is wrong")
      return (replies, true)
    }
  }

  private func copy(_ reader: RedisReader, _ index: inout Int) -> RedisReply {
    precondition(index < reader.valueCount, "a recorded array is whole")
    let value = reader.value(at: index)
    index += 1
    switch value.kind {
    case .integer: return .integer(value.integer)
    case .null: return .null
    case .bulk: return .bulk(reader.withText(of: value) { bytes(of: $0) })
    case .status: return .status(String(decoding: reader.withText(of: value) { bytes(of: $0) }, as: UTF8.self))
    case .error: return .error(reader.withText(of: value) { RedisServerError($0) })
    case .array: return .array((0..<value.integer).map { _ in copy(reader, &index) })
    }
  }
}

func bytes(of span: Span<UInt8>) -> [UInt8] {
  var bytes: [UInt8] = []
  bytes.reserveCapacity(span.count)
  for index in span.indices { bytes.append(span[index]) }
  return bytes
}
