import LuaInterpreter
import PushCore
import Testing
import WorkerSimulation

/// Faults of a simulated Redis.
@Suite struct SimulatedRedisFaultTests {
  private let redis = SimulatedRedis(seed: 5)

  @Test func whatComesWhileItStandsStillRunsLater() {
    let talk = SimulatedRedisTalk(redis)
    let other = SimulatedRedisTalk(redis, connection: 2)
    talk.say("SET a 0 PX 1000")
    redis.stall()
    #expect(talk.say("INCR a") == "")
    #expect(other.say("INCR a") == "")
    talk.now = 2_000_000_000
    #expect(talk.say("TIME") == "")
    redis.resume(now: talk.now)
    // The key had expired by then.
    #expect(talk.heard() == ":1 *2 $10 1796000002 $1 0")
    #expect(talk.say("GET a") == "$1 2")
  }

  /// Executed, and the reply is lost.
  @Test func aBrokenConnectionsCommandsRunAllTheSame() {
    let talk = SimulatedRedisTalk(redis)
    redis.stall()
    talk.say("INCR a", "INCR a")
    redis.ended(talk.connection, isReset: true, now: 1)
    redis.resume(now: 2)
    #expect(talk.heard() == "")
    #expect(SimulatedRedisTalk(redis, connection: 2).say("GET a") == "$1 2")
  }

  @Test func itHangsUpOnAClosedHalf() {
    let talk = SimulatedRedisTalk(redis)
    redis.stall()
    talk.say("PING")
    redis.ended(talk.connection, isReset: false, now: 1)
    redis.resume(now: 2)
    #expect(talk.heard() == "+PONG" && talk.ends == [.close(talk.connection)])
    let other = SimulatedRedisTalk(redis, connection: 2)
    redis.ended(other.connection, isReset: false, now: 3)
    #expect(other.heard() == "" && other.ends == [.close(other.connection)])
    #expect(redis.connections.isEmpty)
  }

  @Test func aReplyBreaksAtAnyByte() {
    let whole = Array(":1\r\n:2\r\n$1\r\n2\r\n".utf8)
    for count in 0..<whole.count {
      let redis = SimulatedRedis(seed: 5)
      let talk = SimulatedRedisTalk(redis)
      redis.resetReply(to: count % 2 == 0 ? talk.connection : nil, afterBytes: count)
      redis.received(
        ["INCR a", "INCR a", "GET a"].flatMap { SimulatedRedisTalk.encode($0) }, on: talk.connection, now: 0)
      #expect(talk.heardBytes() == Array(whole.prefix(count)))
      #expect(talk.ends == [.reset(talk.connection)])
      #expect(talk.say("GET a") == "", "its connection is gone")
      #expect(SimulatedRedisTalk(redis, connection: 2).say("GET a") == "$1 2")
    }
  }

  @Test func aResetMayComeLater() {
    let talk = SimulatedRedisTalk(redis)
    redis.resetReply(to: talk.connection, afterBytes: 10)
    #expect(talk.say("PING") == "+PONG")
    #expect(talk.say("PING") == "+PO")
    #expect(talk.ends == [.reset(talk.connection)])
  }

  @Test func statesInWhichItRefuses() {
    let talk = SimulatedRedisTalk(redis)
    func answers() -> [String] {
      ["PING", "SET a 1", "GET a", "DEL no", "CLIENT SETNAME x", "TIME"].map {
        String(talk.say($0).split(separator: " ")[0])
      }
    }
    #expect(answers() == ["+PONG", "+OK", "$1", ":0", "+OK", "*2"])
    redis.isLoading = true
    #expect(answers() == ["-LOADING", "-LOADING", "-LOADING", "-LOADING", "+OK", "*2"])
    redis.isLoading = false
    redis.isBusy = true
    #expect(answers() == ["-BUSY", "-BUSY", "-BUSY", "-BUSY", "-BUSY", "-BUSY"])
    redis.isBusy = false
    redis.isOutOfMemory = true
    #expect(answers() == ["+PONG", "-OOM", "$1", ":0", "+OK", "*2"])
    redis.isOutOfMemory = false
    redis.cannotSave = true
    #expect(answers() == ["-MISCONF", "-MISCONF", "$1", "-MISCONF", "+OK", "*2"])
    redis.cannotSave = false
    redis.lacksReplicas = true
    #expect(answers() == ["+PONG", "-NOREPLICAS", "$1", "-NOREPLICAS", "+OK", "*2"])
    redis.lacksReplicas = false
    redis.role = .replica(host: "other", port: 6380)
    #expect(answers() == ["+PONG", "-READONLY", "$1", "-READONLY", "+OK", "*2"])
    #expect(talk.say("ROLE") == "*5 $5 slave $5 other :6380 $9 connected :1")
    redis.isPrimaryDown = true
    #expect(answers() == ["-MASTERDOWN", "-READONLY", "-MASTERDOWN", "-READONLY", "+OK", "*2"])
    redis.role = .primary
    #expect(answers() == ["+PONG", "+OK", "$1", ":0", "+OK", "*2"])
  }

  @Test func itLosesKeys() {
    let talk = SimulatedRedisTalk(redis)
    for number in 0..<9 { talk.say("SET key\(number) 1") }
    let same = SimulatedRedis(seed: 5)
    let other = SimulatedRedisTalk(same)
    for number in 0..<9 { other.say("SET key\(number) 1") }
    let evicted = redis.evict(count: 4, now: 0)
    #expect(Set(evicted).count == 4 && redis.keys(now: 0).count == 5)
    #expect(evicted == same.evict(count: 4, now: 0), "the same seed evicts the same")
    let name = redis.keys(now: 0)[0]
    #expect(redis.evict(name, now: 0) && !redis.evict(name, now: 0))
    redis.flush(now: 0)
    #expect(redis.keys(now: 0).isEmpty)
  }

  @Test func itForgetsItsLastWrites() {
    let talk = SimulatedRedisTalk(redis)
    talk.say("SET a 1", "SET b 1", "HSET h f 1")
    talk.now = 1_000_000_000
    talk.say("SET a 2", "DEL b", "HSET h f 2", "SET c 1")
    talk.now = 1_200_000_000
    talk.say("SET a 3")
    redis.forgetWrites(ofLast: 100_000_000, now: talk.now)
    #expect(talk.say("GET a", "GET c") == "$1 2 $1 1")
    redis.forgetWrites(ofLast: 200_000_000, now: talk.now)
    #expect(talk.say("GET a", "GET b", "HGET h f", "GET c") == "$1 1 $1 1 $1 1 $-1")
  }

  @Test func aCrashEndsConnectionsAndScripts() {
    let talk = SimulatedRedisTalk(redis)
    talk.say("SET a 1")
    talk.now = 50_000_000
    talk.say("SET a 2")
    redis.crash(forgetting: 10_000_000, now: 50_000_000)
    #expect(talk.heard() == "" && talk.ends == [.reset(talk.connection)])
    let early = SimulatedRedisTalk(redis, connection: 2)
    #expect(early.heard() == "" && early.ends == [.reset(early.connection)])
    redis.start()
    #expect(SimulatedRedisTalk(redis, connection: 3, now: 60_000_000).say("GET a") == "$1 1")
  }

  @Test func slowRepliesKeepTheirOrder() throws {
    let talk = SimulatedRedisTalk(redis)
    redis.replyDelay = 1_000...50_000
    var expected = ""
    for number in 0..<30 {
      talk.now += 700
      #expect(talk.say("ECHO \(number)") == "")
      expected += "\(number) "
    }
    redis.replyDelay = nil
    #expect(talk.say("PING") == "", "after the late replies")
    var heard: [String] = []
    var last = talk.now
    while let deadline = redis.deadline {
      #expect(deadline >= last || deadline <= 51_000 + talk.now)
      last = deadline
      redis.woke(now: deadline)
      heard.append(talk.heard())
    }
    let words = heard.joined(separator: " ").split(separator: " ").filter { !$0.hasPrefix("$") }
    #expect(words.joined(separator: " ") == expected + "+PONG")
    #expect(Set(heard).count > 5, "not all at the same time")
  }

  @Test func aReplicaTakesOver() {
    let replica = SimulatedRedis(seed: 6)
    replica.follow(redis)
    let talk = SimulatedRedisTalk(redis)
    let other = SimulatedRedisTalk(replica, connection: 2)
    talk.say("SET a 1")
    #expect(other.say("GET a") == "$1 1")
    #expect(other.say("SET a 2").hasPrefix("-READONLY"))
    talk.now = 90_000_000
    talk.say("SET a 2", "SET b 1")
    replica.takeOver(from: redis, forgetting: 20_000_000, now: 100_000_000)
    #expect(other.say("GET a", "GET b", "SET c 1") == "$1 1 $-1 +OK")
    #expect(talk.say("GET c", "GET b") == "$1 1 $-1")
    #expect(talk.say("SET c 2").hasPrefix("-READONLY"))
  }

  @Test func aFlushedScriptIsUnknown() {
    let talk = SimulatedRedisTalk(redis)
    let text = Array("return 2".utf8)
    let digest = RedisLuaDigest.text(of: text)
    #expect(talk.say([Array("EVALSHA".utf8), digest, [48]]).hasPrefix("-NOSCRIPT"))
    #expect(talk.say([Array("EVAL".utf8), text, [48]]) == ":2")
    #expect(talk.say([Array("EVALSHA".utf8), digest, [48]]) == ":2")
    #expect(talk.say("SCRIPT EXISTS \(SimulatedRedisTalk.text(of: digest))") == "*1 :1")
    redis.flushScripts()
    #expect(talk.say([Array("EVALSHA".utf8), digest, [48]]).hasPrefix("-NOSCRIPT"))
    #expect(talk.say("SCRIPT EXISTS \(SimulatedRedisTalk.text(of: digest))") == "*1 :0")
  }

  /// A script that wrote once may go on; a command that Redis refuses ends it.
  @Test func aScriptIsRefusedAtItsFirstWrite() {
    let talk = SimulatedRedisTalk(redis)
    func eval(_ text: String) -> String { talk.say([Array("EVAL".utf8), Array(text.utf8), [48]]) }
    redis.isOutOfMemory = true
    #expect(eval("return redis.call('GET', 'a')") == "$-1")
    #expect(eval("return redis.call('SET', 'a', 1)").hasPrefix("-OOM command not allowed when used memory"))
    #expect(eval("redis.call('DEL', 'a') return redis.call('SET', 'a', 1)") == "+OK")
    redis.isOutOfMemory = false
    redis.role = .replica(host: "other", port: 6380)
    #expect(eval("return redis.call('GET', 'a')") == "$1 1")
    #expect(
      eval("return redis.call('SET', 'a', 2)").hasPrefix("-READONLY You can't write against a read only replica."))
    #expect(eval("return redis.pcall('SET', 'a', 2)") == "-READONLY You can't write against a read only replica.")
  }
}
