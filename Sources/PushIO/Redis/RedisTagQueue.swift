/// The tags of commands that wait for their replies, oldest first: a ring that doubles and never shrinks.
struct RedisTagQueue {
  private var tags: [UInt64] = Array(repeating: 0, count: 256)
  private var head = 0
  private(set) var count = 0

  mutating func append(_ tag: UInt64) {
    if count == tags.count { grow() }
    tags[(head + count) & (tags.count - 1)] = tag
    count += 1
  }

  mutating func popFirst() -> UInt64? {
    guard count > 0 else { return nil }
    let tag = tags[head]
    head = (head + 1) & (tags.count - 1)
    count -= 1
    return tag
  }

  private mutating func grow() {
    let ordered = Array(tags[head...] + tags[..<head])
    tags = ordered + Array(repeating: 0, count: ordered.count)
    head = 0
  }
}
