import LuaInterpreter
import PushCore
import Testing
import WorkerSimulation

@testable import PushLane

/// A simulated Redis without faults: its protocol, its clock, its scripts, and what it reports to an auditor.
@Suite struct SimulatedRedisTests {
  private static let admit = Array(RedisScript.admit.utf8)
  private static let digest = SimulatedRedisTalk.text(of: RedisLuaDigest.text(of: admit))

  private func little(_ number: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) }
  }

  /// Settings of the admission script: an hour, six hours, a minute, and one rate.
  private func settings(interval: Double, tolerance: Double) -> [UInt8] {
    [3600, 21_600, 60, 2, interval, tolerance].flatMap { little($0.bitPattern, 8) } + [1, 2, 3, 4]
  }

  private func ask(job: UInt64, claim: UInt64, rule: UInt8 = 0) -> [UInt8] {
    [rule] + little(job, 8) + little(claim, 4) + little(0.0.bitPattern, 8)
  }

  private func admission(_ device: String, job: UInt64, claim: UInt64) -> [[UInt8]] {
    [Array("EVALSHA".utf8), Array(Self.digest.utf8), [49], Array("push:{\(device)}".utf8)]
      + [ask(job: job, claim: claim), settings(interval: 1_000_000, tolerance: 1_000_000)]
  }

  @Test func itGreetsAsRedisDoes() {
    var settings = SimulatedRedisSettings()
    settings.password = "secret"
    let talk = SimulatedRedisTalk(SimulatedRedis(settings: settings, seed: 1))
    #expect(talk.say("PING") == "-NOAUTH Authentication required.")
    #expect(talk.say("AUTH wrong") == "-WRONGPASS invalid username-password pair or user is disabled.")
    #expect(talk.say("AUTH secret", "ROLE", "SELECT 3") == "+OK *3 $6 master :0 *0 +OK")
    #expect(talk.say("CLIENT SETNAME herald") == "+OK")
    #expect(talk.say([Array("SCRIPT".utf8), Array("LOAD".utf8), Self.admit]) == "$40 \(Self.digest)")
    #expect(talk.say("CLIENT LIST TYPE normal").contains(" name=herald age=0 "))
    #expect(talk.say("QUIT") == "+OK")
    #expect(talk.ends == [.close(talk.connection)])
  }

  @Test func bothVersionsOfTheProtocol() {
    let talk = SimulatedRedisTalk(SimulatedRedis(seed: 1))
    talk.say("HSET h a 1", "ZADD z 2.5 m")
    #expect(talk.say("GET no", "HGETALL h", "ZRANGE z 0 -1 WITHSCORES") == "$-1 *2 $1 a $1 1 *2 $1 m $3 2.5")
    #expect(talk.say("HELLO 3").hasPrefix("%7 $6 server $5 redis"))
    #expect(talk.say("GET no", "HGETALL h", "ZRANGE z 0 -1 WITHSCORES") == "_ %1 $1 a $1 1 *1 *2 $1 m ,2.5")
  }

  /// For every way in which the bytes are split, within commands too.
  @Test(arguments: 1...20 as ClosedRange<UInt64>) func splitBytesGiveTheSame(seed: UInt64) {
    var bytes = SimulatedRedisTalk.encode([Array("SCRIPT".utf8), Array("LOAD".utf8), Self.admit])
    for job in 0..<6 {
      bytes += SimulatedRedisTalk.encode(admission("d\(job % 2)", job: UInt64(1 + job % 3), claim: 9))
    }
    bytes += SimulatedRedisTalk.encode("SET a b EX 5") + Array("PING\r\n".utf8) + SimulatedRedisTalk.encode("NO such")
    let parts = SimulatedRedisTalk(SimulatedRedis(seed: 1))
    let expected = SimulatedRedisTalk(SimulatedRedis(seed: 1))
    expected.server.received(bytes, on: expected.connection, now: 0)
    let reply = expected.heardBytes()
    var random = SeededRandom(seed: seed)
    var at = 0
    while at < bytes.count {
      let count = seed == 1 ? 1 : min(bytes.count - at, 1 + Int(random.next() % (seed < 10 ? 7 : 900)))
      parts.server.received(Array(bytes[at..<at + count]), on: parts.connection, now: 0)
      at += count
    }
    #expect(parts.heardBytes() == reply)
    #expect(
      SimulatedRedisTalk.text(of: reply).hasSuffix(
        "+OK +PONG -ERR unknown command 'NO', with args beginning with: 'such' "))
  }

  @Test func itsClockIsItsOwn() {
    let redis = SimulatedRedis(seed: 1)
    let talk = SimulatedRedisTalk(redis)
    #expect(talk.say("TIME", "SET a b PX 1500", "TTL a") == "*2 $10 1796000000 $1 0 +OK :2")
    talk.now = 1_500_000_000
    #expect(talk.say("PTTL a", "GET a") == ":0 $1 b")
    talk.now += 1_000_000
    #expect(talk.say("GET a", "PTTL a") == "$-1 :-2")
    talk.say("SET a b EX 60")
    redis.jumpClock(byMicroseconds: 3_600_000_000)
    #expect(talk.say("TIME", "EXISTS a") == "*2 $10 1796003601 $6 501000 :0")
  }

  @Test func aDeviceIsAdmittedChargedAndRemembered() throws {
    let redis = SimulatedRedis(seed: 1)
    let talk = SimulatedRedisTalk(redis)
    #expect(talk.say(admission("d", job: 1, claim: 7)) == "-NOSCRIPT No matching script. Please use EVAL.")
    talk.say([Array("SCRIPT".utf8), Array("LOAD".utf8), Self.admit])
    #expect(talk.say(admission("d", job: 1, claim: 7)) == ":0")
    #expect(talk.say(admission("d", job: 1, claim: 8)) == "*1 +claimed 60000")
    #expect(talk.say(admission("d", job: 2, claim: 8)) == ":0")
    #expect(talk.say(admission("d", job: 3, claim: 8)) == "*1 :1000")
    let outcome = RememberedOutcome(
      outcome: .unregistered, status: 410, reason: .unregistered, unregisteredAt: 1_795_999_000_000, attempts: 2,
      isAmbiguous: true, sentAt: 1_795_999_999_960, completedAt: 1_796_000_000_000)
    var encoded: [UInt8] = []
    outcome.encode(into: &encoded)
    let record = [161, UInt8(8 + encoded.count)] + little(1, 8) + encoded
    talk.say([Array("APPEND".utf8), Array("push:{d}".utf8), record])
    let answers = talk.say(admission("d", job: 1, claim: 9))
    #expect(answers == "*1 $\(encoded.count) \(SimulatedRedisTalk.text(of: encoded))")
  }

  @Test func anAuditorSeesWhatRan() {
    let redis = SimulatedRedis(seed: 1)
    var seen: [String] = []
    redis.observe = { observation in
      switch observation {
      case .script(let call, let script):
        seen.append("\(script.isAdmission ? "admit" : "script") \(call.keys.count) \(call.reply == .integer(0))")
      case .command(let call): seen.append(SimulatedRedisTalk.text(of: call.arguments[0]))
      case .unsupportedCommand(let words): seen.append("unsupported \(SimulatedRedisTalk.text(of: words[0]))")
      case .failedScript(let text): seen.append(text)
      case .protocolViolation: seen.append("nonsense")
      }
    }
    let talk = SimulatedRedisTalk(redis)
    talk.say([Array("SCRIPT".utf8), Array("LOAD".utf8), Self.admit])
    talk.say(admission("d", job: 1, claim: 7))
    talk.say("GET a", "SUBSCRIBE a", "ZRANGE z 0 5 BYSCORE")
    func eval(_ text: String) -> String { talk.say([Array("EVAL".utf8), Array(text.utf8), [48]]) }
    #expect(eval("return redis.pcall('SUBSCRIBE', 'a')") == "-ERR Unknown Redis command called from script")
    let text = "return 1 + nil"
    let digest = SimulatedRedisTalk.text(of: RedisLuaDigest.text(of: Array(text.utf8)))
    let error =
      "ERR user_script:1: attempt to perform arithmetic on a nil value script: \(digest), on @user_script:1."
    #expect(eval(text) == "-" + error)
    #expect(talk.send(Array("*1\r\nPING\r\n".utf8)) == "-ERR Protocol error: expected '$', got 'P'")
    #expect(talk.ends == [.close(talk.connection)])
    #expect(
      seen == [
        "admit 1 true", "GET", "unsupported SUBSCRIBE", "unsupported ZRANGE", "unsupported SUBSCRIBE", "script 0 false",
        error, "script 0 false", "nonsense",
      ])
  }

  /// Known answers: FIPS 180-4, and Redis Cluster's specification.
  @Test func digestsAndSlots() {
    #expect(
      RedisLuaDigest.text(of: Array("abc".utf8)) == Array("a9993e364706816aba3e25717850c26c9cd0d89d".utf8))
    #expect(RedisLuaDigest.text(of: []) == Array("da39a3ee5e6b4b0d3255bfef95601890afd80709".utf8))
    #expect(SimulatedRedisSlot.of(Array("123456789".utf8)) == 0x31C3)
    #expect(SimulatedRedisSlot.of(Array("push:{123456789}:d".utf8)) == 0x31C3)
    // An empty tag does not count: the whole key is hashed.
    #expect(SimulatedRedisSlot.of(Array("foo{}{bar}".utf8)) != SimulatedRedisSlot.of(Array("bar".utf8)))
  }
}
