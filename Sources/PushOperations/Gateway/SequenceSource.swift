import PushCore
import PushIO
import PushStores

/// Numbers jobs so that what is published after an earlier job's answer is newer, at whichever gateway: Redis gives them out in blocks.
/// Without Redis, they are this gateway's own clock's. Used only on its loop's thread.
final class SequenceSource {
  private let loop: EventLoop
  private let redis: RedisClient
  private let key: String
  private var clock = SequenceClock()
  /// Requests that wait for their numbers.
  private(set) var openCount = 0

  /// A request does not wait longer for Redis.
  private static let waitMilliseconds: Int64 = 500

  /// KEYS: the last number. ARGV: how many numbers, the largest that the gateway knows.
  ///
  /// Replies the first one.
  static let script = LuaScript(
    """
    local time = redis.call('TIME')
    local last = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') or 0, tonumber(ARGV[2]))
    local first = math.max(tonumber(time[1]) * 1000000 + tonumber(time[2]), last + 1)
    redis.call('SET', KEYS[1], string.format('%.0f', first + tonumber(ARGV[1]) - 1))
    return string.format('%.0f', first)
    """)

  init(loop: EventLoop, redis: RedisClient, names: GatewayRedisKeys) {
    self.loop = loop
    self.redis = redis
    key = names.sequence
  }

  /// - Parameter then: receives the first of so many numbers in a row.
  func take(_ count: Int, then: @escaping (Int64) -> Void) {
    guard redis.isConnected else { return then(ownNumbers(count)) }
    openCount += 1
    var isAnswered = false
    let answer = { [self] (first: Int64?) in
      guard !isAnswered else { return }
      isAnswered = true
      openCount -= 1
      then(first ?? ownNumbers(count))
    }
    var arguments = RedisArguments()
    arguments.append(count)
    arguments.append("\(clock.last)")
    redis.run(SequenceSource.script, keys: [key], arguments) { [self] result in
      guard case .success(let reply) = result, let first = reply.text.flatMap({ Int64($0) }),
        0...Limits.sequenceMaximum ~= first
      else { return answer(nil) }
      clock.follow(first + Int64(count) - 1)
      answer(first)
    }
    loop.schedule(afterMilliseconds: SequenceSource.waitMilliseconds) { answer(nil) }
  }

  private func ownNumbers(_ count: Int) -> Int64 {
    clock.take(count, now: loop.now.unixMilliseconds * 1_000)
  }
}
