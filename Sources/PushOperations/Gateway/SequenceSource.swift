import Logging
import PushCore
import PushIO
import PushStores

/// Numbers jobs, and dates registrations, so that what is published after an earlier one's answer is newer, at whichever gateway: Redis gives
/// the numbers out in blocks.
/// Without Redis, they are this gateway's own clock's, once Redis has told it the time. Used only on its loop's thread.
final class SequenceSource {
  private let loop: EventLoop
  private let redis: RedisClient
  private let key: String
  private var clock = SequenceClock()
  private let notice: (Logger.Level, String) -> Void
  /// Requests that wait for their numbers.
  private(set) var openCount = 0
  /// Those that this gateway numbered by its own clock.
  private(set) var ownCount: UInt64 = 0
  /// Since Redis last gave numbers; 0: it does.
  private var ownInARow = 0

  /// A request does not wait longer for Redis.
  private static let waitMilliseconds: Int64 = 500

  /// Numbers that this gateway gave by its own clock, and that are so far ahead of Redis', do not count any more: its clock was wrong.
  private static let aheadMicroseconds: Int64 = 1_000_000

  /// KEYS: the last number. ARGV: how many numbers, the largest that the gateway knows, how far ahead that may be.
  ///
  /// Replies the first one. A last number from more than a minute ahead does not count: Redis' own clock was wrong.
  static let script = LuaScript(
    """
    local time = redis.call('TIME')
    local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    local last, known = tonumber(redis.call('GET', KEYS[1]) or '0') or 0, tonumber(ARGV[2])
    if last > now + 60000000 then last = 0 end
    if known <= now + tonumber(ARGV[3]) then last = math.max(last, known) end
    local first = math.max(now, last + 1)
    redis.call('SET', KEYS[1], string.format('%.0f', first + tonumber(ARGV[1]) - 1))
    return string.format('%.0f', first)
    """)

  /// - Parameter notice: receives the beginning and the end of each time without Redis' numbers.
  init(
    loop: EventLoop, redis: RedisClient, names: GatewayRedisKeys, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.notice = notice
    self.loop = loop
    self.redis = redis
    key = names.sequence
  }

  /// - Parameter then: receives the first of so many numbers in a row; nil: nobody knows the time.
  func take(_ count: Int, then: @escaping (Int64?) -> Void) {
    guard redis.isConnected else { return then(ownNumbers(count)) }
    openCount += 1
    var timer: TimerToken?
    var isAnswered = false
    let answer = { [self] (first: Int64?) in
      guard !isAnswered else { return }
      isAnswered = true
      openCount -= 1
      if let timer { loop.cancel(timer) }
      then(first ?? ownNumbers(count))
    }
    var arguments = RedisArguments()
    arguments.append(count)
    arguments.append("\(clock.last)")
    arguments.append("\(SequenceSource.aheadMicroseconds)")
    redis.run(SequenceSource.script, keys: [key], arguments) { [self] result in
      guard case .success(let reply) = result, let first = reply.text.flatMap({ Int64($0) }),
        0...Limits.sequenceMaximum ~= first
      else { return answer(nil) }
      let last = first + Int64(count) - 1
      if ownInARow > 0, clock.last > last + SequenceSource.aheadMicroseconds { clock = SequenceClock() }
      clock.follow(last)
      numberedByRedis()
      answer(first)
    }
    timer = loop.schedule(afterMilliseconds: SequenceSource.waitMilliseconds) { answer(nil) }
  }

  /// nil: its clock may be hours off. A number that is too large would make later jobs old for as long.
  private func ownNumbers(_ count: Int) -> Int64? {
    if ownInARow == 0 {
      notice(
        .warning,
        loop.hasRedisTime
          ? """
          Redis does not number registrations and the jobs of activities and collapse ids: they are numbered by this gateway's clock. Of two gateways \
          the one whose clock is ahead counts as the newer
          """
          : """
          Redis has not told the time: jobs of activities and collapse ids have no number, and count by when a worker receives them; \
          registrations are dated by this gateway's clock
          """)
    }
    ownInARow += count
    ownCount += UInt64(count)
    guard loop.hasRedisTime else { return nil }
    return clock.take(count, now: loop.now.unixMilliseconds * 1_000)
  }

  private func numberedByRedis() {
    guard ownInARow > 0 else { return }
    notice(.info, "Redis numbers them again; \(ownInARow) were not numbered by it")
    ownInARow = 0
  }
}
