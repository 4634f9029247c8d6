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
  private let names: GatewayRedisKeys
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

  /// A job's id keeps its first number for so long, and up to as much again: asked for once more after a failure, it would be newer than what
  /// was posted meanwhile.
  private static let keptMilliseconds: Int64 = 600_000

  /// KEYS: the last number, the numbers of this period and of the one before. ARGV: the largest number that the gateway knows, how far ahead
  /// that may be, how long a period's numbers are kept (s), then for each number the name that keeps it (empty: none).
  ///
  /// Replies the numbers, and behind them the last one. What is from more than a minute ahead does not count: Redis' own clock was wrong.
  static let script = LuaScript(
    """
    local time = redis.call('TIME')
    local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    local last, known = tonumber(redis.call('GET', KEYS[1]) or '0') or 0, tonumber(ARGV[1])
    if last > now + 60000000 then last = 0 end
    if known <= now + tonumber(ARGV[2]) then last = math.max(last, known) end
    local next, numbers, isKept = math.max(now, last + 1), {}, false
    for index = 4, #ARGV do
      local name, number = ARGV[index], false
      if name ~= '' then number = redis.call('HGET', KEYS[2], name) or redis.call('HGET', KEYS[3], name) end
      if not number or (tonumber(number) or math.huge) > now + 60000000 then
        number = string.format('%.0f', next)
        next = next + 1
        if name ~= '' then
          redis.call('HSET', KEYS[2], name, number)
          isKept = true
        end
      end
      numbers[#numbers + 1] = number
    end
    numbers[#numbers + 1] = string.format('%.0f', next - 1)
    redis.call('SET', KEYS[1], numbers[#numbers])
    if isKept then redis.call('EXPIRE', KEYS[2], ARGV[3]) end
    return numbers
    """)

  /// - Parameter notice: receives the beginning and the end of each time without Redis' numbers.
  init(
    loop: EventLoop, redis: RedisClient, names: GatewayRedisKeys, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.notice = notice
    self.loop = loop
    self.redis = redis
    self.names = names
  }

  /// - Parameters:
  ///   - jobs: for each number the name that keeps it (`GatewayMessage.numberedName`); empty: none.
  ///   - then: receives the numbers; nil: nobody knows the time.
  func take(_ jobs: [String], then: @escaping ([Int64]?) -> Void) {
    guard redis.isConnected else { return then(ownNumbers(jobs.count)) }
    openCount += 1
    var timer: TimerToken?
    var isAnswered = false
    let answer = { [self] (numbers: [Int64]?) in
      guard !isAnswered else { return }
      isAnswered = true
      openCount -= 1
      if let timer { loop.cancel(timer) }
      then(numbers ?? ownNumbers(jobs.count))
    }
    var arguments = RedisArguments()
    arguments.append("\(clock.last)")
    arguments.append("\(SequenceSource.aheadMicroseconds)")
    arguments.append(Int(2 * SequenceSource.keptMilliseconds / 1_000))
    for job in jobs { arguments.append(job) }
    let period = loop.now.unixMilliseconds / SequenceSource.keptMilliseconds
    let keys = [names.sequence, names.numbers(period: period), names.numbers(period: period - 1)]
    redis.run(SequenceSource.script, keys: keys, arguments) { [self] result in
      guard case .success(let reply) = result, var numbers = SequenceSource.numbers(reply, count: jobs.count + 1),
        let last = numbers.popLast()
      else { return answer(nil) }
      if ownInARow > 0, clock.last > last + SequenceSource.aheadMicroseconds { clock = SequenceClock() }
      clock.follow(last)
      numberedByRedis()
      answer(numbers)
    }
    timer = loop.schedule(afterMilliseconds: SequenceSource.waitMilliseconds) { answer(nil) }
  }

  /// nil: no numbers that a gateway can have given.
  private static func numbers(_ reply: RedisReply, count: Int) -> [Int64]? {
    guard case .array(let values) = reply, values.count == count else { return nil }
    let numbers = values.compactMap { $0.text.flatMap { Int64($0) } }
    return numbers.count == count && numbers.allSatisfy { 0...Limits.sequenceMaximum ~= $0 } ? numbers : nil
  }

  /// nil: its clock may be hours off. A number that is too large would make later jobs old for as long.
  private func ownNumbers(_ count: Int) -> [Int64]? {
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
    let first = clock.take(count, now: loop.now.unixMilliseconds * 1_000)
    return (0..<Int64(count)).map { min(first + $0, Limits.sequenceMaximum) }
  }

  private func numberedByRedis() {
    guard ownInARow > 0 else { return }
    notice(.info, "Redis numbers them again; \(ownInARow) were not numbered by it")
    ownInARow = 0
  }
}
